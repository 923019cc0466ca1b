"""`scoring.packs` of a request: which packs, how they decide, and what they do to the contents."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from spinf_serve.engine.api import Engine
from spinf_serve.packs.decision import DecisionCall, check_call
from spinf_serve.packs.errors import Refused
from spinf_serve.packs.pack import Context, Mode, Pack
from spinf_serve.packs.present import filled
from spinf_serve.packs.question import Question, Slot
from spinf_serve.server.calls import UsedPack
from spinf_serve.server.served_packs import ServedPacks
from spinf_serve.server.wire.fields import Fields, wrong_type

_PACK = frozenset({"id", "version", "context", "include_queries", "decision"})
_DECISION = frozenset({"mode", "threshold", "thresholds", "critical"})
_SHOWN_CHARS = 128
_PARAMETERS_PLACE = "parameters of a context stand in inputs[].parameters"


def read_packs(scoring: Fields, served: ServedPacks, engine: Engine) -> tuple[UsedPack, ...]:
    """The entries of `scoring.packs`; empty when there are none.

    Raises:
        Refused: with the path of the field; unlike elsewhere an unknown field is refused, since a
            misspelt threshold would decide differently in silence.
    """
    found: dict[str, UsedPack] = {}
    for index, entry in enumerate(scoring.items("packs") or []):
        ref = _ref(Fields(entry, f"scoring.packs.{index}", _PACK), served, engine)
        if ref.pack.id in found:
            raise Refused(
                "duplicate_id",
                f"the pack {ref.pack.id!r} is also {found[ref.pack.id].path}; a call uses one "
                "version of a pack",
                f"{ref.path}.id",
            )
        found[ref.pack.id] = ref
    refs = tuple(found.values())
    _check_agreement(scoring, refs)
    return refs


def _ref(entry: Fields, served: ServedPacks, engine: Engine) -> UsedPack:
    if "parameters" in entry.unknown:
        raise Refused(
            "invalid_field",
            f"{entry.at('parameters')} is not a field of a pack reference: {_PARAMETERS_PLACE}, "
            "since every content may have its own",
            entry.at("parameters"),
        )
    _refuse_unknown(entry, "a pack reference", _PACK)
    name = entry.text("id")
    version = entry.optional_text("version")
    try:
        pack = served.catalogue.get(name, version)
    except Refused as refused:
        raise refused.within(entry.path) from None
    fit = served.fit(pack, engine)
    if fit.refusal is not None:
        raise fit.refusal.within(entry.path)
    call = _decision(entry)
    try:
        check_call(pack, fit.constants, call)
    except Refused as refused:
        raise refused.within(entry.path) from None
    return UsedPack(
        path=entry.path,
        pack=pack,
        fit=fit,
        context=_context(entry, pack),
        include_queries=entry.flag("include_queries", False),
        decision=call,
    )


def _refuse_unknown(fields: Fields, what: str, known: frozenset[str]) -> None:
    if fields.unknown:
        name = fields.unknown[0]
        near = next((f"; did you mean `{b}`?" for a, b in fields.misspelt() if a == name), "")
        raise Refused(
            "invalid_field",
            f"{fields.at(name)[:_SHOWN_CHARS]} is not a field of {what}, which has "
            f"{', '.join(sorted(known))}{near}",
            fields.at(name),
        )


def _context(entry: Fields, pack: Pack) -> Context:
    name = entry.optional_text("context")
    if name is None:
        return next(iter(pack.contexts.values()))
    if name not in pack.contexts:
        raise entry.refused(
            "context",
            f"is {name[:_SHOWN_CHARS]!r}; the pack {pack.id} has {', '.join(pack.contexts)}",
        )
    return pack.contexts[name]


def _decision(entry: Fields) -> DecisionCall:
    if entry.get("decision") is None:
        return DecisionCall()
    fields = Fields(entry.get("decision"), entry.at("decision"), _DECISION)
    _refuse_unknown(fields, "a decision", _DECISION)
    threshold = fields.get("threshold")
    cuts = fields.mapping("thresholds") or {}
    critical = fields.items("critical")
    for index, name in enumerate(critical or []):
        if type(name) is not str:
            raise wrong_type(name, f"{fields.at('critical')}.{index}", "a text")
    return DecisionCall(
        # The pack says which modes it has; any other text is refused there.
        mode=cast(Mode | None, fields.optional_text("mode")),
        threshold=None if threshold is None else _number(threshold, fields.at("threshold")),
        thresholds={
            name: None if cut is None else _number(cut, f"{fields.at('thresholds')}.{name}")
            for name, cut in cuts.items()
        },
        critical=None if critical is None else tuple(critical),
    )


def _number(value: Any, path: str) -> float:
    if type(value) not in (int, float):
        raise wrong_type(value, path, "a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise Refused("invalid_field", f"{path} is not finite; give a number", path)
    return number


def _check_agreement(scoring: Fields, refs: Sequence[UsedPack]) -> None:
    """Refuses packs that contradict one another or the call about spellings."""
    if not refs:
        return
    first = refs[0]
    for other in refs[1:]:
        if other.pack.case_insensitive != first.pack.case_insensitive:
            raise Refused(
                "pack_conflict",
                f"the packs {first.pack.id} and {other.pack.id} differ in case_insensitive; ask "
                "them in two calls",
                other.path,
            )
    given = scoring.get("case_insensitive")
    if given is not None and given != first.pack.case_insensitive:
        raise Refused(
            "pack_conflict",
            f"scoring.case_insensitive is {str(given).lower()}, but the pack {first.pack.id} was "
            f"made with {str(first.pack.case_insensitive).lower()}; leave the field out",
            "scoring.case_insensitive",
        )


def check_own(
    questions: Mapping[str, tuple[Question | Slot, str]], refs: Sequence[UsedPack]
) -> None:
    """Refuses own questions that take an id or a group of a used pack."""
    if not questions or not refs:
        return
    groups = {ref.pack.group: ref.pack.id for ref in refs}
    taken = {question.id: ref.pack.id for ref in refs for question in ref.pack.questions}
    for name, (question, path) in questions.items():
        if name in taken:
            raise Refused(
                "duplicate_id",
                f"the id {name!r} is also that of a question of the pack {taken[name]}; choose "
                "another",
                f"{path}.id",
            )
        if question.group in groups:
            raise Refused(
                "reserved_group",
                f"the group {question.group!r} is that of the pack {groups[question.group]}; "
                "choose another",
                f"{path}.group",
            )


def wrapping(entry: Fields, refs: Sequence[UsedPack], single: bool = False) -> tuple[str, str]:
    """Text that the packs put before and after an input's content.

    Args:
        single: whether the body gave `messages` and no `inputs`, and so can give no parameters.

    Raises:
        Refused: `invalid_field` for a parameter that is missing or not every pack's;
            `pack_conflict` for packs that present the content in different words.
    """
    if not refs:
        return "", ""
    where = entry.at("parameters")
    given = parameters_of(entry)
    pairs = []
    for ref in refs:
        try:
            pairs.append(filled(ref.pack, ref.context, given))
        except Refused as refused:
            hint = _parameter_hint(refused.param or "", given, ref, refs, single)
            raise Refused(refused.code, f"{where}: {refused.message}{hint}", where) from None
    for ref, pair in zip(refs[1:], pairs[1:], strict=True):
        if pair != pairs[0]:
            raise Refused(
                "pack_conflict",
                f"the packs {refs[0].pack.id} (context {refs[0].context.name}) and {ref.pack.id} "
                f"(context {ref.context.name}) present the content in different words; ask them "
                "in two calls, or choose contexts that agree (GET /v1/packs tells them)",
                ref.path,
            )
    return pairs[0]


def _parameter_hint(
    name: str, given: Mapping[str, str], ref: UsedPack, refs: Sequence[UsedPack], single: bool
) -> str:
    """What else to say of a parameter that a pack lacks or misses."""
    if single:
        return f"; {_PARAMETERS_PLACE}: give inputs in place of messages"
    others = [one.pack.id for one in refs if name in one.pack.parameters]
    if name in given and name not in ref.pack.parameters and others:
        return (
            f", which {', '.join(others)} has: every parameter must be known to all packs of a "
            "call, so ask packs with different contexts in two calls"
        )
    return ""


def parameters_of(entry: Fields) -> dict[str, str]:
    """The input's parameters as text; others than texts as Python prints them, as clients do."""
    given = entry.mapping("parameters") or {}
    texts: dict[str, str] = {}
    for name, value in given.items():
        if type(value) is str:
            texts[name] = value
        elif type(value) in (bool, int, float):
            # JSON can write numbers that are too large to be read, such as 1e999.
            if type(value) is float and not math.isfinite(value):
                path = entry.at(f"parameters.{name}")
                raise Refused("invalid_field", f"{path} is not finite; give a number", path)
            texts[name] = str(value)
        else:
            raise wrong_type(
                value, entry.at("parameters"), "an object of texts, numbers or booleans"
            )
    return texts
