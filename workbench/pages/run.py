"""The page Run: ask a pack of many texts, labelled rows or a sheet; what it costs, how far it is."""

from typing import Final, Literal

import streamlit as st

from spinf_serve.workbench.frame import Bench, bench, param, set_param, told
from spinf_serve.workbench.pages.run_jobs import earlier
from spinf_serve.workbench.pages.run_rows import draw_rows
from spinf_serve.workbench.pages.run_sheet import draw_sheet

Mode = Literal["rows", "sheet"]
MODES: Final[dict[Mode, str]] = {"rows": "Rows of the project", "sheet": "A sheet"}


def draw() -> None:
    """One run of the page."""
    found = bench()
    st.title("Run")
    st.caption(
        "Ask a model a pack's questions about many texts. A run goes on when you close this page, and"
        " what was answered once is never asked again."
    )
    mode = _mode()
    with told():
        if mode == "rows":
            draw_rows(found)
        else:
            draw_sheet(found)
    _earlier(found, mode)


def _mode() -> Mode:
    if "run-mode" not in st.session_state:
        st.session_state["run-mode"] = "sheet" if param("mode") == "sheet" else "rows"
    chosen: Mode | None = st.segmented_control(
        "What to ask about",
        list(MODES),
        format_func=MODES.__getitem__,
        required=True,
        key="run-mode",
        default=st.session_state["run-mode"],
        label_visibility="collapsed",
    )
    mode: Mode = chosen or "rows"
    set_param("mode", "sheet" if mode == "sheet" else None)
    return mode


def _earlier(found: Bench, mode: Mode) -> None:
    st.divider()
    with told():
        earlier(found, ("run",) if mode == "rows" else ("sheet",))
