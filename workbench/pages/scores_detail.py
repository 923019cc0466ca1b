"""One row beside the table of the page Scores: its text, its answers, and its label to be fixed."""

from collections.abc import Sequence
from typing import Final

import pandas as pd
import streamlit as st

from spinf_serve.evals.data.labels import UNSURE, Label
from spinf_serve.evals.judged import DECISION
from spinf_serve.workbench.actions import labelling, rows
from spinf_serve.workbench.actions.rows import Detail
from spinf_serve.workbench.actions.scores_row import (
    Answered,
    answered,
    fix,
    last_fixed,
    undo_last,
)
from spinf_serve.workbench.desk import key_of
from spinf_serve.workbench.frame import param, set_param, told
from spinf_serve.workbench.pages.scores_look import Look
from spinf_serve.workbench.parts.calm import whole
from spinf_serve.workbench.parts.texts import show_text
from spinf_serve.workbench.parts.words import UNKNOWN, plain

_STAYS: Final = """<style>
.st-key-scores-detail { position: sticky; top: 4rem; max-height: calc(100vh - 5rem); overflow-y: auto; }
</style>"""
"""The row stays in sight while the table beside it is scrolled."""


def draw(look: Look) -> None:
    """Draw the row that is chosen."""
    dataset = look.found.dataset or ""
    row_id = param("row")
    st.html(_STAYS)
    with st.container(border=True, key="scores-detail"):
        if row_id is None:
            st.caption(
                ":material/ads_click: Click a point, or choose a row of the table: its text, all its"
                " answers and its label appear here."
            )
            return
        with st.container(
            horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"
        ):
            st.markdown(f"#### Row {plain(row_id)}", width="content")
            st.button(
                "Close",
                key="scores-close",
                icon=":material/close:",
                type="tertiary",
                on_click=set_param,
                args=("row", None),
            )
        row = rows.detail(look.found.desk.project, dataset, row_id)
        if row is None:
            st.info(
                f"**{plain(dataset)}** has no row **{plain(row_id)}**: it was deleted, or is elsewhere."
            )
            return
        if row.media is not None:
            st.code(row.media, language=None)
        else:
            show_text(look.found.desk, look.pack, row.text, f"{dataset}-{row_id}")
        about = [f"{plain(name)}: {plain(value)}" for name, value in row.slices.items()]
        if row.split is not None:
            about.append(f"split: {plain(row.split)}")
        if about:
            st.caption(" · ".join(about))
        _label(look, dataset, row)
        found = answered(look.view, look.pack, row_id)
        if found is None:
            st.caption("It came after the answers were laid out: nothing is known of it here yet.")
            return
        _decision(found)
        _answers(look, found)


def _label(look: Look, dataset: str, row: Detail) -> None:
    """The label for the chosen target: one click sets it, and the score was seen."""
    names = {
        one.target: one
        for one in labelling.targets_of(look.pack, [one.target for one in row.labels])
    }
    target = look.target or (None if look.main.place is not None else look.main.target)
    if target is None or target not in names:
        target = next(iter(names), None)
    if target is None:
        return
    said = [one for one in row.labels if one.target == target]
    own = labelling.own_of(row.labels, target, look.found.user)
    values = [*names[target].values, UNSURE]
    held = _held(said)
    key = f"scores-label-{key_of(dataset, row.id, target)}"
    # The widget shows what is stored, also when another tab changed it.
    if st.session_state.get(f"{key}-held") != held or key not in st.session_state:
        st.session_state[key] = held if held in values else None
    st.session_state[f"{key}-held"] = held
    seen = None if own is None else own.value

    @whole
    def take() -> None:
        value = st.session_state[key]
        if value is None or value == held:
            st.session_state[f"{key}-held"] = None
            return
        with told():
            fix(look.found.desk, look.found.user, dataset, row.id, target, value, seen=seen)
            st.toast(
                f"Row {plain(row.id)}: {plain(target)} is {plain(value)} now",
                icon=":material/check:",
            )

    title = names[target].title
    st.segmented_control(
        f"Label: {plain(title)}",
        values,
        default=st.session_state[key],
        format_func=plain,
        key=key,
        on_change=take,
    )
    if said:
        who = ", ".join(f"{plain(one.annotator)}: {plain(one.value)}" for one in said)
        st.caption(f"Said so far: {who}. What you set settles it.")
    else:
        st.caption("Nobody labelled it yet. It was picked here, so a promise will not count it.")


def _held(said: Sequence[Label]) -> str | None:
    """What holds among some labels of a target: what was settled last, or what all say."""
    settled = [one for one in said if one.adjudicated]
    if settled:
        return max(settled, key=lambda one: one.at).value
    values = {one.value for one in said}
    return values.pop() if len(values) == 1 else None


def undo_button(look: Look, dataset: str) -> None:
    """A button that takes the last label back that was fixed here, also after a reload."""
    last = last_fixed(look.found.desk, look.found.user, dataset)
    if last is None:
        return

    @whole
    def undo() -> None:
        with told():
            given = undo_last(look.found.desk, look.found.user, dataset)
            st.toast(
                f"Row {plain(given.label.row_id)}: the label is as it was", icon=":material/undo:"
            )

    st.button(
        f"Undo: {plain(last.label.row_id, 60)} is {plain(last.label.value, 60)}",
        key="scores-undo",
        icon=":material/undo:",
        type="tertiary",
        on_click=undo,
        help=f"Takes back what you said of {plain(last.label.target)} there.",
    )


def _decision(found: Answered) -> None:
    if found.refused is not None:
        st.warning(f"No whole answer: {plain(found.refused.replace('_', ' '))}.")
    if found.chunks > 1:
        st.caption(
            f"Read in {found.chunks} pieces: categories come from all of them, single answers are"
            " not known."
        )
    if found.unsafe is None:
        return
    word = "Flagged" if found.unsafe else "Not flagged"
    parts = [f"**{word}**", *([f"band {plain(found.band)}"] if found.band else [])]
    if found.route is not None:
        parts.append(f"goes to **{plain(found.route)}**")
    st.markdown(" · ".join(parts))
    if found.reason:
        st.caption(plain(found.reason))


def _answers(look: Look, found: Answered) -> None:
    bar = st.column_config.ProgressColumn(min_value=0.0, max_value=1.0, format="%.3f")
    number = st.column_config.NumberColumn(format="%.3f")
    key = key_of(look.view.key)
    if found.categories:
        data = pd.DataFrame(found.categories).drop(columns="id")
        data["flagged"] = [
            UNKNOWN if one is None else "yes" if one else "no" for one in data["flagged"]
        ]
        if data["band"].isna().all():
            data = data.drop(columns="band")
        with st.expander("Categories", expanded=look.main.place is None):
            st.dataframe(
                data.sort_values("score", ascending=False, kind="stable"),
                key=f"scores-categories-{key}",
                hide_index=True,
                placeholder=UNKNOWN,
                column_config={"score": bar, "threshold": number},
            )
    data = pd.DataFrame(found.answers)
    if look.main.place is not None and look.target not in (None, DECISION):
        first = data["question"].eq(look.main.name.partition(":")[0])
        data = pd.concat([data[first], data[~first]])
    with st.expander("All answers", expanded=look.main.place is not None):
        st.dataframe(
            data,
            key=f"scores-answers-{key}",
            hide_index=True,
            height=320,
            column_config={
                "p": bar,
                "floor p": number,
                "lift": st.column_config.NumberColumn(format="%+.3f"),
                "residual": number,
            },
        )
