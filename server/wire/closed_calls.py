"""From closed questions to a call: what both decision formats share of reading a body."""

from collections.abc import Sequence
from typing import Any

from spinf_serve.engine.api import Engine
from spinf_serve.packs.errors import Refused
from spinf_serve.server.call_warnings import Warning
from spinf_serve.server.calls import Call, Input
from spinf_serve.server.wire.closed_questions import ClosedQuestion, ClosedRequest
from spinf_serve.server.wire.templates import worded

MAX_OPTIONS = 255
"""Most options of one choice."""

MAX_LEVELS = 10
"""Most levels of one scale."""

_MAX_NOTES = 16
_SHOWN_CHARS = 64


def closed_request(
    engine: Engine,
    *,
    content_path: str,
    content: str,
    questions: tuple[ClosedQuestion, ...],
    unknown: Sequence[tuple[str, str]],
    outer: tuple[Any, ...],
) -> ClosedRequest:
    """The request of questions about one content, worded for the served model.

    Args:
        content_path: where the content stands in the request.
        unknown: names of fields that are not known, each with the path of its object; they are
            ignored with a note each.
        outer: see `ClosedRequest`.
    """
    served = engine.served
    asked = tuple(worded(question, served.prompt_style) for question in questions)
    entry = Input(
        id="0",
        path=content_path,
        content=content,
        questions=asked,
        question_paths=tuple(question.path for question in questions),
        own=len(asked),
    )
    notes = [
        Warning(
            "field_ignored",
            f"{name[:_SHOWN_CHARS]!r} is no field of {path} and was ignored",
            param=path,
        )
        for name, path in unknown[:_MAX_NOTES]
    ]
    return ClosedRequest(
        call=Call((entry,), engine.limits, frame=served.frame),
        questions=questions,
        style=served.prompt_style,
        warnings=tuple(notes),
        outer=outer,
    )


def check_count(count: int, most: int, path: str, what: str) -> None:
    """Refuses no answer at all, and more than a question may have."""
    if not 1 <= count <= most:
        raise Refused(
            "too_many_options", f"{path} has {count} {what}; 1 to {most} are allowed", path
        )


def check_distinct(texts: Sequence[str], path: str) -> None:
    """Refuses two answers of the same text, which nothing could tell apart."""
    first: dict[str, int] = {}
    for index, text in enumerate(texts):
        same = first.setdefault(text, index)
        if same != index:
            raise Refused(
                "duplicate_option",
                f"{path}.{index} is the same text as {path}.{same}; no model can tell them apart",
                f"{path}.{index}",
            )
