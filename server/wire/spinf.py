"""Bodies of /v1/score and its chat alias: from JSON values to a call. Answers: `spinf_reply`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spinf_serve.engine.api import Engine
from spinf_serve.engine.work import Limits
from spinf_serve.packs.errors import Refused
from spinf_serve.server.auth import Caller
from spinf_serve.server.call_warnings import Warning
from spinf_serve.server.calls import Call, lowered
from spinf_serve.server.compiling import Budget
from spinf_serve.server.features import ALL_ON, Features, Switches, features_of
from spinf_serve.server.served_packs import ServedPacks
from spinf_serve.server.wire.fields import Fields, wrong_type
from spinf_serve.server.wire.inputs import (
    MAX_ID_CHARS,
    MAX_NOTES,
    Reading,
    ignored,
    read_inputs,
    read_questions,
)
from spinf_serve.server.wire.json_text import Document, half_pair
from spinf_serve.server.wire.model_field import read_model
from spinf_serve.server.wire.pack_refs import check_own, read_packs
from spinf_serve.server.wire.slots import Calibration

_BODY = frozenset({"model", "messages", "inputs", "scoring", "endpoint", "limits", "features"})
_SCORING = frozenset({"queries", "empty_floor", "case_insensitive", "packs", "precision"})
_BELONGS = {name: f"scoring.{name}" for name in sorted(_SCORING)} | {
    "parameters": "inputs[].parameters, beside the input's messages"
}
"""Fields that are easily written at the top of a body, and where they belong."""

_FEATURES = frozenset({"media", "extraction", "generation"})
_LIMITS = frozenset(Limits.__dataclass_fields__) | {
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
        calibrations: path of a slot -> how its best answer is calibrated.
    """

    call: Call
    model: str
    endpoint: str | None
    full_precision: bool
    chat: bool
    warnings: tuple[Warning, ...]
    calibrations: Mapping[str, Calibration]


_CHARS_OF_TOKEN = 8
"""More than the characters of a token of ordinary text: bounds memory before anything is tokenised."""


def read_request(
    document: Document,
    engine: Engine,
    caller: Caller,
    chat: bool,
    packs: ServedPacks,
    switches: Switches = ALL_ON,
) -> ScoreRequest:
    """Reads a body.

    Raises:
        Refused: with the code and the dotted path of the field at fault; a body with `messages`
            is reported as if it had been an `inputs` of one.
    """
    value = document.value
    if document.may_hold_half_pairs:
        _refuse_half_pairs(value)
    body = Fields(value, "", _BODY)
    model = read_model(body, engine) if body.has("model") else engine.served.id
    endpoint = body.optional_text("endpoint", MAX_ID_CHARS)
    if endpoint == "":
        raise body.refused("endpoint", "is empty; give 1 to 128 characters or leave it out")
    limits = _limits(body, engine.limits, caller)
    most = engine.limits.max_processed_tokens
    reading = Reading(
        limits,
        # No option and no repeated template costs a token, so token counts alone bound neither.
        templates=Budget(most, "filled templates"),
        characters=Budget(most * _CHARS_OF_TOKEN, "characters of filled templates"),
        answers=Budget(most, "probabilities of options"),
        features=_features(body, features_of(engine, switches), caller),
    )
    reading.note(body, _BELONGS)
    if caller.trusted:
        for name, known in (("limits", _LIMITS), ("features", _FEATURES)):
            if body.get(name) is not None:
                reading.note(Fields(body.get(name), name, known))
    if chat:
        if body.get("scoring") is None:
            why = features_of(engine, switches).generation
            raise Refused(
                "scoring_required",
                f"{body.missing('scoring').message}, and no text is written here"
                f"{'' if why is None else f': {why}'}; give scoring.queries (with the OpenAI SDK "
                "inside extra_body)",
                "scoring",
            )
        _note_ignored(body, reading)
    scoring = Fields(
        {} if body.get("scoring") is None else body.get("scoring"), "scoring", _SCORING
    )
    reading.note(scoring, {"parameters": _BELONGS["parameters"]})
    full_precision = _full_precision(scoring)
    reading.empty_floor = scoring.flag("empty_floor", True)
    reading.case_insensitive = scoring.flag("case_insensitive", True)
    reading.packs = read_packs(scoring, packs, engine)
    if reading.packs:
        reading.case_insensitive = reading.packs[0].pack.case_insensitive
    shared = read_questions(scoring, reading)
    check_own(shared, reading.packs)
    inputs = read_inputs(body, shared, reading)
    return ScoreRequest(
        call=Call(inputs, reading.limits, reading.packs),
        model=model,
        endpoint=endpoint,
        full_precision=full_precision,
        chat=chat,
        warnings=tuple(reading.notes),
        calibrations=reading.calibrations,
    )


def _note_ignored(body: Fields, reading: Reading) -> None:
    """Chat clients send sampling settings; scores are what they are without any of them."""
    noted = {note.param for note in reading.notes}
    reading.notes += [
        ignored(name, "is ignored: scores are read at temperature 1, nothing is generated")
        for name in body.unknown[: MAX_NOTES - len(noted)]
        if name not in noted
    ]


def _refuse_half_pairs(value: Any) -> None:
    found = half_pair(value)
    if found is not None:
        path, fault = found
        where = f"inputs.0.{path}" if path.startswith("messages.") else path or "body"
        raise Refused("invalid_field", f"{where} is not valid Unicode: {fault}", where)


def _limits(body: Fields, own: Limits, caller: Caller) -> Limits:
    """The call's limits; from anybody who is not trusted, `limits` is not read."""
    if not caller.trusted or body.get("limits") is None:
        return own
    limits = Fields(body.get("limits"), "limits", _LIMITS)
    wanted = {name: limits.get(name) for name in _LIMITS if limits.get(name) is not None}
    for name, value in wanted.items():
        if type(value) is not int:
            raise wrong_type(value, limits.at(name), "a whole number")
        if value < 1:
            raise limits.refused(name, f"is {value}; 1 or more is needed")
    return lowered(own, wanted)


def _features(body: Fields, own: Features, caller: Caller) -> Features:
    """What the call may ask for; from anybody who is not trusted, `features` is not read."""
    if not caller.trusted or body.get("features") is None:
        return own
    features = Fields(body.get("features"), "features", _FEATURES)
    # No model reads media so far, so their form is all there is to it.
    for index, kind in enumerate(features.items("media") or []):
        if type(kind) is not str:
            raise wrong_type(kind, f"features.media.{index}", "a text")
    return own.without(
        extraction=not features.flag("extraction", True),
        generation=not features.flag("generation", True),
    )


def _full_precision(scoring: Fields) -> bool:
    precision = scoring.optional_text("precision")
    if precision not in (None, "full"):
        raise scoring.refused(
            "precision", f'is {precision[:32]!r}; "full" gives unrounded values, leave it out else'
        )
    return precision is not None
