"""The digest of a dataset's rows and labels, for all pages that ask whether something is still about them."""

import streamlit as st

from spinf_serve.workbench.actions.evaluations import digest_of_rows
from spinf_serve.workbench.desk import Desk
from spinf_serve.workbench.frame import stamp


def digest_of(desk: Desk, dataset: str, split: str | None = None) -> str:
    """64 hex digits, worked out again when something was written to the project."""
    return _digest(str(desk.file), stamp(desk), dataset, split, desk)


@st.cache_data(show_spinner="Looking through rows and labels…", max_entries=32)
def _digest(file: str, at: tuple[int, int], dataset: str, split: str | None, _desk: Desk) -> str:
    return digest_of_rows(_desk, dataset, split)
