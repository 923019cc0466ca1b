"""The page Compare: two packs, two models or two stored runs on the same rows; is the second better?"""

from dataclasses import asdict
from typing import Any, Final

import altair as alt
import pandas as pd
import streamlit as st

from spinf_serve.packs.diff import difference
from spinf_serve.packs.pack import Pack
from spinf_serve.workbench import jobs
from spinf_serve.workbench.actions.baselines import take_baseline
from spinf_serve.workbench.actions.evaluations import (
    EVALUATION,
    FILES,
    ComparisonWish,
    SideWish,
    folder_of,
    key_for,
    outcome_of,
)
from spinf_serve.workbench.actions.pack_choices import pack_of
from spinf_serve.workbench.actions.texts_of import texts_of
from spinf_serve.workbench.audit import note
from spinf_serve.workbench.frame import (
    Bench,
    bench,
    param,
    set_param,
    told,
)
from spinf_serve.workbench.pages.compare_side import Side, draw_side
from spinf_serve.workbench.pages.report import FILE_TITLES
from spinf_serve.workbench.parts import charts
from spinf_serve.workbench.parts.differences import show_differences
from spinf_serve.workbench.parts.job_box import job_box, latest
from spinf_serve.workbench.parts.links import row_link
from spinf_serve.workbench.parts.rows_digest import digest_of
from spinf_serve.workbench.parts.texts import show_text
from spinf_serve.workbench.parts.verdict import MARKS
from spinf_serve.workbench.parts.words import count, percent, plain, volume

KIND: Final = "evaluate"
ROWS_SHOWN: Final = 20


def draw() -> None:
    """One run of the page."""
    found = bench()
    st.title("Compare")
    st.caption(
        "Lay a second pack, model or stored run beside a first one, on the same labelled rows: what"
        " differs, which rows it gets right now, which it gets wrong now, and whether that is chance."
    )
    dataset = found.need_dataset()
    _take_evaluation(found)
    left, right = st.columns(2)
    with left:
        one = draw_side(found, "before", "Before", first=True)
    with right:
        other = draw_side(found, "now", "Now", first=False)
    if one is None or other is None:
        st.stop()
    before, now = one.wish, other.wish
    _same_machine(one, other)
    _wording(found, before, now)
    if before == now:
        st.info("Both sides are the same. Choose another pack, model or run on one of them.")
        st.stop()
    wish = ComparisonWish(before, now, dataset, found.split)
    key = key_for(found.desk, wish, digest_of(found.desk, dataset, found.split))
    outcome = outcome_of(found.desk, key)
    if outcome is None:
        _start(found, wish)
    else:
        _outcome(found, key, dataset, outcome, wish)


def _same_machine(one: Side, other: Side) -> None:
    """Two addresses behind which the same answers come."""
    named = one.who is not None and other.who is not None and str(one.who) != str(other.who)
    if named and one.wish.bits == other.wish.bits:
        st.info("Same model and machine: answers are equal bit for bit.")


def _take_evaluation(found: Bench) -> None:
    with st.expander("Bring in a stored run", icon=":material/upload_file:"):
        given = st.file_uploader(
            "What `spinf-serve eval --json` wrote", type=["json"], key="compare-upload"
        )
        if given is not None and st.button("Take it", key="compare-take"):
            with told():
                file = take_baseline(found.desk, given.name, given.getvalue())
                note(found.desk, found.user, "take evaluation", found.desk.name_of(file))
                st.rerun()


def _wording(found: Bench, before: SideWish, now: SideWish) -> None:
    stored = any(side.pack.startswith(EVALUATION) for side in (before, now))
    if stored:
        st.caption(
            "What differs in the wording is not shown: a stored run holds what a pack said of each row,"
            " and not its text."
        )
    if stored or before.pack == now.pack:
        return
    groups = difference(pack_of(found.desk, before.pack), pack_of(found.desk, now.pack))
    with st.expander(f"What differs in the packs ({len(groups)})", icon=":material/difference:"):
        show_differences(groups)


def _start(found: Bench, wish: ComparisonWish) -> None:
    arguments = asdict(wish)
    job = latest(found.desk, KIND, arguments)
    if job is not None and job.state != "done":
        job_box(found.desk, found.user, job.id)
        return
    st.info("These two were not compared yet as they stand now.")
    if st.button("Compare", type="primary", icon=":material/play_arrow:", key="compare-start"):
        with told():
            jobs.start(found.desk, found.user, KIND, "Comparing", arguments)
            st.rerun()


def _outcome(
    found: Bench, key: str, dataset: str, outcome: dict[str, Any], wish: ComparisonWish
) -> None:
    icon, draw_word = MARKS[outcome["word"]]
    worse = dict.fromkeys(
        one["target"] for one in outcome["outcomes"] if one["word"] == "regression"
    )
    named = f": {plain(', '.join(worse))}" if worse else ""
    words = {
        "pass": "The second is not worse than the first beyond chance.",
        "regression": f"The second is worse than the first beyond chance{named}.",
        "cannot judge": "The rows do not suffice to tell.",
    }
    draw_word(words.get(outcome["word"], plain(outcome["sentence"])), icon=icon)
    table = _table(outcome["comparisons"])
    targets = list(table["target"])
    if not targets:
        st.info("The two have no category in common that rows are labelled for.")
        return
    st.dataframe(
        table,
        hide_index=True,
        key=f"compare-table-{key}",
        column_config={
            "p": st.column_config.NumberColumn(
                format="%.2g",
                help="Chance of so many changes one way if neither is better (McNemar, exact),"
                " corrected for the number of targets (Holm).",
            ),
            "right before": st.column_config.NumberColumn(format="%.1f %%"),
            "right now": st.column_config.NumberColumn(format="%.1f %%"),
        },
    )
    _chart(table, key)
    chosen = param("target")
    target = st.selectbox(
        "Look at",
        targets,
        index=targets.index(chosen) if chosen in targets else 0,
        key=f"compare-target-{key}",
    )
    set_param("target", target)
    one = next(one for one in outcome["comparisons"] if one["target"] == target)
    _rows(found, key, dataset, one, wish)
    _slices(key, one)
    for line in outcome["notes"]:
        st.caption(f"Note: {plain(line)}")
    folder = folder_of(found.desk, key)
    for column, kind in zip(st.columns(4), ("html", "markdown", "junit", "json"), strict=True):
        file, mime = FILES[kind]
        column.download_button(
            FILE_TITLES[kind],
            (folder / file).read_bytes,
            file_name=f"comparison{(folder / file).suffix}",
            mime=mime,
            key=f"compare-{kind}-{key}",
            on_click="ignore",
            icon=":material/download:",
            width="stretch",
        )


def _table(comparisons: list[dict[str, Any]]) -> pd.DataFrame:
    lines = []
    for one in comparisons:
        flips, brier = one["flips"], one["brier"]
        if flips is None and brier is None:
            continue
        line: dict[str, Any] = {"target": one["target"], "rows in both": one["both"]}
        if flips is not None and flips["rows"]:
            line |= {
                "labelled": flips["rows"],
                "right before": 100 * flips["right_before"] / flips["rows"],
                "right now": 100 * flips["right_now"] / flips["rows"],
                "fixed": flips["fixes_count"],
                "broken": flips["breaks_count"],
                "p": one["p_holm"],
            }
        if brier is not None:
            change = f"{brier['low']:+.3f} to {brier['high']:+.3f}"
            line["Brier score, change (95 %)"] = change
        lines.append(line)
    return pd.DataFrame(lines, columns=None if lines else ["target"])


def _chart(table: pd.DataFrame, key: str) -> None:
    if "fixed" not in table:
        return
    data = table[["target", "fixed", "broken"]].melt("target", var_name="what", value_name="rows")
    data.loc[data["what"] == "broken", "rows"] *= -1
    chart = (
        alt.Chart(data)
        .mark_bar()
        .encode(
            x=alt.X("rows:Q", title="rows broken (left) and fixed (right)"),
            y=alt.Y("target:N", sort=None, title=None),
            color=alt.Color(
                "what:N",
                scale=alt.Scale(domain=["fixed", "broken"], range=[charts.BLUE, charts.ORANGE]),
                title=None,
            ),
            tooltip=["target", "what", "rows"],
        )
    )
    charts.show(
        chart,
        data,
        "comparison",
        f"compare-chart-{key}",
        alt_text="Rows fixed and broken by target",
    )


def _packs_of(found: Bench, wish: ComparisonWish) -> list[Pack]:
    """The packs that are compared, as far as they are there."""
    sides = [one for one in (wish.before, wish.now) if not one.pack.startswith(EVALUATION)]
    return [pack_of(found.desk, one.pack) for one in sides]


def _rows(found: Bench, key: str, dataset: str, one: dict[str, Any], wish: ComparisonWish) -> None:
    flips = one["flips"]
    if flips is None:
        st.caption("No verdicts to compare: a side has no cut for it, or no row is labelled.")
        return
    right = flips["right_now"] - flips["right_before"]
    share = right / flips["rows"] if flips["rows"] else None
    per_day = found.desk.settings().get("per_day")
    if share:
        better = "more right" if share > 0 else "fewer right"
        st.markdown(f"**{volume(abs(share), per_day)}** {better} ({percent(abs(share))} of rows).")
    pack = found.loaded()
    compared = _packs_of(found, wish)
    for name, title, icon in (
        ("breaks", "Broken: right before, wrong now", ":material/heart_broken:"),
        ("fixes", "Fixed: wrong before, right now", ":material/build_circle:"),
    ):
        ids = flips[name]
        with st.expander(f"{title} ({flips[name + '_count']})", icon=icon):
            if not ids:
                st.caption("None.")
                continue
            pages = -(-len(ids) // ROWS_SHOWN)
            page = 1
            if pages > 1:
                page = st.pagination(pages, key=f"compare-{name}-{key}-{one['target']}")
            shown = ids[(page - 1) * ROWS_SHOWN : page * ROWS_SHOWN]
            texts = texts_of(found.desk, dataset, shown)
            for id in shown:
                with st.container(border=True):
                    link = _link(found, dataset, wish, one["target"], id)
                    st.caption(plain(id) + ("" if link is None else f" · [open in Scores]({link})"))
                    show_text(
                        found.desk,
                        None if pack is None else pack.pack,
                        texts.get(id, ""),
                        f"c-{id}",
                        *compared,
                    )
            if flips[name + "_count"] > len(ids):
                st.caption(f"The first {len(ids):,}; the JSON report has all.")


def _link(found: Bench, dataset: str, wish: ComparisonWish, target: str, row: str) -> str | None:
    """The row's answers on the page Scores, of the second side if it is a pack of the project."""
    mine = {found.desk.name_of(file) for file in found.desk.pack_files()}
    side = next((one for one in (wish.now, wish.before) if one.pack in mine), None)
    return None if side is None else row_link(side.pack, dataset, side.bits, row, target=target)


def _slices(key: str, one: dict[str, Any]) -> None:
    if not one["slices"]:
        return
    with st.expander(f"By slice ({count(len(one['slices']), 'slice')})", icon=":material/segment:"):
        st.dataframe(
            pd.DataFrame(
                [
                    {
                        "slice": f"{part['name']} = {part['value']}",
                        "labelled": part["rows"],
                        "right before": part["right_before"] / part["rows"],
                        "right now": part["right_now"] / part["rows"],
                        "fixed": part["fixes"],
                        "broken": part["breaks"],
                        "p": part["p_holm"],
                        "": part["warning"] or "",
                    }
                    for part in one["slices"]
                    if part["rows"]
                ]
            ),
            hide_index=True,
            key=f"compare-slices-{key}-{one['target']}",
            column_config={
                "p": st.column_config.NumberColumn(format="%.2g"),
                "right before": st.column_config.NumberColumn(format="percent"),
                "right now": st.column_config.NumberColumn(format="percent"),
            },
        )
