"""The page Pack: the questions are written here, and seen as the model gets them."""

import streamlit as st

from spinf_serve.workbench.actions.drafts import draft_of
from spinf_serve.workbench.frame import Bench, bench, told
from spinf_serve.workbench.pages import (
    pack_bar,
    pack_editor,
    pack_forms,
    pack_grid,
    pack_lint,
    pack_new,
    pack_preview,
    pack_versions,
)

TABS = {
    "Text": pack_editor.draw,
    "Form": pack_forms.draw,
    "Preview": pack_preview.draw,
    "Grid and cost": pack_grid.draw,
    "Lint": pack_lint.draw,
    "Versions": pack_versions.draw,
}


def draw() -> None:
    """One run of the page."""
    found = bench()
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="bottom"
    ):
        st.title("Pack", width="content")
        new = st.container(width="content")
    st.caption("Write the questions, and see what the model is asked before anything runs.")
    if pack_new.is_open():
        with told():
            pack_new.draw(found)
        return
    with new:
        pack_new.open_button()
    with told():
        _draw(found)


def _draw(found: Bench) -> None:
    if found.file is None:
        st.info("This project has no pack yet. Begin one with **New pack**.")
        return
    draft = draft_of(found.desk, found.file)
    pack_bar.draw_bar(found, draft)
    tabs = st.tabs(list(TABS), key="tab", bind="query-params")
    for tab, part in zip(tabs, TABS.values(), strict=True):
        if tab.open:
            with tab:
                part(found, draft)
