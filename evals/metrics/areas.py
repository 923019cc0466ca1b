"""How well a score ranks: ROC and PR areas with intervals, their curves, and what spoils a ranking.

Knows no cut. Scores are finite numbers of any scale, larger where "it holds" is likelier; ties
count half in the ROC area and stand or fall together in the PR area.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special
from sklearn.metrics import (
    average_precision_score,
    precision_recall_curve,
)
from sklearn.metrics import roc_curve as roc_curve_of

from spinf_serve.evals.columns import (
    Codes,
    Numbers,
    Truths,
    effective_count,
    group_codes,
    numbers,
    same_length,
    truths,
    weights_of,
)
from spinf_serve.evals.intervals import Interval, bootstrap_counts, clustered_error


@dataclass(frozen=True, slots=True)
class Area:
    """An area under a curve.

    Attributes:
        value: 0 to 1.
        error: its standard error; None where only an interval is known.
        interval: None where the rows are too few to tell.
    """

    value: float
    error: float | None
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class Curve:
    """Points of a curve, one for each cut; a row is flagged at the cut and above.

    Attributes:
        x, y: false positive and true positive rate (ROC), or recall and precision (PR).
        cuts: infinite where no row is flagged.
    """

    x: tuple[float, ...]
    y: tuple[float, ...]
    cuts: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Gap:
    """Separable rows: every cut above `below` and up to `above` tells them apart."""

    below: float
    above: float


def gap(scores: ArrayLike, holds: ArrayLike) -> Gap | None:
    """Between the highest negative and the lowest positive, if that is a gap; else None."""
    score, label = _pair(scores, holds)
    if label.all() or not label.any():
        return None
    below, above = float(score[~label].max()), float(score[label].min())
    return Gap(below, above) if below < above else None


def roc_area(
    scores: ArrayLike,
    holds: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    groups: Sequence[Any] | NDArray[Any] | None = None,
    level: float = 0.95,
) -> Area | None:
    """Chance that a positive row scores above a negative one; None without rows of both kinds.

    Error: E. R. DeLong, D. M. DeLong and D. L. Clarke-Pearson, "Comparing the areas under two or
    more correlated receiver operating characteristic curves", Biometrics 44, 1988; with groups the
    rows' parts are summed by group first (N. A. Obuchowski, "Nonparametric analysis of clustered
    ROC curve data", Biometrics 53, 1997), weights enter those parts. Interval: normal on the logit
    of the area, so that it stays within 0 and 1 (M. S. Pepe, "The statistical evaluation of medical
    tests for classification and prediction", 2003, section 5.2). Separable rows have no error;
    their interval is R. G. Newcombe's, "Confidence intervals for an effect size measure based on
    the Mann-Whitney statistic", Statistics in Medicine 25, 2006, method 5, at the effective numbers
    of rows.

    Args:
        scores: [N]. holds: [N] bools. weights, groups: [N], see `intervals.share`.
    """
    score, label = _pair(scores, holds)
    weight = weights_of(weights, len(label))
    codes = group_codes(groups, len(label))
    if label.all() or not label.any():
        return None
    positive = _below(score[~label], weight[~label], score[label])
    # As scikit-learn's `roc_auc_score` has it, without sorting everything once more. A sum of
    # weights over itself may be a hair above 1.
    value = min(1.0, float(np.average(positive, weights=weight[label])))
    plain = weights is None and groups is None
    error = _roc_error(value, positive, score, label, weight, None if plain else codes)
    if error is None or error < 1e-12 or not 0 < value < 1:
        return Area(value, None, _newcombe(value, label, weight, codes, level))
    reach = float(special.ndtri((1 + level) / 2)) * error / (value * (1 - value))
    middle = log(value / (1 - value))
    ends = Interval(_sigmoid(middle - reach), _sigmoid(middle + reach))
    return Area(value, error, ends)


def pr_area(
    scores: ArrayLike,
    holds: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    groups: Sequence[Any] | NDArray[Any] | None = None,
    repeats: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Area | None:
    """Average precision: the area under the steps of precision over recall; None without positives.

    K. Boyd, K. H. Eng and C. D. Page, "Area under the precision-recall curve: point estimates and
    confidence intervals", ECML PKDD 2013, on the estimator and on the bootstrap for its interval. A
    score that ranks at random has the base rate. Not interpolated, as scikit-learn has it.
    """
    score, label = _pair(scores, holds)
    weight = weights_of(weights, len(label))
    if not label.any():
        return None
    value = min(1.0, float(average_precision_score(label, score, sample_weight=weight)))
    # Sorted by all that a row is, and groups counted in that order: the draws, and so the interval,
    # do not depend on the order in which rows are given (equal rows of two groups aside).
    order = np.lexsort((weight, label, -score))
    codes = group_codes(None if groups is None else [groups[row] for row in order], len(order))
    ordered = score[order]
    last = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
    holding = np.flatnonzero(label[order])
    # Recall steps up at scores that a positive row has, and at no other.
    place = np.searchsorted(last, holding)
    first = np.flatnonzero(np.diff(place, prepend=-1))
    begins = np.append(0, last[place[first]][:-1] + 1)
    end = int(last[place[-1]]) + 1
    mass = None if weights is None else weight[order]

    def drawn(times: NDArray[np.int64]) -> Numbers:
        drawn_mass = times[:, :end] if mass is None else times[:, :end] * mass[:end]
        flagged = np.cumsum(np.add.reduceat(drawn_mass, begins, axis=1), axis=1)
        steps = np.add.reduceat(drawn_mass[:, holding], first, axis=1).astype(np.float64)
        hits = np.cumsum(steps, axis=1)
        areas = (steps * hits / np.where(flagged > 0, flagged, 1.0)).sum(axis=1)
        return np.where(hits[:, -1] > 0, areas / np.where(hits[:, -1] > 0, hits[:, -1], 1), np.nan)

    return Area(value, None, bootstrap_counts(drawn, codes, repeats, seed, level))


def roc_curve(scores: ArrayLike, holds: ArrayLike, *, weights: ArrayLike | None = None) -> Curve:
    """The ROC curve, points on a straight line left out; raises ValueError without both kinds."""
    score, label = _pair(scores, holds)
    if label.all() or not label.any():
        raise ValueError("a ROC curve needs rows that hold and rows that do not")
    x, y, cuts = roc_curve_of(label, score, sample_weight=weights_of(weights, len(label)))
    return Curve(tuple(x.tolist()), tuple(y.tolist()), tuple(cuts.tolist()))


def pr_curve(scores: ArrayLike, holds: ArrayLike, *, weights: ArrayLike | None = None) -> Curve:
    """The PR curve by falling cut, from recall 0; raises ValueError without positives."""
    score, label = _pair(scores, holds)
    if not label.any():
        raise ValueError("a PR curve needs rows that hold")
    precision, recall, cuts = precision_recall_curve(
        label, score, sample_weight=weights_of(weights, len(label)), drop_intermediate=True
    )
    x, y = recall[::-1].tolist(), precision[::-1].tolist()
    return Curve(tuple(x), tuple(y), (float("inf"), *cuts[::-1].tolist()))


def _pair(scores: ArrayLike, holds: ArrayLike) -> tuple[Numbers, Truths]:
    score, label = numbers("scores", scores), truths("labels", holds)
    same_length(len(label), scores=score)
    return score, label


def _sigmoid(x: float) -> float:
    return 1 / (1 + exp(-x)) if x > 0 else exp(x) / (1 + exp(x))


def _below(score: Numbers, weight: Numbers, at: Numbers) -> Numbers:
    """Weighted share of `score` below each of `at`, ties counting half."""
    order = np.argsort(score, kind="stable")
    sums = np.concatenate([[0.0], np.cumsum(weight[order])])
    ordered = score[order]
    left = sums[np.searchsorted(ordered, at, side="left")]
    upto = sums[np.searchsorted(ordered, at, side="right")]
    return np.asarray((left + upto) / (2 * sums[-1]))


def _roc_error(
    value: float,
    positive: Numbers,
    score: Numbers,
    label: Truths,
    weight: Numbers,
    codes: Codes | None,
) -> float | None:
    """DeLong's error without groups (codes None), else the clustered one; None if unknown.

    Args:
        positive: each positive row's part of the area, see `_below`.
    """
    negative = 1 - _below(score[label], weight[label], score[~label])
    if codes is None:
        if min(len(positive), len(negative)) < 2:
            return None
        return sqrt(positive.var(ddof=1) / len(positive) + negative.var(ddof=1) / len(negative))
    influences = np.empty(len(score))
    influences[label] = weight[label] * (positive - value) / weight[label].sum()
    influences[~label] = weight[~label] * (negative - value) / weight[~label].sum()
    return clustered_error(influences, codes)


def _newcombe(value: float, label: Truths, weight: Numbers, codes: Codes, level: float) -> Interval:
    """The areas whose own error lets `value` be seen, with Hanley and McNeil's error for them."""
    m = effective_count(weight[label], codes[label])
    n = effective_count(weight[~label], codes[~label])
    z = float(special.ndtri((1 + level) / 2))
    more = (m + n) / 2 - 1

    def beyond(area: float) -> float:
        spread = 1 + more * ((1 - area) / (2 - area) + area / (1 + area))
        return (value - area) ** 2 - z * z * area * (1 - area) * spread / (m * n)

    low = 0.0 if value == 0 else float(optimize.brentq(beyond, 0.0, value - _inside(value)))
    high = 1.0 if value == 1 else float(optimize.brentq(beyond, value + _inside(value), 1.0))
    return Interval(low, high)


def _inside(value: float) -> float:
    """A hair away from 0 and 1, where the error is 0 and the equation has a root of its own."""
    return 1e-9 if value in (0.0, 1.0) else 0.0
