"""What an import found, or would find: refused rows, unknown words, doubles, conflicts, balance."""

from collections.abc import Callable
from functools import partial
from typing import Final

import streamlit as st

from spinf_serve.evals.data.report import ImportReport
from spinf_serve.workbench.desk import Desk
from spinf_serve.workbench.parts.texts import shown_text
from spinf_serve.workbench.parts.words import code
from spinf_serve.workbench.parts.words import count as counted
from spinf_serve.workbench.parts.words import plain as as_written

_PLAIN: Final = (
    ("declare --classes", "say that the column holds classes of"),
    ("is --separator", "is what stands between labels,"),
    ("--append adds rows to it", "choose to add to it"),
    ("to --append to", "to add rows to"),
)
"""What the command line calls otherwise than the page."""


def plain(text: str) -> str:
    """A message in the words of the page."""
    for flag, words in _PLAIN:
        text = text.replace(flag, words)
    return text


def draw(desk: Desk, report: ImportReport, *, trial: bool) -> None:
    """Draw a report, what it quotes of the file masked where the project wants texts so.

    Args:
        trial: whether nothing was written.
    """
    key = f"report-{'trial' if trial else 'done'}"
    mask = partial(shown_text, desk)
    taken = report.rows_read - report.refused_count
    cells = st.columns(4)
    cells[0].metric("Rows read", f"{report.rows_read:,}")
    cells[1].metric("Can be taken" if trial else "Taken", f"{taken:,}")
    cells[2].metric("Refused", f"{report.refused_count:,}")
    cells[3].metric("Said twice", f"{report.doubles.exact + report.doubles.near:,}")
    if trial:
        st.caption("Nothing was written yet.")
    for note in report.notes:
        st.caption(as_written(mask(note)))
    for warning in report.warnings:
        st.warning(as_written(mask(plain(warning))))
    _refused(report, key, mask, trial=trial)
    _unknown(report, key, mask)
    _balance(report, key, mask)
    _doubles(report, key)
    _conflicts(report, key, mask)
    blank = {column: n for column, n in report.missing.items() if n}
    if blank:
        told = ", ".join(f"{n:,} in {code(column, 80)}" for column, n in blank.items())
        st.caption(f"Blank cells, which say nothing: {told}.")


def _refused(report: ImportReport, key: str, mask: Callable[[str], str], *, trial: bool) -> None:
    if not report.refused_count:
        return
    were = "would be" if trial else "was" if report.refused_count == 1 else "were"
    st.markdown(f"**{counted(report.refused_count, 'row')} {were} left out**")
    if report.refused_count > len(report.refused):
        st.caption(f"The first {len(report.refused)} are shown.")
    st.dataframe(
        [
            {"line": one.line, "id": one.row_id, "why": mask(plain(one.reason))}
            for one in report.refused
        ],
        hide_index=True,
        key=f"{key}-refused",
        column_config={
            "line": st.column_config.NumberColumn(width=60),
            "id": st.column_config.TextColumn(width=120),
            "why": st.column_config.TextColumn(width=660),
        },
    )


def _unknown(report: ImportReport, key: str, mask: Callable[[str], str]) -> None:
    lines = [
        {"label of": target, "says": mask(value), "rows": n}
        for target, values in report.unknown.items()
        for value, n in values.items()
    ]
    if lines:
        st.markdown("**Words that are no label**")
        st.caption(
            "Write yes, no or unsure in the file, or tick “holds classes” if the column names classes."
        )
        st.dataframe(lines, hide_index=True, key=f"{key}-unknown")


def _balance(report: ImportReport, key: str, mask: Callable[[str], str]) -> None:
    if not report.balance:
        return
    st.markdown("**Labels**, with those that were there before")
    st.dataframe(
        [
            {
                "label of": target,
                "says": ", ".join(f"{n:,} {mask(value)}" for value, n in one.values.items()),
                "no label": one.missing,
            }
            for target, one in report.balance.items()
        ],
        hide_index=True,
        key=f"{key}-balance",
    )


def _doubles(report: ImportReport, key: str) -> None:
    found = report.doubles
    if not found.groups:
        return
    with st.expander(
        f"{counted(found.groups, 'group')} of rows with the same text or nearly the same"
    ):
        st.caption(
            f"{counted(found.exact, 'row')} repeat a text, {found.near:,} are nearly the same. Rows of"
            " a group stay together in splits and count once in a promise."
        )
        st.dataframe(
            [{"rows": ", ".join(ids)} for ids in found.examples],
            hide_index=True,
            key=f"{key}-doubles",
        )


def _conflicts(report: ImportReport, key: str, mask: Callable[[str], str]) -> None:
    if not report.contradiction_count:
        return
    st.markdown(
        f"**{counted(report.contradiction_count, 'text')} with different labels**: at most one is right"
    )
    st.dataframe(
        [
            {
                "label of": one.target,
                "said": ", ".join(f"{row}: {mask(value)}" for row, value in one.said),
            }
            for one in report.contradictions
        ],
        hide_index=True,
        key=f"{key}-conflicts",
    )
