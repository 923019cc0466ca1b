"""A content that is longer than the model takes, cut in chunks where every pack of the call says so.

Where a chunk ends is `spinf_serve.packs.chunks`' affair.
"""

from dataclasses import replace

from spinf_serve.engine.api import Engine
from spinf_serve.packs.chunks import pieces_of
from spinf_serve.packs.errors import Refused
from spinf_serve.server.calls import Call, Input


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
        pieces = pieces_of(engine.tokenizer, inner, before, after, limit)
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
    if entry.own or entry.slots:
        first = entry.questions[0] if entry.own else entry.slots[0]
        return (
            f"the question {first.id!r} of the call is about the whole of it; ask the "
            "call's own questions in another call, with a shorter content"
        )
    return None
