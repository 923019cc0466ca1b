"""How far probabilities can be taken at their word: Brier, log loss, ECE beside its noise, risk.

Knows no cut. Probabilities are those of "it holds" in [0, 1], labels bools, all known.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinf_serve.evals.columns import (
    Numbers,
    effective_count,
    group_codes,
    numbers,
    probabilities,
    same_length,
    truths,
    weights_of,
)
from spinf_serve.evals.intervals import Interval, Mean, mean, wilson

Binning = Literal["width", "mass"]

LEAST_P = 2.0**-53
"""What 0 counts as, and 1 less this what 1 counts as, where a logarithm is taken."""


@dataclass(frozen=True, slots=True)
class Bin:
    """One bin of a reliability diagram.

    Attributes:
        low, high: its edges, of p; the last bin holds its upper edge too.
        rows: how many; the rest is None when there are none.
        p: their mean probability.
        rate: share of them that holds.
        interval: Wilson's of the rate.
    """

    low: float
    high: float
    rows: int
    p: float | None
    rate: float | None
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class Noise:
    """The ECE that perfectly calibrated scores like these show by chance.

    Attributes:
        mean: on average.
        high: in 95 % of the simulations at most.
    """

    mean: float
    high: float


@dataclass(frozen=True, slots=True)
class RiskCoverage:
    """Wrong answers among those kept, when the least confident are handed over.

    Attributes:
        confidence: each kept share's least confidence, falling, one for each distinct value.
        coverage: share of rows kept, rising to 1.
        risk: share of wrong among them.
        area: mean risk over all coverages, 0 is best; a tie has its risk as a whole.
    """

    confidence: tuple[float, ...]
    coverage: tuple[float, ...]
    risk: tuple[float, ...]
    area: float

    def risk_at(self, coverage: float) -> float | None:
        """The risk at the largest coverage up to this one; None when a tie keeps all above it."""
        # Sums of weights may miss a round share by their rounding.
        kept = np.searchsorted(self.coverage, coverage + 1e-12, side="right")
        return self.risk[kept - 1] if kept else None


def logit(p: ArrayLike) -> Numbers:
    """ln(p / (1 - p)), [N]; 0 and 1 count as `LEAST_P` and 1 - `LEAST_P`."""
    held = np.clip(probabilities("p", p), LEAST_P, 1 - LEAST_P)
    return np.log(held) - np.log1p(-held)


def brier(
    p: ArrayLike,
    holds: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    groups: Sequence[Any] | NDArray[Any] | None = None,
    level: float = 0.95,
) -> Mean | None:
    """Mean of (p - label)^2, 0 is best, with its error; None without rows.

    G. W. Brier, "Verification of forecasts expressed in terms of probability", Monthly Weather
    Review 78, 1950, halved for two classes as is usual.
    """
    score, label = _pair(p, holds)
    return _within(mean((score - label) ** 2, weights=weights, groups=groups, level=level), 1.0)


def log_loss(
    p: ArrayLike,
    holds: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    groups: Sequence[Any] | NDArray[Any] | None = None,
    level: float = 0.95,
) -> Mean | None:
    """Mean of -ln of the probability given to what was so, in nats, with its error.

    0 and 1 count as in `logit`, so that one wrong certain row costs 36.7 and not infinity.
    """
    score, label = _pair(p, holds)
    held = np.clip(score, LEAST_P, 1 - LEAST_P)
    losses = -np.where(label, np.log(held), np.log1p(-held))
    return _within(mean(losses, weights=weights, groups=groups, level=level), np.inf)


def _within(found: Mean | None, most: float) -> Mean | None:
    """The mean with its interval cut to what such a mean can be, from 0 to `most`."""
    if found is None or found.interval is None:
        return found
    low, high = max(0.0, found.interval.low), min(most, found.interval.high)
    return replace(found, interval=Interval(low, high))


def reliability(
    p: ArrayLike,
    holds: ArrayLike,
    bins: int = 10,
    binning: Binning = "width",
    *,
    weights: ArrayLike | None = None,
    level: float = 0.95,
) -> tuple[Bin, ...]:
    """The bins of a reliability diagram, empty ones among them.

    Args:
        bins: how many.
        binning: "width": equal parts of [0, 1], a p on an edge in the upper one; "mass": equal
            numbers of rows, rows of one p together, so that there may be fewer bins.
    """
    score, label = _pair(p, holds)
    weight = weights_of(weights, len(score))
    edges = _edges(score, bins, binning)
    place = _places(score, edges)
    found = []
    for index, (low, high) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
        inside = place == index
        if not inside.any():
            found.append(Bin(low, high, 0, None, None, None))
            continue
        mass = weight[inside]
        rate = float((mass * label[inside]).sum() / mass.sum())
        rows = effective_count(mass, np.arange(len(mass)))
        # A sum of weights over itself may be a hair above 1.
        held = min(rate, 1.0)
        middle = float((mass * score[inside]).sum() / mass.sum())
        interval = wilson(held * rows, rows, level)
        found.append(Bin(low, high, int(inside.sum()), middle, held, interval))
    return tuple(found)


def ece(
    p: ArrayLike,
    holds: ArrayLike,
    bins: int = 10,
    binning: Binning = "width",
    *,
    weights: ArrayLike | None = None,
) -> float | None:
    """Expected calibration error: mean of |rate - mean p| over the bins by their rows, 0 to 1.

    M. P. Naeini, G. F. Cooper and M. Hauskrecht, "Obtaining well calibrated probabilities using
    Bayesian binning", AAAI 2015. It is above 0 by chance alone: show it beside `noise_level`. None
    without rows.
    """
    score, label = _pair(p, holds)
    if not len(score):
        return None
    weight = weights_of(weights, len(score))
    place = _places(score, _edges(score, bins, binning))
    gaps = np.bincount(place, weight / weight.sum() * (label - score))
    return float(np.abs(gaps).sum())


def noise_level(
    p: ArrayLike,
    bins: int = 10,
    binning: Binning = "width",
    *,
    weights: ArrayLike | None = None,
    groups: Sequence[Any] | NDArray[Any] | None = None,
    repeats: int = 1000,
    seed: int = 0,
) -> Noise | None:
    """What `ece` shows for these scores when they are calibrated perfectly; None without rows.

    By simulation: each row holds with its own probability, `repeats` times. With groups one draw
    decides the rows of a group together, as copies would be.
    """
    score = probabilities("p", p)
    if not len(score):
        return None
    weight = weights_of(weights, len(score))
    codes = group_codes(groups, len(score))
    edges = _edges(score, bins, binning)
    place = _places(score, edges)
    share = weight / weight.sum()
    # Rows in the order of their bins: a bin is then one stretch, summed for all draws at once.
    order = np.argsort(place, kind="stable")
    starts = np.flatnonzero(np.diff(place[order], prepend=-1))
    score, share, codes = score[order], share[order], codes[order]
    generator = np.random.default_rng(seed)
    found = np.empty(repeats)
    at_once = max(1, 4_000_000 // len(score))
    for start in range(0, repeats, at_once):
        draws = min(at_once, repeats - start)
        chance = generator.random((draws, int(codes.max()) + 1))[:, codes]
        gaps = np.add.reduceat(((chance < score) - score) * share, starts, axis=1)
        found[start : start + draws] = np.abs(gaps).sum(axis=1)
    return Noise(float(found.mean()), float(np.quantile(found, 0.95)))


def risk_coverage(
    confidence: ArrayLike, correct: ArrayLike, *, weights: ArrayLike | None = None
) -> RiskCoverage | None:
    """The curve of risk over coverage; None without rows.

    R. El-Yaniv and Y. Wiener, "On the foundations of noise-free selective classification", JMLR 11,
    2010. Rows of one confidence are kept or handed over together.

    Args:
        confidence: [N], how sure the answer is, in any unit; infinite is allowed.
        correct: [N] bools, whether it is right.
    """
    sure, right = np.asarray(confidence, dtype=np.float64), truths("correct", correct)
    same_length(len(right), confidence=sure)
    if np.isnan(sure).any():
        numbers("confidence", np.where(np.isinf(sure), 0.0, sure))
    if not len(sure):
        return None
    weight = weights_of(weights, len(sure))
    order = np.argsort(-sure, kind="stable")
    last = np.flatnonzero(np.append(sure[order][1:] != sure[order][:-1], True))
    kept = np.cumsum(weight[order])[last]
    wrong = np.cumsum(weight[order] * ~right[order])[last]
    coverage = kept / kept[-1]
    risk = wrong / kept
    area = float((np.diff(coverage, prepend=0.0) * risk).sum())
    return RiskCoverage(
        tuple(sure[order][last].tolist()), tuple(coverage.tolist()), tuple(risk.tolist()), area
    )


def _pair(p: ArrayLike, holds: ArrayLike) -> tuple[Numbers, NDArray[np.bool_]]:
    score, label = probabilities("p", p), truths("labels", holds)
    same_length(len(label), p=score)
    return score, label


def _edges(score: Numbers, bins: int, binning: Binning) -> Numbers:
    """Edges of the bins from 0 to 1, [bins + 1]."""
    if bins < 1:
        raise ValueError(f"{bins} bins; at least one is needed")
    if binning == "width" or not len(score):
        return np.arange(bins + 1) / bins
    inner = np.quantile(score, np.arange(1, bins) / bins, method="higher")
    return np.unique(np.concatenate([[0.0], inner, [1.0]]))


def _places(score: Numbers, edges: Numbers) -> NDArray[np.int64]:
    return np.clip(np.searchsorted(edges, score, side="right") - 1, 0, len(edges) - 2)
