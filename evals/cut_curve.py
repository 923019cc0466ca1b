"""What labelled rows say at every cut: counts, rates with exact intervals, for looking around.

Nothing is promised here: whoever picks the best of many cuts picks a lucky one. What may be promised is
`spinf_serve.evals.certify`. Knows no file and no pack.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinf_serve.evals.cuts import between
from spinf_serve.evals.exact import Array, Promise, estimates, trials
from spinf_serve.evals.points import count, intervals

KINDS: Final[tuple[Promise, ...]] = ("precision", "recall", "npv", "flag_rate")


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """One rate at C cuts, [C] each; NaN where it counts no row.

    Attributes:
        value: the rate.
        low, high: its exact 95 % interval.
        k, n: rows that keep it, of those it counts, see `exact.trials`.
    """

    value: Array
    low: Array
    high: Array
    k: NDArray[np.int64]
    n: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class CutCurve:
    """Labelled rows at C cuts, [C] each.

    Attributes:
        cuts: rows with this score and above are flagged.
        tp, fp, fn, tn: rows by flag and label.
        rates: of each of `KINDS`.
    """

    cuts: Array
    tp: NDArray[np.int64]
    fp: NDArray[np.int64]
    fn: NDArray[np.int64]
    tn: NDArray[np.int64]
    rates: dict[Promise, Rates]


def cut_curve(
    scores: ArrayLike, holds: ArrayLike, cuts: ArrayLike, base_rate: float | None = None
) -> CutCurve:
    """Counts and rates at given cuts.

    Args:
        scores: [N] of rows that count alike, see `eligible.eligible`.
        holds: [N] bools.
        cuts: [C], in any order.
        base_rate: share of positives in the traffic, where rows were drawn class by class: rates are
            re-weighted to it, counts never are.
    """
    values, truth = np.asarray(scores, dtype=np.float64), np.asarray(holds, dtype=bool)
    if values.shape != truth.shape:
        raise ValueError(f"{len(values)} scores but {len(truth)} labels")
    steps = np.asarray(cuts, dtype=np.float64)
    counts = count(values, truth, steps)
    tp = counts.positives_above.astype(np.int64)
    fp = counts.negatives_above.astype(np.int64)
    rates = {}
    for kind in KINDS:
        k, n = trials(kind, counts)
        none = n == 0
        low, high = intervals(kind, counts, base_rate)
        rates[kind] = Rates(
            np.where(none, np.nan, estimates(kind, counts, base_rate)),
            np.where(none, np.nan, low),
            np.where(none, np.nan, high),
            k.astype(np.int64),
            n.astype(np.int64),
        )
    positives = int(truth.sum())
    return CutCurve(steps, tp, fp, positives - tp, len(truth) - positives - fp, rates)


def shown_cuts(scores: ArrayLike, most: int = 200) -> Array:
    """Cuts that tell the scores apart, ascending, at most so many: evenly by rank, and last one that
    flags none.
    """
    found = between(scores)
    if not len(found):
        return found
    if len(found) >= most:
        found = found[np.unique(np.linspace(0, len(found) - 1, most - 1).round().astype(int))]
    return np.append(found, np.nextafter(float(np.max(np.asarray(scores))), np.inf))
