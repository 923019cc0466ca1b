"""Draws what a model reads: every space and line end to be seen, and its tokens where they are known."""

import html
from collections.abc import Sequence

import streamlit as st

from spinf_serve.workbench.actions.previews import Filled

_STYLE = """<style>
.filled {white-space: pre-wrap; overflow-wrap: anywhere; font-family: var(--st-code-font, monospace);
 font-size: 0.875rem; line-height: 1.7; border: 1px solid rgba(128,128,128,.35);
 border-radius: .5rem; padding: .75rem 1rem; max-height: 26rem; overflow: auto}
.filled .context {background: rgba(128,128,128,.20)}
.filled .content {background: rgba(0,114,178,.16)}
.filled .asked {background: rgba(230,159,0,.20)}
.filled .mark {opacity: .55}
.filled .token {border-radius: .2rem; box-shadow: inset 0 -2px 0 rgba(128,128,128,.55)}
.filled .token.even {background: rgba(0,114,178,.20)}
.filled .token.odd {background: rgba(230,159,0,.20)}
</style>"""


def show_filled(filled: Filled) -> None:
    """Draw a filled template behind its content, part by part in colours, then the options."""
    parts = (
        ("context", filled.before),
        ("content", filled.content),
        ("context", filled.after),
        ("asked", filled.template),
    )
    inner = "".join(f'<span class="{kind}">{visible(text)}</span>' for kind, text in parts if text)
    st.html(f'{_STYLE}<div class="filled" role="document" aria-label="What is read">{inner}</div>')
    st.caption(
        "Grey is the context, blue the content, orange the question; ␣ stands for a space at the"
        " edge of a part or a run of several, ↵ for a line end."
    )


def show_tokens(pieces: Sequence[tuple[int, str]]) -> None:
    """Draw a text token by token; the id of each shows under the pointer."""
    inner = "".join(
        f'<span class="token {"odd" if place % 2 else "even"}" title="{id}">'
        f"{visible(piece, every=True) or '·'}</span>"
        for place, (id, piece) in enumerate(pieces)
    )
    st.html(f'{_STYLE}<div class="filled" role="document" aria-label="Tokens">{inner}</div>')


def visible(text: str, *, every: bool = False) -> str:
    """A text as HTML, with line ends and spaces that are easily overlooked as marks.

    Args:
        every: marks every space; else those at an edge of a line and in runs.
    """
    found = []
    for place, char in enumerate(text):
        edge = (
            every
            or place in (0, len(text) - 1)
            or text[place - 1].isspace()
            or text[place + 1].isspace()
        )
        if char == "\n":
            found.append('<span class="mark">↵</span>\n')
        elif char == "\t":
            found.append('<span class="mark">⇥</span>\t')
        elif char == " " and edge:
            found.append('<span class="mark">␣</span>')
        elif char.isspace() and char != " ":
            found.append(f'<span class="mark">U+{ord(char):04X}</span>')
        else:
            found.append(html.escape(char))
    return "".join(found)


def option_word(option: str) -> str:
    """An option in a table or a list, its leading space as a mark."""
    stripped = option.lstrip(" ")
    return "␣" * (len(option) - len(stripped)) + stripped
