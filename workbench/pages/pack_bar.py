"""What all tabs of the page Pack share: taking what was typed, saving, undo, and two texts that differ."""

from functools import partial
from pathlib import Path
from typing import Any, Final

import streamlit as st

from spinf_serve.packs.errors import SpinfError, Unusable
from spinf_serve.workbench.actions import drafts, saving
from spinf_serve.workbench.actions.drafts import Draft, FileMoved, Moved
from spinf_serve.workbench.actions.editing import Checked, check
from spinf_serve.workbench.desk import Desk, key_of
from spinf_serve.workbench.frame import Bench
from spinf_serve.workbench.parts.calm import whole
from spinf_serve.workbench.parts.editor.component import Sent, sent
from spinf_serve.workbench.parts.words import message as as_message
from spinf_serve.workbench.parts.words import plain
from spinf_serve.workbench.started import approves

EDITOR: Final = "pack-editor"
"""Key of the editor."""


@st.cache_resource(show_spinner=False, max_entries=32)
def checked(text: str, name: str) -> Checked:
    """A draft's text as a pack, read once."""
    return check(text, name)


def take(desk: Desk, user: str) -> None:
    """Keep what the editor sent, before anything else is done with the draft."""
    message = sent(EDITOR)
    state = _state()
    if message is None or (message.client, message.seq) in state["handled"]:
        return
    state["handled"] = {(message.client, message.seq)}
    try:
        _keep(desk, user, message, state)
    except (SpinfError, Unusable) as fault:
        state["told"] = ("error", str(fault))


def _keep(desk: Desk, user: str, message: Sent, state: dict[str, Any]) -> None:
    file = desk.file_named(message.file)
    if file not in desk.pack_files():
        # Whoever writes messages by hand could save over the audit trail.
        raise Unusable(f"{message.file[:200]} is no pack of this project that can be edited")
    ack = {"client": message.client, "seq": message.seq, "kept": True, "revision": 0}
    try:
        draft = drafts.keep(
            desk, file, message.text, message.base, user=user, writer=message.writer
        )
    except Moved as moved:
        state["ack"] = {**ack, "kept": False, "revision": moved.draft.revision}
        state["mine"][str(file)] = message.text
        return
    state["ack"] = {**ack, "revision": draft.revision}
    state["mine"].pop(str(file), None)
    if message.then == "save":
        _save(desk, user, file)
    elif message.then in ("undo", "redo"):
        _walk(desk, user, file, message.then)


def editor_state() -> dict[str, Any]:
    """What the editor is to be told: `ack`, `jump`, `take_n`, `mine_n`."""
    return _state()


def mine(file: Path) -> str | None:
    """What was typed here while another changed the draft; None without such a conflict."""
    found: str | None = _state()["mine"].get(str(file))
    return found


def jump_to(line: int, column: int) -> None:
    """Put the editor's cursor there."""
    state = _state()
    state["jump"] = {"line": line, "column": column, "n": state["jump_n"] + 1}
    state["jump_n"] += 1


@whole
def change(bench: Bench, file: Path, text: str, revision: int, what: str) -> None:
    """Make a text the draft, from a button. Nothing happens where another changed it meanwhile."""
    take(bench.desk, bench.user)
    try:
        drafts.keep(bench.desk, file, text, revision, user=bench.user, what=what)
    except (SpinfError, Unusable) as fault:
        _state()["told"] = ("error", str(fault))


def draw_bar(bench: Bench, draft: Draft) -> None:
    """Draw the file's state with save, undo and redo; then what has to be chosen, and what was done."""
    desk, user, file = bench.desk, bench.user, draft.file
    key = key_of(file)
    found = checked(draft.text, file.name)
    words = [f"**{plain(desk.name_of(file))}**"]
    words.append(":orange-badge[unsaved]" if draft.unsaved else ":green-badge[saved]")
    if found.errors:
        words.append(f":red-badge[{_many(found.errors, 'fault')}]")
    elif found.marks:
        words.append(":orange-badge[numbers of another wording]")
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"
    ):
        st.markdown(" ".join(words), width="content")
        with st.container(horizontal=True, width="content", gap="small"):
            _buttons(desk, user, draft, key)
    _say()
    if mine(file) is not None:
        _two_tabs(bench, draft)
    elif draft.moved:
        _file_moved(bench, draft)
    _watch(desk, file, draft.revision)


def _buttons(desk: Desk, user: str, draft: Draft, key: str) -> None:
    file = draft.file
    st.button(
        "Save",
        key=f"save-{key}",
        type="primary",
        icon=":material/save:",
        disabled=not draft.unsaved,
        shortcut="Ctrl+S",
        help="Write the draft into the file.",
        on_click=partial(_click_save, desk, user, file),
    )
    st.button(
        "Undo",
        key=f"undo-{key}",
        icon=":material/undo:",
        disabled=not draft.undo,
        help=f"One step back; {_many(draft.undo, 'step')} are kept, also after a reload.",
        on_click=partial(_click_walk, desk, user, file, "undo"),
    )
    st.button(
        "Redo",
        key=f"redo-{key}",
        icon=":material/redo:",
        disabled=not draft.redo,
        help="One step forth again.",
        on_click=partial(_click_walk, desk, user, file, "redo"),
    )


@st.fragment(run_every="3s")
def _watch(desk: Desk, file: Path, revision: int) -> None:
    """Runs the page again when another tab changed the draft."""
    now = drafts.revision_of(desk, file)
    if now > revision and st.session_state.get("pack-seen") != (str(file), now):
        st.session_state["pack-seen"] = (str(file), now)
        st.rerun(scope="app")


def _two_tabs(bench: Bench, draft: Draft) -> None:
    with st.container(border=True):
        st.warning(
            "This pack was changed in another tab, or by somebody else, while you typed here."
            " Nothing was overwritten. Which text do you want to go on with? The other one stays"
            " in the history.",
            icon=":material/call_split:",
        )
        left, right = st.columns(2)
        key = key_of(draft.file)
        left.button(
            "Go on with what I typed",
            key=f"mine-{key}",
            on_click=partial(_choose, bench, draft, True),
            width="stretch",
        )
        right.button(
            "Go on with the other text",
            key=f"theirs-{key}",
            on_click=partial(_choose, bench, draft, False),
            width="stretch",
        )


@whole
def _choose(bench: Bench, draft: Draft, own: bool) -> None:
    take(bench.desk, bench.user)
    state, file = _state(), draft.file
    typed = state["mine"].pop(str(file), None)
    if typed is None:
        return
    try:
        if own:
            drafts.keep(bench.desk, file, typed, draft.revision, user=bench.user, what="chosen")
            state["mine_n"] += 1
        else:
            drafts.set_aside(bench.desk, file, typed, user=bench.user)
            state["take_n"] += 1
    except (SpinfError, Unusable) as fault:
        state["mine"][str(file)] = typed
        state["told"] = ("error", str(fault))


def _file_moved(bench: Bench, draft: Draft) -> None:
    key = key_of(draft.file)
    with st.container(border=True):
        st.warning(
            f"**{plain(draft.file.name)}** was changed on disk since this draft was begun, by the command"
            " line or another program. Compare the two on the tab **Versions**, then choose.",
            icon=":material/difference:",
        )
        left, right = st.columns(2)
        for column, own, label in (
            (left, True, "Keep my draft, to save it over the file"),
            (right, False, "Take the file's text; my draft stays in the history"),
        ):
            column.button(
                label,
                key=f"rebase-{own}-{key}",
                on_click=partial(_rebase, bench, draft, own),
                width="stretch",
            )


@whole
def _rebase(bench: Bench, draft: Draft, own: bool) -> None:
    take(bench.desk, bench.user)
    try:
        drafts.rebase(bench.desk, draft.file, draft.revision, mine=own, user=bench.user)
    except (SpinfError, Unusable) as fault:
        _state()["told"] = ("error", str(fault))


@whole
def _click_save(desk: Desk, user: str, file: Path) -> None:
    take(desk, user)
    if mine(file) is None:
        _save(desk, user, file)


@whole
def _click_walk(desk: Desk, user: str, file: Path, what: str) -> None:
    take(desk, user)
    if mine(file) is None:
        _walk(desk, user, file, what)


def _save(desk: Desk, user: str, file: Path) -> None:
    state = _state()
    try:
        draft = drafts.draft_of(desk, file)
        errors = checked(draft.text, file.name).errors
        if errors:
            state["told"] = (
                "error",
                f"Not saved: the pack has {_many(errors, 'fault')}. The draft is kept, and the file"
                + " stays as it was, so that what serves it goes on.",
            )
        elif not draft.unsaved:
            state["told"] = ("toast", "Nothing to save: the file is as you see it.")
        else:
            saving.save(desk, user, file, draft, approver=approves(user))
            state["told"] = ("toast", f"Saved {desk.name_of(file)}.")
    except FileMoved:
        # The page asks what to do.
        pass
    except (SpinfError, Unusable) as fault:
        state["told"] = ("error", str(fault))


def _walk(desk: Desk, user: str, file: Path, what: str) -> None:
    step = drafts.undo if what == "undo" else drafts.redo
    try:
        step(desk, file, drafts.draft_of(desk, file).revision, user=user)
    except (SpinfError, Unusable) as fault:
        _state()["told"] = ("error", str(fault))


def _say() -> None:
    told = _state().pop("told", None)
    if told is not None:
        kind, words = told
        if kind == "error":
            st.error(as_message(words))
        else:
            st.toast(as_message(words), icon=":material/check:")


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _state() -> dict[str, Any]:
    empty: dict[str, Any] = {
        "handled": set(),
        "mine": {},
        "ack": None,
        "jump": None,
        "jump_n": 0,
        "take_n": 0,
        "mine_n": 0,
    }
    found: dict[str, Any] = st.session_state.setdefault("pack-editing", empty)
    return found
