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
    low, high = intervals(kind, here, base)
    return Interval(float(low[0]), float(high[0]))


def intervals(kind: Promise, counts: Counts, base: float | None) -> tuple[Array, Array]:
    """The rate's exact 95 % interval at every cut, [C] each, see `exact.estimates`.

    Clopper and Pearson's; with a base rate that of each class, at 97.5 % so that both hold. Where no
    row is counted it is 0 to 1.
    """
    if base is None or kind == "recall":
        k, n = trials(kind, counts)
        return lower(k, n, 0.025), upper(k, n, 0.025)
    yes = counts.positives_above, np.broadcast_to(counts.positives, counts.positives_above.shape)
    no = counts.negatives_above, np.broadcast_to(counts.negatives, counts.negatives_above.shape)
    wanted, other, share = yes, no, base
    if kind == "npv":
        wanted, other, share = (no[1] - no[0], no[1]), (yes[1] - yes[0], yes[1]), 1 - base
    tail = 0.0125
    low_wanted, high_wanted = lower(*wanted, tail), upper(*wanted, tail)
    low_other, high_other = lower(*other, tail), upper(*other, tail)
    if kind == "flag_rate":
        low = share * low_wanted + (1 - share) * low_other
        return low, share * high_wanted + (1 - share) * high_other
    return reweighted(low_wanted, high_other, share), reweighted(high_wanted, low_other, share)


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
