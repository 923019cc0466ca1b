"""The rows below the charts of the page Scores: filtered, sorted, paged; one of them opens beside."""

from typing import Any, Final

import pandas as pd
import streamlit as st

from spinf_serve.evals.metrics.slices import LEAST_ROWS
from spinf_serve.workbench.actions.scores import LABELS, Subject
from spinf_serve.workbench.actions.scores_rows import Filter, Listing, slices, wrong_side
from spinf_serve.workbench.desk import key_of
from spinf_serve.workbench.frame import param, set_param, stamp
from spinf_serve.workbench.pages import scores_detail
from spinf_serve.workbench.pages.scores_look import Look
from spinf_serve.workbench.parts.synced import begins
from spinf_serve.workbench.parts.tables import download, paged
from spinf_serve.workbench.parts.texts import is_about_harm, shown_text
from spinf_serve.workbench.parts.words import count, volume
from spinf_serve.workbench.views import quoted

VERDICTS: Final = {"false alarm": "False alarms", "miss": "Misses", "right": "Right"}
PAGE_ROWS: Final = 25
_TEXT_CHARS: Final = 200


def draw(look: Look) -> None:
    """Draw the filter and the table of rows."""
    st.subheader("Texts")
    wanted = _filter(look)
    listing = Listing(
        look.found.desk, look.view, look.pack, look.constants, look.base, look.main, wanted
    )
    _table(look, listing)


def _table(look: Look, listing: Listing) -> None:
    rows = listing.count()
    inside = int(look.base.inside.sum())
    key = look.key(f"rows-{key_of(listing.filter)}")
    # What was fetched is what a choice is about, whatever changes meanwhile.
    ids: dict[int, str] = st.session_state.setdefault(f"{key}-ids", {})

    def fetch(first: int, most: int) -> pd.DataFrame:
        found = listing.page(first, most)
        ids.clear()
        ids.update({first + place: one["row_id"] for place, one in enumerate(found)})
        return pd.DataFrame([_line(look, one) for one in found])

    def choose(place: int) -> None:
        set_param("row", ids.get(place))

    with st.container(horizontal=True, vertical_alignment="center"):
        told = f"**{count(rows, 'row')}**" + ("" if rows == inside else f" of {inside:,}")
        if rows != inside and inside:
            per_day = look.found.desk.settings().get("per_day")
            told += f" · {volume(rows / inside, per_day)}"
        st.markdown(told)
        scores_detail.undo_button(look, look.found.dataset or "")
        download(
            rows,
            lambda first, most: pd.DataFrame(
                [_line(look, one) for one in listing.page(first, most)]
            ),
            f"{look.found.dataset}-scores",
            key,
            "Rows (CSV)",
        )
    if not rows:
        st.caption("No row is like that. Clear a filter above.")
        return
    title = "score" if look.main.place is None else "p"
    paged(
        rows,
        fetch,
        key,
        page_rows=PAGE_ROWS,
        on_choose=choose,
        column_config={
            title: st.column_config.ProgressColumn(
                title, min_value=0.0, max_value=1.0, format="%.3f", width="small"
            ),
            "text": st.column_config.TextColumn(width="medium"),
            "lift": st.column_config.NumberColumn(format="%+.3f", width="small"),
            "label": st.column_config.TextColumn(width="small"),
            "verdict": st.column_config.TextColumn(width="small"),
        },
    )


def _line(look: Look, one: dict[str, Any]) -> dict[str, Any]:
    """A row as the table shows it."""
    subject = look.main
    hidden = is_about_harm(look.pack) and not look.found.desk.settings().get("open_texts")
    # Masked before it is cut: half an address would not be known as one.
    text = shown_text(look.found.desk, one["text"].replace("\n", " "))[:_TEXT_CHARS]
    title = "score" if subject.place is None else "p"
    line = {
        "row": one["row_id"],
        "text": "(hidden: choose the row)" if hidden else text,
        "label": one["label"],
        title: one["value"],
    }
    if subject.floor is not None:
        line["lift"] = None if one["value"] is None else one["value"] - subject.floor
    if look.constants is not None:
        line["verdict"] = _verdict(one)
    return line


def _verdict(one: dict[str, Any]) -> str:
    if one["refused"] is not None:
        return str(one["refused"]).replace("_", " ")
    if one["flagged"] is None:
        return ""
    if one["label"] not in ("yes", "no"):
        return "flagged" if one["flagged"] else "not flagged"
    if one["flagged"] == (one["label"] == "yes"):
        return "right"
    return "false alarm" if one["flagged"] else "miss"


def _take_address(look: Look, sorts: list[str]) -> None:
    """What the address says when it is opened; later the widgets do, each for its subject."""
    if st.session_state.get("scores-address-taken"):
        return
    st.session_state["scores-address-taken"] = True
    for name, known in (("search", None), ("verdict", VERDICTS), ("sort", sorts)):
        value = param(name)
        if value is not None and (known is None or value in known):
            st.session_state[look.key(name)] = value


def _filter(look: Look) -> Filter:
    """What the widgets say. Each keeps its state for what is looked at."""
    subject = look.main
    sorts = _sorts(look, subject)
    _take_address(look, list(sorts))
    has_verdict = look.constants is not None and look.target is not None
    with st.container(horizontal=True, vertical_alignment="bottom"):
        search = st.text_input(
            "Search",
            key=look.key("search"),
            placeholder="words, or a row's name",
            width=170,
            **begins(st.text_input, st.session_state.get(look.key("search"))),
        )
        verdict = None
        if has_verdict:
            verdict = st.selectbox(
                "Verdict",
                list(VERDICTS),
                format_func=VERDICTS.__getitem__,
                key=look.key("verdict"),
                placeholder="any",
                width=140,
                **(
                    {"index": None}
                    | begins(st.selectbox, st.session_state.get(look.key("verdict")), [*VERDICTS])
                ),
            )
        sort = st.selectbox(
            "Sort by",
            list(sorts),
            key=look.key("sort"),
            width=250,
            **begins(st.selectbox, st.session_state.get(look.key("sort")), [*sorts]),
        )
        with st.popover("Filter", icon=":material/filter_list:", key=look.key("filter")):
            labels = st.multiselect("Label", LABELS, key=look.key("labels"), placeholder="any")
            part = _slice(look)
            refused = False
            if look.base.refused.any():
                refused = st.toggle("Rows without an answer only", key=look.key("refused"))
    set_param("search", search or None)
    set_param("verdict", verdict)
    set_param("sort", None if sort == next(iter(sorts)) else sort)
    by, falling = sorts[sort]
    ranges = _ranges(look)
    if ranges:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f":material/select: {_told(look)}")
            st.button(
                "Clear the selection",
                key=look.key("clear"),
                type="tertiary",
                icon=":material/close:",
                on_click=look.clear,
            )
    return Filter(tuple(labels), verdict, part, ranges, search, refused, by, falling)


def _sorts(look: Look, subject: Subject) -> dict[str, tuple[str | None, bool]]:
    found: dict[str, tuple[str | None, bool]] = {}
    if subject.cut is not None:
        found["Farthest on the wrong side"] = (wrong_side(subject), True)
    what = "score" if subject.place is None else "p"
    found |= {f"Highest {what}": (subject.sql, True), f"Lowest {what}": (subject.sql, False)}
    if subject.cut is not None:
        found["Nearest to the cut"] = (f"abs({subject.sql} - {subject.cut!r})", False)
    if subject.residual is not None:
        found["Highest residual"] = (quoted(subject.residual), True)
    found["Order of import"] = (None, False)
    return found


def _ranges(look: Look) -> tuple[tuple[str, float, float], ...]:
    """What was dragged over, as conditions on values."""
    brushed = look.brushed()
    if look.subject is not None:
        ends = brushed.get("value") or brushed.get("from")
        if not ends:
            return ()
        sql = look.subject.sql
        kind = st.session_state.get(look.key("kind"))
        if kind == "residual" and look.subject.residual is not None:
            sql = quoted(look.subject.residual)
        if kind == "lift" and look.subject.floor is not None:
            sql = f"({sql} - {look.subject.floor!r})"
        return ((sql, float(ends[0]), float(ends[1])),)
    if "p" not in brushed:
        return ()
    low, high = sorted(map(float, brushed["p"]))
    floors, names = brushed.get("place"), brushed.get("answer")
    found = []
    for one in look.given:
        if one.place is None:
            continue
        is_in = names is not None and one.name in names
        if floors is not None and one.floor is not None:
            is_in = min(floors) <= one.floor <= max(floors)
        if is_in:
            found.append((one.sql, low, high))
    return tuple(found) or (("-1", 0.0, 0.0),)


def _told(look: Look) -> str:
    brushed = look.brushed()
    if look.subject is not None:
        ends = brushed.get("value") or brushed.get("from") or (0, 0)
        return f"Selected on the chart: {float(ends[0]):.3f} to {float(ends[1]):.3f}"
    low, high = sorted(map(float, brushed["p"]))
    return f"Selected on the chart: p from {low:.3f} to {high:.3f}"


def _slice(look: Look) -> tuple[str, str] | None:
    """Part of the rows to look at, with how many it has."""
    parts = _slices(
        str(look.found.desk.file), look.view.about["dataset"], stamp(look.found.desk), look
    )
    if not parts:
        return None
    given = [(name, value) for name, values in parts.items() for value in values]
    few = {one for one in given if parts[one[0]][one[1]] < LEAST_ROWS}

    def named(one: tuple[str, str]) -> str:
        rows = parts[one[0]][one[1]]
        return f"{one[0]}: {one[1]} ({rows:,}{', few' if one in few else ''})"

    chosen: tuple[str, str] | None = st.selectbox(
        "Slice",
        given,
        index=None,
        format_func=named,
        key=look.key("slice"),
        placeholder="all",
        help=f"Fewer than {LEAST_ROWS} rows are marked: their figures say little.",
    )
    if chosen in few:
        st.caption(
            f":material/warning: {parts[chosen[0]][chosen[1]]} rows, fewer than {LEAST_ROWS}: what they"
            " show may be chance."
        )
    return chosen


@st.cache_data(show_spinner=False, max_entries=8)
def _slices(file: str, dataset: str, at: tuple[int, int], _look: Look) -> dict[str, dict[str, int]]:
    return slices(_look.found.desk, dataset)
