"""Has the traffic moved: new labels against a recorded k of n, and new scores against old ones.

The first needs labels and says whether a promise got worse; the second needs none and says only
that rows are not like those a promise was made from. Knows no pack.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.stats import boschloo_exact, fisher_exact, ks_2samp, mannwhitneyu

from spinf_serve.evals.intervals import wilson

BOSCHLOO_TABLES = 40_000
"""Up to so many possible outcomes the sharper of the two exact tests is computed; its time grows
with them, and with more rows the two hardly differ."""

_SHAPE_ROWS = 5
"""Fewest scores of a side that have a distribution to speak of."""


@dataclass(frozen=True, slots=True)
class Counted:
    """k right of n, such as flagged rows whose label holds."""

    k: int
    n: int

    def __post_init__(self) -> None:
        if not 0 <= self.k <= self.n:
            raise ValueError(f"{self.k} of {self.n}")


@dataclass(frozen=True, slots=True)
class RateDrift:
    """A recorded rate against that of new labels.

    Attributes:
        low, high: 95 % interval of `new - recorded` (R. G. Newcombe, "Interval estimation for the
            difference between independent proportions", Statistics in Medicine 17, 1998, method
            10); None when a side has no row.
        p_worse: exact one-sided p of "the new rate is not lower".
        least_p: the smallest p that as many new rows could give, none of them right: at or above
            the level asked for, the test cannot notice anything.
        test: `boschloo` or `fisher`.
    """

    recorded: Counted
    new: Counted
    low: float | None
    high: float | None
    p_worse: float
    least_p: float
    test: str


@dataclass(frozen=True, slots=True)
class ScoreDrift:
    """Two samples of scores, without labels.

    Attributes:
        rows_before, rows_now: their sizes.
        distance: largest distance between the two distributions (Kolmogorov-Smirnov), 0 to 1.
        p_differs: its p; None when a side has too few scores.
        delta: chance that a new score is above an old one, minus that it is below (N. Cliff,
            "Dominance statistics", Psychological Bulletin 114, 1993), -1 to 1.
        flagged_before, flagged_now: share at and above the threshold; None without one.
    """

    rows_before: int
    rows_now: int
    distance: float | None
    p_differs: float | None
    delta: float | None
    flagged_before: float | None = None
    flagged_now: float | None = None


def rate_drift(recorded: Counted, new: Counted) -> RateDrift:
    """Test whether new labels have a lower rate than the recorded one, exactly.

    Boschloo's test (R. D. Boschloo, Statistica Neerlandica 24, 1970) where its tables are small,
    else Fisher's, which is exact too and errs to the side of "not worse".
    """
    test = "boschloo"
    if (recorded.n + 1) * (new.n + 1) > BOSCHLOO_TABLES:
        test = "fisher"
    if not recorded.n or not new.n:
        return RateDrift(recorded, new, None, None, 1.0, 1.0, test)
    low, high = _newcombe(recorded, new)
    return RateDrift(
        recorded,
        new,
        low,
        high,
        _p_lower(recorded, new, test),
        _p_lower(recorded, Counted(0, new.n), test),
        test,
    )


def score_drift(
    before: NDArray[np.float64], now: NDArray[np.float64], threshold: float | None = None
) -> ScoreDrift:
    """Compare two samples of scores, [N] and [M].

    Raises ValueError when a score is not a finite number.
    """
    if not (np.isfinite(before).all() and np.isfinite(now).all()):
        raise ValueError("a score is not a finite number")
    flagged = [
        None if threshold is None or not len(side) else float((side >= threshold).mean())
        for side in (before, now)
    ]
    if min(len(before), len(now)) < _SHAPE_ROWS:
        return ScoreDrift(len(before), len(now), None, None, None, *flagged)
    # The exact p's time grows with the product of the sizes.
    method = "exact" if len(before) * len(now) <= 10_000 else "asymp"
    found = ks_2samp(before, now, method=method)
    above = float(mannwhitneyu(now, before, method="asymptotic").statistic)
    return ScoreDrift(
        len(before),
        len(now),
        float(found.statistic),
        float(found.pvalue),
        2 * above / (len(before) * len(now)) - 1,
        *flagged,
    )


def _p_lower(recorded: Counted, new: Counted, test: str) -> float:
    """One-sided p of the new rate being lower."""
    # Columns are the samples; "greater" is of the first column's success rate.
    table = [[recorded.k, new.k], [recorded.n - recorded.k, new.n - new.k]]
    if not any(table[0]) or not any(table[1]):
        # All right or all wrong on both sides: nothing differs, and the tests are not defined.
        return 1.0
    if test == "boschloo":
        return float(boschloo_exact(table, alternative="greater").pvalue)
    return float(fisher_exact(table, alternative="greater").pvalue)


def _newcombe(recorded: Counted, new: Counted) -> tuple[float, float]:
    p, q = new.k / new.n, recorded.k / recorded.n
    around_p, around_q = wilson(new.k, new.n), wilson(recorded.k, recorded.n)
    if around_p is None or around_q is None:
        raise AssertionError("both sides have rows")
    low = p - q - sqrt((p - around_p.low) ** 2 + (around_q.high - q) ** 2)
    high = p - q + sqrt((around_p.high - p) ** 2 + (q - around_q.low) ** 2)
    return low, high
