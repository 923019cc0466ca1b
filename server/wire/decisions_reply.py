"""Bodies of /v1/decisions: from answers to JSON. Requests: `decisions`."""

from typing import Any

from spinf_serve.engine.api import Engine
from spinf_serve.server.exchange import Scored
from spinf_serve.server.wire.closed_questions import ClosedRequest, Kind
from spinf_serve.server.wire.closed_reply import ClosedAnswer, answers_of, input_tokens, notes
from spinf_serve.server.wire.decisions import Named
from spinf_serve.server.wire.json_text import encode


def decisions_reply(scored: Scored, engine: Engine) -> bytes:
    """The body of an answer; probabilities are unrounded."""
    request: ClosedRequest = scored.asked.detail
    answers = [
        _answer(answer, named)
        for answer, named in zip(answers_of(scored), request.outer, strict=True)
    ]
    tokens = input_tokens(scored.usage)
    usage = {
        "input_tokens": tokens,
        "input_tokens_details": {
            "cached_tokens": scored.usage.cached_tokens,
            "cache_write_tokens": 0,
        },
        "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens,
    }
    body = {"model": engine.served.id, "answers": answers, "usage": usage}
    return encode(body | notes(scored.warnings))


def _answer(answer: ClosedAnswer, named: Named) -> dict[str, Any]:
    kind, p = answer.question.kind, answer.p
    if kind is Kind.NOUL:
        return {"type": "predicate", "name": named.name, "probability": p[0]}
    if kind is Kind.SCORE:
        levels = zip(named.values, p, strict=True)
        return {
            "type": "score",
            "name": named.name,
            "score": answer.score,
            "confidence": answer.confidence,
            "probabilities": [
                {"value": index, "label": label, "probability": share}
                for index, (label, share) in enumerate(levels)
            ],
        }
    return {
        "type": "choice",
        "name": named.name,
        "choice": named.values[answer.top],
        "confidence": answer.confidence,
        "probabilities": [
            {"value": value, "probability": share}
            for value, share in zip(named.values, p, strict=True)
        ],
    }
