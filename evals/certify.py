"""Cuts that hold: a certificate for the loosest cut that passed an exact test, or why there is none.

The procedure is that of `spinf_serve.evals.exact`: cuts set beforehand, walked from strict to loose
(recall from loose to strict), each tested exactly, stopped at the first failure. A certificate holds
for rows like those it was made from, so it says which. Knows no file and no pack: what a split was
used for before is handed in, and who saves what is not its affair.
"""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinf_serve.evals.certificates import Bands, Certificate, NotReachable, Why
from spinf_serve.evals.cuts import Target, between, least_counted
from spinf_serve.evals.eligible import eligible
from spinf_serve.evals.exact import Array, Promise, bounds, trials, walk
from spinf_serve.evals.points import at, count, labels_needed, point
from spinf_serve.evals.sentences import (
    chance_level,
    fault,
    remarks,
    rows_of_a_class,
    words,
)

Labels = Sequence[bool | None] | NDArray[np.bool_]


def certify(
    scores: ArrayLike,
    labels: Labels | None,
    target: Target,
    cuts: ArrayLike,
    *,
    groups: Sequence[Hashable] | None = None,
    weights: ArrayLike | None = None,
    drawn: Sequence[str] | None = None,
    base_rate: float | None = None,
    delta: float | None = None,
    approximate: bool = False,
    ids: Sequence[str] | None = None,
) -> Certificate | NotReachable:
    """The loosest cut that can be promised (for recall the strictest).

    Args:
        scores: [N]; higher says that it holds.
        labels: [N] bools, None for unknown ones; None at all for flag_rate, which needs none.
        target: of any kind but cost.
        cuts: [C] set before labels were seen, see `cuts.preset_cuts`; order is of no matter. One
            that is a row's very score is moved to the middle between it and the next lower one: the
            same rows are flagged, and none of them by its last bit.
        groups, weights, drawn: [N], see `eligible.eligible`. Without `drawn` the caller says that
            all rows were drawn at random.
        base_rate: share of positives in the traffic. To be stated when rows were drawn class by
            class, as with labels half and half; assumes that each class scores as in the traffic.
            None promises for traffic with the rows' own share.
        delta: the chance left by `allowance`; None takes the target's. 0 is refused as spent.
        approximate: the cuts were taken from these rows' scores.
        ids: [N] names of the rows for messages.

    Raises:
        ValueError: a target of kind cost, lengths that differ, no cut, a base rate outside 0 to 1.
        Unusable: a weight that is not a positive number.
    """
    if target.kind == "cost":
        raise ValueError("nothing is promised of a cost; see spinf_serve.evals.cost")
    kind: Promise = target.kind
    values = np.asarray(scores, dtype=np.float64)
    delta = target.delta if delta is None else delta
    known, truth = _truth(labels, kind, len(values))
    steps = np.unique(np.asarray(cuts, dtype=np.float64))
    if not len(steps) or not np.isfinite(steps).all():
        raise ValueError(f"{len(steps)} cuts, or one of them is not a number")
    if base_rate is not None and not 0 < base_rate < 1:
        raise ValueError(f"a base rate of {base_rate:g} is not between 0 and 1")
    kept = eligible(known, groups, weights, drawn)
    s, y = values[kept.rows], truth[kept.rows]
    own = float(y.mean()) if labels is not None and len(y) else None
    notes = list(kept.notes())
    obstacle = fault(kind, values, s, y, kept, delta, labels is not None, ids)
    if obstacle is not None:
        return NotReachable(
            target, delta, *obstacle, None, len(s), base_rate or own, None, tuple(notes)
        )
    stated = base_rate if labels is not None and kind != "recall" else None
    steps = _between(steps, s)
    order = steps[::-1] if kind in ("precision", "flag_rate") else steps
    counts = count(s, y, order)
    found = bounds(kind, counts, stated, delta)
    passed = found <= target.value if kind == "flag_rate" else found >= target.value
    counted = trials(kind, counts)[1]
    tested = counted >= least_counted(kind, target.value, counts, stated, delta)
    index = int(walk(passed, tested))
    notes += remarks(kind, s, y, labels is not None, stated, own)
    if index >= 0:
        held = tuple(float(cut) for cut in order[: index + 1][tested[: index + 1]])
        if approximate:
            notes.append("approximate: the cuts were taken from the scores of the same rows")
        found_there = point(kind, s, y, order, counts, index, stated, delta)
        share = None if labels is None else (base_rate or own)
        return Certificate(
            target,
            delta,
            found_there,
            len(s),
            share,
            base_rate is not None,
            approximate,
            held,
            tuple(notes),
        )
    best = _best(kind, found, tested, counted, passed)
    best_point = point(kind, s, y, order, counts, best, stated, delta)
    more = labels_needed(kind, at(counts, best), stated, delta, target.value)
    why: Why = "failed" if tested.any() else "too_few_rows"
    told = words(kind, target, delta, best_point, why, more, stated)
    if labels is not None:
        notes += rows_of_a_class(kind, target, delta, stated, y)
        notes += chance_level(s, y)
    share = base_rate or own
    return NotReachable(target, delta, why, told, best_point, len(s), share, more, tuple(notes))


def bands(
    scores: ArrayLike,
    labels: Labels,
    precision: Target,
    npv: Target,
    cuts: ArrayLike,
    *,
    groups: Sequence[Hashable] | None = None,
    weights: ArrayLike | None = None,
    drawn: Sequence[str] | None = None,
    base_rate: float | None = None,
    delta: float | None = None,
    approximate: bool = False,
) -> Bands:
    """Two promises on the same rows, at half of delta each, so that both hold together.

    Where the walks pass each other, the cuts meet in the middle of those that both have passed, and
    nothing is left to review: every cut passed on a walk is promised, so any of them may be taken.

    Args:
        precision, npv: the targets above the upper and below the lower cut.
        delta: of both together; None takes the smaller of the targets'. For the rest see `certify`.
    """
    half = (min(precision.delta, npv.delta) if delta is None else delta) / 2

    def promise(target: Target, at: Array) -> Certificate | NotReachable:
        return certify(
            scores,
            labels,
            target,
            at,
            groups=groups,
            weights=weights,
            drawn=drawn,
            base_rate=base_rate,
            delta=half,
            approximate=approximate,
        )

    steps = np.unique(np.asarray(cuts, dtype=np.float64))
    act, passing = promise(precision, steps), promise(npv, steps)
    if isinstance(act, Certificate) and isinstance(passing, Certificate) and passing.cut > act.cut:
        both = sorted(set(act.passed) & set(passing.passed))
        meet = both[len(both) // 2] if both else act.cut
        steps = np.array(sorted({*act.passed, *passing.passed}))
        act, passing = promise(precision, steps[steps >= meet]), promise(npv, steps[steps <= meet])
    flagged = act.point.coverage if isinstance(act, Certificate) else 0.0
    passes = 1 - passing.point.coverage if isinstance(passing, Certificate) else 0.0
    return Bands(act, passing, 1000 * max(0.0, 1 - flagged - passes))


def allowance(delta: float, spent: Sequence[float], planned: int | None = 1) -> float:
    """The chance of a wrong promise that the next certification on a split may take.

    The chances of all certifications on the same rows add up (Bonferroni), whatever was tried: other
    wordings, other packs, other cuts. So their sum stays at `delta`, and what is gone is gone:
    labels that were not used yet are the remedy.

    Args:
        delta: for all certifications of this target on this split together.
        spent: what the earlier ones took, promised or not.
        planned: how many are meant to be made, set before the first: each takes an equal share. None
            sets no number: try k takes delta / (k (k + 1)), which never ends and sums to delta.

    Returns:
        0 where nothing is left.
    """
    if planned is not None and planned < 1:
        raise ValueError(f"{planned} certifications planned; at least 1")
    tries = len(spent) + 1
    share = delta / (tries * (tries + 1)) if planned is None else delta / planned
    left = delta - sum(spent)
    # Shares add up to delta but for the last bits of a sum.
    return share if share <= left * (1 + 1e-9) + 1e-15 else max(0.0, left if left > 1e-12 else 0.0)


def _truth(
    labels: Labels | None, kind: Promise, rows: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    if labels is None:
        if kind != "flag_rate":
            raise ValueError(f"a target of {kind} needs labels")
        return np.ones(rows, dtype=bool), np.ones(rows, dtype=bool)
    if len(labels) != rows:
        raise ValueError(f"{rows} scores but {len(labels)} labels")
    known = np.array([label is not None for label in labels], dtype=bool)
    return known, np.array([bool(label) for label in labels], dtype=bool)


def _between(cuts: Array, scores: Array) -> Array:
    distinct = np.unique(scores)
    place = np.searchsorted(distinct, cuts, side="left")
    hit = (place > 0) & (place < len(distinct))
    hit[hit] = distinct[place[hit]] == cuts[hit]
    moved = cuts.copy()
    moved[hit] = between(distinct)[place[hit]]
    return np.unique(moved)


def _best(
    kind: Promise,
    found: Array,
    tested: NDArray[np.bool_],
    counted: Array,
    passed: NDArray[np.bool_],
) -> int:
    """The cut to show where none is promised: the best bound, or the one that ended the walk."""
    shown = tested if tested.any() else counted > 0
    first = int(np.argmax(shown))
    if kind in ("recall", "flag_rate"):
        return first
    best = int(np.argmax(np.where(shown, found, -1.0)))
    # A cut that would pass if the walk had come so far is not the one that labels are needed for.
    return first if tested.any() and passed[best] else best
