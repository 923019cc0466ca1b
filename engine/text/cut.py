"""Where the trunk of a content ends: computed from the content alone, so that no question moves it.

The end of a content may merge with the beginning of a question into one token. So the trunk stops
at a border that holds whatever follows, and the rest of the content, the *tail*, is tokenised
together with each question. Knows no questions.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from spinf_serve.engine.text.tokenizer import Tokenizer

LONGEST_TAIL_CHARS = 128
"""A tail at a proven border may be this long; behind a longer run without one, a border is sought
that verifies on this content. Part of the numerics, like the two below."""

VERIFIED_TAIL_CHARS = 32
"""A border that is only verified stands at least this many characters before the content's end."""

_TRIED_BORDERS = 16
_TRIED_LEFT_SIDES = 4

# A whitespace character whose left neighbour is none, in a text and in a reversed one. Some
# vocabularies write a space as U+2581, and to them the two are one character.
_BORDER = re.compile("(?<=[^\\s\u2581])\\s")
_BORDER_REVERSED = re.compile("(\\s)(?=[^\\s\u2581])")


@dataclass(frozen=True, slots=True)
class Cut:
    """A content in tokens, cut into what all paths share as trunk and what they begin with.

    `encode(content + x) == trunk + held + encode(tail + x)` for every text x, when `merged`. The
    token `held` stands before the border like the trunk; it opens the paths so that a path has a
    token even where all of the tail merges with an option.

    Attributes:
        trunk: token ids of the trunk; empty for a content that is too short.
        held: one token id, or none where nothing stands before the border.
        tail: the text behind the border; empty only for an empty content.
        tail_tokens: the tail's token ids alone.
        content_tokens: number of tokens of the whole content.
        merged: False when no border verified, so that content and question may be tokenised apart
            where the joint text has another tokenisation.
    """

    trunk: tuple[int, ...]
    held: tuple[int, ...]
    tail: str
    tail_tokens: tuple[int, ...]
    content_tokens: int
    merged: bool

    @property
    def stem(self) -> tuple[int, ...]:
        """The tokens that every cleanly joined path begins with."""
        return self.held + self.tail_tokens


EMPTY_CUT = Cut((), (), "", (), 0, True)
"""The cut of the empty content, which is also what a floor is read on."""


def cut(tokenizer: Tokenizer, content: str) -> Cut:
    """Tokenise and cut one content; see `cut_all`."""
    return cut_all(tokenizer, [content])[0]


def cut_all(tokenizer: Tokenizer, contents: Sequence[str]) -> list[Cut]:
    """Tokenise and cut contents, each as if alone; time grows linearly with their length.

    Raises `Refused` for text that is not valid Unicode.
    """
    borders = [last_border(tokenizer, content) for content in contents]
    sides = [content[:border] for content, border in zip(contents, borders, strict=True)]
    sides += [content[border:] for content, border in zip(contents, borders, strict=True)]
    encoded = tokenizer.encode_batch(sides)
    cuts = []
    for index, content in enumerate(contents):
        before, behind = encoded[index], encoded[len(contents) + index]
        tail = content[borders[index] :]
        if len(tail) <= LONGEST_TAIL_CHARS:
            cuts.append(_made(before, tail, behind, len(before) + len(behind), True))
        else:
            cuts.append(_cut_long(tokenizer, before, tail))
    return cuts


def last_border(tokenizer: Tokenizer, text: str) -> int:
    """Index of the last whitespace character before which a token border is proven, 0 if none.

    Whatever is appended to the text, `encode(text[:i])` stays its beginning.
    """
    for match in _BORDER_REVERSED.finditer(text[::-1]):
        if tokenizer.breaks_before(match.group(1)):
            return len(text) - match.end()
    return 0


def first_border(tokenizer: Tokenizer, text: str) -> int:
    """Index of the first whitespace character before which a token border is proven, 0 if none.

    Whatever is put before the text, `encode(text[i:])` stays its end.
    """
    for match in _BORDER.finditer(text):
        if tokenizer.breaks_before(match.group()):
            return match.start()
    return 0


def border_before(tokenizer: Tokenizer, text: str, first: str) -> bool:
    """Whether a token border is proven between a text and a continuation that begins with `first`.

    An empty text joins anything; nothing is proven for an empty `first`.
    """
    if not text:
        return True
    open_end = text[-1].isspace() or text[-1] == "\u2581"
    return bool(first) and not open_end and tokenizer.breaks_before(first)


def _made(
    before: Sequence[int], tail: str, behind: Sequence[int], content_tokens: int, merged: bool
) -> Cut:
    return Cut(tuple(before[:-1]), tuple(before[-1:]), tail, tuple(behind), content_tokens, merged)


def _cut_long(tokenizer: Tokenizer, before: list[int], run: str) -> Cut:
    """Cut inside a run without proven borders, at the last border that verifies on the run alone.

    Args:
        before: tokens of the content before the run, a proven border.
        run: more than `LONGEST_TAIL_CHARS` characters, the end of the content.
    """
    tokens, ends = tokenizer.encode_with_ends(run)
    total = len(before) + len(tokens)
    borders = _borders_before(ends, len(run) - VERIFIED_TAIL_CHARS)
    left_sides = 0
    for count in borders[:_TRIED_BORDERS]:
        left, right = run[: ends[count - 1]], run[ends[count - 1] :]
        behind = tokenizer.encode(right)
        if behind != tokens[count:]:
            continue
        left_sides += 1
        if tokenizer.encode(left) == tokens[:count]:
            return _made(before + tokens[:count], right, behind, total, True)
        if left_sides == _TRIED_LEFT_SIDES:
            break
    if not borders:
        # One token, or one character, is nearly all of the run: keep it whole.
        return _made(before, run, tokens, total, True)
    end = ends[borders[0] - 1]
    left_tokens = before + tokenizer.encode(run[:end])
    return _made(left_tokens, run[end:], tokenizer.encode(run[end:]), total, False)


def _borders_before(ends: Sequence[int], limit: int) -> list[int]:
    """How many tokens stand before each border at most `limit` characters in, last border first.

    A border inside a character is none.
    """
    return [
        index
        for index in range(len(ends) - 1, 0, -1)
        if ends[index - 1] <= limit and ends[index - 1] != ends[index]
    ]
