"""The tab on which a pack is written: the editor, and its faults beside it."""

from dataclasses import asdict
from functools import partial
from typing import Any

import streamlit as st

from spinf_serve.packs.errors import SpinfError, Unusable
from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.yaml_edit import set_value
from spinf_serve.workbench.actions.drafts import Draft
from spinf_serve.workbench.actions.editing import Checked, Mark, applied, table, words_of
from spinf_serve.workbench.desk import key_of
from spinf_serve.workbench.frame import Bench, param
from spinf_serve.workbench.pages import pack_bar
from spinf_serve.workbench.parts.editor.component import editor
from spinf_serve.workbench.parts.words import message as as_message

MOST_SHOWN = 12

_STYLE = """<style>
div:has(> .st-key-pack-text-wide) {flex: 5 1 34rem; min-width: min(34rem, 100%)}
div:has(> .st-key-pack-text-narrow) {flex: 2 1 15rem; min-width: 15rem}
</style>"""
# Faults stand beside the editor where there is room, else below it.


def draw(bench: Bench, draft: Draft) -> None:
    """Draw the tab."""
    found = pack_bar.checked(draft.text, draft.file.name)
    _to_question(draft, found)
    st.html(_STYLE)
    with st.container(horizontal=True, gap="medium"):
        wide = st.container(key="pack-text-wide")
        narrow = st.container(key="pack-text-narrow")
    with wide:
        _editor(bench, draft, found)
        st.caption(
            "Ctrl+Space completes, Ctrl+F searches, Ctrl+S saves, F8 goes to the next fault,"
            " Ctrl+Z undoes. Everything typed is kept as a draft at once."
        )
    with narrow:
        _faults(bench, draft, found)


def _to_question(draft: Draft, found: Checked) -> None:
    """Put the cursor where the question of the address stands, once for each."""
    wanted = param("question")
    jumps = pack_bar.editor_state()["jump_n"]
    place = (str(draft.file), wanted)
    before = st.session_state.get("editor-question")
    st.session_state["editor-question"] = place
    # A jump of a button goes before that of the address.
    is_taken = st.session_state.setdefault("editor-jumps", 0) != jumps
    st.session_state["editor-jumps"] = jumps
    if wanted is None or before == place or is_taken:
        return
    for one in _words(draft.text, found)["questions"]:
        if one["id"] == wanted:
            pack_bar.jump_to(one["line"], 1)
            st.session_state["editor-jumps"] = pack_bar.editor_state()["jump_n"]
            return


def _editor(bench: Bench, draft: Draft, found: Checked) -> None:
    state = pack_bar.editor_state()
    file = draft.file
    conflict = pack_bar.mine(file) is not None
    editor(
        pack_bar.EDITOR,
        partial(pack_bar.take, bench.desk, bench.user),
        project=key_of(bench.desk.folder),
        file=bench.desk.name_of(file),
        text=draft.text,
        revision=draft.revision,
        status=(
            "Changed elsewhere: choose above which text to go on with."
            if conflict
            else "Draft kept, not saved yet."
            if draft.unsaved
            else "Saved."
        ),
        label=f"Text of {file.name}",
        table=_table() if file.suffix != ".json" else {},
        words=_words(draft.text, found),
        faults=[_told(mark) for mark in found.marks],
        ack=state["ack"],
        jump=state["jump"],
        take=state["take_n"],
        mine=state["mine_n"],
        conflict=conflict,
    )


def _faults(bench: Bench, draft: Draft, found: Checked) -> None:
    if not found.marks:
        st.success("No fault: this is a valid pack.", icon=":material/check_circle:")
        return
    key = key_of(draft.file)
    if found.errors:
        st.markdown(f"**To mend: {found.errors}**")
    else:
        _stale_numbers(bench, draft)
    for number, mark in enumerate(found.marks[:MOST_SHOWN]):
        with st.container(border=True, gap="xsmall"):
            st.button(
                f"Line {mark.line}, column {mark.column}",
                key=f"jump-{key}-{number}",
                type="tertiary",
                icon=":material/error:" if mark.severity == "error" else ":material/warning:",
                help="Go there in the editor.",
                on_click=partial(pack_bar.jump_to, mark.line, mark.column),
            )
            st.markdown(as_message(mark.message))
            if mark.fix is not None:
                st.button(
                    mark.fix.label,
                    key=f"fix-{key}-{number}",
                    icon=":material/auto_fix_high:",
                    on_click=partial(_mend, bench, draft, mark),
                )
    if len(found.marks) > MOST_SHOWN:
        st.caption(f"And {len(found.marks) - MOST_SHOWN} more further down.")


def _mend(bench: Bench, draft: Draft, mark: Mark) -> None:
    if mark.fix is not None:
        text = applied(draft.text, mark.fix)
        pack_bar.change(bench, draft.file, text, draft.revision, "fix")


def _stale_numbers(bench: Bench, draft: Draft) -> None:
    st.warning(
        "The numbers under `fitted` belong to an earlier wording. Fit the pack again on the page"
        " **Thresholds**, or take them out: the pack is a draft until then.",
    )
    st.button(
        "Take the old numbers out",
        key=f"unfit-{key_of(draft.file)}",
        on_click=partial(_unfit, bench, draft),
    )


def _unfit(bench: Bench, draft: Draft) -> None:
    try:
        text = set_value(draft.text, draft.file.name, ("fitted",), {})
    except (InvalidPack, SpinfError, Unusable) as fault:
        pack_bar.editor_state()["told"] = ("error", str(fault))
        return
    pack_bar.change(bench, draft.file, text, draft.revision, "numbers taken out")


def _told(mark: Mark) -> dict[str, Any]:
    told = asdict(mark)
    del told["param"]
    return told


@st.cache_data(show_spinner=False)
def _table() -> dict[str, Any]:
    return table()


@st.cache_resource(show_spinner=False, max_entries=32)
def _words(text: str, _found: Checked) -> dict[str, Any]:
    return words_of(text, _found.pack)
