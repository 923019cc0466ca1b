"""Figures in a row that breaks where a screen is narrow, each with what stands behind it."""

from collections.abc import Sequence
from typing import Any, Final

import streamlit as st

WIDTH: Final = 200


def row() -> Any:
    """A place for some figures, as a context."""
    return st.container(horizontal=True, gap="medium")


def figure(label: str, value: str, below: Sequence[str] = (), help: str | None = None) -> None:
    """Draw one figure inside a `row`.

    Args:
        below: lines in small print: counts, intervals.
    """
    with st.container(width=WIDTH, gap="xsmall"):
        st.metric(label, value, help=help)
        for line in below:
            st.caption(line)
