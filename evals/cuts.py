"""Targets, cuts that are set before any label is seen, and how many labels a promise takes.

A cut is a score that says "at it and above"; stored as a whole float64. Knows no row selection and
no test: what may be promised at a cut is `spinf_serve.evals.certify`.
"""

from dataclasses import dataclass
from math import ceil, log
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from spinf_serve.evals.exact import Array, Counts, Promise, lower, reweighted_lower
from spinf_serve.packs.errors import Unusable

Kind = Literal["precision", "recall", "flag_rate", "npv", "cost"]

SMALL_SET_ROWS = 500
"""From so many rows on, a walk starts at 3 times the least rows of a promise, below at 2 times."""

SHARES = (0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, *(round(0.05 * i, 2) for i in range(2, 21)))
"""Shares of traffic flagged at the cuts of the kind "coverage"."""

_ROOM_FOR_MISSES = 0.1


@dataclass(frozen=True, slots=True)
class Target:
    """What a cut is to hold.

    Attributes:
        kind: "precision" (of the flagged, so many hold), "recall" (of those that hold, so many are
            flagged), "flag_rate" (at most so many are flagged), "npv" (of the unflagged, so many do
            not hold), or "cost".
        value: the least share, for flag_rate the largest, 0 to 1; for cost, how many false alarms a
            miss is worth, above 0.
        delta: chance at most that the promise is wrong, 0 to 0.5. Nothing is promised of a cost.
    """

    kind: Kind
    value: float
    delta: float = 0.05

    def __post_init__(self) -> None:
        top = float("inf") if self.kind == "cost" else 1.0
        if not 0 < self.value < top:
            raise Unusable(
                f"a target of {self.kind} {self.value:g} cannot be met or missed; give a number"
                f" above 0{'' if self.kind == 'cost' else ' and below 1'}"
            )
        if not 0 < self.delta <= 0.5:
            raise Unusable(f"a delta of {self.delta:g} is not above 0 and at most 0.5")


def preset_cuts(
    kind: Literal["logit", "lift", "coverage"],
    traffic: ArrayLike | None = None,
    *,
    low: float = -6.0,
    high: float = 6.0,
    count: int = 49,
    shares: tuple[float, ...] = SHARES,
) -> Array:
    """Cuts to test, ascending; to be fixed before labels are seen.

    Args:
        kind: "logit" for scores that are probabilities: evenly spaced in log odds; "lift" for scores
            that are log odds themselves: evenly spaced; "coverage": those that flag given shares of
            unlabelled traffic, halfway between neighbouring scores of it.
        traffic: [M] scores of unlabelled rows, for "coverage" only. The labelled rows' own scores
            make a promise approximate, which `certify` is then to be told.
        low, high, count: log odds of the first and last cut, and how many; not for "coverage".
        shares: of traffic, each above 0 and at most 1. A share that falls among equal scores gives
            the cut above them.
    """
    if kind != "coverage":
        spaced = np.linspace(low, high, count)
        return expit(spaced) if kind == "logit" else spaced
    scores = np.asarray([] if traffic is None else traffic, dtype=np.float64)
    if not len(scores) or not np.isfinite(scores).all():
        raise Unusable(f"{len(scores)} scores of traffic, not all of them numbers, set no cuts")
    cuts = between(scores)
    flagged = len(scores) - np.searchsorted(np.sort(scores), cuts, side="left")
    # Ascending cuts flag ever fewer: the first that flags no more than the share.
    allowed = np.array(sorted(shares, reverse=True)) * len(scores)
    first = np.searchsorted(-flagged, -allowed - 1e-9, side="left")
    return np.unique(cuts[first[first < len(cuts)]])


def between(scores: ArrayLike) -> Array:
    """Every cut that tells the scores apart differently, ascending: the least score, which flags
    all, and the middles between neighbouring ones."""
    distinct = np.unique(np.asarray(scores, dtype=np.float64))
    middles = distinct[:-1] + (distinct[1:] - distinct[:-1]) / 2
    # Neighbouring floats have no middle; the upper one flags the same rows.
    middles = np.where(middles > distinct[:-1], middles, distinct[1:])
    return np.concatenate([distinct[:1], middles])


def minimum_rows(value: float, delta: float) -> int:
    """Rows that must be counted for a lower bound of `value` when none of them errs."""
    return ceil(log(delta) / log(value) - 1e-9)


def labels_needed(value: float, errors: int, delta: float = 0.05) -> int:
    """Least rows whose exact lower bound reaches `value` although `errors` of them err."""
    low, high = errors, errors + minimum_rows(value, delta)
    while not _reaches(high, errors, value, delta):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if _reaches(middle, errors, value, delta):
            high = middle
        else:
            low = middle
    return high


def _reaches(rows: int, errors: int, value: float, delta: float) -> bool:
    bound = lower(np.array([float(rows - errors)]), np.array([float(rows)]), delta)
    return bool(bound[0] >= value - 1e-12)


def least_counted(
    kind: Promise, value: float, counts: Counts, base: float | None, delta: float
) -> Array:
    """Rows that a cut must count to be tested, [..., 1]; inf where no cut can be.

    Looks at the sizes of the classes and at `value`, never at which row above a cut is which. For
    precision and npv 2 times the least that reaches the target without an error, 3 times from
    `SMALL_SET_ROWS`; recall and flag_rate count the same rows at every cut, so once.
    With a stated base the least is found by the class sizes, and the start lies at most a tenth of
    the way from it to the size of the wanted class, which it could not pass.
    """
    least = float(minimum_rows(value, delta))
    if kind == "recall":
        return np.full(counts.positives.shape, least)
    if kind == "flag_rate":
        return np.zeros(counts.positives.shape)
    rows = counts.positives + counts.negatives
    times = np.where(rows < SMALL_SET_ROWS, 2.0, 3.0)
    if base is None:
        return times * least
    if kind == "precision":
        wanted, other, base_of_wanted = counts.positives, counts.negatives, base
    else:
        wanted, other, base_of_wanted = counts.negatives, counts.positives, 1 - base
    low, high = np.zeros_like(wanted), wanted.copy()
    none = np.zeros_like(wanted)

    def enough(count: Array) -> Array:
        bound = reweighted_lower(count, wanted, none, other, base_of_wanted, delta)
        return np.asarray(bound >= value)

    reachable = enough(wanted)
    for _ in range(int(np.ceil(np.log2(wanted.max() + 2)))):
        middle = np.floor((low + high) / 2)
        reached = enough(middle)
        high = np.where(reached, middle, high)
        low = np.where(reached, low, middle)
    start = np.minimum(times * high, np.ceil(high + _ROOM_FOR_MISSES * (wanted - high)))
    return np.where(reachable, start, np.inf)
