"""To be written."""

import streamlit as st

from spinf_serve.workbench.frame import bench


def draw() -> None:
    """One run of the page."""
    found = bench()
    st.title("scores")
    st.write(found.file, found.dataset, found.bits)
