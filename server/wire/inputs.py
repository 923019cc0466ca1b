"""Questions and inputs of a request: from JSON values to the inputs of a call."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import Any

from spinf_serve.engine.work import Limits
from spinf_serve.packs.ask import scored_question
from spinf_serve.packs.errors import Refused
from spinf_serve.packs.question import NO_VALUES, Question, Slot
from spinf_serve.server.call_warnings import Warning
from spinf_serve.server.calls import Input, UsedPack
from spinf_serve.server.compiling import Budget
from spinf_serve.server.features import Features
from spinf_serve.server.wire.content import read_content
from spinf_serve.server.wire.fields import Fields, wrong_type
from spinf_serve.server.wire.pack_refs import check_own, parameters_of, wrapping
from spinf_serve.server.wire.slots import SLOT_FIELDS, Calibration, open_template, read_slot

MAX_ID_CHARS = 128
"""Longest id of an input or query, and longest endpoint."""

NO_PLACES: Mapping[str, str] = MappingProxyType({})

MAX_NOTES = 32
"""Most ignored fields that one answer tells of."""

_INPUT = frozenset({"id", "messages", "query_ids", "queries", "parameters"})
_QUERY = frozenset(
    {"id", "template", "options", "combinations", "values", "empty_floor", "group", *SLOT_FIELDS}
)

Asking = Question | Slot
"""A query: a question with options, or a slot whose answer is found or written."""


def ignored(path: str, why: str) -> Warning:
    """The warning about a field that has no effect."""
    return Warning("ignored_field", f"{path} {why}", param=path)


@dataclass(slots=True)
class Reading:
    """What reading a body needs on the way.

    Attributes:
        limits: the limits of this call.
        empty_floor, case_insensitive: the call's defaults for questions.
        templates: filled templates that may still be made.
        characters: characters that these may still have.
        answers: probabilities that may still be asked for.
        packs: the packs of the call.
        features: whether slots may be asked.
        calibrations: path of a slot -> how its best answer is calibrated.
        notes: warnings so far.
    """

    limits: Limits
    templates: Budget
    characters: Budget
    answers: Budget
    empty_floor: bool = True
    case_insensitive: bool = True
    packs: tuple[UsedPack, ...] = ()
    features: Features = field(default_factory=Features)
    calibrations: dict[str, Calibration] = field(default_factory=dict)
    notes: list[Warning] = field(default_factory=list)

    def note(self, fields: Fields, elsewhere: Mapping[str, str] = NO_PLACES) -> None:
        """Remembers the unknown fields of an object that look like misspelt or misplaced ones.

        Args:
            elsewhere: names of fields that other objects have -> where they belong.
        """
        if fields.unknown and len(self.notes) < MAX_NOTES:
            misplaced = [name for name in fields.unknown if name in elsewhere]
            self.notes += [
                ignored(
                    fields.at(name),
                    f"is not a field here and was ignored; it belongs into {elsewhere[name]}",
                )
                for name in misplaced
            ]
            self.notes += [
                ignored(fields.at(name), f"is not a field and was ignored; did you mean `{near}`?")
                for name, near in fields.misspelt()
                if name not in misplaced
            ]


@dataclass(frozen=True, slots=True)
class _Asked:
    """Queries of an input and where each stands in the request; counted once.

    Attributes:
        questions, paths: the scored ones.
        slots, slot_paths: the others.
        slot_places: how many queries of both kinds stand before each slot.
        prompts: filled templates of both.
        answers: probabilities of options.
        extractions: filled templates of slots.
    """

    questions: tuple[Question, ...]
    paths: tuple[str, ...]
    slots: tuple[Slot, ...]
    slot_paths: tuple[str, ...]
    slot_places: tuple[int, ...]
    prompts: int
    answers: int
    extractions: int

    @property
    def queries(self) -> int:
        """How many there are of both kinds."""
        return len(self.questions) + len(self.slots)

    def in_order(self) -> list[tuple[Asking, str]]:
        """Queries of both kinds with their paths, as they were asked."""
        entries: list[tuple[Asking, str]] = list(zip(self.questions, self.paths, strict=True))
        slots = zip(self.slot_places, self.slots, self.slot_paths, strict=True)
        for place, slot, path in slots:
            entries.insert(place, (slot, path))
        return entries

    def behind(self, packs: tuple[UsedPack, ...]) -> "_Asked":
        """The same with the questions of the packs behind; each stands where its pack is named."""
        if not packs:
            return self
        theirs = [(question, used.path) for used in packs for question in used.pack.questions]
        return _asked(chain(self.in_order(), theirs))


def _asked(chosen: Iterable[tuple[Asking, str]]) -> _Asked:
    entries = list(chosen)
    questions = [(one, path) for one, path in entries if isinstance(one, Question)]
    slots = [
        (one, path, place) for place, (one, path) in enumerate(entries) if isinstance(one, Slot)
    ]
    return _Asked(
        tuple(question for question, _ in questions),
        tuple(path for _, path in questions),
        tuple(slot for slot, _, _ in slots),
        tuple(path for _, path, _ in slots),
        tuple(place for _, _, place in slots),
        sum(len(one.prompts) for one, _ in entries),
        sum(len(question.prompts) * len(question.options) for question, _ in questions),
        sum(len(slot.prompts) for slot, _, _ in slots),
    )


def read_questions(owner: Fields, reading: Reading) -> dict[str, tuple[Asking, str]]:
    """The queries of `queries`, by id, with the path of each."""
    found: dict[str, tuple[Asking, str]] = {}
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


def _question(value: Any, path: str, reading: Reading) -> Asking:
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
    question: Asking
    try:
        parsed = open_template(template)
    except Refused as refused:
        raise refused.within(path) from None
    if parsed is not None:
        if query.get("empty_floor") is not None:
            reading.notes.append(ignored(query.at("empty_floor"), "has no effect on a slot"))
        question, calibration = read_slot(
            query, name, parsed, combinations, values, group, reading.features
        )
        if calibration is not None:
            reading.calibrations[path] = calibration
        _count(question, reading)
        return question
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
            slot_fields=[name for name in SLOT_FIELDS if query.get(name) is not None],
            unknown=query.unknown[:MAX_NOTES],
        )
    except Refused as refused:
        raise refused.within(path) from None
    _count(question, reading)
    return question


def _count(question: Asking, reading: Reading) -> None:
    reading.templates.take(len(question.prompts))
    reading.characters.take(sum(len(prompt.text) for prompt in question.prompts))


def read_inputs(
    body: Fields, shared: dict[str, tuple[Asking, str]], reading: Reading
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
    selections: dict[tuple[str, ...] | None, tuple[_Asked, _Asked]] = {}
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
            own = _asked(map(shared.__getitem__, shared if key is None else key))
            selections[key] = own, own.behind(reading.packs)
        own, asked = selections[key]
        if entry.get("queries") is not None:
            own = _with_own(entry, own, reading)
            asked = own.behind(reading.packs)
        _check_count(entry, name, asked, reading)
        reading.answers.take(asked.answers)
        around = wrapping(entry, reading.packs, single=messages is not None)
        content = read_content(entry, reading.packs, single=messages is not None)
        found[name] = Input(
            id=name,
            path=path,
            content=around[0] + content + around[1],
            questions=asked.questions,
            question_paths=asked.paths,
            own=len(own.questions),
            slots=asked.slots,
            slot_paths=asked.slot_paths,
            slot_places=asked.slot_places,
            wrapping=around,
            parameters=parameters_of(entry) if reading.packs else NO_VALUES,
        )
    return tuple(found.values())


def _neither(body: Fields) -> Refused:
    near = [pair for pair in body.misspelt() if pair[1] in ("messages", "inputs")]
    hint = f"; `{near[0][0]}` is not a field, did you mean `{near[0][1]}`?" if near else ""
    return body.refused("messages", f"and inputs are both missing; exactly one is needed{hint}")


def _chosen_ids(entry: Fields, shared: dict[str, tuple[Asking, str]]) -> tuple[str, ...] | None:
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


def _with_own(entry: Fields, chosen: _Asked, reading: Reading) -> _Asked:
    own = read_questions(entry, reading)
    check_own(own, reading.packs)
    for question, path in chosen.in_order():
        if question.id in own:
            raise Refused(
                "duplicate_id",
                f"the id {question.id!r} is also that of {path}, which this input chooses",
                f"{own[question.id][1]}.id",
            )
    return _asked(chain(chosen.in_order(), own.values()))


def _check_count(entry: Fields, name: str, asked: _Asked, reading: Reading) -> None:
    if not asked.queries:
        hint = f"; {reading.notes[0].message}" if reading.notes else ""
        raise Refused(
            "empty_queries",
            f"the input {name!r} has no question: give scoring.queries, scoring.packs or queries of "
            f"its own{hint}",
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
    most = reading.limits.max_extractions_per_input
    if asked.extractions > most:
        raise Refused(
            "too_many_extractions",
            f"the input {name!r} has {asked.extractions} filled templates with a slot for a free "
            f"answer; the limit is {most} (max_extractions_per_input): split them over several "
            "requests",
            entry.path,
        )
