"""The page Report: the pack held to its rules, files to hand over, and the command that CI runs."""

from dataclasses import asdict
from typing import Any, Final

import pandas as pd
import streamlit as st

from spinf_serve.evals.gate import METRICS
from spinf_serve.workbench import jobs
from spinf_serve.workbench.actions.baselines import baselines, keep_baseline
from spinf_serve.workbench.actions.ci import command_for, keep_rules, rule_fault, rules_of, workflow
from spinf_serve.workbench.actions.evaluations import (
    FILES,
    EvaluationWish,
    SideWish,
    folder_of,
    key_for,
    outcome_of,
)
from spinf_serve.workbench.audit import note
from spinf_serve.workbench.desk import key_of
from spinf_serve.workbench.frame import Bench, bench, told
from spinf_serve.workbench.parts.job_box import job_box, latest
from spinf_serve.workbench.parts.rows_digest import digest_of
from spinf_serve.workbench.parts.verdict import (
    MARKS,
    figures_table,
    outcome_rows,
    told_of,
    volumes_table,
)
from spinf_serve.workbench.parts.words import UNKNOWN, code, count, plain

KIND = "evaluate"

FILE_TITLES: Final = {
    "html": "Report (HTML)",
    "markdown": "Summary (Markdown)",
    "junit": "JUnit (XML)",
    "json": "Everything (JSON)",
}
"""What the files of a report or a comparison are called on screen."""


def draw() -> None:
    """One run of the page."""
    found = bench()
    st.title("Report")
    st.caption(
        "Hold the pack to what it promises and to limits of yours, hand the result over as one file,"
        " and have CI do the same on every change."
    )
    pack = found.pack()
    dataset = found.need_dataset()
    model = found.need_model()
    assert found.file is not None
    if found.constants(pack) is None:
        st.info(
            f"**{plain(pack.id)}** has no numbers for {plain(model.served)} yet, so it decides nothing there. Fit"
            " it on the page **Thresholds**, then come back."
        )
        st.stop()
    name = found.desk.name_of(found.file)
    rules = _rules(found, name)
    baseline, new_rows = _baseline(found, name)
    wish = EvaluationWish(
        SideWish(name, model.bits), dataset, found.split, tuple(rules), baseline, new_rows
    )
    digest = digest_of(found.desk, dataset, found.split)
    key = key_for(found.desk, wish, digest)
    outcome = outcome_of(found.desk, key)
    if outcome is None:
        _measure(found, wish)
    else:
        _outcome(found, key, outcome)
    _command(found, wish)


def _rules(found: Bench, name: str) -> list[str]:
    """The limits, kept in the project for this pack."""
    mine = rules_of(found.desk, name)
    with st.expander(f"Limits ({len(mine)})", expanded=not mine, icon=":material/rule:"):
        st.markdown(
            "One a line, such as `case.precision >= 0.9` or `refused <= 0.01`. With `surely` behind"
            " it the whole 95 % interval has to hold. What the pack's own proof promises is held in"
            " any case."
        )
        # By what is kept: limits that another tab wrote come into this one, and not the other way.
        text = st.text_area(
            "Limits", "\n".join(mine), key=f"rules-{key_of(name, *mine)}", height=100,
            label_visibility="collapsed",
        )  # fmt: skip
        lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
        faults = [(line, fault) for line in lines if (fault := rule_fault(line)) is not None]
        for line, fault in faults:
            st.error(f"{code(line)}: {plain(fault)}")
        st.caption(f"Figures: {', '.join(METRICS)}.")
        if not faults and lines != mine:
            with told():
                keep_rules(found.desk, found.user, name, lines, seen=mine)
                st.rerun()
    return mine


def _baseline(found: Bench, name: str) -> tuple[str | None, bool]:
    names = baselines(found.desk)
    if not names:
        return None, False
    left, right = st.columns([2, 1], vertical_alignment="bottom")
    chosen = left.selectbox(
        "Hold against",
        [None, *names],
        format_func=lambda one: "no baseline" if one is None else one,
        key=f"baseline-{name}",
        help="An earlier report that was kept as a baseline: verdicts and scores may not be worse.",
    )
    new_rows = right.checkbox(
        "Other rows than the baseline's",
        key=f"new-rows-{name}",
        disabled=chosen is None,
        help="Nothing is compared row by row then; drift is looked for instead.",
    )
    return chosen, bool(new_rows and chosen is not None)


def _measure(found: Bench, wish: EvaluationWish) -> None:
    arguments = asdict(wish)
    job = latest(found.desk, KIND, arguments)
    if job is not None and job.state != "done":
        job_box(found.desk, found.user, job.id)
        return
    rows = "all rows" if wish.split is None else f"the rows of split {plain(wish.split)}"
    st.info(
        f"Nothing was measured for this pack as it stands on {rows} of {plain(wish.dataset)} yet."
    )
    if st.button("Measure", type="primary", icon=":material/play_arrow:", key="measure"):
        with told():
            jobs.start(found.desk, found.user, KIND, f"Measuring {wish.side.pack}", arguments)
            st.rerun()


def _outcome(found: Bench, key: str, outcome: dict[str, Any]) -> None:
    mark, draw_word = MARKS[outcome["word"]]
    draw_word(f"**{plain(outcome['sentence'])}**, exit code {outcome['exit_code']}", icon=mark)
    told_of(outcome)
    rows = outcome_rows(outcome["outcomes"])
    if len(rows):
        st.dataframe(rows, hide_index=True, key=f"outcomes-{key}")
    st.subheader("Figures")
    table = figures_table(outcome["figures"])
    st.dataframe(
        table, hide_index=True, key=f"figures-{key}", height="content", placeholder=UNKNOWN
    )
    amounts = volumes_table(outcome["figures"], found.desk.per_day)
    if len(amounts):
        st.caption("What the verdicts amount to in traffic like these rows:")
        st.dataframe(amounts, hide_index=True, key=f"volumes-{key}", height="content")
    _slices(key, outcome)
    for line in outcome["notes"]:
        st.caption(f"Note: {plain(line)}")
    _files(found, key, outcome)


def _slices(key: str, outcome: dict[str, Any]) -> None:
    rows = [
        {
            "target": one["target"],
            "slice": f"{part['name']} = {part['value']}",
            "rows": part["rows"],
            **{
                name: part["metrics"][name]["value"]
                for name in ("accuracy", "precision", "recall", "roc_area")
                if name in part["metrics"]
            },
            "": part["warning"] or "",
        }
        for one in outcome["figures"]
        for part in one["slices"]
    ]
    if rows:
        with st.expander(
            f"By slice ({count(len(rows), 'line')})", icon=":material/stacked_bar_chart:"
        ):
            st.dataframe(pd.DataFrame(rows), hide_index=True, key=f"slices-{key}")


def _files(found: Bench, key: str, outcome: dict[str, Any]) -> None:
    st.subheader("Hand it over")
    folder = folder_of(found.desk, key)
    for column, (kind, (file, mime)) in zip(st.columns(len(FILES)), FILES.items(), strict=True):
        column.download_button(
            FILE_TITLES[kind],
            (folder / file).read_bytes,
            file_name=file,
            mime=mime,
            key=f"download-{kind}-{key}",
            on_click="ignore",
            icon=":material/download:",
            width="stretch",
        )
    with st.expander("Look at the HTML report", icon=":material/visibility:"):
        st.iframe((folder / FILES["html"][0]).read_text(), height=700)
    name = outcome["made"]["pack"].replace("/", "-")
    if st.button(
        "Keep as a baseline",
        key=f"keep-{key}",
        icon=":material/bookmark_add:",
        help="Later reports of this pack, here and in CI, are held against it.",
    ):
        with told():
            kept = keep_baseline(found.desk, key, name)
            note(found.desk, found.user, "keep baseline", found.desk.name_of(kept), report=key)
            st.rerun()


def _command(found: Bench, wish: EvaluationWish) -> None:
    st.subheader("In CI")
    st.markdown("The command that judges the same; run it in the project's folder:")
    st.code(command_for(found.desk, wish), language="bash", wrap_lines=True)
    if found.bits is not None:
        st.caption(
            "It asks the model of the machine where it runs about all rows whose answers are not kept"
            f" for it yet. With `--bits {found.bits[:12]}` it judges the scores chosen at the left and"
            " asks nobody."
        )
    st.markdown(
        "Its exit code says what it found: 0, every rule holds; 1, one is broken (regression);"
        " 2, it could not run; 3, too few labels to judge; 4, the scores come from another model than"
        " the pack's proof (stale fingerprint)."
    )
    with st.expander("As a GitHub workflow", icon=":material/code:"):
        text = workflow(found.desk, wish)
        st.code(text, language="yaml")
        st.download_button(
            "evals.yml",
            text,
            file_name="evals.yml",
            mime="application/yaml",
            key="workflow",
            on_click="ignore",
            icon=":material/download:",
        )
