"""The tab on which a pack is edited by filling in fields: the same text as in the editor."""

from functools import partial
from typing import Any, Final

import streamlit as st

from spinf_serve.packs.faults import InvalidPack
from spinf_serve.workbench import glossary
from spinf_serve.workbench.actions import forms
from spinf_serve.workbench.actions.drafts import Draft
from spinf_serve.workbench.actions.forms import Form, at
from spinf_serve.workbench.desk import key_of
from spinf_serve.workbench.frame import Bench
from spinf_serve.workbench.pages import pack_bar
from spinf_serve.workbench.pages.pack_forms_more import draw_about, draw_contexts, draw_decision
from spinf_serve.workbench.pages.pack_forms_parts import draw_categories, draw_reads
from spinf_serve.workbench.pages.pack_forms_questions import draw_questions
from spinf_serve.workbench.parts.fields import Fields
from spinf_serve.workbench.parts.words import message as as_message
from spinf_serve.workbench.parts.words import plain

PARTS: Final = ("Questions", "Categories", "Decision", "Contexts", "About", "Reads")
_FIELDS: Final = {
    # First field of a fault's path -> the part that shows it.
    "scoring": "Questions",
    "categories": "Categories",
    "decision": "Decision",
    "bands": "Decision",
    "route": "Decision",
    "on_long": "Decision",
    "contexts": "Contexts",
    "parameters": "Contexts",
    "reads": "Reads",
}


def draw(bench: Bench, draft: Draft) -> None:
    """Draw the tab."""
    file = draft.file
    if file.suffix == ".json":
        st.info(
            "A JSON file holds a pack as servers exchange it, with everything written out. Forms are"
            " for YAML files, which authors write: edit this one in the tab **Text**."
        )
        return
    try:
        form = forms.form_of(draft.text)
    except InvalidPack as invalid:
        _unreadable(invalid)
        return
    found = pack_bar.checked(draft.text, file.name)
    fields = Fields(
        key_of(file)[:8], found.marks, partial(_apply, bench, file), _jump
    )  # fmt: skip
    _fitted(form, fields)
    counts = _counts(fields)
    part = st.segmented_control(
        "Part of the pack",
        PARTS,
        key="form",
        bind="query-params",
        default="Questions",
        required=True,
        format_func=lambda one: f"{one} :red[({counts[one]})]" if counts.get(one) else one,
        label_visibility="collapsed",
    )
    if part == "Categories":
        draw_categories(form, fields)
    elif part == "Decision":
        draw_decision(form, fields)
    elif part == "Contexts":
        draw_contexts(form, fields)
    elif part == "About":
        draw_about(form, fields)
    elif part == "Reads":
        draw_reads(form, fields)
    else:
        draw_questions(form, fields)
    _elsewhere(fields, part or "Questions")


def _apply(bench: Bench, file: Any, edit: forms.Edit) -> None:
    # What was typed into the editor comes first.
    pack_bar.take(bench.desk, bench.user)
    forms.apply(bench.desk, bench.user, file, edit)


def _jump(line: int, column: int) -> None:
    pack_bar.jump_to(line, column)
    st.session_state["tab"] = "Text"


def _unreadable(invalid: InvalidPack) -> None:
    fault = invalid.faults[0]
    st.error(
        f"The text cannot be read as fields. Line {fault.line}, column {fault.column}:"
        f" {as_message(fault.message)}",
        icon=":material/error:",
    )
    st.caption("Mend this line in the tab **Text**; the form comes back by itself.")
    st.button(
        f"Show line {fault.line}",
        key="form-unreadable",
        icon=":material/code:",
        on_click=_jump,
        args=(max(fault.line, 1), max(fault.column, 1)),
    )


def _fitted(form: Form, fields: Fields) -> None:
    """Numbers of another wording: what that means, and the two ways on."""
    stale = [mark for mark in fields.marks if mark.param.split(".")[0] in ("fitted", "proof")]
    if not stale:
        return
    fields.shown += stale
    models = ", ".join(at(form.file, ["fitted"]) or ())
    with st.container(border=True):
        st.warning(
            f"The questions changed since the numbers for {plain(models or 'the model')} were fitted, so"
            " these do not fit any more. Fit again on the page **Thresholds**; until then the pack"
            " answers and decides nothing.",
            icon=":material/balance:",
        )
        fields.button(
            "Take the old numbers out",
            "drop-fitted",
            lambda: forms.drop_fitted,
            help=glossary.help("draft") + " Undo brings the numbers back.",
        )


def _counts(fields: Fields) -> dict[str, int]:
    counts: dict[str, int] = {}
    for mark in fields.marks:
        if mark.severity == "error":
            part = _FIELDS.get(mark.param.split(".")[0], "About")
            counts[part] = counts.get(part, 0) + 1
    return counts


def _elsewhere(fields: Fields, part: str) -> None:
    """Faults that no field of this part shows, each with a way to it."""
    left = [mark for mark in fields.marks if mark not in fields.shown]
    if not left:
        return
    st.divider()
    st.markdown("**Also to be mended**")
    for number, mark in enumerate(left[:12]):
        home = _FIELDS.get(mark.param.split(".")[0], "About")
        words, button = st.columns([6, 2], vertical_alignment="center")
        words.markdown(f":red[{home}]: {as_message(mark.message)}")
        if home != part:
            button.button(
                f"Go to {home}",
                key=f"form-{fields.key}-go-{number}",
                on_click=_go,
                args=(home, mark.param),
            )
        else:
            button.button(
                f"Line {mark.line} in the text",
                key=f"form-{fields.key}-line-{number}",
                on_click=_jump,
                args=(mark.line, mark.column),
            )
    if len(left) > 12:
        st.caption(f"and {len(left) - 12} more")


def _go(part: str, param: str) -> None:
    st.session_state["form"] = part
    steps = param.split(".")
    if part == "Questions" and len(steps) > 2:
        st.session_state["form-question-index"] = steps[2]
