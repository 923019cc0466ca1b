"""Answers of slots as JSON, for /v1/score and its chat alias."""

from collections.abc import Sequence
from typing import Any

from spinf_serve.engine.extraction.answers import FoundAnswer, GeneratedAnswer, SlotAnswers
from spinf_serve.packs.answer import rounded
from spinf_serve.packs.question import Slot
from spinf_serve.server.usage import SlotUsage
from spinf_serve.server.wire.slots import Calibration


def slot_body(
    slot: Slot, prompts: Sequence[SlotAnswers], calibration: Calibration | None, full: bool
) -> dict[str, Any]:
    """A slot's part of an input's answer.

    Args:
        prompts: what each of its filled templates gave.
        calibration: of the best answer, if it is wanted.
        full: whether numbers are wanted unrounded.
    """
    body: dict[str, Any] = {"id": slot.id, "kind": prompts[0].kind}
    if slot.sampling is not None:
        body["generate"] = True
    body["combinations"] = [
        {"values": dict(prompt.values), **_combination(slot, found, calibration, full)}
        for prompt, found in zip(slot.prompts, prompts, strict=True)
    ]
    if slot.group is not None:
        body["group"] = slot.group
    return body


def _combination(
    slot: Slot, found: SlotAnswers, calibration: Calibration | None, full: bool
) -> dict[str, Any]:
    if slot.sampling is not None:
        return {"answers": [_written(one) for one in found.generated]}
    shown = _as_they_are if full else rounded
    body: dict[str, Any] = {
        "answers": [
            {"text": one.text, "p": shown(one.p), **_reading(found.kind, one)}
            for one in found.found[: slot.top_k]
        ],
        "mass": shown(found.mass),
    }
    if found.kind != "text" and found.found:
        body["p_negative"] = None if found.p_negative is None else shown(found.p_negative)
    if calibration is not None and found.found:
        body["p_calibrated"] = shown(calibration(found.found[0].p))
    return body


def _written(one: GeneratedAnswer) -> dict[str, Any]:
    return {"text": one.text, "finish": one.finish}


def _reading(kind: str, one: FoundAnswer) -> dict[str, Any]:
    """What a number or an amount says; nothing for texts."""
    if kind == "text":
        return {}
    body: dict[str, Any] = {"value": float(one.values[0]) if one.values else None}
    if kind == "currency":
        body["currency"] = one.currency
    if one.unit is not None:
        body["unit"] = one.unit
    if len(one.values) > 1:
        # Never a silent guess: the text can be read in several ways, and all of them are told.
        body |= {"ambiguous": True, "values": [float(value) for value in one.values]}
    return body


def _as_they_are(value: float) -> float:
    return value


def slot_usage(usage: SlotUsage) -> dict[str, Any]:
    """The blocks of `usage` that tell of slots; none without slots."""
    if not usage.slots:
        return {}
    body: dict[str, Any] = {
        "extraction": {
            "slots": usage.slots,
            "text": usage.text,
            "number": usage.number,
            "currency": usage.currency,
            "answers": usage.answers,
            "decode_tokens": usage.decode_tokens,
        }
    }
    if usage.generated:
        body["generation"] = {
            "slots": usage.generated,
            "sequences": usage.sequences,
            "max_tokens": usage.generated_most_tokens,
            "generated_tokens": usage.generated_tokens,
        }
    return body
