"""Exact one-sided bounds from counts, and the walk over cuts in a fixed order.

Works on arrays of counts, so that one call serves a thousand simulated datasets as well as one real
one. Knows no rows, targets or words: `spinf_serve.evals.certify` does.

Why the walk holds (fixed-sequence testing; A. N. Angelopoulos, S. Bates, E. J. Candes and others,
"Learn then Test", arXiv 2110.01052, section 2.2). The cuts and their order are set before any label
is seen. Each cut is tested at the full delta, and the walk ends at the first test that fails, so a
wrong promise needs the *first* cut that does not deserve one to pass its test: one event of
probability at most delta, however many cuts follow. Every cut that was passed on the way is promised
at the same time.

Why skipping is allowed. A rule that looks at scores only is a constant once the scores are given. Given
the scores, the labels above a cut are independent with chances r_1 ... r_n, and by W. Hoeffding, "On
the distribution of the number of successes in independent trials" (Annals of Mathematical Statistics
27, 1956), the upper tail of their sum above its mean is no heavier than that of the binomial with
their average chance. The binomial test is therefore exact or cautious for the rows' own mix of
scores, whatever was skipped.

Why class-wise labels can be re-weighted. Let the labelled rows be drawn from positives and negatives
separately, and let b be the share of positives in the traffic. With T the share of positives, and F
that of negatives, at a cut and above,

    precision = b T / (b T + (1 - b) F)

grows with T and falls with F. If T is at least `low` except with chance delta/5, and F at most `high`
except with chance 4 delta/5, the precision is at least the same expression of `low` and `high` except
with chance delta: the two events are added (Bonferroni), so nothing is assumed of how they depend on
each other. The split is fixed and uneven because F decides: at b = 5 % a precision of 90 % needs F
under 0.6 % of T (R. L. Berger and D. D. Boos, "P values maximized over a confidence set for the
nuisance parameter", JASA 89, 1994, do the same with T as the nuisance parameter). The negative
predictive value is the mirror image, and the share flagged is b T + (1 - b) F with upper bounds of
delta/2 each. What is assumed: scores of a class are distributed as in the traffic.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

Array = NDArray[np.float64]
Promise = Literal["precision", "recall", "flag_rate", "npv"]

TAIL_OF_THE_PLENTIFUL = 0.2
"""Share of delta for the rate that a re-weighted promise wants high; the rest is for the other."""


def lower(k: Array, n: Array, delta: float) -> Array:
    """Lower Clopper-Pearson bound of a share, wrong with chance `delta` at most.

    Args:
        k: successes, any shape, 0 to n. Need not be whole: labels still needed are found by scaling.
        n: trials, of the same shape. None at all gives 0.
    """
    inside = (k > 0) & (n > 0)
    a, b = np.where(inside, k, 1.0), np.where(inside, n - k + 1, 1.0)
    return np.where(inside, betaincinv(a, b, delta), 0.0)


def upper(k: Array, n: Array, delta: float) -> Array:
    """Upper Clopper-Pearson bound of a share, see `lower`. No trial gives 1."""
    return 1.0 - lower(n - k, n, delta)


def reweighted(wanted: Array, unwanted: Array, base: float) -> Array:
    """Share of the wanted class among the rows on one side of a cut.

    Args:
        wanted: share of the wanted class on that side, 0 to 1.
        unwanted: share of the other class there.
        base: share of the wanted class in the traffic.

    Returns:
        0 where neither is there.
    """
    mass = base * wanted
    whole = mass + (1 - base) * unwanted
    return np.divide(mass, whole, out=np.zeros_like(mass), where=whole > 0)


def reweighted_lower(
    wanted: Array,
    of_wanted: Array,
    unwanted: Array,
    of_unwanted: Array,
    base: float,
    delta: float,
) -> Array:
    """Lower bound of `reweighted` from counts: `wanted` of `of_wanted` rows lie on that side."""
    return reweighted(
        lower(wanted, of_wanted, delta * TAIL_OF_THE_PLENTIFUL),
        upper(unwanted, of_unwanted, delta * (1 - TAIL_OF_THE_PLENTIFUL)),
        base,
    )


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows at each cut and above, in the order of a walk.

    Attributes:
        positives_above, negatives_above: [..., C] float64 counts. Without labels all rows are put
            down as positives.
        positives, negatives: [..., 1] float64, all rows of that class.
    """

    positives_above: Array
    negatives_above: Array
    positives: Array
    negatives: Array

    def scaled(self, factor: float) -> "Counts":
        """The counts that `factor` times as many rows like these would give; not whole."""
        return Counts(
            self.positives_above * factor,
            self.negatives_above * factor,
            self.positives * factor,
            self.negatives * factor,
        )


def trials(kind: Promise, counts: Counts) -> tuple[Array, Array]:
    """What a promise counts: (successes, trials), both [..., C].

    precision: rows that hold, of those at the cut and above. npv: rows that do not hold, of those
    below. recall: rows at the cut and above, of those that hold. flag_rate: the same, of all.
    """
    held, others = counts.positives_above, counts.negatives_above
    if kind == "precision":
        return held, held + others
    if kind == "npv":
        below = counts.negatives - others
        return below, below + counts.positives - held
    if kind == "recall":
        return held, np.broadcast_to(counts.positives, held.shape)
    whole = counts.positives + counts.negatives
    return held + others, np.broadcast_to(whole, held.shape)


def estimates(kind: Promise, counts: Counts, base: float | None) -> Array:
    """The promised rate as observed, [..., C]; 0 where there is no row to count."""
    if base is None or kind == "recall":
        k, n = trials(kind, counts)
        return np.divide(k, n, out=np.zeros_like(k), where=n > 0)
    hit = counts.positives_above / np.maximum(counts.positives, 1)
    wrong = counts.negatives_above / np.maximum(counts.negatives, 1)
    if kind == "precision":
        return reweighted(hit, wrong, base)
    if kind == "npv":
        return reweighted(1 - wrong, 1 - hit, 1 - base)
    return base * hit + (1 - base) * wrong


def bounds(kind: Promise, counts: Counts, base: float | None, delta: float) -> Array:
    """The bound of a promised rate that is wrong with chance `delta` at most, [..., C].

    A lower bound, for flag_rate an upper one.

    Args:
        base: share of positives in the traffic, when rows were drawn class by class; None takes the
            rows as they are. Recall is the same at every base.
    """
    held, others = counts.positives_above, counts.negatives_above
    if base is None or kind == "recall":
        k, n = trials(kind, counts)
        return upper(k, n, delta) if kind == "flag_rate" else lower(k, n, delta)
    positives = np.broadcast_to(counts.positives, held.shape)
    negatives = np.broadcast_to(counts.negatives, held.shape)
    if kind == "precision":
        return reweighted_lower(held, positives, others, negatives, base, delta)
    if kind == "npv":
        return reweighted_lower(
            negatives - others, negatives, positives - held, positives, 1 - base, delta
        )
    return base * upper(held, positives, delta / 2) + (1 - base) * upper(
        others, negatives, delta / 2
    )


def walk(passed: NDArray[np.bool_], tested: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The last cut of a fixed-sequence walk that passed before the first failure.

    Args:
        passed: [..., C] cuts in the order of the walk.
        tested: [..., C] which cuts are tested at all; the others neither pass nor end the walk.

    Returns:
        [...] index of the cut, -1 where the first tested one failed or none was tested.
    """
    alive = np.logical_and.accumulate(passed | ~tested, axis=-1)
    kept = alive & tested
    last = passed.shape[-1] - 1 - np.argmax(kept[..., ::-1], axis=-1)
    return np.where(kept.any(axis=-1), last, -1)
