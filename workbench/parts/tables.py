"""Tables of which only a page is ever loaded: the rest stays in the database."""

from collections.abc import Callable
from typing import Any, Final

import pandas as pd
import streamlit as st

PAGE_ROWS: Final = 50


def paged(
    count: int,
    fetch: Callable[[int, int], pd.DataFrame],
    key: str,
    *,
    page_rows: int = PAGE_ROWS,
    selectable: bool = False,
    **options: Any,
) -> int | None:
    """Draw one page of a table.

    Args:
        count: rows in all.
        fetch: the rows from an offset on, at most so many.
        selectable: whether a row can be chosen.
        options: further ones of `st.dataframe`.

    Returns the place of the chosen row in the whole table; None when none is.
    """
    if not count:
        st.caption("No rows.")
        return None
    pages = -(-count // page_rows)
    page = 1
    if pages > 1:
        page = min(int(st.session_state.get(f"{key}-page", 1)), pages)
    first = (page - 1) * page_rows
    data = fetch(first, page_rows)
    if selectable:
        found = st.dataframe(
            data,
            key=f"{key}-rows-{page}",
            hide_index=True,
            on_select="rerun",
            selection_mode="single-row",
            **options,
        )
        chosen = list(found.selection.rows)
    else:
        st.dataframe(data, key=f"{key}-rows-{page}", hide_index=True, **options)
        chosen = []
    if pages > 1:
        st.pagination(pages, key=f"{key}-page")
        st.caption(f"Rows {first + 1:,} to {first + len(data):,} of {count:,}")
    return first + chosen[0] if chosen else None
