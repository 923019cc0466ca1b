"""What labelled rows say at one cut: counts, bound, interval, and the labels still needed."""

from math import ceil

import numpy as np
from numpy.typing import NDArray

from spinf_serve.evals.certificates import Point
from spinf_serve.evals.cuts import least_counted
from spinf_serve.evals.exact import (
    Array,
    Counts,
    Promise,
    bounds,
    estimates,
    lower,
    reweighted,
    trials,
    upper,
)
from spinf_serve.evals.intervals import Interval, wilson

_MOST_TIMES = 1e6


def count(scores: Array, holds: NDArray[np.bool_], cuts: Array) -> Counts:
    """Rows at each cut and above, by class.

    Args:
        scores: [N]. holds: [N]. cuts: [C], in the order of the walk.
    """
    positives, negatives = np.sort(scores[holds]), np.sort(scores[~holds])

    def above(column: Array) -> Array:
        return len(column) - np.searchsorted(column, cuts, side="left").astype(np.float64)

    return Counts(
        above(positives),
        above(negatives),
        np.array([float(len(positives))]),
        np.array([float(len(negatives))]),
    )


def at(counts: Counts, index: int) -> Counts:
    here = slice(index, index + 1)
    return Counts(
        counts.positives_above[here],
        counts.negatives_above[here],
        counts.positives,
        counts.negatives,
    )


def point(
    kind: Promise,
    scores: Array,
    holds: NDArray[np.bool_],
    order: Array,
    counts: Counts,
    index: int,
    base: float | None,
    delta: float,
) -> Point:
    here = at(counts, index)
    k, n = (float(one[0]) for one in trials(kind, here))
    estimate = float(estimates(kind, here, base)[0])
    bound = float(bounds(kind, here, base, delta)[0])
    positives, cut = float(here.positives[0]), float(order[index])
    return Point(
        cut,
        int(n),
        int(k),
        estimate,
        bound,
        _interval(kind, here, base, k, n),
        float(estimates("flag_rate", here, base)[0]),
        float(here.positives_above[0]) / positives if positives else None,
        n if base is None else _effective(estimate, bound, delta, kind == "flag_rate"),
        _gap(scores, cut),
    )


def labels_needed(
    kind: Promise, here: Counts, base: float | None, delta: float, value: float
) -> int | None:
    """More rows that would carry the promise at this cut if all counts grew alike."""

    def reached(times: float) -> bool:
        grown = here.scaled(times)
        bound = bounds(kind, grown, base, delta)[0]
        if not (bound <= value if kind == "flag_rate" else bound >= value):
            return False
        least = least_counted(kind, value, grown, base, delta)[0]
        return bool(trials(kind, grown)[1][0] >= least)

    low, high = 1.0, 1.0
    while not reached(high):
        if high > _MOST_TIMES:
            return None
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        if reached(middle):
            high = middle
        else:
            low = middle
    return ceil(float((here.positives + here.negatives)[0]) * (high - 1) - 1e-6)


def _gap(scores: Array, cut: float) -> tuple[float | None, float | None]:
    below, above = scores[scores < cut], scores[scores >= cut]
    return (
        float(below.max()) if len(below) else None,
        float(above.min()) if len(above) else None,
    )


def _interval(kind: Promise, here: Counts, base: float | None, k: float, n: float) -> Interval:
    if base is None:
        return wilson(k, n) or Interval(0.0, 1.0)
    high = here.positives_above, here.positives
    other = here.negatives_above, here.negatives
    share = base
    if kind == "npv":
        share = 1 - base
        high, other = (
            (here.negatives - other[0], here.negatives),
            (here.positives - high[0], here.positives),
        )
    tail = 0.0125
    low_high = lower(*high, tail), upper(*high, tail)
    low_other = lower(*other, tail), upper(*other, tail)
    if kind == "flag_rate":
        ends = [share * a + (1 - share) * b for a, b in zip(low_high, low_other, strict=True)]
    else:
        ends = [
            reweighted(low_high[0], low_other[1], share),
            reweighted(low_high[1], low_other[0], share),
        ]
    return Interval(float(ends[0][0]), float(ends[1][0]))


def _effective(estimate: float, bound: float, delta: float, from_above: bool) -> float:
    """Rows m for which the exact bound of `estimate` x m of m is `bound`."""
    rate, goal = (1 - estimate, 1 - bound) if from_above else (estimate, bound)

    def reached(rows: float) -> bool:
        return bool(lower(np.array([rate * rows]), np.array([rows]), delta)[0] >= goal)

    low, high = 0.0, 1.0
    while high < 1e12 and not reached(high):
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if reached(middle):
            high = middle
        else:
            low = middle
    return high
