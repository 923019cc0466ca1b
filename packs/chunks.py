"""A content that is longer than a model reads at once, cut in pieces: the one definition of where.

Where a piece ends depends on the content, the context around it, the limit and the tokenizer alone.
Server, command line and evals cut here. Whether a content may be cut is a pack's `on_long`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

# Words with the white space before them: most tokenizers have tokens for a word with its space.
_WORDS = re.compile(r"\s*\S+|\s+")
_SPACE = re.compile(r"\s*")
# Tokens left free, since a whole may have more of them than its parts: at its ends, mostly.
_SPARE_TOKENS = 8


class Tokens(Protocol):
    """What of a tokenizer is needed here."""

    def encode(self, text: str) -> Sequence[int]:
        """Ids of a text."""
        ...

    def encode_batch(self, texts: Sequence[str]) -> Sequence[Sequence[int]]:
        """Ids of each text."""
        ...


@dataclass(frozen=True, slots=True)
class Reader:
    """How much of a text a model reads at once.

    Attributes:
        tokens: its tokenizer.
        most_tokens: of one content, its context counted.
    """

    tokens: Tokens
    most_tokens: int

    def surely_fits(self, content: str) -> bool:
        """Whether a content is known to fit without a look at its tokens: none is below a byte."""
        return len(content.encode()) <= self.most_tokens


def chunks_of(reader: Reader, text: str, before: str, after: str) -> list[str]:
    """The contents that are read in place of a text: each piece with its context around it.

    A single one, the whole, when it fits; see `pieces_of`.
    """
    whole = before + text + after
    if reader.surely_fits(whole) or len(reader.tokens.encode(whole)) <= reader.most_tokens:
        return [whole]
    pieces = pieces_of(reader.tokens, text, before, after, reader.most_tokens)
    return [before + piece + after for piece in pieces]


def pieces_of(tokens: Tokens, text: str, before: str, after: str, limit: int) -> list[str]:
    """Pieces of a text in order, nothing left out, each within `limit` tokens with its context.

    A piece ends behind white space; a word longer than a piece is cut inside. When the context alone
    fills the limit the text comes back whole, to be refused like any content that is too long.
    """
    count = tokens.encode
    room = limit - len(count(before)) - len(count(after))
    if room < 1:
        return [text]
    pieces: list[str] = []
    for piece in _gathered(tokens, text, max(1, room - min(_SPARE_TOKENS, room // 8))):
        # Tokens of a whole may still be more than those of its words: halve what does not fit.
        waiting = [piece]
        while waiting:
            part = waiting.pop()
            if len(part) > 1 and len(count(before + part + after)) > limit:
                middle = _middle(part)
                waiting += [part[middle:], part[:middle]]
            else:
                pieces.append(part)
    return pieces or [text]


def _gathered(tokens: Tokens, text: str, room: int) -> list[str]:
    """The words of a text, as many together as their tokens find room."""
    words = _WORDS.findall(text)
    cuts = [0]
    taken = at = 0
    for word, ids in zip(words, tokens.encode_batch(words), strict=True):
        if taken + len(ids) > room and at > cuts[-1]:
            # The white space stays with the piece before, so that the next begins with a word.
            cuts.append(at + _leading(word))
            taken = 0
        taken += len(ids)
        at += len(word)
    return [text[start:end] for start, end in pairwise([*cuts, len(text)]) if start < end]


def _leading(word: str) -> int:
    """Characters of white space before a word."""
    match = _SPACE.match(word)
    return match.end() if match else 0


def _middle(text: str) -> int:
    """Where to halve: behind the white space nearest to the middle, else the middle itself."""
    half = len(text) // 2
    found = [match.start() + _leading(match[0]) for match in _WORDS.finditer(text)][1:]
    ends = [end for end in found if end < len(text)]
    return min(ends, key=lambda end: abs(end - half)) if ends else half
