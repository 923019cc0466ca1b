"""The sentences of certificates: what stands in the way, what to know, what is still missing."""

from collections.abc import Sequence
from math import ceil, log, log1p

import numpy as np
from numpy.typing import NDArray

from spinf_serve.evals.certificates import Point, Why
from spinf_serve.evals.cuts import Target, between, minimum_rows
from spinf_serve.evals.eligible import Eligible
from spinf_serve.evals.exact import Array, Promise
from spinf_serve.packs.metrics import auc

PROVISIONAL_ROWS = 30
"""Rows of a class below which a result is marked provisional."""

TIED_SHARE = 0.05
"""Share of the rows with one and the same score from which that is told."""


def fault(
    kind: Promise,
    values: Array,
    scores: Array,
    holds: NDArray[np.bool_],
    kept: Eligible,
    delta: float,
    labelled: bool,
    ids: Sequence[str] | None,
) -> tuple[Why, str] | None:
    """What stands in the way before any cut is tested."""
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        named = [str(row) if ids is None else ids[row] for row in bad[:5].tolist()]
        return "not_a_number", (
            f"the score of {len(bad):,} of {len(values):,} rows is not a finite number: rows"
            f" {', '.join(named)}{' and others' if len(bad) > 5 else ''}; score them again or leave"
            " them out"
        )
    if delta <= 0:
        return "spent", (
            "the chance of a wrong promise that this split may carry is spent by earlier"
            " certifications on it; label rows that were not used yet"
        )
    if not len(scores):
        if kept.not_random:
            return "not_random", (
                f"none of the {kept.not_random:,} labelled rows was drawn at random or carries an"
                " inverse-probability weight, so they promise nothing about traffic; label a random"
                " sample"
            )
        return "no_rows", "no row has a label; label a random sample"
    if not labelled:
        return None
    if holds.all() or not holds.any():
        what = "hold" if holds.all() else "do not hold"
        return "one_class", (
            f"all {len(holds):,} rows {what}: one class alone sets no cut; label rows of the other"
        )
    if scores.min() == scores.max():
        return "no_information", (
            f"no information: all {len(scores):,} rows have the score {scores[0]:g}, so no cut tells"
            f" them apart ({int(holds.sum()):,} hold, {int((~holds).sum()):,} do not)"
        )
    return None


def remarks(
    kind: Promise,
    scores: Array,
    holds: NDArray[np.bool_],
    labelled: bool,
    stated: float | None,
    own: float | None,
) -> list[str]:
    if not labelled:
        return []
    notes = []
    positives, negatives = scores[holds], scores[~holds]
    few = min(len(positives), len(negatives))
    if few < PROVISIONAL_ROWS:
        side = "hold" if few == len(positives) else "do not hold"
        notes.append(f"provisional: only {few} rows {side}")
    low, high = float(negatives.max()), float(positives.min())
    if low < high:
        middle = float(between([low, high])[1])
        notes.append(
            f"separable: any cut in ({low:g}, {high:g}] tells these rows apart, the middle is"
            f" {middle:g}; that so few rows do not overlap promises nothing by itself"
        )
    distinct, sizes = np.unique(scores, return_counts=True)
    if sizes.max() >= max(2.0, TIED_SHARE * len(scores)):
        notes.append(
            f"tied: {int(sizes.max()):,} of {len(scores):,} rows have the score"
            f" {distinct[sizes.argmax()]:.6g}, which no cut can part"
        )
    if stated is not None:
        side = {"precision": "or more", "npv": "or less"}.get(kind, "exactly")
        notes.append(
            f"holds for traffic with {_percent(stated, 2)} positives {side}, whose classes score as"
            " these"
        )
    elif own is not None and kind != "recall":
        notes.append(
            f"holds for traffic like the rows, with {_percent(own, 2)} positives; state the base rate"
            " where the labels were drawn class by class"
        )
    return notes


def chance_level(scores: Array, holds: NDArray[np.bool_]) -> list[str]:
    area = auc(scores, holds)
    if area is None or abs(area.value - 0.5) > 2 * area.error:
        return []
    return [
        (
            "the scores tell the classes apart no better than chance: area under the ROC curve"
            f" {area.value:.2f}, error {area.error:.2f}"
        )
    ]


def words(
    kind: Promise,
    target: Target,
    delta: float,
    point: Point,
    why: Why,
    more: int | None,
    stated: float | None,
) -> str:
    of = {
        "precision": "of {n:,} rows at it and above hold",
        "npv": "of {n:,} rows below it do not hold",
        "recall": "of {n:,} rows that hold lie at it or above",
        "flag_rate": "of {n:,} rows lie at it or above",
    }[kind].format(n=point.n)
    most = kind == "flag_rate"
    text = (
        f"not reachable yet: {kind} {'at most' if most else 'at least'} {target.value:.4g} with"
        f" {1 - delta:.4g} certainty. The best cut is {point.cut:g}: {point.k:,} {of}"
    )
    if stated is not None:
        text += f", {_percent(point.estimate, 1)} at {_percent(stated, 2)} positives"
    text += (
        f" (95 % interval {_percent(point.interval.low, 1)} to {_percent(point.interval.high, 1)},"
        f" {'upper' if most else 'lower'} bound {_percent(point.bound, 1)})"
    )
    if why == "too_few_rows" and stated is None:
        least = minimum_rows(target.value, delta)
        text += f"; too few rows are counted there, since even without an error it takes {least:,}"
    if more is None:
        return text + ". At these rates no number of labels would carry it"
    return text + f". About {more:,} more labelled rows like these would carry it"


def rows_of_a_class(
    kind: Promise, target: Target, delta: float, stated: float | None, holds: NDArray[np.bool_]
) -> list[str]:
    """What a stated base rate takes at the least, where the rows have not so many.

    Labels drawn class by class, such as half and half, need many: with a share `r` of positives a
    precision `t` allows false alarms on `r (1 - t) / (t (1 - r))` of the negatives at most, and m
    negatives without one leave `1 - delta^(1/m)` possible. npv likewise, of positives.
    """
    if stated is None or kind not in ("precision", "npv"):
        return []
    odds = stated / (1 - stated) if kind == "precision" else (1 - stated) / stated
    most = odds * (1 - target.value) / target.value
    if most >= 1:
        return []
    least = ceil(log(delta) / log1p(-most))
    rows = int((~holds).sum() if kind == "precision" else holds.sum())
    if rows >= least:
        return []
    which = "do not hold" if kind == "precision" else "hold"
    return [
        (
            f"with {_percent(stated, 2)} positives in the traffic it takes at least {least:,} rows that"
            f" {which}, even without one error; there are {rows:,}: label more of these, or a random"
            " sample"
        )
    ]


def _percent(share: float, digits: int) -> str:
    return f"{100 * share:.{digits}f} %"
