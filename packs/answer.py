"""Answers: what a question gets back, in natural-log units and probabilities between 0 and 1."""

from collections.abc import Mapping
from typing import NamedTuple

DECIMALS = 6
"""Decimals of probabilities, log-probabilities and scores over HTTP, unless all are asked for."""

_STEPS = 10.0**DECIMALS


def rounded(value: float) -> float:
    """The value with `DECIMALS` decimals, as HTTP shows it and as packs with `answers: p` read it."""
    # Three times as fast as `round(value, DECIMALS)`, and gives no -0.0.
    return round(value * _STEPS) / _STEPS


class OptionAnswer(NamedTuple):
    """One option of one filled template.

    Attributes:
        text: the option as the caller wrote it.
        logprob: natural log of the probability of the option's text at temperature 1, float64.
        p: softmax of the options' logprobs.
        floor_p: `p` of the same prompt on empty content; None when no floor was asked for.
        floor_logprob: `logprob` on empty content; None when no floor was asked for.
    """

    text: str
    logprob: float
    p: float
    floor_p: float | None
    floor_logprob: float | None


class PromptAnswer(NamedTuple):
    """One filled template.

    Attributes:
        values: placeholder name -> value.
        options: one answer per option, in the caller's order.
        residual: max(0, 1 - sum of exp(logprob)): mass outside the options.
        floor_residual: the same on empty content; None when no floor was asked for.
    """

    values: Mapping[str, str]
    options: tuple[OptionAnswer, ...]
    residual: float
    floor_residual: float | None


class QuestionAnswer(NamedTuple):
    """One question on one content.

    Attributes:
        id: the question's id.
        prompts: one answer per filled template, in order.
        single_read: whether every option is decided at one read position.
    """

    id: str
    prompts: tuple[PromptAnswer, ...]
    single_read: bool
