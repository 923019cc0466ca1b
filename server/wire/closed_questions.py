"""Closed questions, as the decision formats share them: yes or no, one of labels, a level.

The one inner form between two outer ones. `templates` words it for a model; `distribution` reads
the answer. Knows no JSON of either format.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from spinf_serve.engine.work import PromptStyle, Result
from spinf_serve.packs.answer import QuestionAnswer
from spinf_serve.server.call_warnings import Warning
from spinf_serve.server.calls import Call


class Kind(Enum):
    """What a question asks for. The value is its name in logs."""

    NOUL = "noul"
    CHOICE = "choice"
    SCORE = "score"


FLOOR_WEIGHT: Mapping[tuple[PromptStyle, Kind], float] = {
    ("cloze", Kind.NOUL): 0.5,
    ("cloze", Kind.CHOICE): 1.0,
    ("cloze", Kind.SCORE): 1.0,
    ("chat", Kind.NOUL): 0.0,
    ("chat", Kind.CHOICE): 0.0,
    ("chat", Kind.SCORE): 0.0,
}
"""How much of a label's floor is taken off before labels are compared; docs/decisions.md says why."""


@dataclass(frozen=True, slots=True)
class ClosedQuestion:
    """A question whose answers are known beforehand.

    Attributes:
        kind: yes or no, one of some labels, or a level of a scale.
        key: the caller's name for it; never shown to the model.
        path: where it stands in the request.
        instructions: what is asked, in words; empty when only the descriptions say it.
        labels: texts of the possible answers, distinct: yes before no, levels from the lowest.
        descriptions: what each label means; empty where the label says it.
    """

    kind: Kind
    key: str
    path: str
    instructions: str
    labels: tuple[str, ...]
    descriptions: tuple[str, ...]

    @property
    def canonical(self) -> tuple[int, ...]:
        """Places of the labels in the order in which the model's reading is made.

        It depends on the labels alone, so that the caller's order moves no bit of a probability.
        """
        return tuple(sorted(range(len(self.labels)), key=self.labels.__getitem__))


@dataclass(frozen=True, slots=True)
class ClosedRequest:
    """A request of closed questions about one content.

    Attributes:
        call: the same in the words of the engine: one input, one question each.
        questions: what is asked, in the caller's order.
        style: how they were worded.
        warnings: what the caller should know.
        outer: for each question what the format needs to write its answer; the format's own.
    """

    call: Call
    questions: tuple[ClosedQuestion, ...]
    style: PromptStyle
    warnings: tuple[Warning, ...]
    outer: tuple[Any, ...]

    def distributions(self, result: Result) -> list[tuple[float, ...]]:
        """For each question the probabilities of its labels, in the caller's order."""
        answers = zip(self.questions, result.answers, strict=True)
        return [
            distribution(question, answer, FLOOR_WEIGHT[self.style, question.kind])
            for question, answer in answers
        ]


def distribution(
    question: ClosedQuestion, answer: QuestionAnswer, floor_weight: float
) -> tuple[float, ...]:
    """Probabilities of a question's labels in the caller's order; they sum to 1.

    p is proportional to exp(logprob - floor_weight * floor_logprob): so much of what the model would
    say to an empty content is taken off.
    """
    options = answer.prompts[0].options
    logits = [
        option.logprob
        if option.floor_logprob is None
        else option.logprob - floor_weight * option.floor_logprob
        for option in options
    ]
    top = max(logits)
    weights = [math.exp(logit - top) for logit in logits]
    # Rounded once, so that no order of the labels shows.
    total = math.fsum(weights)
    p = [0.0] * len(weights)
    for place, weight in zip(question.canonical, weights, strict=True):
        p[place] = weight / total
    return tuple(p)
