"""Widgets that show what is kept elsewhere, whichever of their messages reach the browser.

What is put into the session of a widget is sent to the browser once. When the page runs again before
that, the message is lost: the browser then shows the widget's own default, and tells it as the user's. So
what is kept is the default here, in every run, and what was changed elsewhere makes a new widget.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import streamlit as st

from spinf_serve.workbench.parts.calm import shows

_SYNCED: Final = "synced"

_DEFAULT: Final = {
    "text_input": "value",
    "text_area": "value",
    "number_input": "value",
    "checkbox": "value",
    "toggle": "value",
    "multiselect": "default",
    "segmented_control": "default",
    "selectbox": "index",
}
"""Widget -> argument that says with what it begins."""


def synced(name: str, value: Any) -> tuple[str, Any]:
    """A widget's key and its default.

    Args:
        name: of the widget, for its key.
        value: what is kept by now. Where another than this widget changed it, the key is a new one;
            what was typed and could not be taken stays, as long as that is not so.
    """
    known: dict[str, tuple[Any, int]] = st.session_state.setdefault(_SYNCED, {})
    seen, times = known.get(name, (value, 0))
    key = _key(name, times)
    if seen != value and not (key in st.session_state and st.session_state[key] == value):
        times += 1
        key = _key(name, times)
    known[name] = (value, times)
    default = st.session_state.get(key, value)
    shows(key, default)
    return key, default


def begins(widget: Callable[..., Any], value: Any, options: Sequence[Any] = ()) -> dict[str, Any]:
    """The argument with which a widget begins at a value.

    Args:
        widget: a function of Streamlit, also of a container.
        value: None where it begins with nothing of its own.
        options: that can be chosen, for a widget that takes the place of one.
    """
    argument = _DEFAULT[widget.__name__]
    if argument != "index":
        return {} if value is None else {argument: value}
    return {argument: list(options).index(value)} if value in options else {}


def _key(name: str, times: int) -> str:
    return f"{name}-{times}" if times else name
