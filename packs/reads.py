"""Reads: how the answers to one filled template become one number, and its distance from usual.

Formulas of the pack format, in float64, one content at a time. Knows no categories.
"""

from collections.abc import Mapping, Sequence
from math import exp, isfinite, isnan, log

import numpy as np
from numpy.typing import NDArray

from spinf_serve.packs.answer import OptionAnswer, QuestionAnswer, rounded
from spinf_serve.packs.errors import Fault
from spinf_serve.packs.pack import Constants, Pack, Read

Vectors = Mapping[tuple[str, str | None], NDArray[np.float64]]
"""(question id, value of its placeholder `F` or None) -> p of its options, [K] between 0 and 1."""

LEAST_P = 1e-9
"""Smaller probabilities count as this one."""

LEAST_SHARE = 1e-6
"""The share of the first of two options stays this far from 0 and 1."""


def vectors(pack: Pack, answers: Sequence[QuestionAnswer]) -> Vectors:
    """What the pack's reads need of one content's answers.

    Args:
        pack: says whether p is taken as the API rounds it (`answers: p`) or unrounded, as the
            softmax of the logprobs (`answers: logprob`).
        answers: of one content; answers to questions that are not the pack's are left alone.

    Two filled templates of one question with the same `F` are one key, the last counts; reads
    cannot tell them apart. Raises `Fault` when an answer is missing or not a number.
    """
    own = {question.id for question in pack.questions}
    found: dict[tuple[str, str | None], NDArray[np.float64]] = {}
    for answer in answers:
        if answer.id in own:
            for prompt in answer.prompts:
                found[answer.id, prompt.values.get("F")] = _vector(pack, answer.id, prompt.options)
    for read in pack.reads:
        if (read.query, read.value) not in found:
            about = "" if read.value is None else f" for {read.value!r}"
            raise Fault(f"read {read.id}: question {read.query}{about} has no answer", read.query)
    return found


def _vector(pack: Pack, question: str, options: Sequence[OptionAnswer]) -> NDArray[np.float64]:
    if pack.answers == "logprob":
        return shares([option.logprob for option in options], question)
    if not all(isfinite(option.p) for option in options):
        raise Fault(f"question {question}: a p is not a finite number", question)
    return np.array([rounded(option.p) for option in options], dtype=np.float64)


def shares(logprobs: Sequence[float], question: str) -> NDArray[np.float64]:
    """Softmax of natural logs, [K] float64; `question` names the culprit in a `Fault`."""
    highest = max(logprobs)
    if not isfinite(highest) or any(map(isnan, logprobs)):
        raise Fault(f"question {question}: the logprobs {list(logprobs)} are no numbers", question)
    weights = [exp(value - highest) for value in logprobs]
    total = sum(weights)
    return np.array([weight / total for weight in weights], dtype=np.float64)


def log_shares(p: NDArray[np.float64]) -> list[float]:
    """ln of each option's share, after p below `LEAST_P` is raised to it, [K]."""
    raised = [max(value, LEAST_P) for value in p.tolist()]
    total = sum(raised)
    return [log(value / total) for value in raised]


def read_value(read: Read, mu: Sequence[float], p: NDArray[np.float64]) -> float:
    """The read's number in nats, before its usual level is taken off.

    Args:
        read: says which formula.
        mu: usual log shares, as in `ReadFit.mu`; empty for `pair`.
        p: probabilities of the question's options, [K].
    """
    return _pair(read, p) if read.kind == "pair" else _contrast(read, mu, log_shares(p))


def read_z(pack: Pack, constants: Constants, answers: Vectors) -> dict[str, float]:
    """Read id -> z = (value - mean) / sd, in the order of the pack's reads."""
    z = {}
    # Many reads of a pack look at the same answer, each at another option.
    logs: dict[tuple[str, str | None], list[float]] = {}
    for read in pack.reads:
        fitted = constants.reads[read.id]
        key = (read.query, read.value)
        if read.kind == "pair":
            value = _pair(read, answers[key])
        else:
            if key not in logs:
                logs[key] = log_shares(answers[key])
            value = _contrast(read, fitted.mu, logs[key])
        z[read.id] = (value - fitted.mean) / fitted.sd
    return z


def _pair(read: Read, p: NDArray[np.float64]) -> float:
    first, second = (max(value, LEAST_P) for value in p.tolist())
    share = min(max(first / (first + second), LEAST_SHARE), 1 - LEAST_SHARE)
    return read.sign * log(share / (1 - share))


def _contrast(read: Read, mu: Sequence[float], logs: Sequence[float]) -> float:
    """The other kinds, from log shares, [K]."""
    if read.kind == "option":
        if read.option is None:
            raise AssertionError(f"read {read.id} is of kind option and names none")
        return logs[read.option] - mu[0]
    above = [value - usual for value, usual in zip(logs, mu, strict=True)]
    if read.kind == "any":
        return _log_sum(above[1:]) - above[0]
    return _log_sum([above[index] for index in read.unsafe]) - _log_sum(
        [value for index, value in enumerate(above) if index not in read.unsafe]
    )


def _log_sum(logs: Sequence[float]) -> float:
    highest = max(logs)
    return highest + log(sum(exp(value - highest) for value in logs))
