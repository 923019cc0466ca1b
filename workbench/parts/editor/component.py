"""Mounts the editor, and takes what it sends. Knows no packs: marks and words are given to it.

Its code is a component of its own with nothing that changes, so that the browser is sent it once
and not with every word that is typed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import streamlit as st

_HOME: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Sent:
    """What the editor sent: all of its text, at a pause of typing.

    Attributes:
        file: name of the file that it edits.
        client: names the tab, this once that it was loaded.
        seq: grows with every message of the client.
        base: revision of the draft that the text was made from.
        writer: who made the text: the client, or what it was called before it was loaded anew.
        text: all of it.
        then: what to do once it is kept: `save`, `undo`, `redo`, or None.
    """

    file: str
    client: str
    seq: int
    base: int
    writer: str
    text: str
    then: str | None


def sent(key: str) -> Sent | None:
    """What the editor of a key sent last; None for nothing, or for what no editor sends."""
    held = st.session_state.get(key)
    value: Any = None if held is None else held.get("draft")
    try:
        message = Sent(**(value if isinstance(value, dict) else dict(value)))
    except (TypeError, ValueError):
        return None
    whole = isinstance(message.seq, int) and isinstance(message.base, int)
    return message if whole and isinstance(message.text, str) else None


def editor(
    key: str,
    on_sent: Callable[[], None],
    *,
    project: str,
    file: str,
    text: str,
    revision: int,
    status: str,
    label: str,
    table: Mapping[str, Any],
    words: Mapping[str, Any],
    faults: Sequence[Mapping[str, Any]],
    ack: Mapping[str, Any] | None,
    jump: Mapping[str, Any] | None = None,
    take: int = 0,
    mine: int = 0,
    conflict: bool = False,
    height: str = "62vh",
) -> None:
    """Draw the editor.

    What is typed in it is never replaced by `text`, unless all of it is kept, or `take` grew.

    Args:
        key: of the component; `sent(key)` is for `on_sent`.
        project, file: what is edited; another pair puts another text into it.
        text, revision: the draft.
        status: a few words below it, for what is kept.
        label: for screen readers.
        table: fields by place; the same in every run.
        words: names that the text itself gives.
        faults: marks of the text, with `line`, `column`, `end`, `severity`, `message` and `fix`.
        ack: `client`, `seq`, `revision` and `kept` of the last message that was handled.
        jump: `line`, `column` and a number `n`, another one for every jump.
        take, mine: grow when the author chose the draft's text, or the editor's, of two that differ.
        conflict: whether that is to be chosen now.
        height: in CSS.
    """
    small, code = _components()
    data = {
        "project": project,
        "file": file,
        "text": text,
        "revision": revision,
        "status": status,
        "label": label,
        "words": words,
        "faults": faults,
        "ack": ack,
        "jump": jump,
        "take": take,
        "mine": mine,
        "conflict": conflict,
        "height": height,
    }
    small(key=key, data=data, on_draft_change=on_sent)
    code(key=f"{key}-code", data={"table": table}, height=1)


@cache
def _scripts() -> tuple[str, str]:
    return ((_HOME / "mount.js").read_text("utf-8"), (_HOME / "editor.js").read_text("utf-8"))


def _components() -> tuple[Any, Any]:
    """Registered once per runtime, which tests start several of."""
    from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager

    manager = get_bidi_component_manager()
    made = getattr(manager, "_spinf_editor", None)
    if made is None:
        mount, code = _scripts()
        register = st.components.v2.component
        made = (
            register("spinf_editor", js=mount, isolate_styles=False),
            register("spinf_editor_code", js=code, isolate_styles=False),
        )
        manager._spinf_editor = made  # type: ignore[attr-defined]
    return made
