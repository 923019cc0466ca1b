"""Intervals: Wilson to look at, exact ones to promise with, cluster-robust and bootstrap ones.

Knows shares, means and any statistic of columns; no dataset, no cut. None stands for what the rows
do not tell. Levels are confidence levels, 0.95 for 95 %.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from spinf_serve.evals.columns import (
    Codes,
    Numbers,
    effective_count,
    group_codes,
    numbers,
    same_length,
    weights_of,
)

Side = Literal["two", "low", "high"]

_LEAST_DEFINED = 0.95
"""Share of resamples in which a statistic must exist for an interval to be given."""

# Resamples times rows that are held at once, in numbers of 8 bytes.
_HELD = 4_000_000


@dataclass(frozen=True, slots=True)
class Interval:
    """From `low` to `high`, both included."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over rows.

    Attributes:
        value: the weighted mean.
        error: its standard error; None with fewer than two groups.
        interval: value +- Student's quantile x error; None likewise.
    """

    value: float
    error: float | None
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class Share:
    """A share of rows.

    Attributes:
        value: 0 to 1, weighted.
        count: rows in it, unweighted.
        of: rows it is a share of, unweighted.
        interval: Wilson's, at the effective number of rows.
    """

    value: float
    count: int
    of: int
    interval: Interval


def wilson(k: float, n: float, level: float = 0.95) -> Interval | None:
    """Wilson's score interval of a share k / n, for display.

    E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22,
    1927; without continuity correction. k and n may be broken numbers: weighted shares are told at
    their effective number of rows. None when n is 0.
    """
    _check_share(k, n, level)
    if n == 0:
        return None
    z = float(special.ndtri((1 + level) / 2))
    share = k / n
    middle = share + z * z / (2 * n)
    spread = z * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # At 0 and n one end is exactly 0 or 1; rounding would leave it a hair away, and outside.
    low = 0.0 if k == 0 else max(0.0, (middle - spread) / scale)
    high = 1.0 if k == n else min(1.0, (middle + spread) / scale)
    return Interval(low, high)


def exact(k: int, n: int, level: float = 0.95, side: Side = "two") -> Interval | None:
    """Clopper and Pearson's interval of a share k / n, which holds its level for every n.

    C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits illustrated in the
    case of the binomial", Biometrika 26, 1934; by the quantiles of the beta distribution.

    Args:
        side: "two"; "low" gives a lower bound at the whole level, with 1 above it; "high" an upper
            bound, with 0 below it.

    Returns:
        None when n is 0.
    """
    _check_share(k, n, level)
    if int(k) != k or int(n) != n:
        raise ValueError(f"{k} of {n}: exact bounds are for whole rows of one weight")
    if n == 0:
        return None
    tail = (1 - level) / 2 if side == "two" else 1 - level
    low = 0.0 if k == 0 or side == "high" else float(special.betaincinv(k, n - k + 1, tail))
    high = 1.0 if k == n or side == "low" else float(special.betaincinv(k + 1, n - k, 1 - tail))
    return Interval(low, high)


def share(
    inside: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    groups: Sequence[Any] | NDArray[Any] | None = None,
    level: float = 0.95,
) -> Share | None:
    """The share of rows that are inside, with Wilson's interval; None without rows.

    With weights or groups the interval is that of `columns.effective_count` rows: wider, never
    narrower (E. L. Korn and B. I. Graubard, "Confidence intervals for proportions with small
    expected number of positive counts estimated from survey data", Survey Methodology 24, 1998,
    use an effective number of rows in the same way).

    Args:
        inside: [N] bools.
        weights: [N], see `columns.weights_of`.
        groups: [N]; rows of one group are not independent. None for a row: alone.
    """
    column = np.asarray(inside, dtype=bool)
    weight = weights_of(weights, len(column))
    codes = group_codes(groups, len(column))
    if not len(column):
        return None
    value = 1.0 if column.all() else float(weight[column].sum() / weight.sum())
    rows = effective_count(weight, codes)
    interval = wilson(value * rows, rows, level)
    assert interval is not None
    return Share(value, int(column.sum()), len(column), interval)


def mean(
    values: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    groups: Sequence[Any] | NDArray[Any] | None = None,
    level: float = 0.95,
) -> Mean | None:
    """The weighted mean with its cluster-robust error; None without rows.

    Error: sqrt(G / (G - 1) x sum over groups of (sum of w (v - mean))^2) / sum w, with G groups,
    which is the usual standard error where each row is a group and the weights are equal (E.
    Miller, "Adding error bars to evals", arXiv 2411.00640, section 2.2, for language models).
    """
    column = numbers("values", values)
    weight = weights_of(weights, len(column))
    codes = group_codes(groups, len(column))
    if not len(column):
        return None
    weight = weight / weight.max()
    value = float((weight * column).sum() / weight.sum())
    error = clustered_error(weight * (column - value) / weight.sum(), codes)
    if error is None:
        return Mean(value, None, None)
    reach = float(stats.t.ppf((1 + level) / 2, codes.max())) * error
    return Mean(value, error, Interval(value - reach, value + reach))


def clustered_error(influences: Numbers, codes: Codes) -> float | None:
    """Standard error of a statistic from what each row adds to it; None with fewer than two groups.

    Args:
        influences: [N], summing to 0: the first-order change of the statistic through each row.
        codes: [N] groups from 0.
    """
    totals = np.bincount(codes, influences)
    count = len(totals)
    return sqrt(count / (count - 1) * float((totals**2).sum())) if count > 1 else None


def bootstrap(
    statistic: Callable[..., float | None],
    columns: Sequence[ArrayLike],
    groups: Sequence[Any] | NDArray[Any] | None = None,
    repeats: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Interval | None:
    """Percentile interval of any statistic: rows, or groups as wholes, drawn with replacement.

    B. Efron and R. J. Tibshirani, "An introduction to the bootstrap", 1993, chapters 8 and 13. The
    draws depend on the seed, the number of groups and the order of rows.

    Args:
        statistic: called with each column's drawn rows; None where it does not exist.
        columns: arrays of N rows.

    Returns:
        None with fewer than two groups, or when over 5 % of the draws have no statistic.
    """
    arrays = [np.asarray(column) for column in columns]
    count = len(arrays[0])
    same_length(count, **{f"column {index}": array for index, array in enumerate(arrays)})

    def drawn(counts: NDArray[np.int64]) -> Iterator[float]:
        for times in counts:
            rows = np.repeat(np.arange(count), times)
            found = statistic(*(array[rows] for array in arrays))
            yield float("nan") if found is None else found

    def each(counts: NDArray[np.int64]) -> Numbers:
        return np.fromiter(drawn(counts), dtype=np.float64, count=len(counts))

    return bootstrap_counts(each, group_codes(groups, count), repeats, seed, level)


def bootstrap_counts(
    statistic: Callable[[NDArray[np.int64]], Numbers],
    codes: Codes,
    repeats: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Interval | None:
    """`bootstrap` for a statistic that takes how often each row is drawn, many draws at once.

    Args:
        statistic: [draws, N] int64 -> [draws] float64; NaN where it does not exist.
        codes: [N] groups from 0.
    """
    count = int(codes.max()) + 1 if len(codes) else 0
    if count < 2:
        return None
    generator = np.random.default_rng(seed)
    at_once = max(1, _HELD // len(codes))
    alone = count == len(codes) and bool((codes == np.arange(count)).all())
    parts = []
    for start in range(0, repeats, at_once):
        draws = _draws(generator, min(at_once, repeats - start), count)
        parts.append(statistic(draws if alone else draws[:, codes]))
    found = np.concatenate(parts)
    found = found[np.isfinite(found)]
    if len(found) < _LEAST_DEFINED * repeats:
        return None
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def _draws(generator: np.random.Generator, draws: int, groups: int) -> NDArray[np.int64]:
    """How often each of the groups is drawn in `groups` draws with replacement, [draws, groups]."""
    picked = generator.integers(groups, size=(draws, groups))
    picked += np.arange(draws)[:, None] * groups
    return np.bincount(picked.ravel(), minlength=draws * groups).reshape(draws, groups)


def _check_share(k: float, n: float, level: float) -> None:
    if not 0 <= k <= n:
        raise ValueError(f"{k} of {n} is not a share")
    if not 0 < level < 1:
        raise ValueError(f"a level of {level} is not between 0 and 1")
