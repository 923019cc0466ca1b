"""What differs between two packs, as people read it."""

import json
from collections.abc import Sequence
from typing import Any

import streamlit as st

from spinf_serve.packs.diff import Group
from spinf_serve.workbench.parts.words import plain


def show_differences(groups: Sequence[Group]) -> None:
    """Draw the groups of a difference: what is new, what is gone, what was and what is."""
    if not groups:
        st.caption("Nothing differs but comments and layout.")
    for group in groups:
        mark = {"before": " (removed)", "after": " (new)", None: ""}[group.only]
        with st.expander(f"{plain(group.name)}{mark}", expanded=len(groups) <= 5):
            for change in group.changes:
                if group.only is None:
                    left, right = st.columns(2)
                    left.caption(f"{plain(change.what)}, before")
                    left.code(_shown(change.before), language=None, wrap_lines=True)
                    right.caption(f"{plain(change.what)}, now")
                    right.code(_shown(change.after), language=None, wrap_lines=True)
                else:
                    value = change.before if group.only == "before" else change.after
                    st.caption(plain(change.what))
                    st.code(_shown(value), language=None, wrap_lines=True)


def _shown(value: Any) -> str:
    if value is None:
        return "not there"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, str):
        return value if value.isprintable() else json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False)
