"""A content that is longer than the model takes, cut in chunks where every pack of the call says so.

Where a chunk ends depends on the content, the packs' context and the limit alone.
"""

import re
from dataclasses import replace
from itertools import pairwise

from spinf_serve.engine.api import Engine
from spinf_serve.packs.errors import Refused
from spinf_serve.server.calls import Call, Input

# Words with the white space before them: most tokenizers have tokens for a word with its space.
_WORDS = re.compile(r"\s*\S+|\s+")
_SPACE = re.compile(r"\s*")
# Tokens left free, since a whole may have more of them than its parts: at its ends, mostly.
_SPARE_TOKENS = 8


def chunked(engine: Engine, call: Call) -> Call:
    """The call with an input for each chunk of a long content; itself when none is cut.

    When no pack of the call would cut it, a long content is left for the engine to refuse.

    Raises:
        Refused: `content_too_long`, with the reason, when only some packs of the call would cut it,
            or it has questions of its own: these were asked about the whole of it.
    """
    if all(used.pack.on_long == "refuse" for used in call.packs):
        return call
    limit = call.limits.max_content_tokens
    inputs: list[Input] = []
    for entry in call.inputs:
        # No token is shorter than a byte.
        short = len(entry.content.encode()) <= limit
        tokens = 0 if short else len(engine.tokenizer.encode(entry.content))
        if tokens <= limit:
            inputs.append(entry)
            continue
        why = _why_whole(call, entry)
        if why is not None:
            raise Refused(
                "content_too_long",
                f"the content has {tokens} tokens; the limit is {limit} (max_content_tokens), and "
                f"it cannot be read in chunks: {why}",
                entry.path,
            )
        before, after = entry.wrapping
        inner = entry.content[len(before) : len(entry.content) - len(after)]
        pieces = pieces_of(engine, inner, before, after, limit)
        inputs += [
            replace(entry, content=before + piece + after, part=number, parts=len(pieces))
            for number, piece in enumerate(pieces)
        ]
    return replace(call, inputs=tuple(inputs))


def _why_whole(call: Call, entry: Input) -> str | None:
    """What forbids to cut a content, with the remedy."""
    for used in call.packs:
        if used.pack.on_long == "refuse":
            return f"the pack {used.pack.id} refuses long contents; ask it in another call"
        if used.fit.constants is None:
            return (
                f"the pack {used.pack.id} is a draft on the served model, so that only raw answers "
                "could be given, and these are about the whole; shorten the content"
            )
    if entry.own:
        return (
            f"the question {entry.questions[0].id!r} of the call is about the whole of it; ask the "
            "call's own questions in another call, with a shorter content"
        )
    return None


def pieces_of(engine: Engine, text: str, before: str, after: str, limit: int) -> list[str]:
    """Pieces of a text in order, nothing left out, each within `limit` tokens with its context.

    A piece ends behind white space; a word longer than a piece is cut inside. When the context alone
    fills the limit the text comes back whole, to be refused like any content that is too long.
    """
    count = engine.tokenizer.encode
    room = limit - len(count(before)) - len(count(after))
    if room < 1:
        return [text]
    pieces: list[str] = []
    for piece in _gathered(engine, text, max(1, room - min(_SPARE_TOKENS, room // 8))):
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


def _gathered(engine: Engine, text: str, room: int) -> list[str]:
    """The words of a text, as many together as their tokens find room."""
    words = _WORDS.findall(text)
    cuts = [0]
    taken = at = 0
    for word, tokens in zip(words, engine.tokenizer.encode_batch(words), strict=True):
        if taken + len(tokens) > room and at > cuts[-1]:
            # The white space stays with the piece before, so that the next begins with a word.
            cuts.append(at + _leading(word))
            taken = 0
        taken += len(tokens)
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
