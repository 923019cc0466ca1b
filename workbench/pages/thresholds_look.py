"""The part of Thresholds that looks around: any cut, what it flags, and what it gets wrong."""

from math import isfinite
from typing import Final

import numpy as np
import pandas as pd
import streamlit as st

from spinf_serve.workbench.actions.cut_rows import (
    CutRows,
    Figure,
    Look,
    false_alarms,
    look,
    misses,
    texts_of,
)
from spinf_serve.workbench.frame import param, set_param
from spinf_serve.workbench.glossary import help as meaning
from spinf_serve.workbench.pages.thresholds_bands import draw_bands, second_cut
from spinf_serve.workbench.pages.thresholds_curve import draw_curve
from spinf_serve.workbench.pages.thresholds_stand import (
    Stand,
    curve_of,
    cut_slider,
    rows_of,
    title_of,
)
from spinf_serve.workbench.parts.figures import figure, row
from spinf_serve.workbench.parts.links import row_link
from spinf_serve.workbench.parts.tables import paged
from spinf_serve.workbench.parts.texts import is_about_harm, shown_text
from spinf_serve.workbench.parts.view import need_view
from spinf_serve.workbench.parts.words import UNKNOWN, count, percent, plain, volume

_TEXT_SHOWN: Final = 240


def draw(stand: Stand) -> None:
    """Draw it; the pack has numbers."""
    view = need_view(stand.found, stand.shown, bytes_of(stand))
    rows = rows_of(stand, view)
    if not len(rows.own):
        st.info("No row has an answer to every question. Ask the rest on the page **Run**.")
        return
    if not len(rows.counted):
        _unlabelled(stand, rows)
    low, high = _ends(stand, rows)
    cut = _cut(stand, rows, low, high)
    review = second_cut(stand, rows, cut, low)
    base_rate = _base_rate(stand, rows)
    found = look(rows, cut, base_rate)
    _figures(stand, found)
    if review is not None:
        draw_bands(stand, rows, review, cut)
    if len(rows.counted):
        made = curve_of(stand, view, rows, base_rate)
        draw_curve(stand, made, cut, review, low, high)
        _counts(stand, rows, found, review)
        _errors(stand, rows, cut, cut if review is None else review)
    _which(rows)


def bytes_of(stand: Stand) -> bytes:
    """The file of the numbers that are looked at."""
    if stand.is_new and stand.last is not None:
        result = stand.last.result() or {}
        return (stand.last.folder / str(result.get("after"))).read_bytes()
    return stand.data


def _unlabelled(stand: Stand, rows: CutRows) -> None:
    where = "" if rows.split is None else f" in the split {plain(rows.split)}"
    if len(rows.traffic):
        known = "only the share flagged is known. Label rows on the page **Data**:"
    else:
        known = (
            "no figure is known. On the page **Data**, import rows that chance chose, say so there,"
            " and label them:"
        )
    st.info(
        f"No row{where} that was drawn at random has a label for"
        f" **{plain(title_of(stand.shown, stand.name))}**, so {known} some hundreds, drawn at random,"
        " carry a promise."
    )


def _ends(stand: Stand, rows: CutRows) -> tuple[float, float]:
    """The score's scale."""
    if not stand.is_layer:
        return 0.0, 1.0
    return float(np.floor(rows.own.min())), float(np.ceil(rows.own.max()) + 1)


def _cut(stand: Stand, rows: CutRows, low: float, high: float) -> float:
    """The cut that is looked at: by slider, by number, or by a click on the chart."""
    key = f"cut-{stand.key}-{stand.is_new}"
    if key not in st.session_state:
        st.session_state[key] = _given(low, high, stand.in_force(), rows)
    cut = float(st.session_state[key])

    def typed() -> None:
        st.session_state[key] = float(st.session_state[f"{key}-number"])

    st.session_state[f"{key}-number"] = cut
    cut_slider("Cut: flagged from this score on", low, high, cut, key, meaning("cut"))
    line = st.container(horizontal=True, vertical_alignment="bottom")
    line.number_input(
        "Exactly",
        low,
        max(high, cut),
        step=(high - low) / 100,
        format="%.6g",
        key=f"{key}-number",
        on_change=typed,
        width=200,
    )
    in_force = stand.in_force()

    def back() -> None:
        st.session_state[key] = in_force

    line.button(
        "Cut of the numbers" if stand.is_new else "Cut in force",
        key=f"{key}-back",
        on_click=back,
        disabled=in_force is None or cut == in_force,
        icon=":material/undo:",
        help="This category has no cut yet; it only reports." if in_force is None else None,
    )
    set_param("at", repr(cut))
    return cut


def _given(low: float, high: float, in_force: float | None, rows: CutRows) -> float:
    """The cut of the address, else the one in force, else the middle of the scores."""
    try:
        given = float(param("at") or "nan")
    except ValueError:
        given = float("nan")
    if isfinite(given) and low <= given <= high:
        return given
    return in_force if in_force is not None else float(np.median(rows.own))


def _base_rate(stand: Stand, rows: CutRows) -> float | None:
    """The stated share of the traffic that holds, of the targets' table."""
    planned = stand.plan.of(stand.name)
    if planned is None or planned.base_rate is None or not len(rows.counted):
        return None
    st.caption(
        f"Shares are re-weighted to the stated base rate of {percent(planned.base_rate)}; counts are"
        " those of the rows."
    )
    return planned.base_rate


def _figures(stand: Stand, found: Look) -> None:
    told = (
        ("Flagged", found.flagged, "flag rate"),
        ("Precision", found.precision, "precision"),
        ("Recall", found.recall, "recall"),
        ("Right if not flagged", found.npv, "npv"),
    )
    with row():
        for label, one, word in told:
            figure(label, percent(one.value), [interval(one)], meaning(word))
    st.caption(f"Flagged: {volume(found.flagged.value, stand.per_day)}.")


def interval(one: Figure) -> str:
    """Counts and the 95 % interval of a figure."""
    if one.value is None:
        return "no row to count"
    return f"{one.k:,} of {one.n:,}; 95 %: {percent(one.low)} to {percent(one.high)}"


def _counts(stand: Stand, rows: CutRows, found: Look, review: float | None) -> None:
    labelled = len(rows.counted)
    table = pd.DataFrame(
        {
            "": ["flagged", "not flagged"],
            "holds": [found.tp, found.fn],
            "does not hold": [found.fp, found.tn],
        }
    )
    left, right = st.columns([2, 3], vertical_alignment="center")
    with left:
        st.markdown("**Right and wrong**", help=meaning("confusion"))
        st.dataframe(table, hide_index=True, key=f"confusion-{stand.key}")
    with right:
        wrong = percent(found.fp / labelled), percent(found.fn / labelled)
        st.markdown(
            f"Of {count(labelled, 'labelled message')} that count, {found.fp:,} are false alarms"
            f" ({wrong[0]}) and {found.fn:,} are misses ({wrong[1]})."
        )
        if review is not None:
            passed = len(misses(rows, review))
            st.markdown(
                f"Of these misses, {found.fn - passed:,} come up for review and {passed:,} pass:"
                " the passed ones are listed below."
            )
        planned = stand.plan.of(stand.name)
        if planned is None or planned.base_rate is None:
            st.markdown(
                f"In such traffic: false alarms, {volume(found.fp / labelled, stand.per_day)};"
                f" misses, {volume(found.fn / labelled, stand.per_day)}."
            )


def _errors(stand: Stand, rows: CutRows, cut: float, passed: float) -> None:
    """Rows above the cut that do not hold, and rows below `passed` that do."""
    lists = {"alarms": false_alarms(rows, cut), "misses": misses(rows, passed)}
    words = {"alarms": "False alarms", "misses": "Misses"}
    kind = st.segmented_control(
        "Errors",
        list(lists),
        default="alarms",
        format_func=lambda one: f"{words[one]} ({len(lists[one]):,})",
        key=f"errors-{stand.key}",
        label_visibility="collapsed",
        required=True,
    )
    at = lists[kind or "alarms"]
    hidden = is_about_harm(stand.shown) and not stand.desk.settings().get("open_texts")
    if hidden and len(at):
        hidden = not st.toggle("Show the texts", key=f"open-errors-{stand.key}")

    def fetch(first: int, most: int) -> pd.DataFrame:
        some = at[first : first + most]
        texts = texts_of(stand.desk, stand.dataset, rows.numbers[some].tolist())
        scores = rows.own[some].tolist()
        return pd.DataFrame(
            {
                "score": scores[: len(texts)],
                "text": [
                    UNKNOWN if hidden else shown_text(stand.desk, text)[:_TEXT_SHOWN]
                    for _, text in texts
                ],
                "open": [
                    row_link(stand.file_name, stand.dataset, stand.model.bits, id)
                    for id, _ in texts
                ],
            }
        )

    paged(
        len(at),
        fetch,
        f"errors-{stand.key}-{kind}",
        page_rows=20,
        column_config={
            "score": st.column_config.NumberColumn("Score", format="%.4f", width="small"),
            "text": st.column_config.TextColumn("Text", width="large"),
            "open": st.column_config.LinkColumn(
                "All its answers", display_text="open in Scores", width="small"
            ),
        },
    )


def _which(rows: CutRows) -> None:
    """Which rows count, and which do not."""
    with st.expander("Which rows count"):
        where = "All rows" if rows.split is None else f"Rows of the split **{plain(rows.split)}**"
        if rows.split == "fit":
            where = "All rows but those of the split **test**"
        st.markdown(
            f"{where} take part, the same as for a promise: {len(rows.counted):,} with a label, and"
            f" {len(rows.traffic):,} for the share flagged."
        )
        for note in rows.notes:
            st.markdown(f"- {plain(note)}")
