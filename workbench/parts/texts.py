"""Texts of rows on a screen: hidden behind a click where a pack is about harm, masked on request."""

import re
from typing import Final

import streamlit as st

from spinf_serve.packs.pack import Pack
from spinf_serve.workbench.desk import Desk
from spinf_serve.workbench.masking import masked

__all__ = ["HARM_TAGS", "hides_texts", "is_about_harm", "masked", "show_text", "shown_text"]

HARM_TAGS: Final = frozenset(
    {"moderation", "safety", "harm", "abuse", "hate", "violence", "selfharm", "sexual", "toxicity"}
)
"""Packs with one of these tags have their texts hidden until they are asked for."""


def is_about_harm(pack: Pack) -> bool:
    """Whether a pack's texts are to be hidden until they are asked for."""
    words = {part for tag in pack.tags for part in re.split(r"\W+", tag.casefold())}
    return bool(words & HARM_TAGS)


def shown_text(desk: Desk, text: str) -> str:
    """A text as the project's setting wants it: as it is, or masked."""
    settings = desk.settings()
    if not settings.get("mask"):
        return text
    return masked(text, orders=bool(settings.get("mask_orders")))


def hides_texts(desk: Desk, *packs: Pack | None) -> bool:
    """Whether texts are hidden until they are asked for: one of the packs is about harm."""
    told = any(pack is not None and is_about_harm(pack) for pack in packs)
    return told and not desk.settings().get("open_texts")


def show_text(desk: Desk, pack: Pack | None, text: str, key: str, *more: Pack | None) -> None:
    """Draw a text; behind a click for a pack about harm, so that until then it is not even sent.

    Args:
        key: names the row, so that a text that was asked for stays open.
        more: other packs that are looked at; one about harm suffices.
    """
    hidden = hides_texts(desk, pack, *more)
    if hidden and not st.session_state.get(f"open-{key}"):
        if not st.button("Show the text", key=f"button-open-{key}", icon=":material/visibility:"):
            st.caption(f"Hidden: this pack is about harm. {len(text):,} characters.")
            return
        st.session_state[f"open-{key}"] = True
    st.text(shown_text(desk, text))
