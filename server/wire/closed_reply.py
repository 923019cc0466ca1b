"""What the answers of both decision formats have in common: the values of an answer, and notes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spinf_serve.server.call_warnings import Warning
from spinf_serve.server.exchange import Scored
from spinf_serve.server.usage import Usage
from spinf_serve.server.wire.closed_questions import ClosedQuestion, ClosedRequest, Kind
from spinf_serve.server.wire.confidence import (
    choice_confidence,
    expected_level,
    score_confidence,
)

_LOW_MASS = (
    "less than a tenth of the model's probability lies on the labels of this question, so that p "
    "compares unlikely answers: take labels that answer the question in words, or a larger model"
)


@dataclass(frozen=True, slots=True)
class ClosedAnswer:
    """An answer, in no format's words.

    Attributes:
        question: what was asked.
        p: probability of each of its labels, in the caller's order.
    """

    question: ClosedQuestion
    p: tuple[float, ...]

    @property
    def top(self) -> int:
        """Place of the most probable label; of equal ones the first in canonical order."""
        return max(self.question.canonical, key=lambda place: self.p[place])

    @property
    def confidence(self) -> float:
        """How sure the answer is, within 0 and 1."""
        score = self.question.kind is Kind.SCORE
        return score_confidence(self.p) if score else choice_confidence(self.p)

    @property
    def score(self) -> float:
        """The expected level."""
        return expected_level(self.p)


def answers_of(scored: Scored) -> list[ClosedAnswer]:
    """The answers of a request of closed questions, in the caller's order."""
    request: ClosedRequest = scored.asked.detail
    distributions = request.distributions(scored.results[0])
    return list(map(ClosedAnswer, request.questions, distributions))


def input_tokens(usage: Usage) -> int:
    """Tokens of content, questions and floors, as `prompt_tokens` of /v1/score counts them."""
    return usage.content_tokens + usage.query_tokens + usage.floor_tokens


def notes(warnings: Sequence[Warning]) -> dict[str, Any]:
    """`x_warnings`, where there are any."""
    if not warnings:
        return {}
    entries = []
    for warning in warnings:
        # How a question ends is the wording's doing here, not the caller's.
        message = _LOW_MASS if warning.code == "low_option_mass" else warning.message
        entry = {"code": warning.code, "message": message, "param": warning.param}
        entries.append(entry | ({"question": warning.question_id} if warning.question_id else {}))
    return {"x_warnings": entries}
