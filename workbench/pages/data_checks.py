"""The part Checks of the page Data: whether the rows and labels can be trusted, and the splits."""

from pathlib import Path
from typing import Any, Final

import pandas as pd
import streamlit as st

from spinf_serve.evals.data.overview import Standing
from spinf_serve.evals.data.report import Contradiction
from spinf_serve.workbench import jobs
from spinf_serve.workbench.actions import checks
from spinf_serve.workbench.actions.checks import Together
from spinf_serve.workbench.desk import Desk, key_of
from spinf_serve.workbench.frame import Bench, set_param, stamp, told
from spinf_serve.workbench.glossary import help as meaning
from spinf_serve.workbench.pages.data_queue import agreement_words
from spinf_serve.workbench.pages.data_row import pack_of
from spinf_serve.workbench.parts.job_box import job_box
from spinf_serve.workbench.parts.tables import paged
from spinf_serve.workbench.parts.texts import hides_texts, shown_text
from spinf_serve.workbench.parts.words import count as counted
from spinf_serve.workbench.parts.words import percent, plain

DRAWN_WORDS: Final = {
    "random": "of rows that chance chose",
    "queue": "of rows that stood in a queue by score",
    "import": "of rows of which nobody said how they were chosen",
}
MOST_LISTED: Final = 100
SHORT: Final = 200
"""Characters of a text in a table."""
KIND: Final = "check"


def draw(found: Bench) -> None:
    """Draw the part."""
    dataset = found.need_dataset()
    looked = _looked(found, dataset)
    if looked is None:
        return
    standing, together = looked
    for warning in standing.warnings:
        st.warning(plain(warning))
    if standing.apart:
        st.warning(
            f"{counted(standing.apart, 'group')} have rows in more than one split: a test would know"
            " what it is tested on. Split anew below."
        )
    _labels(standing)
    _splits(found, dataset, standing)
    _disputes(dataset, standing)
    _conflicts(standing.contradictions, standing.contradiction_count)
    _doubles(found, dataset, together)


def _looked(found: Bench, dataset: str) -> tuple[Standing, Together] | None:
    """What was found: now, or by a job where rows are many; None while there is nothing."""
    file, state = str(found.desk.file), stamp(found.desk)
    if _size(file, dataset, state) <= checks.MOST_AT_ONCE:
        with st.spinner("Looking at all rows…"):
            return _standing(file, dataset, state), _together(file, dataset, state)
    done = [one for one in jobs.jobs(found.desk, KIND) if one.arguments["dataset"] == dataset]
    job = done[0] if done else None
    if job is not None and job.state != "done":
        job_box(found.desk, found.user, job.id)
    is_current = job is not None and list(job.arguments["state"]) == list(state)
    if not is_current and (job is None or not job.is_live):
        left, right = st.columns([4, 1], vertical_alignment="center")
        left.info(
            "With so many rows this takes some seconds, in the background."
            if job is None
            else "Rows or labels were changed since this was looked at."
        )
        if right.button("Check", key="checks-run", type="primary", icon=":material/fact_check:"):
            given = {"dataset": dataset, "state": list(state)}
            with told():
                jobs.start(found.desk, found.user, KIND, f"Check {dataset}", given)
                st.rerun()
    result = next((one.result() for one in done if one.state == "done"), None)
    return None if result is None else checks.of_job(result)


def _labels(standing: Standing) -> None:
    st.subheader("Labels")
    if not standing.balance:
        st.info("Nothing is labelled yet. Go on with the part **Label**.")
        return
    rows = []
    for target, balance in standing.balance.items():
        values = dict(balance.values)
        known = {value: n for value, n in values.items() if value != "unsure"}
        total = sum(known.values())
        rows.append(
            {
                "target": target,
                "yes": values.get("yes", 0),
                "no": values.get("no", 0),
                "unsure": values.get("unsure", 0),
                "others": ", ".join(
                    f"{n:,} {value}" for value, n in known.items() if value not in ("yes", "no")
                ),
                "share of yes": percent(known.get("yes", 0) / total) if total else "",
                "no label": balance.missing,
                "chosen by score": standing.chosen.get(target, 0),
            }
        )
    st.dataframe(rows, hide_index=True, key="checks-labels")
    told_of = [f"{n:,} {DRAWN_WORDS[drawn]}" for drawn, n in standing.drawn.items()]
    st.caption("Labels: " + "; ".join(told_of) + f". {standing.visible:,} with the score in sight.")
    for one in standing.agreements:
        st.markdown(f"- {plain(one.target)}: {agreement_words(one)}")


def _splits(found: Bench, dataset: str, standing: Standing) -> None:
    st.subheader("Splits", help=meaning("split"))
    total = sum(part.rows for part in standing.parts)
    targets = list(standing.balance)
    st.dataframe(
        [
            {
                "split": part.name or "(none)",
                "rows": part.rows,
                "share": percent(part.rows / total) if total else "",
                "groups": part.groups,
            }
            | {f"{target} yes": part.held.get(target, 0) for target in targets}
            for part in standing.parts
        ],
        hide_index=True,
        key="checks-splits",
    )
    with st.expander("Split anew", icon=":material/call_split:"), st.form("checks-split-form"):
        written = st.text_input(
            "Parts and their shares", value="fit=60 test=40",
            help="A name and a share each, together 100. A fit holds the part `test` back.",
        )  # fmt: skip
        seed = st.number_input(
            "Seed", min_value=0, value=0, help="The same seed gives the same split again."
        )
        by = st.multiselect(
            "Balance these labels", targets, placeholder="all", key=f"by-{key_of(dataset)}"
        )
        st.caption(
            "Rows of one group never part, and labels are spread evenly. The split that is there is"
            " replaced; what was promised on its part `test` rests on other rows then."
        )
        if st.form_submit_button("Split", icon=":material/call_split:"):
            with told():
                shares = checks.shares_of(written)
                checks.split(found.desk, found.user, dataset, shares, int(seed), by or None)
                st.rerun()


def _disputes(dataset: str, standing: Standing) -> None:
    st.subheader("Annotators differ", help=meaning("adjudication"))
    if not standing.disagreements:
        st.caption("Nowhere.")
        return
    listed = standing.disagreements[:MOST_LISTED]
    st.caption(
        f"{counted(len(standing.disagreements), 'row')}; nothing holds there until somebody settles"
        " it. Click one to see it, or settle all in a queue **Conflicts** of the part **Label**."
    )
    data = [
        {
            "row": one.row_id,
            "target": one.target,
            "said": ", ".join(f"{who}: {value}" for who, value in one.said),
        }
        for one in listed
    ]
    _clickable(data, "disputes", [one.row_id for one in listed])


def _conflicts(found: tuple[Contradiction, ...], count: int) -> None:
    st.subheader("Same text, other label", help=meaning("conflict"))
    if not count:
        st.caption("Nowhere.")
        return
    st.caption(
        f"{counted(count, 'text')}. At most one of the labels is right: click to see its row."
    )
    data, ids = [], []
    for one in found[:MOST_LISTED]:
        for row_id, value in one.said:
            data.append({"row": row_id, "target": one.target, "says": value})
            ids.append(row_id)
    _clickable(data, "conflicts", ids)


def _clickable(data: list[dict[str, Any]], key: str, ids: list[str]) -> None:
    event: Any = st.dataframe(
        data, hide_index=True, key=f"checks-{key}", on_select="rerun", selection_mode="single-row"
    )
    chosen = event.selection.rows
    if chosen:
        st.button(
            f"Open row {plain(ids[chosen[0]], 80)}", key=f"checks-open-{key}", icon=":material/open_in_new:",
            on_click=_open_row, args=(ids[chosen[0]],),
        )  # fmt: skip


def _open_row(row_id: str) -> None:
    st.session_state["data-go"] = "rows"
    set_param("row", row_id)


def _only(name: str, value: str) -> None:
    st.session_state["data-go"] = "rows"
    for other in ("group", "same", "row"):
        set_param(other, None)
    set_param(name, value)


def _doubles(found: Bench, dataset: str, together: Together) -> None:
    st.subheader("Doubles and groups", help=meaning("group"))
    project, key = found.desk.project, key_of(found.desk.file, dataset, stamp(found.desk))
    st.caption(
        f"{counted(together.same_rows, 'row')} repeat the text of an earlier one"
        f" ({counted(together.same, 'text')}). {counted(together.groups, 'group')} of two rows and"
        f" more, {together.near:,} of them since their texts are nearly the same. A group counts once"
        " in a promise, and is never split."
    )
    if not together.same and not together.groups:
        return
    hidden = hides_texts(found.desk, pack_of(found))
    if hidden:
        hidden = not st.toggle(
            "Show the texts: the chosen pack is about harm", key=f"open-doubles-{key_of(dataset)}"
        )

    def shown(data: pd.DataFrame, column: str) -> pd.DataFrame:
        if hidden:
            return data.drop(columns=column)
        return data.assign(**{column: [_short(found.desk, text) for text in data[column]]})

    same, groups = st.columns(2)
    with same:
        place = paged(
            together.same,
            lambda first, most: shown(
                checks.doubles(project, dataset, first, most).drop(columns="digest"), "text"
            ),
            f"same-{key}", page_rows=10, selectable=True,
        )  # fmt: skip
        if place is not None:
            row = checks.doubles(project, dataset, place, 1).iloc[0]
            st.button(
                f"Show its {row['rows']:,} rows", key="checks-same", on_click=_only,
                args=("same", str(row["digest"])),
            )  # fmt: skip
    with groups:
        place = paged(
            together.groups,
            lambda first, most: shown(checks.groups(project, dataset, first, most), "first text"),
            f"groups-{key}", page_rows=10, selectable=True,
        )  # fmt: skip
        if place is not None:
            row = checks.groups(project, dataset, place, 1).iloc[0]
            st.button(
                f"Show its {row['rows']:,} rows", key="checks-group", on_click=_only,
                args=("group", str(row["group"])),
            )  # fmt: skip


def _short(desk: Desk, text: str | None) -> str | None:
    # Masked before it is cut: half an address is known for one no more.
    return None if text is None else shown_text(desk, text)[:SHORT]


@st.cache_data(show_spinner=False, max_entries=4)
def _size(file: str, dataset: str, state: tuple[int, int]) -> int:
    return checks.size_of(Desk(Path(file).parent, Path(file)).project, dataset)


@st.cache_data(show_spinner=False, max_entries=4)
def _standing(file: str, dataset: str, state: tuple[int, int]) -> Standing:
    return checks.checked(Desk(Path(file).parent, Path(file)).project, dataset)


@st.cache_data(show_spinner=False, max_entries=4)
def _together(file: str, dataset: str, state: tuple[int, int]) -> Together:
    return checks.together(Desk(Path(file).parent, Path(file)).project, dataset)
