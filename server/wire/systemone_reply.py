"""Bodies of /v1/systemone: from answers to JSON. Requests: `systemone`."""

from collections.abc import Sequence
from typing import Any

from spinf_serve.engine.api import Engine
from spinf_serve.server.exchange import Scored
from spinf_serve.server.wire.closed_questions import ClosedRequest, Kind
from spinf_serve.server.wire.closed_reply import ClosedAnswer, answers_of, input_tokens, notes
from spinf_serve.server.wire.json_text import encode


def systemone_reply(scored: Scored, engine: Engine) -> bytes:
    """The body of an answer; probabilities are unrounded."""
    request: ClosedRequest = scored.asked.detail
    answers = {
        answer.question.key: _answer(answer, levels)
        for answer, levels in zip(answers_of(scored), request.outer, strict=True)
    }
    usage = {"input_tokens": input_tokens(scored.usage), "output_tokens": 0}
    body = {"model": engine.served.id, "answers": answers, "usage": usage}
    return encode(body | notes(scored.warnings))


def _answer(answer: ClosedAnswer, levels: Sequence[Any]) -> dict[str, Any]:
    kind, p = answer.question.kind, answer.p
    if kind is Kind.NOUL:
        return {"type": kind.value, "noul": p[0]}
    if kind is Kind.SCORE:
        return {
            "type": kind.value,
            "score": answer.score,
            "confidence": answer.confidence,
            "legend": {str(index): level for index, level in enumerate(levels)},
            "probabilities": {str(index): share for index, share in enumerate(p)},
        }
    labels = answer.question.labels
    return {
        "type": kind.value,
        "choice": labels[answer.top],
        "confidence": answer.confidence,
        "probabilities": dict(zip(labels, p, strict=True)),
    }
