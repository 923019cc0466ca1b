"""Bodies of /v1/score and its chat alias: from JSON values to a call. Answers: `spinf_reply`."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from spinf_serve.engine.api import Engine
from spinf_serve.engine.work import Limits
from spinf_serve.packs.ask import scored_question
from spinf_serve.packs.errors import Refused
from spinf_serve.packs.question import Question
from spinf_serve.server.auth import Caller
from spinf_serve.server.calls import Budget, Call, Input, Warning, lowered
from spinf_serve.server.wire.content import read_content
from spinf_serve.server.wire.fields import Fields, wrong_type
from spinf_serve.server.wire.json_text import Document, half_pair

MAX_ID_CHARS = 128
"""Longest id of an input or query, and longest endpoint."""

_MAX_NOTES = 32
_BODY = frozenset({"model", "messages", "inputs", "scoring", "endpoint", "limits", "features"})
_SCORING = frozenset({"queries", "empty_floor", "case_insensitive", "packs", "precision"})
_INPUT = frozenset({"id", "messages", "query_ids", "queries", "parameters"})
_SLOT_FIELDS = ("max_tokens", "top_k", "calibration", "generate")
_QUERY = frozenset(
    {"id", "template", "options", "combinations", "values", "empty_floor", "group", *_SLOT_FIELDS}
)
_PACK = frozenset({"id", "version", "context", "include_queries", "decision"})
_FEATURES = frozenset({"media", "extraction", "generation"})
_LIMITS = frozenset(Limits.__dataclass_fields__) | {
    "max_extractions_per_input",
    "max_frames",
    "max_audio_seconds",
    "max_image_pixels",
}


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """A request, read and checked but for its token counts.

    Attributes:
        call: what it asks for.
        model: the model as the caller wrote it; the served id when left out.
        endpoint: the caller's label, if any.
        full_precision: whether values are wanted unrounded.
        chat: whether it came by the chat alias.
        warnings: fields that were ignored although the caller may expect an effect.
    """

    call: Call
    model: str
    endpoint: str | None
    full_precision: bool
    chat: bool
    warnings: tuple[Warning, ...]


_CHARS_OF_TOKEN = 8
"""More than the characters of a token of ordinary text: bounds memory before anything is tokenised."""


@dataclass(slots=True)
class _Reading:
    """What reading a body needs on the way.

    Attributes:
        limits: the limits of this call.
        empty_floor, case_insensitive: the call's defaults for questions.
        templates: filled templates that may still be made.
        characters: characters that these may still have.
        answers: probabilities that may still be asked for.
        notes: warnings so far.
    """

    limits: Limits
    templates: Budget
    characters: Budget
    answers: Budget
    empty_floor: bool = True
    case_insensitive: bool = True
    notes: list[Warning] = field(default_factory=list)

    def note(self, fields: Fields) -> None:
        """Remembers the unknown fields of an object that look like misspelt ones."""
        if fields.unknown and len(self.notes) < _MAX_NOTES:
            self.notes += [
                _ignored(fields.at(name), f"is not a field and was ignored; did you mean `{near}`?")
                for name, near in fields.misspelt()
            ]


@dataclass(frozen=True, slots=True)
class _Asked:
    """Questions of an input and where each stands in the request; counted once."""

    questions: tuple[Question, ...]
    paths: tuple[str, ...]
    prompts: int
    answers: int


def _asked(chosen: Iterable[tuple[Question, str]]) -> _Asked:
    entries = list(chosen)
    return _Asked(
        tuple(question for question, _ in entries),
        tuple(path for _, path in entries),
        sum(len(question.prompts) for question, _ in entries),
        sum(len(question.prompts) * len(question.options) for question, _ in entries),
    )


def read_request(document: Document, engine: Engine, caller: Caller, chat: bool) -> ScoreRequest:
    """Reads a body.

    Raises:
        Refused: with the code and the dotted path of the field at fault; a body with `messages`
            is reported as if it had been an `inputs` of one.
    """
    value = document.value
    if document.may_hold_half_pairs:
        _refuse_half_pairs(value)
    body = Fields(value, "", _BODY)
    model = _model(body, engine)
    endpoint = body.optional_text("endpoint", MAX_ID_CHARS)
    if endpoint == "":
        raise body.refused("endpoint", "is empty; give 1 to 128 characters or leave it out")
    limits = _limits(body, engine.limits, caller)
    most = engine.limits.max_processed_tokens
    reading = _Reading(
        limits,
        # No option and no repeated template costs a token, so token counts alone bound neither.
        templates=Budget(most, "filled templates"),
        characters=Budget(most * _CHARS_OF_TOKEN, "characters of filled templates"),
        answers=Budget(most, "probabilities of options"),
    )
    reading.note(body)
    if caller.trusted:
        for name, known in (("limits", _LIMITS), ("features", _FEATURES)):
            if body.get(name) is not None:
                reading.note(Fields(body.get(name), name, known))
    if chat:
        if body.get("scoring") is None:
            raise Refused(
                "scoring_required",
                f"{body.missing('scoring').message}; this route answers questions and writes no "
                "text: give scoring.queries (with the OpenAI SDK inside extra_body)",
                "scoring",
            )
        _note_ignored(body, reading)
    scoring = Fields(
        {} if body.get("scoring") is None else body.get("scoring"), "scoring", _SCORING
    )
    reading.note(scoring)
    full_precision = _full_precision(scoring)
    reading.empty_floor = scoring.flag("empty_floor", True)
    reading.case_insensitive = scoring.flag("case_insensitive", True)
    _refuse_packs(scoring)
    shared = _questions(scoring, reading)
    inputs = _inputs(body, shared, reading)
    return ScoreRequest(
        call=Call(inputs, reading.limits),
        model=model,
        endpoint=endpoint,
        full_precision=full_precision,
        chat=chat,
        warnings=tuple(reading.notes),
    )


def _ignored(path: str, why: str) -> Warning:
    return Warning("ignored_field", f"{path} {why}", param=path)


def _note_ignored(body: Fields, reading: _Reading) -> None:
    """Chat clients send sampling settings; scores are what they are without any of them."""
    noted = {note.param for note in reading.notes}
    reading.notes += [
        _ignored(name, "is ignored: scores are read at temperature 1, nothing is generated")
        for name in body.unknown[: _MAX_NOTES - len(noted)]
        if name not in noted
    ]


def _refuse_half_pairs(value: Any) -> None:
    found = half_pair(value)
    if found is not None:
        path, fault = found
        where = f"inputs.0.{path}" if path.startswith("messages.") else path or "body"
        raise Refused("invalid_field", f"{where} is not valid Unicode: {fault}", where)


def _model(body: Fields, engine: Engine) -> str:
    served = engine.served
    if not body.has("model"):
        return served.id
    model = body.text("model")
    if not model:
        raise body.refused("model", "is empty; name a model or leave it out")
    names = dict.fromkeys((served.id, served.name, *served.aliases))
    if model.casefold() not in {name.casefold() for name in names}:
        others = [name for name in names if name.casefold() != served.id.casefold()]
        also = f", also called {', '.join(others)}" if others else ""
        raise Refused(
            "model_not_served",
            f"the model {model[:MAX_ID_CHARS]!r} is not served here; this server serves "
            f"{served.id}{also}",
            "model",
        )
    return model


def _limits(body: Fields, own: Limits, caller: Caller) -> Limits:
    """The call's limits; from anybody who is not trusted, `limits` and `features` are not read."""
    if not caller.trusted:
        return own
    if body.get("features") is not None:
        _check_features(Fields(body.get("features"), "features", _FEATURES))
    if body.get("limits") is None:
        return own
    limits = Fields(body.get("limits"), "limits", _LIMITS)
    wanted = {name: limits.get(name) for name in _LIMITS if limits.get(name) is not None}
    for name, value in wanted.items():
        if type(value) is not int:
            raise wrong_type(value, limits.at(name), "a whole number")
        if value < 1:
            raise limits.refused(name, f"is {value}; 1 or more is needed")
    return lowered(own, wanted)


def _check_features(features: Fields) -> None:
    """Everything that `features` could switch off is absent here, so its form is all there is."""
    for index, kind in enumerate(features.items("media") or []):
        if type(kind) is not str:
            raise wrong_type(kind, f"features.media.{index}", "a text")
    features.flag("extraction", False)
    features.flag("generation", False)


def _full_precision(scoring: Fields) -> bool:
    precision = scoring.optional_text("precision")
    if precision not in (None, "full"):
        raise scoring.refused(
            "precision", f'is {precision[:32]!r}; "full" gives unrounded values, leave it out else'
        )
    return precision is not None


def _refuse_packs(scoring: Fields) -> None:
    for index, entry in enumerate(scoring.items("packs") or []):
        pack = Fields(entry, f"scoring.packs.{index}", _PACK)
        if pack.unknown:
            raise pack.refused(pack.unknown[0], "is not a field of a pack reference")
        name = pack.text("id")
        raise Refused(
            "unknown_pack",
            f"no pack {name[:MAX_ID_CHARS]!r} is served here; GET /v1/packs lists those that are",
            pack.at("id"),
        )


def _questions(owner: Fields, reading: _Reading) -> dict[str, tuple[Question, str]]:
    """The questions of `queries`, by id, with the path of each."""
    found: dict[str, tuple[Question, str]] = {}
    for index, value in enumerate(owner.items("queries") or []):
        path = f"{owner.at('queries')}.{index}"
        question = _question(value, path, reading)
        if question.id in found:
            raise Refused(
                "duplicate_id",
                f"the id {question.id!r} is also that of {found[question.id][1]}",
                f"{path}.id",
            )
        found[question.id] = (question, path)
    return found


def _question(value: Any, path: str, reading: _Reading) -> Question:
    query = Fields(value, path, _QUERY)
    reading.note(query)
    combinations = query.get("combinations")
    if combinations is not None and type(combinations) not in (str, list):
        raise wrong_type(combinations, query.at("combinations"), 'a list of objects or "all"')
    # Read outside: the refusals of a field have its whole path already.
    name = query.text("id", MAX_ID_CHARS)
    template = query.text("template")
    options = query.items("options")
    values = query.mapping("values")
    empty_floor = query.flag("empty_floor", reading.empty_floor)
    group = query.optional_text("group", MAX_ID_CHARS)
    try:
        question = scored_question(
            name,
            template,
            options,
            combinations,
            values,
            case_insensitive=reading.case_insensitive,
            empty_floor=empty_floor,
            group=group,
            max_options=reading.limits.max_options,
            slot_fields=[name for name in _SLOT_FIELDS if query.get(name) is not None],
            unknown=query.unknown[:_MAX_NOTES],
        )
    except Refused as refused:
        raise refused.within(path) from None
    reading.templates.take(len(question.prompts))
    reading.characters.take(sum(len(prompt.text) for prompt in question.prompts))
    return question


def _inputs(
    body: Fields, shared: dict[str, tuple[Question, str]], reading: _Reading
) -> tuple[Input, ...]:
    messages, given = body.items("messages"), body.items("inputs")
    if messages is None and given is None:
        raise _neither(body)
    if messages is not None:
        if given is not None:
            raise body.refused("messages", "and inputs are both given; exactly one is needed")
        given = [{"id": "0", "messages": messages}]
    if not given:
        raise body.refused("inputs", "is an empty list; give at least one")
    # Inputs with the same selection share one tuple, so that it is compiled once.
    selections: dict[tuple[str, ...] | None, _Asked] = {}
    found: dict[str, Input] = {}
    for index, value in enumerate(given):
        path = f"inputs.{index}"
        entry = Fields(value, path, _INPUT)
        reading.note(entry)
        name = entry.text("id", MAX_ID_CHARS)
        if name in found:
            raise Refused(
                "duplicate_id", f"the id {name!r} is also that of {found[name].path}", f"{path}.id"
            )
        key = _chosen_ids(entry, shared)
        if key not in selections:
            selections[key] = _asked(map(shared.__getitem__, shared if key is None else key))
        asked = selections[key]
        if entry.get("queries") is not None:
            asked = _with_own(entry, asked, reading)
        _check_count(entry, name, asked, reading)
        reading.answers.take(asked.answers)
        content = read_content(entry)
        found[name] = Input(name, path, content, asked.questions, asked.paths)
    return tuple(found.values())


def _neither(body: Fields) -> Refused:
    near = [pair for pair in body.misspelt() if pair[1] in ("messages", "inputs")]
    hint = f"; `{near[0][0]}` is not a field, did you mean `{near[0][1]}`?" if near else ""
    return body.refused("messages", f"and inputs are both missing; exactly one is needed{hint}")


def _chosen_ids(entry: Fields, shared: dict[str, tuple[Question, str]]) -> tuple[str, ...] | None:
    """The ids of the shared questions an input chooses; None for all."""
    ids = entry.items("query_ids")
    if ids is None:
        return None
    seen: set[str] = set()
    for index, name in enumerate(ids):
        where = f"{entry.at('query_ids')}.{index}"
        if type(name) is not str:
            raise wrong_type(name, where, "a text")
        if name not in shared:
            raise Refused(
                "unknown_query_id", f"scoring.queries has no id {name[:MAX_ID_CHARS]!r}", where
            )
        if name in seen:
            raise Refused("duplicate_id", f"{where} repeats the id {name!r}", where)
        seen.add(name)
    return tuple(ids)


def _with_own(entry: Fields, chosen: _Asked, reading: _Reading) -> _Asked:
    own = _questions(entry, reading)
    for question, path in zip(chosen.questions, chosen.paths, strict=True):
        if question.id in own:
            raise Refused(
                "duplicate_id",
                f"the id {question.id!r} is also that of {path}, which this input chooses",
                f"{own[question.id][1]}.id",
            )
    return _asked(chain(zip(chosen.questions, chosen.paths, strict=True), own.values()))


def _check_count(entry: Fields, name: str, asked: _Asked, reading: _Reading) -> None:
    if not asked.questions:
        hint = f"; {reading.notes[0].message}" if reading.notes else ""
        raise Refused(
            "empty_queries",
            f"the input {name!r} has no question: give scoring.queries or queries of its own{hint}",
            entry.path,
        )
    most = reading.limits.max_prompts_per_input
    if asked.prompts > most:
        raise Refused(
            "too_many_prompts",
            f"the input {name!r} has {asked.prompts} filled templates; the limit is {most} "
            "(max_prompts_per_input): split them over several requests",
            entry.path,
        )
