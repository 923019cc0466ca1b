"""Proves which white space always starts a new token when it follows a non-space character.

The proofs use the pre-tokenizer's pattern and the vocabulary; where neither proves a character, it
is not claimed. "Non-space" is `not char.isspace()`, which covers every character that the
patterns call `\\s`, and a few more.
"""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

SPACES: Final = frozenset(" \t\n\r\v\f")

GPT2_PATTERN: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3_PATTERN: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# White space that an alternative of the pattern can match behind a non-space character. No
# alternative of GPT-2's can; one of Llama 3's ends in `[^\s\p{L}\p{N}]+[\r\n]*`. Both look ahead
# only from white space, to the character right behind it, so nothing before the border sees past
# it, and matching starts afresh at it.
_INSIDE: Final[Mapping[str, str]] = MappingProxyType({GPT2_PATTERN: "", LLAMA3_PATTERN: "\r\n"})

# How a SentencePiece vocabulary writes a space. It does not count as white space in front of a
# space, because a text may hold the mark itself.
SPACE_MARK: Final = "\u2581"


def borders_of_pattern(pattern: str, added: Iterable[str]) -> frozenset[str]:
    """White space that always starts a new token, by the pattern of a byte-level pre-tokenizer.

    Pre-tokens are tokenised one by one, so the vocabulary does not matter.

    Args:
        pattern: splits text into pre-tokens; nothing is claimed for one that is not known here.
        added: texts that are matched before the pattern is applied; one that holds a non-space
            character followed by white space takes that white space out.
    """
    inside = _INSIDE.get(pattern)
    if inside is None:
        return frozenset()
    return SPACES - set(inside) - _behind_non_space(added)


def borders_of_pieces(pieces: Iterable[str]) -> frozenset[str]:
    """White space that always starts a new token, when whole texts are merged from characters.

    Merges are ranked by the pair alone. If no piece holds a non-space character followed by this
    white space, no merge ever spans such a border, and the two sides merge as they do alone.

    Args:
        pieces: everything text can become, added texts included, spaces written as `SPACE_MARK`
            or as they are.
    """
    found = _behind_non_space(pieces)
    if SPACE_MARK in found:
        found |= {" "}
    return SPACES - found


def _behind_non_space(texts: Iterable[str]) -> frozenset[str]:
    """Which white space, or space mark, stands behind a non-space character in any of the texts."""
    joined = "\x1c".join(texts)
    return frozenset(re.findall(rf"(?<=\S)[ \t\n\r\v\f{SPACE_MARK}]", joined))
