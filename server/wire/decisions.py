"""Bodies of /v1/decisions: from JSON values to closed questions. Answers: `decisions_reply`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
from spinf_serve.server.wire.decision_input import read_input, read_parts
from spinf_serve.server.wire.fields import Fields, wrong_type
from spinf_serve.server.wire.json_text import Document
from spinf_serve.server.wire.model_field import read_model
from spinf_serve.server.wire.plain_texts import refuse_half_pairs
from spinf_serve.server.wire.templates import NO, YES

MAX_QUESTIONS = 400
"""Most questions of one request."""

_BODY = frozenset(
    {"model", "input", "questions", "safety_identifier"}
    | {"prompt_cache_key", "prompt_cache_options"}
)
_QUESTION = frozenset({"type", "name", "instructions", "choices", "levels"})
_CHOICE = frozenset({"value", "description"})
_LEVEL = frozenset({"label", "description"})
# How a choice of true or false is put before the model.
_BOOLEANS = {True: "true", False: "false"}


@dataclass(frozen=True, slots=True)
class Named:
    """What an answer repeats of its question.

    Attributes:
        name: the caller's name for it, if any.
        values: the choices as the caller wrote them, or the labels of levels.
    """

    name: str | None
    values: tuple[str | bool, ...]


def read_decisions(document: Document, engine: Engine) -> ClosedRequest:
    """Reads a body in the form of OpenAI.

    Raises:
        Refused: with the code and the dotted path of the field at fault.
    """
    refuse_half_pairs(document)
    body = Fields(document.value, "", _BODY)
    read_model(body, engine)
    if body.get("input") is None:
        raise body.missing("input")
    content = read_input(body.get("input"), "input")
    given = body.items("questions")
    if given is None:
        raise body.missing("questions")
    if not given:
        raise Refused("empty_queries", "questions is empty; ask at least one", "questions")
    if len(given) > MAX_QUESTIONS:
        raise Refused(
            "too_many_prompts",
            f"questions has {len(given)} entries; 1 to {MAX_QUESTIONS} are allowed: split them over "
            "several requests",
            "questions",
        )
    read = [_question(index, value) for index, value in enumerate(given)]
    _check_names([named for _, named, _ in read])
    unknown = [(name, "body") for name in body.unknown]
    unknown += [(name, question.path) for question, _, names in read for name in names]
    return closed_request(
        engine,
        content_path="input",
        content=content,
        questions=tuple(question for question, _, _ in read),
        unknown=unknown,
        outer=tuple(named for _, named, _ in read),
    )


def _question(index: int, value: Any) -> tuple[ClosedQuestion, Named, list[str]]:
    path = f"questions.{index}"
    fields = Fields(value, path, _QUESTION)
    kind = fields.text("type")
    reader = _READERS.get(kind)
    if reader is None:
        raise fields.refused("type", f"is {kind[:32]!r}; predicate, choice or score is needed")
    name = fields.optional_text("name")
    if fields.get("instructions") is None:
        raise fields.missing("instructions")
    instructions = read_parts(fields.get("instructions"), fields.at("instructions")).strip()
    closed_kind, labels, descriptions, values = reader(fields)
    question = ClosedQuestion(
        kind=closed_kind,
        key=str(index) if name is None else name,
        path=path,
        instructions=instructions,
        labels=labels,
        descriptions=descriptions,
    )
    return question, Named(name, values), list(fields.unknown)


_Read = tuple[Kind, tuple[str, ...], tuple[str, ...], tuple[str | bool, ...]]


def _predicate(_: Fields) -> _Read:
    return Kind.NOUL, (YES, NO), ("", ""), ()


def _choice(fields: Fields) -> _Read:
    path = fields.at("choices")
    given = fields.items("choices")
    if given is None:
        raise fields.missing("choices")
    check_count(len(given), MAX_OPTIONS, path, "choices")
    entries = [Fields(value, f"{path}.{index}", _CHOICE) for index, value in enumerate(given)]
    values = tuple(map(_value, entries))
    # `true` and "true" are two values, so that the text of one says which it is.
    booleans = {_BOOLEANS[value] for value in values if type(value) is bool}
    labels = tuple(
        _BOOLEANS[value] if type(value) is bool else f'"{value}"' if value in booleans else value
        for value in values
    )
    check_distinct(labels, path)
    return Kind.CHOICE, labels, tuple(map(_description, entries)), values


def _value(entry: Fields) -> str | bool:
    value = entry.get("value")
    if value is None:
        raise entry.missing("value")
    if type(value) is not str and type(value) is not bool:
        raise wrong_type(value, entry.at("value"), "a text, true or false")
    return value


def _score(fields: Fields) -> _Read:
    path = fields.at("levels")
    given = fields.items("levels")
    if given is None:
        raise fields.missing("levels")
    check_count(len(given), MAX_LEVELS, path, "levels")
    entries = [Fields(value, f"{path}.{index}", _LEVEL) for index, value in enumerate(given)]
    labels = tuple(entry.text("label") for entry in entries)
    check_distinct(labels, path)
    return Kind.SCORE, labels, tuple(map(_description, entries)), labels


_READERS: Mapping[str, Callable[[Fields], _Read]] = {
    "predicate": _predicate,
    "choice": _choice,
    "score": _score,
}


def _description(entry: Fields) -> str:
    value = entry.get("description")
    return "" if value is None else read_parts(value, entry.at("description")).strip()


def _check_names(named: list[Named]) -> None:
    first: dict[str, int] = {}
    for index, entry in enumerate(named):
        if entry.name is None:
            continue
        same = first.setdefault(entry.name, index)
        if same != index:
            raise Refused(
                "duplicate_id",
                f"questions {same} and {index} are both named {entry.name[:64]!r}; name each once",
                f"questions.{index}.name",
            )
