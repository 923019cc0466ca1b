"""The workbench's pages run without a browser: `page` gives one of them on a project's folder."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from spinf_serve.workbench.started import Started, start_as

SCRIPT: Final = Path(__file__).parents[2] / "workbench" / "entry" / "app.py"
TIMEOUT_SECONDS: Final = 60


def page(path: str, folder: Path, *, how: dict[str, Any] | None = None, **params: str) -> AppTest:
    """A page, run once.

    Args:
        path: of the page in addresses, such as `scores`.
        folder: of the project; the example is made in an empty one.
        how: more of `Started`, such as `user`.
        params: of the address, such as `question`.
    """
    start_as(Started(folder, **(how or {})))
    test = AppTest.from_file(str(SCRIPT), default_timeout=TIMEOUT_SECONDS)
    for name, value in params.items():
        test.query_params[name] = value
    # Pages are functions, which `switch_page` knows nothing of.
    test._page_hash = calc_hash(path)
    return test.run()


def name_users(patch: pytest.MonkeyPatch, *names: str) -> None:
    """Have requests carry the header that names users, so often; for pages with `user_header`."""
    headers = SimpleNamespace(get_all=lambda header: list(names), get=lambda header: None)
    patch.setattr(
        "spinf_serve.workbench.frame.st", _Streamlit(st, SimpleNamespace(headers=headers))
    )


class _Streamlit:
    """Streamlit with another context."""

    def __init__(self, own: Any, context: Any) -> None:
        self._own, self.context = own, context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)


def messages(test: AppTest) -> str:
    """Everything that a page says in words, for looking something up in it."""
    kinds = ("title", "header", "subheader", "markdown", "caption", "text", "info", "warning")
    found = [one.value for kind in (*kinds, "error", "success") for one in getattr(test, kind)]
    return read("\n".join(map(str, found)))


def read(markdown: str) -> str:
    """Markdown as it is read: without the signs by which names stand in it as they were written."""
    return re.sub(r"\\([^a-zA-Z0-9\s])", r"\1", markdown.replace("\u2060", ""))
