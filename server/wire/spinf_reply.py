"""Bodies of /v1/score and its chat alias: from results to JSON. Requests: `spinf`."""

from collections.abc import Mapping, Sequence
from typing import Any

from spinf_serve.engine.api import Engine
from spinf_serve.engine.work import Result
from spinf_serve.packs.answer import OptionAnswer, PromptAnswer, rounded
from spinf_serve.packs.question import Question
from spinf_serve.server.call_warnings import Warning
from spinf_serve.server.calls import Input, answers_of_packs, shown_answers, shown_slots
from spinf_serve.server.exchange import Timing
from spinf_serve.server.usage import Usage
from spinf_serve.server.wire.json_text import encode
from spinf_serve.server.wire.pack_reply import pack_result
from spinf_serve.server.wire.slot_reply import slot_body, slot_usage
from spinf_serve.server.wire.spinf import ScoreRequest


def reply(
    request: ScoreRequest,
    results: Sequence[Result],
    usage: Usage,
    warnings: Sequence[Warning],
    *,
    engine: Engine,
    request_id: str,
    created: int,
    timing: Timing,
    extras: bool,
) -> bytes:
    """The body of an answer.

    Args:
        results: one per input of the request.
        created: unix seconds.
        extras: whether the caller gets the `engine` block and the extra usage counters.
    """
    head: dict[str, Any] = {
        "id": request_id,
        "object": "score",
        "created": created,
        "model": request.model,
    }
    if request.endpoint is not None:
        head["endpoint"] = request.endpoint
    head["system_fingerprint"] = engine.fingerprint.short
    tail: dict[str, Any] = {
        "warnings": [_warning(warning) for warning in warnings],
        "usage": _usage(usage, extras),
        "timing": _timing(timing),
    }
    if extras:
        tail["engine"] = engine_facts(engine)
    if request.chat:
        tail["choices"] = []
    # One piece per input: encoding holds the interpreter, and health checks run between pieces.
    pieces = []
    at = 0
    while at < len(results):
        entry = request.call.inputs[at]
        chunks = results[at : at + entry.parts]
        pieces.append(encode(_result(request, entry, chunks)))
        at += entry.parts
    return b'%s,"results":[%s],%s' % (encode(head)[:-1], b",".join(pieces), encode(tail)[1:])


def _result(request: ScoreRequest, entry: Input, chunks: Sequence[Result]) -> dict[str, Any]:
    """An input's part of the answer, from the result of each of its chunks; mostly there is one."""
    call = request.call
    prompt_body = _full_prompt if request.full_precision else _prompt
    queries = [
        _query(question, [prompt_body(prompt) for prompt in answer.prompts])
        for question, answer in shown_answers(call, entry, chunks[0])
    ]
    for place, slot, path, found in shown_slots(entry, chunks[0]):
        calibration = request.calibrations.get(path)
        queries.insert(place, slot_body(slot, found, calibration, request.full_precision))
    body: dict[str, Any] = {"input_id": entry.id, "queries": queries}
    if call.packs:
        by_chunk = [answers_of_packs(call, entry, result) for result in chunks]
        body["packs"] = [
            pack_result(parts[0][0], [answers for _, _, answers in parts], request.full_precision)
            for parts in zip(*by_chunk, strict=True)
        ]
    return body


def _query(question: Question, combinations: list[dict[str, Any]]) -> dict[str, Any]:
    body: dict[str, Any] = {"id": question.id, "combinations": combinations}
    if question.group is not None:
        body["group"] = question.group
    return body


def _prompt(prompt: PromptAnswer) -> dict[str, Any]:
    return {
        "values": dict(prompt.values),
        "options": [_option(option) for option in prompt.options],
        "residual": rounded(prompt.residual),
        "floor_residual": _optional(prompt.floor_residual),
    }


def _option(option: OptionAnswer) -> dict[str, Any]:
    text, logprob, p, floor_p, _ = option
    return {
        "text": text,
        "logprob": rounded(logprob),
        "p": rounded(p),
        "floor_p": _optional(floor_p),
    }


def _full_prompt(prompt: PromptAnswer) -> dict[str, Any]:
    return {
        "values": dict(prompt.values),
        "options": [option._asdict() for option in prompt.options],
        "residual": prompt.residual,
        "floor_residual": prompt.floor_residual,
    }


def _optional(value: float | None) -> float | None:
    return None if value is None else rounded(value)


def _warning(warning: Warning) -> dict[str, Any]:
    body: dict[str, Any] = {"code": warning.code, "message": warning.message}
    if warning.param is not None:
        body["param"] = warning.param
    if warning.input_id is not None:
        body["input_id"] = warning.input_id
    if warning.question_id is not None:
        body["query_id"] = warning.question_id
    return body


def _usage(usage: Usage, extras: bool) -> dict[str, Any]:
    content = usage.content_tokens
    prompt = content + usage.query_tokens + usage.floor_tokens
    parts = {
        "content_tokens": content,
        "text_tokens": content,
        "query_tokens": usage.query_tokens,
        "floor_tokens": usage.floor_tokens,
        "cached_tokens": usage.cached_tokens,
    }
    media = {"images": 0, "image_tokens": 0, "video_frames": 0, "video_tokens": 0}
    body: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": usage.slots.generated_tokens,
        "total_tokens": prompt + usage.slots.generated_tokens,
        "prompt_tokens_details": parts,
        "inputs": usage.inputs,
        "content": {
            "tokens": content,
            "text_tokens": content,
            **media,
            "audio_seconds": 0.0,
            "audio_tokens": 0,
        },
        "scoring": {
            "queries": usage.questions,
            "combinations": usage.combinations,
            "options": usage.options,
            "prompts": usage.prompts,
            "floor_prompts": usage.floor_prompts,
            "query_tokens": usage.query_tokens,
            "floor_tokens": usage.floor_tokens,
        },
        **slot_usage(usage.slots),
        "processed_tokens": usage.processed_tokens,
    }
    if usage.packs:
        body["packs"] = {"count": usage.packs, "query_tokens": usage.pack_query_tokens}
    if extras:
        none_of_these = {**media, "audio_ms": 0, "audio_tokens": 0}
        body |= {"packed_tokens": usage.packed_tokens, **parts}
        body |= {"generated_tokens": usage.slots.generated_tokens, **none_of_these}
    return body


def _timing(timing: Timing) -> Mapping[str, int]:
    body = {
        "wall_ms": round(timing.wall),
        "queue_ms": round(timing.queue),
        "compile_ms": round(timing.compile),
        "score_ms": round(timing.score),
        "gpu_busy_ms": round(timing.busy),
    }
    if timing.decode is not None:
        body["decode_ms"] = round(timing.decode)
    return body


def engine_facts(engine: Engine) -> dict[str, Any]:
    """Which model answered, and what its bits depend on."""
    return {
        "model": engine.served.id,
        "revision": engine.served.revision,
        "family": engine.served.family,
        "fingerprint": {"model": engine.fingerprint.model, "bits": engine.fingerprint.bits},
    }
