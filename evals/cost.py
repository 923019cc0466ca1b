"""The cheapest cut where a miss is worth so many false alarms, and how far it would wander.

Nothing is promised of it: the cut with the least cost on these rows looks cheaper than it is, so the
spread over resampled rows stands beside it. With calibrated probabilities the cut needs no labels: it
is 1 / (1 + miss) (C. Elkan, "The foundations of cost-sensitive learning", IJCAI 2001).
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinf_serve.evals.columns import group_codes
from spinf_serve.evals.cuts import between
from spinf_serve.evals.exact import Array
from spinf_serve.evals.intervals import Interval


@dataclass(frozen=True, slots=True)
class CostCut:
    """The cheapest cut on labelled rows.

    Attributes:
        cut: rows with this score and above are flagged; None where flagging none is cheapest.
        cost: mean cost of a row there, in false alarms.
        cost_interval: of that cost where each resample picks its own cut, 90 %.
        cut_interval: 5 % to 95 % of the resamples' cuts; None where over half flag none.
        none_flagged: share of resamples in which flagging none is cheapest.
    """

    cut: float | None
    cost: float
    cost_interval: Interval
    cut_interval: Interval | None
    none_flagged: float


def cheapest(
    scores: ArrayLike,
    labels: ArrayLike,
    miss: float,
    *,
    weights: ArrayLike | None = None,
    groups: Sequence[Hashable] | None = None,
    repeats: int = 500,
    seed: int = 0,
) -> CostCut:
    """The cut with the least mean cost; of equal ones the highest, which flags least.

    Args:
        scores: [N], finite. labels: [N] bools.
        miss: cost of a row that holds and is not flagged, where a false alarm costs 1.
        weights: [N] inverse probabilities; None weighs rows alike.
        groups: [N]; drawn as wholes.

    Raises:
        ValueError: no row, lengths that differ, a score that is not a finite number.
    """
    values, holds = np.asarray(scores, dtype=np.float64), np.asarray(labels, dtype=bool)
    if not len(values) or values.shape != holds.shape or not np.isfinite(values).all():
        raise ValueError(f"{len(values)} scores and {len(holds)} labels set no cut")
    weight = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
    cuts = between(values)
    # Position of a row's score among the cuts: it is flagged at that cut and at all below.
    place = np.searchsorted(cuts, values, side="right")
    order = np.argsort(place, kind="stable")
    codes = group_codes(groups, len(values))
    costs = _costs(place, order, holds, weight, miss, len(cuts))
    best = _highest_least(costs)
    generator = np.random.default_rng(seed)
    found, paid = [], []
    members = int(codes.max()) + 1
    for _ in range(repeats):
        times = np.bincount(generator.integers(members, size=members), minlength=members)[codes]
        if not times.any():
            continue
        again = _costs(place, order, holds, weight * times, miss, len(cuts))
        picked = _highest_least(again)
        found.append(cuts[picked] if picked < len(cuts) else np.inf)
        paid.append(again[picked])
    low, high = np.quantile(paid, [0.05, 0.95])
    none = float(np.isinf(found).mean())
    spread = None
    if none <= 0.5:
        ends = np.quantile(np.array(found)[np.isfinite(found)], [0.05, 0.95])
        spread = Interval(float(ends[0]), float(ends[1]))
    return CostCut(
        float(cuts[best]) if best < len(cuts) else None,
        float(costs[best]),
        Interval(float(low), float(high)),
        spread,
        none,
    )


@dataclass(frozen=True, slots=True, eq=False)
class CostCurve:
    """Mean cost of a row, in false alarms, at C cuts, [C] each; the last cut flags none.

    Attributes:
        cuts: infinite where none is flagged.
        cost: on the rows.
        low, high: 90 % of the resamples' costs at that very cut.
    """

    cuts: Array
    cost: Array
    low: Array
    high: Array


def cost_curve(
    scores: ArrayLike,
    labels: ArrayLike,
    miss: float,
    *,
    weights: ArrayLike | None = None,
    groups: Sequence[Hashable] | None = None,
    most: int = 200,
    repeats: int = 500,
    seed: int = 0,
) -> CostCurve:
    """What a row costs at each cut, with the spread over resampled rows.

    Args:
        most: cuts at most, evenly by rank. For the rest see `cheapest`.
    """
    values, holds = np.asarray(scores, dtype=np.float64), np.asarray(labels, dtype=bool)
    if not len(values) or values.shape != holds.shape or not np.isfinite(values).all():
        raise ValueError(f"{len(values)} scores and {len(holds)} labels make no curve")
    weight = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
    cuts = between(values)
    if len(cuts) >= most:
        cuts = cuts[np.unique(np.linspace(0, len(cuts) - 1, most - 1).round().astype(int))]
    place = np.searchsorted(cuts, values, side="right")
    order = np.argsort(place, kind="stable")
    codes = group_codes(groups, len(values))
    costs = _costs(place, order, holds, weight, miss, len(cuts))
    generator = np.random.default_rng(seed)
    members = int(codes.max()) + 1
    drawn = np.full((repeats, len(costs)), np.nan)
    for index in range(repeats):
        times = np.bincount(generator.integers(members, size=members), minlength=members)[codes]
        drawn[index] = _costs(place, order, holds, weight * times, miss, len(cuts))
    low, high = np.quantile(drawn, [0.05, 0.95], axis=0)
    return CostCurve(np.append(cuts, np.inf), costs, low, high)


def _costs(
    place: NDArray[np.int64],
    order: NDArray[np.int64],
    holds: NDArray[np.bool_],
    weight: Array,
    miss: float,
    cuts: int,
) -> Array:
    """Mean cost at every cut, and last that of flagging none, [cuts + 1]."""
    alarms = np.bincount(place[order], (weight * ~holds)[order], cuts + 1)
    misses = np.bincount(place[order], (weight * holds)[order], cuts + 1)
    # A row at place p lies at the cuts 0 to p - 1 and above.
    flagged = np.append(alarms[::-1].cumsum()[::-1][1:], 0.0)
    unflagged = misses.cumsum()
    costs: Array = (flagged + miss * unflagged) / weight.sum()
    return costs


def _highest_least(costs: Array) -> int:
    least = costs.min()
    return int(np.flatnonzero(costs <= least + 1e-12 * max(1.0, least))[-1])
