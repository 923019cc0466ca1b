"""Questions whose answers people labelled: each a target of its own, beside the pack's categories.

A label for the target `question:<id>`, or for `question:<id>[F=<value>]` where a placeholder `F` is
filled, names the option that is right. Two options are a score and a verdict as a category has them;
more are a choice. Knows no file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spinf_serve.evals.data.cells import label_of
from spinf_serve.evals.data.labels import NO, UNSURE, YES
from spinf_serve.evals.intervals import Interval, Mean, mean, share
from spinf_serve.evals.judged import (
    QUESTION,
    Choices,
    Judged,
    Measured,
    ReadReport,
    TargetReport,
    figure_of,
)
from spinf_serve.evals.metrics.areas import roc_area
from spinf_serve.evals.metrics.classification import classes
from spinf_serve.evals.metrics.probability import LEAST_P, risk_coverage
from spinf_serve.evals.reads_measured import groups_of, thinned
from spinf_serve.evals.scored import Answers, Place, Values, question_values
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.pack import Pack

YES_AT = 0.5
"""p of the first of two options from which on it is the answer."""


class Said(Protocol):
    """What was said of a row; see `evals.data.rows.Row`."""

    @property
    def id(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, bool]: ...
    @property
    def classes(self) -> Mapping[str, str]: ...


class Labelled(Said, Protocol):
    """A row, as far as its answers' labels go."""

    @property
    def content(self) -> str: ...
    @property
    def group(self) -> str | None: ...


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """One filled template of a question with labels.

    Attributes:
        question, value: its id, and what fills its placeholder `F`; None without one.
        options: texts of the K options, without outer spaces.
        right: index of the labelled option, [N]; -1 where it is not known.
        values: the answers, [N, K].
        judged: the same as a target.
    """

    question: str
    value: str | None
    options: tuple[str, ...]
    right: NDArray[np.int64]
    values: Values
    judged: Judged


def target_of(question: str, value: str | None) -> str:
    """The target that labels of a question's answer go by."""
    return f"{QUESTION}{question}" + ("" if value is None else f"[F={value}]")


def asked(pack: Pack, rows: Sequence[Labelled], answers: Answers) -> tuple[list[Asked], list[str]]:
    """The questions that rows have labels for, in the pack's order, and what to know of the labels.

    Args:
        answers: on the rows, in their order.

    Raises `Unusable` with the row when a label is none of the question's options.
    """
    given = {name for row in rows for name in (*row.labels, *row.classes)}
    labelled = {name for name in given if name.startswith(QUESTION)}
    found, notes = [], []
    for question in pack.questions:
        for index, prompt in enumerate(question.prompts):
            value = prompt.values.get("F")
            target = target_of(question.id, value)
            if target not in labelled:
                continue
            labelled.discard(target)
            options = _texts(target, question.options)
            if UNSURE in options:
                notes.append(
                    f"{target}: a label {UNSURE!r} says that nothing is known, so no row counts as"
                    f" labelled with the option {UNSURE!r}"
                )
            found.append(_asked(target, (question.id, index), value, options, rows, answers))
    if labelled:
        notes.append(f"labels that are of no question here: {', '.join(sorted(labelled))}")
    return found, notes


def choice_figures(
    choices: Choices,
    at: NDArray[np.int64],
    weights: NDArray[np.float64] | None = None,
    groups: Sequence[str | None] | None = None,
) -> dict[str, Measured]:
    """Accuracy of the top option and mean F1 over the options, on some labelled rows.

    Args:
        at: indexes of the rows, [M]; `weights` and `groups` are theirs.
    """
    chosen, true = choices.of(at)
    found = classes(chosen, true, choices.options, weights=weights, groups=groups)
    accuracy = Measured(None)
    if found.accuracy is not None:
        one = found.accuracy
        count = one.count if weights is None else None
        accuracy = Measured(one.value, one.interval.low, one.interval.high, one.of, count)
    return {"accuracy": accuracy, "macro_f1": Measured(found.macro_f1, n=len(at))}


def with_answers(
    target: TargetReport, one: Asked, weights: NDArray[np.float64] | None
) -> TargetReport:
    """The report with what only a question has: its options one by one, and their lifts.

    Adds the accuracy of the option of the largest lift and of the largest logit lift. For a choice
    adds Brier score (sum over options, 0 to 2), log loss and the area under risk over coverage.

    Args:
        weights: of the labelled rows; None where they have none.
    """
    at = one.judged.labelled()
    groups = groups_of(one.judged, at)
    right, p = one.right[at], one.values.p[at]
    figures = dict(target.metrics)
    if one.judged.choices is not None:
        figures |= _word(p, right, weights, groups)
    for name, lift in (("lift", one.values.lift), ("logit_lift", one.values.logit_lift)):
        if lift is not None:
            hit = share(lift[at].argmax(axis=1) == right, weights=weights, groups=groups)
            figures[f"{name}_accuracy"] = Measured(None)
            if hit is not None:
                ends = hit.interval
                count = hit.count if weights is None else None
                figures[f"{name}_accuracy"] = Measured(
                    hit.value, ends.low, ends.high, hit.of, count
                )
    reads: tuple[ReadReport, ...] = ()
    lifts = None
    if len(at):
        # The second of two options says what the first does.
        shown = range(1 if len(one.options) == 2 else len(one.options))
        reads = tuple(_option(one, option, at, groups) for option in shown)
        if one.values.floor_p is not None:
            lifts = thinned(
                np.concatenate([np.full(len(at), one.values.floor_p[option]) for option in shown]),
                np.concatenate([p[:, option] for option in shown]),
                np.concatenate([right == option for option in shown]),
            )
    return replace(target, metrics=figures, reads=reads, lifts=lifts)


def _asked(
    target: str,
    place: Place,
    value: str | None,
    options: tuple[str, ...],
    rows: Sequence[Labelled],
    answers: Answers,
) -> Asked:
    values = question_values(answers, place)
    right = np.array([right_option(target, row, options) for row in rows], dtype=np.int64)
    known = (right >= 0).tolist()
    top = values.p.argmax(axis=1)
    labels: tuple[bool | None, ...]
    if len(options) == 2:
        first = (right == 0).tolist()
        labels = tuple(holds if told else None for holds, told in zip(first, known, strict=True))
        scores = values.p[:, 0]
        flagged, threshold, choices = scores >= YES_AT, YES_AT, None
    else:
        labels = tuple(True if told else None for told in known)
        scores, threshold, flagged = None, None, top == right
        choices = Choices(
            options,
            tuple(options[index] for index in top.tolist()),
            tuple(options[index] if index >= 0 else None for index in right.tolist()),
            values.p.max(axis=1),
        )
    judged = Judged(
        target,
        tuple(row.id for row in rows),
        tuple(row.content for row in rows),
        tuple(row.group for row in rows),
        labels,
        scores,
        tuple(flagged.tolist()),
        threshold,
        choices,
    )
    return Asked(place[0], value, options, right, values, judged)


def _texts(target: str, options: Sequence[str]) -> tuple[str, ...]:
    texts = tuple(option.strip() for option in options)
    if len(set(texts)) < len(texts):
        raise Unusable(
            f"{target} has options that differ in outer spaces alone, so a label cannot tell them"
            " apart; take the labels out, or change the options"
        )
    return texts


def right_option(target: str, row: Said, options: tuple[str, ...]) -> int:
    """Index of the option that a row's label for a question names; -1 where it is not known.

    Args:
        options: texts without outer spaces, unique.

    Raises `Unusable` with the row when the label is none of the options.
    """
    said = row.classes.get(target)
    if said is None:
        if target not in row.labels:
            return -1
        said = YES if row.labels[target] else NO
    text = said.strip()
    if text in options:
        return options.index(text)
    word = label_of(text)
    if word == UNSURE:
        return -1
    words = [label_of(option) for option in options]
    if word is not None and words.count(word) == 1:
        return words.index(word)
    if word is not None and len(options) == 2:
        # Whichever option says neither yes nor no is the other one's opposite.
        yes = words.index(NO) ^ 1 if NO in words else words.index(YES) if YES in words else 0
        return yes if word == YES else 1 - yes
    either = f", or {YES} for the first and {NO} for the second" if len(options) == 2 else ""
    raise Unusable(
        f"row {row.id!r} is labelled {said!r} for {target}, whose options are"
        f" {', '.join(map(repr, options))}: label it with one of these{either}"
    )


def _word(
    p: NDArray[np.float64],
    right: NDArray[np.int64],
    weights: NDArray[np.float64] | None,
    groups: Sequence[str | None] | None,
) -> dict[str, Measured]:
    """How far p over several options can be taken at its word; p is [M, K], right [M].

    Brier's score is his own of 1950, not halved; 0 counts in the log loss as `LEAST_P`.
    """
    rows = len(right)
    of_right = p[np.arange(rows), right]
    wrong = p - (np.arange(p.shape[1]) == right[:, None])
    curve = risk_coverage(p.max(axis=1), p.argmax(axis=1) == right, weights=weights)
    return {
        "brier": _mean(mean((wrong**2).sum(axis=1), weights=weights, groups=groups), rows, 2.0),
        "log_loss": _mean(
            mean(-np.log(np.clip(of_right, LEAST_P, 1)), weights=weights, groups=groups),
            rows,
            np.inf,
        ),
        "risk_area": Measured(None if curve is None else curve.area, n=rows),
    }


def _mean(found: Mean | None, rows: int, most: float) -> Measured:
    """A loss with its interval cut to what such a loss can be, from 0 to `most`."""
    if found is None:
        return Measured(None)
    interval = found.interval
    if interval is not None:
        interval = Interval(max(0.0, interval.low), min(most, interval.high))
    return figure_of(found.value, interval, rows)


def _option(
    one: Asked, option: int, at: NDArray[np.int64], groups: Sequence[str | None] | None
) -> ReadReport:
    holds = one.right[at] == option
    p = one.values.p[at, option]
    found = roc_area(p, holds, groups=groups)
    area = Measured(None) if found is None else figure_of(found.value, found.interval, len(at))
    floor_p = None if one.values.floor_p is None else float(one.values.floor_p[option])
    means = [
        float(lift[at, option][side].mean()) if lift is not None and side.any() else None
        for lift in (one.values.lift, one.values.logit_lift)
        for side in (holds, ~holds)
    ]
    return ReadReport(one.options[option], one.question, one.value, area, floor_p, *means)
