"""A content that is longer than the model takes, cut in chunks where every pack of the call says so.

Where a chunk ends depends on the content, the packs' context and the limit alone.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from spinf_serve.engine.api import Engine
from spinf_serve.server.calls import Call, Input

# Best place first; each piece keeps the white space behind it, so that nothing is lost.
_PIECES = re.compile(r"\S+\s*|\s+")


def chunked(engine: Engine, call: Call) -> Call:
    """The call with an input for each chunk of a long content; itself when none is cut.

    An input is left whole, and refused later for its length, when a pack of the call refuses long
    contents or the input has questions of its own: these were asked about the whole of it.
    """
    if not call.packs or any(ref.pack.on_long == "refuse" for ref in call.packs):
        return call
    limit = call.limits.max_content_tokens
    inputs: list[Input] = []
    for entry in call.inputs:
        # No token is shorter than a byte.
        short = len(entry.content.encode()) <= limit
        if short or entry.own or len(engine.tokenizer.encode(entry.content)) <= limit:
            inputs.append(entry)
            continue
        before, after = entry.wrapping
        inner = entry.content[len(before) : len(entry.content) - len(after)]
        pieces = pieces_of(engine, inner, before, after, limit)
        inputs += [
            replace(entry, content=before + piece + after, part=number, parts=len(pieces))
            for number, piece in enumerate(pieces)
        ]
    return replace(call, inputs=tuple(inputs))


def pieces_of(engine: Engine, text: str, before: str, after: str, limit: int) -> list[str]:
    """Pieces of a text in order, nothing left out, each within `limit` tokens with its context.

    A piece ends at white space; a word longer than a piece is cut inside. When the context alone
    fills the limit the text comes back whole, to be refused like any content that is too long.
    """
    count = engine.tokenizer.encode
    room = limit - len(count(before)) - len(count(after))
    if room < 1:
        return [text]
    pieces: list[str] = []
    for piece in _gathered(engine, _PIECES.findall(text), room):
        # Tokens of a whole may be more than those of its words: halve what does not fit.
        waiting = [piece]
        while waiting:
            part = waiting.pop()
            if len(part) > 1 and len(count(before + part + after)) > limit:
                middle = _middle(part)
                waiting += [part[middle:], part[:middle]]
            else:
                pieces.append(part)
    return pieces


def _gathered(engine: Engine, words: Sequence[str], room: int) -> list[str]:
    pieces: list[str] = []
    current: list[str] = []
    taken = 0
    for word, tokens in zip(words, engine.tokenizer.encode_batch(words), strict=True):
        if current and taken + len(tokens) > room:
            pieces.append("".join(current))
            current, taken = [], 0
        current.append(word)
        taken += len(tokens)
    return [*pieces, "".join(current)] if current else pieces


def _middle(text: str) -> int:
    """Where to halve: behind the white space nearest to the middle, else the middle itself."""
    half = len(text) // 2
    ends = [match.end() for match in _PIECES.finditer(text)][:-1]
    return min(ends, key=lambda end: abs(end - half)) if ends else half
