"""Callbacks that are not broken off, and not called for nothing.

Streamlit ends one at any use of the session once more was clicked: what was waiting is handed on when the
callback is done, so that of two quick edits both are kept. And it calls one for a widget that just left
the page, with the value that it showed: the browser still tells that value, and nothing is known of it.
"""

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

import streamlit as st
from streamlit.runtime.scriptrunner import RerunException, get_script_run_ctx

T = TypeVar("T")

_SHOWN: Final = "shown"


class _Waiting(threading.local):
    def __init__(self) -> None:
        self.requests: list[RerunException] = []


_waiting = _Waiting()


def calmly(do: Callable[[], T]) -> T:
    """Do something that uses the session, again when it was broken off; within a `whole` callback."""
    while True:
        try:
            return do()
        except RerunException as request:
            _waiting.requests.append(request)


def whole(callback: Callable[..., None]) -> Callable[..., None]:
    """The callback, with what came in between handed on at its end."""

    @wraps(callback)
    def run(*given: Any, **named: Any) -> None:
        _waiting.requests.clear()
        context = get_script_run_ctx()
        state: Any = None if context is None else context.session_state
        yields = getattr(state, "_yield_callback", None)
        if yields is not None:
            # What was clicked meanwhile waits until the page runs.
            object.__setattr__(state, "_yield_callback", lambda: None)
        try:
            callback(*given, **named)
        finally:
            if yields is not None:
                object.__setattr__(state, "_yield_callback", yields)
        requests = list(_waiting.requests)
        _waiting.requests.clear()
        if requests:
            if context is not None and context.script_requests is not None:
                for request in requests[:-1]:
                    context.script_requests.request_rerun(request.rerun_data)
            raise requests[-1]

    return run


def shows(key: str, value: Any) -> None:
    """Keep what a widget shows, for `is_change`; where it is drawn."""
    st.session_state.setdefault(_SHOWN, {})[key] = value


def is_change(key: str) -> bool:
    """Whether a widget's value is another than it showed; in its callback, which asks once."""
    value = st.session_state[key]
    shown: dict[str, Any] = st.session_state.setdefault(_SHOWN, {})
    if key in shown and shown[key] == value:
        return False
    shown[key] = value
    return True
