"""The page Data: a project's rows, their labels, what is to be looked at, and how more come in."""

from typing import Final

import streamlit as st

from spinf_serve.workbench.frame import bench, param, set_param, told
from spinf_serve.workbench.pages import data_checks, data_import, data_label, data_rows

PARTS: Final = {
    "rows": ":material/table_rows: Rows",
    "label": ":material/label: Label",
    "checks": ":material/fact_check: Checks",
    "import": ":material/upload: Import",
}
_KEY: Final = "data-part"


def draw() -> None:
    """One run of the page."""
    found = bench()
    st.title("Data")
    st.markdown("Bring in texts, see whether they can be trusted, and label them.")
    _take_part("import" if found.dataset is None else "rows")
    part = st.segmented_control(
        "Part",
        list(PARTS),
        format_func=PARTS.__getitem__,
        key=_KEY,
        default=st.session_state.get(_KEY),
        label_visibility="collapsed",
        required=True,
    )
    set_param("part", part)
    with told():
        if part == "import":
            data_import.draw(found)
        elif part == "label":
            data_label.draw(found)
        elif part == "checks":
            data_checks.draw(found)
        else:
            data_rows.draw(found)


def _take_part(default: str) -> None:
    """The part in the address at first, and where a button of the page wants to go."""
    wanted = st.session_state.pop("data-go", None)
    if wanted is None and _KEY not in st.session_state:
        wanted = param("part") or ("rows" if param("row") is not None else default)
    if wanted in PARTS:
        st.session_state[_KEY] = wanted
