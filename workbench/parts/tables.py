"""Tables of which only a page is ever loaded: the rest stays in the database."""

from collections.abc import Callable
from typing import Any, Final

import pandas as pd
import streamlit as st

from spinf_serve.workbench.parts.words import UNKNOWN

PAGE_ROWS: Final = 50

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
MOST_DOWNLOADED: Final = 100_000
"""Rows of a table that are downloaded at most."""


def paged(
    count: int,
    fetch: Callable[[int, int], pd.DataFrame],
    key: str,
    *,
    page_rows: int = PAGE_ROWS,
    selectable: bool = False,
    on_choose: Callable[[int], None] | None = None,
    chosen: int | None = None,
    **options: Any,
) -> int | None:
    """Draw one page of a table.

    Args:
        count: rows in all.
        fetch: the rows from an offset on, at most so many.
        key: names the table and what it lists: another filter, another key, first page.
        selectable: whether a row can be chosen.
        on_choose: called with its place in the whole table when that happens, before the page runs.
        chosen: place of the row that is chosen at first, which opens its page.
        options: further ones of `st.dataframe`.

    Returns the place of the chosen row in the whole table; None when none is.
    """
    if not count:
        st.caption("No rows.")
        return None
    pages = -(-count // page_rows)
    page = opened = 1
    if pages > 1:
        opened = 1 if chosen is None else min(chosen // page_rows + 1, pages)
        page = int(st.session_state.get(f"{key}-page", opened))
        if page > pages:
            page = st.session_state[f"{key}-page"] = pages
    first = (page - 1) * page_rows
    data = fetch(first, page_rows)
    widget = f"{key}-rows-{page}"
    if selectable or on_choose is not None:

        def take() -> None:
            rows = st.session_state[widget].selection.rows
            if on_choose is not None and rows:
                on_choose(first + rows[0])

        default: Any = None
        if chosen is not None and 0 <= chosen - first < len(data):
            default = {"selection": {"rows": [chosen - first]}}
        found = st.dataframe(
            data,
            key=widget,
            hide_index=True,
            on_select=take if on_choose is not None else "rerun",
            selection_mode="single-row",
            selection_default=default,
            placeholder=UNKNOWN,
            **options,
        )
        rows = list(found.selection.rows)
    else:
        st.dataframe(data, key=widget, hide_index=True, placeholder=UNKNOWN, **options)
        rows = []
    if pages > 1:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.pagination(pages, default=opened, key=f"{key}-page")
            st.caption(f"Rows {first + 1:,} to {first + len(data):,} of {count:,}")
    return first + rows[0] if rows else None


def as_csv(data: pd.DataFrame) -> bytes:
    """A table for a spreadsheet, in which no text is a formula: one that begins as such is quoted."""
    texts = {
        name: [f"'{one}" if isinstance(one, str) and one[:1] in _FORMULA else one for one in column]
        for name, column in data.items()
        if not pd.api.types.is_numeric_dtype(column)
    }
    told: str = data.assign(**texts).to_csv(index=False)
    return told.encode()


def download(
    count: int, fetch: Callable[[int, int], pd.DataFrame], name: str, key: str, label: str = "CSV"
) -> None:
    """A button that downloads the whole table, read when it is pressed.

    Args:
        count, fetch: as for `paged`.
        name: of the file, without an ending.
    """
    most = min(count, MOST_DOWNLOADED)
    told = None
    if count > most:
        told = f"The first {most:,} of {count:,} rows: filter to get others."
    st.download_button(
        label,
        lambda: as_csv(fetch(0, most)),
        file_name=f"{name}.csv",
        mime="text/csv",
        key=f"{key}-download",
        type="tertiary",
        icon=":material/download:",
        on_click="ignore",
        disabled=not count,
        help=told,
    )
