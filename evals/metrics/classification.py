"""Decisions against labels: confusion counts, and the rates that follow, with intervals.

Knows no score: a row is flagged or not, or has a class. A rate without rows is None, never 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import confusion_matrix

from spinf_serve.evals.columns import group_codes, same_length, truths, weights_of
from spinf_serve.evals.intervals import Interval, Share, share


@dataclass(frozen=True, slots=True)
class Confusion:
    """Rows by flag and label, unweighted: true and false positives, true and false negatives."""

    tp: int
    fp: int
    tn: int
    fn: int


@dataclass(frozen=True, slots=True)
class Score:
    """A figure that is not a share, and its interval."""

    value: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class Rates:
    """What flags are worth. Shares are weighted where weights are given, counts never are.

    Attributes:
        confusion: the counts.
        accuracy: share of rows flagged rightly, or left alone rightly.
        precision: share of the flagged that hold; None when none is flagged.
        recall: share of the positives that are flagged; None without positives.
        specificity: share of the negatives that are not flagged; None without negatives.
        negative_predictive_value: share of those not flagged that do not hold.
        flag_rate: share of rows flagged.
        base_rate: share of rows that hold.
        f1: harmonic mean of precision and recall; None when no row is flagged or holds.
    """

    confusion: Confusion
    accuracy: Share | None
    precision: Share | None
    recall: Share | None
    specificity: Share | None
    negative_predictive_value: Share | None
    flag_rate: Share | None
    base_rate: Share | None
    f1: Score | None


@dataclass(frozen=True, slots=True)
class OfClass:
    """One class of several: its precision, recall and F1 against all others."""

    precision: Share | None
    recall: Share | None
    f1: Score | None


@dataclass(frozen=True, slots=True)
class Classes:
    """Chosen classes against true ones.

    Attributes:
        classes: their names; `counts`, `each` go by their order.
        counts: rows by true class (outer) and chosen class (inner), unweighted.
        accuracy: share of rows whose class is chosen.
        each: per class.
        macro_f1: mean F1 over the classes that have one; None when none has.
    """

    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    accuracy: Share | None
    each: tuple[OfClass, ...]
    macro_f1: float | None


def confusion(flagged: ArrayLike, holds: ArrayLike) -> Confusion:
    """Count rows by flag and label; both are [N] bools."""
    flag, label = truths("flagged", flagged), truths("labels", holds)
    same_length(len(label), flagged=flag)
    return Confusion(
        int((flag & label).sum()),
        int((flag & ~label).sum()),
        int((~flag & ~label).sum()),
        int((~flag & label).sum()),
    )


def rates(
    flagged: ArrayLike,
    holds: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    groups: Sequence[Any] | NDArray[Any] | None = None,
    level: float = 0.95,
) -> Rates:
    """All rates of a flag, with intervals for display.

    Shares have Wilson's interval, see `intervals.share`. F1 is 2 J / (1 + J), where J is the share
    of true positives among the rows that are flagged or hold: its interval is J's, carried over.

    Args:
        flagged: [N] bools.
        holds: [N] bools, all known.
        weights, groups: [N], see `intervals.share`.
    """
    flag, label = truths("flagged", flagged), truths("labels", holds)
    counts = confusion(flag, label)
    weight = weights_of(weights, len(label))
    codes = group_codes(groups, len(label))

    def of(inside: NDArray[np.bool_], rows: NDArray[np.bool_]) -> Share | None:
        return share(inside[rows], weights=weight[rows], groups=codes[rows], level=level)

    every = np.ones(len(label), dtype=bool)
    return Rates(
        confusion=counts,
        accuracy=of(flag == label, every),
        precision=of(label, flag),
        recall=of(flag, label),
        specificity=of(~flag, ~label),
        negative_predictive_value=of(~label, ~flag),
        flag_rate=of(flag, every),
        base_rate=of(label, every),
        f1=_f1(of(flag & label, flag | label)),
    )


def classes(
    chosen: Sequence[str],
    true: Sequence[str],
    names: Sequence[str] | None = None,
    *,
    weights: ArrayLike | None = None,
    groups: Sequence[Any] | NDArray[Any] | None = None,
    level: float = 0.95,
) -> Classes:
    """Judge choices among several classes.

    Args:
        chosen, true: [N] class names; an abstention is a class that is never true.
        names: the classes in the order to show; None takes those that occur, sorted.

    Raises ValueError when a name is not among the classes.
    """
    same_length(len(true), chosen=chosen)
    order = tuple(sorted({*chosen, *true}) if names is None else names)
    strange = sorted({*chosen, *true} - set(order))
    if strange:
        raise ValueError(f"the classes {list(order)} lack {strange}")
    picked, truth = np.array(chosen, dtype=object), np.array(true, dtype=object)
    counts = (
        confusion_matrix(truth.astype(str), picked.astype(str), labels=list(order))
        if len(truth)
        else np.zeros((len(order), len(order)), dtype=np.int64)
    )
    each = []
    for name in order:
        found = rates(picked == name, truth == name, weights=weights, groups=groups, level=level)
        each.append(OfClass(found.precision, found.recall, found.f1))
    scores = [one.f1.value for one in each if one.f1 is not None]
    return Classes(
        order,
        tuple(tuple(row) for row in counts.tolist()),
        share(picked == truth, weights=weights, groups=groups, level=level),
        tuple(each),
        sum(scores) / len(scores) if scores else None,
    )


def _f1(overlap: Share | None) -> Score | None:
    if overlap is None:
        return None

    def carried(value: float) -> float:
        return 2 * value / (1 + value)

    ends = overlap.interval
    return Score(carried(overlap.value), Interval(carried(ends.low), carried(ends.high)))
