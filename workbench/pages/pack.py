"""The page Pack: the questions are written here, and seen as the model gets them."""

import streamlit as st

from spinf_serve.workbench.actions.drafts import draft_of
from spinf_serve.workbench.frame import bench, empty, told
from spinf_serve.workbench.pages import pack_bar, pack_editor


def draw() -> None:
    """One run of the page."""
    found = bench()
    title, _ = st.columns([5, 1.2], vertical_alignment="bottom")
    title.title("Pack")
    st.caption("Write the questions, and see what the model is asked before anything runs.")
    if found.file is None:
        empty("This project has no pack yet.", "Begin one with **New pack**.")
    with told():
        draft = draft_of(found.desk, found.file)
        pack_bar.draw_bar(found, draft)
        tabs = st.tabs(
            ["Text", "Form", "Preview", "Grid and cost", "Lint", "Versions"],
            key="tab",
            bind="query-params",
        )
        if tabs[0].open:
            with tabs[0]:
                pack_editor.draw(found, draft)
