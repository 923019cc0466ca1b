"""Shows what another process works out, without keeping the page waiting for it."""

from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from typing import Final, TypeVar

import streamlit as st

from spinf_serve.packs.errors import SpinfError, Unusable
from spinf_serve.workbench.answering import Who, given_who
from spinf_serve.workbench.parts.words import plain
from spinf_serve.workbench.tokens import Tokens

T = TypeVar("T")

PATIENCE_SECONDS: Final = 0.4
"""How long a page waits for what may be there at once."""


def tokens(who: Who | None = None) -> Tokens:
    """The tokenizer of who answers; its process starts with the first question.

    Args:
        who: None for whom the workbench was started with.
    """
    asked = given_who() if who is None else who
    return _tokens(asked.server, asked.token, asked)


@st.cache_resource(show_spinner=False, max_entries=8)
def _tokens(server: str | None, token: str | None, _who: Who) -> Tokens:
    return Tokens(_who)


def whose_tokens(model: str, stands_for: str) -> str:
    """Whose tokens these are, where they are not those of the model that answers."""
    return f"About, by the tokenizer of {plain(model)}: that of {plain(stands_for)} is not here."


def outcome(future: "Future[T]", words: str, *, quiet: bool = False) -> T | None:
    """What was worked out; None while it is not, and where it cannot be, which is then said.

    Args:
        words: what is being done, for the meantime.
        quiet: says nothing where it cannot be.
    """
    try:
        return future.result(timeout=PATIENCE_SECONDS)
    except NotYet:
        _watch(future, words)
    except (SpinfError, Unusable) as fault:
        if not quiet:
            st.info(plain(fault), icon=":material/info:")
    return None


@st.fragment(run_every="1s")
def _watch(future: "Future[T]", words: str) -> None:
    st.caption(f":material/hourglass_top: {words}")
    if future.done():
        st.rerun(scope="app")
