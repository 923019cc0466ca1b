"""The script that Streamlit runs: the pages, and what surrounds them. `launch` starts it."""

from pathlib import Path

import streamlit as st

from spinf_serve.workbench.frame import told
from spinf_serve.workbench.page_list import PAGES

# A page's own icon would be fetched from elsewhere for the browser's tab.
st.set_page_config(
    page_title="spinf-serve workbench",
    page_icon=str(Path(__file__).parent / "icon.png"),
    layout="wide",
)


def main() -> None:
    """One run of the chosen page."""
    pages = [
        st.Page(page.draw, title=page.title, icon=page.icon, url_path=page.path) for page in PAGES
    ]

    def first() -> None:
        # Without it the first page would have no address of its own to link to.
        st.switch_page(pages[0], query_params=st.query_params.to_dict())

    start = st.Page(first, title="Start", url_path="start", default=True, visibility="hidden")
    with told():
        st.navigation([start, *pages]).run()


main()
