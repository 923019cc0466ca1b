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

# Streamlit keeps margins for wide screens, and cuts what a narrow column cannot hold.
_STYLE = """<style>
@media (max-width: 1200px) {
  .stMainBlockContainer { padding-left: 1.5rem; padding-right: 1.5rem; }
  .stColumn:has(.stMetric) { min-width: 7.5rem; }
  .stMetric [data-testid="stMetricValue"] { font-size: 1.6rem; }
}
.stMainBlockContainer { padding-top: 4.5rem; }
.stMetric [data-testid="stMetricValue"], .stMetric [data-testid="stMetricValue"] * {
  white-space: normal; overflow: visible;
}
.stButton button p, .stDownloadButton button p, .stPopover button p {
  white-space: normal; overflow: visible;
}
</style>"""


def main() -> None:
    """One run of the chosen page."""
    pages = [
        st.Page(page.draw, title=page.title, icon=page.icon, url_path=page.path) for page in PAGES
    ]

    def first() -> None:
        # Without it the first page would have no address of its own to link to.
        st.switch_page(pages[0], query_params=st.query_params.to_dict())

    st.html(_STYLE)
    start = st.Page(first, title="Start", url_path="start", default=True, visibility="hidden")
    with told():
        st.navigation([start, *pages]).run()


main()
