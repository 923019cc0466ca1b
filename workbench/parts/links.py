"""Ways from one page to another, with what it is to be about."""

from typing import NoReturn
from urllib.parse import quote

import streamlit as st

from spinf_serve.workbench.frame import choose
from spinf_serve.workbench.page_list import PAGES


def go_to(path: str, query: dict[str, str] | None = None, **choice: str | None) -> NoReturn:
    """Open a page; in a run of a page, not in a callback.

    Args:
        query: parameters of that page's own.
        choice: what it is about, see `frame.choose`.
    """
    choose(**choice)
    page = next(one for one in PAGES if one.path == path)
    st.switch_page(
        st.Page(page.draw, title=page.title, icon=page.icon, url_path=page.path),
        query_params=query or {},
    )


def row_link(pack: str, data: str, bits: str, row: str, **more: str) -> str:
    """The address of a row with all its answers, on the page Scores.

    Args:
        pack: its file's name in the project.
        bits: whose scores.
        more: of that page's own, such as `target`.
    """
    named = {"pack": pack, "data": data, "bits": bits, "row": row} | more
    return "scores?" + "&".join(f"{key}={quote(value, safe='')}" for key, value in named.items())
