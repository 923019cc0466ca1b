"""Widgets whose value is kept until it is used, so that a reload or another page loses nothing.

A file for each user and widget below `.workbench/kept/`: nobody sees what another has typed there.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import streamlit as st

from spinf_serve.packs.atomic import write_beside
from spinf_serve.workbench.desk import Desk, key_of, read_object
from spinf_serve.workbench.frame import Bench
from spinf_serve.workbench.parts.calm import is_change, shows, whole
from spinf_serve.workbench.parts.synced import begins

MOST_BYTES: Final = 4_000_000
"""Of one value; a longer one is not kept."""

MOST_FILES: Final = 500
"""Of all users; the longest untouched go first."""


def keeping(
    found: Bench, key: str, widget: Any, label: str, *, start: Any = None, **more: Any
) -> Any:
    """Draw a widget with what its user left in it.

    Args:
        key: of the widget; names what it is about, since the value is kept under it.
        start: its value where nothing is kept.
        more: further arguments of the widget, such as what it begins with where nothing is known.
    """
    if key in st.session_state:
        value = st.session_state[key]
    else:
        value = kept_value(found, key)
        if value is None or ("options" in more and value not in more["options"]):
            value = start
    drawn = widget(
        label,
        key=key,
        on_change=_keep,
        args=(found.desk, found.user, key),
        **(more | begins(widget, value, more.get("options", ()))),
    )
    shows(key, drawn)
    return drawn


def kept_value(found: Bench, key: str) -> Any:
    """What is kept of a widget; None for nothing."""
    return (read_object(_path(found.desk, found.user, key)) or {}).get("value")


def used(found: Bench, *keys: str) -> None:
    """Let go of what was kept: it was saved, or taken into use."""
    for key in keys:
        with suppress(OSError):
            _path(found.desk, found.user, key).unlink(missing_ok=True)


@whole
def _keep(desk: Desk, user: str, key: str) -> None:
    if not is_change(key):
        return
    path = _path(desk, user, key)
    data = json.dumps({"value": st.session_state[key]}).encode()
    # A disk that is full takes nothing from the page: the value is in the widget still.
    with suppress(OSError):
        if len(data) > MOST_BYTES:
            path.unlink(missing_ok=True)
            return
        write_beside(path, data)
        _prune(path.parent)


def _prune(folder: Path) -> None:
    files = list(folder.glob("*.json"))
    if len(files) > MOST_FILES:
        for old in sorted(files, key=lambda one: one.stat().st_mtime)[:-MOST_FILES]:
            old.unlink(missing_ok=True)


def _path(desk: Desk, user: str, key: str) -> Path:
    return desk.below("kept") / f"{key_of(user, key)}.json"
