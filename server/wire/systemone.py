"""Bodies of /v1/systemone: from JSON values to closed questions. Answers: `systemone_reply`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spinf_serve.engine.api import Engine
from spinf_serve.packs.errors import Refused
from spinf_serve.server.wire.closed_calls import (
    MAX_LEVELS,
    MAX_OPTIONS,
    check_count,
    check_distinct,
    closed_request,
)
from spinf_serve.server.wire.closed_questions import ClosedQuestion, ClosedRequest, Kind
from spinf_serve.server.wire.fields import Fields, wrong_type
from spinf_serve.server.wire.json_text import Document
from spinf_serve.server.wire.model_field import read_model
from spinf_serve.server.wire.plain_texts import (
    at_key,
    optional_text_of,
    refuse_half_pairs,
    text_of,
)
from spinf_serve.server.wire.templates import NO, YES

_BODY = frozenset({"model", "state", "questions", "assets"})
_QUESTION = frozenset({"type", "instructions", "criteria"})
_CRITERIA = frozenset({"true", "false"})
_ASSET = frozenset({"type", "format", "data_base64", "part"})
_FORMATS = ("png", "jpg", "jpeg")


def read_systemone(document: Document, engine: Engine, parts: frozenset[str]) -> ClosedRequest:
    """Reads a body.

    Args:
        parts: names of the parts that came with it in one multipart body.

    Raises:
        Refused: with the code and the path of the field at fault.
    """
    refuse_half_pairs(document)
    body = Fields(document.value, "", _BODY)
    read_model(body, engine)
    if body.get("state") is None:
        raise body.missing("state") if not body.has("state") else body.refused("state", "is null")
    state = text_of(body.get("state"), "state")
    given = body.mapping("questions")
    if given is None:
        raise body.missing("questions")
    if not given:
        raise Refused("empty_queries", "questions is empty; ask at least one", "questions")
    most = engine.limits.max_prompts_per_input
    if len(given) > most:
        raise Refused(
            "too_many_prompts",
            f"questions has {len(given)} entries; the limit is {most} (max_prompts_per_input): split "
            "them over several requests",
            "questions",
        )
    read = [_question(key, value) for key, value in given.items()]
    _check_assets(body, parts)
    unknown = [(name, "body") for name in body.unknown]
    unknown += [(name, question.path) for question, _, names in read for name in names]
    return closed_request(
        engine,
        content_path="state",
        content=state,
        questions=tuple(question for question, _, _ in read),
        unknown=unknown,
        outer=tuple(levels for _, levels, _ in read),
    )


def _question(key: str, value: Any) -> tuple[ClosedQuestion, Sequence[Any], list[str]]:
    """A question, its levels as the caller wrote them, and the names of its fields that are not known."""
    path = at_key("questions", key)
    if not key:
        raise Refused(
            "invalid_field", "questions has an empty id; name every question", "questions"
        )
    fields = Fields(value, path, _QUESTION)
    kind = fields.text("type")
    reader = _READERS.get(kind)
    if reader is None:
        if kind == "box":
            raise Refused(
                "media_not_supported",
                f"{path} asks for a box in an image; the served model reads text only",
                fields.at("type"),
            )
        raise fields.refused("type", f"is {kind[:32]!r}; noul, choice or score is needed")
    instructions = optional_text_of(fields.get("instructions"), fields.at("instructions"))
    labels, descriptions, levels = reader(fields)
    question = ClosedQuestion(
        kind=Kind(kind),
        key=key,
        path=path,
        instructions=instructions,
        labels=labels,
        descriptions=descriptions,
    )
    return question, levels, list(fields.unknown)


_Read = tuple[tuple[str, ...], tuple[str, ...], Sequence[Any]]


def _noul(fields: Fields) -> _Read:
    path = fields.at("criteria")
    criteria = Fields(fields.mapping("criteria") or {}, path, _CRITERIA)
    if criteria.unknown:
        name = criteria.unknown[0]
        raise Refused(
            "invalid_field",
            f"{path} of a noul has the keys true and false; {name[:32]!r} is neither",
            at_key(path, name),
        )
    meanings = [
        optional_text_of(criteria.get(name), f"{path}.{name}") for name in ("true", "false")
    ]
    return (YES, NO), tuple(meanings), ()


def _choice(fields: Fields) -> _Read:
    path = fields.at("criteria")
    criteria = fields.mapping("criteria")
    if criteria is None:
        raise fields.missing("criteria")
    check_count(len(criteria), MAX_OPTIONS, path, "options")
    meanings = [optional_text_of(value, at_key(path, label)) for label, value in criteria.items()]
    return tuple(criteria), tuple(meanings), ()


def _score(fields: Fields) -> _Read:
    path = fields.at("criteria")
    given = fields.get("criteria")
    if given is None:
        raise fields.missing("criteria")
    if type(given) is not list:
        raise wrong_type(given, path, "a list of levels, the lowest first,")
    check_count(len(given), MAX_LEVELS, path, "levels")
    levels = tuple(text_of(value, f"{path}.{index}") for index, value in enumerate(given))
    check_distinct(levels, path)
    return levels, ("",) * len(levels), given


_READERS: Mapping[str, Callable[[Fields], _Read]] = {
    "noul": _noul,
    "choice": _choice,
    "score": _score,
}


def _check_assets(body: Fields, parts: frozenset[str]) -> None:
    """Images are checked in their form, and then refused: the served models read text."""
    if not body.has("assets"):
        if parts:
            shown = ", ".join(sorted(parts)[:4])
            raise Refused(
                "invalid_field",
                f"the body has parts that no asset names ({shown}); name them in assets, or leave "
                "them out",
                "assets",
            )
        return
    assets = body.mapping("assets")
    if not assets:
        raise body.refused("assets", "is empty; leave it out, or name an image")
    for placeholder, value in assets.items():
        asset = Fields(value, at_key("assets", placeholder), _ASSET)
        if asset.text("type") != "image":
            raise asset.refused("type", f"is {asset.text('type')[:32]!r}; only image is known")
        part = asset.optional_text("part")
        if part is None:
            if asset.text("format") not in _FORMATS:
                raise asset.refused("format", f"is none of {', '.join(_FORMATS)}")
            asset.text("data_base64")
        elif part not in parts:
            raise asset.refused("part", f"names {part[:64]!r}, which is no part of this body")
    raise Refused(
        "media_not_supported",
        "assets are images; the served model reads text only: leave them out and put what they "
        "show into words",
        "assets",
    )
