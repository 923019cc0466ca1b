"""The glossary as a dialog, opened from the sidebar of every page."""

import streamlit as st

from spinf_serve.workbench import glossary


def glossary_button() -> None:
    """The button that opens the glossary; to be drawn in the sidebar."""
    if st.button(
        "Glossary", key="glossary-open", icon=":material/dictionary:", type="tertiary",
        help="What the words on these pages mean.",
    ):  # fmt: skip
        _dialog()


@st.dialog("What the words mean", width="large", icon=":material/dictionary:")
def _dialog() -> None:
    glossary_list()


def glossary_list() -> None:
    """All words by theme, or those that a search finds."""
    text = st.text_input(
        "Search", key="glossary-search", placeholder="Search: floor, precision, promise …",
        label_visibility="collapsed",
    )  # fmt: skip
    terms = glossary.found(text)
    if not terms:
        st.caption("No word like that. Try a shorter part of it.")
    if text:
        for term in terms:
            _term(term)
        return
    for theme, tab in zip(glossary.THEMES, st.tabs(glossary.THEMES), strict=True):
        with tab:
            for term in terms:
                if term.theme == theme:
                    _term(term)


def _term(term: glossary.Term) -> None:
    also = f" ({', '.join(term.also)})" if term.also else ""
    st.markdown(f"**{term.word}**{also}: {term.means}")
