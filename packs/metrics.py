"""How well scores tell labelled rows apart: AUC with its error, rates at the threshold.

Knows no fitting: what it is given is judged as it stands, so a report is held out when its rows
are. What the rows do not tell is None, never a number that looks like one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from spinf_serve.packs.decision import DecisionCall, Routed, Verdict, thresholds
from spinf_serve.packs.evaluate import evaluate
from spinf_serve.packs.pack import Constants, Pack
from spinf_serve.packs.reads import Vectors


@dataclass(frozen=True, slots=True)
class Auc:
    """Area under the ROC curve.

    Attributes:
        value: chance that a positive row scores above a negative one, ties counting half, 0 to 1.
        error: its standard error.
    """

    value: float
    error: float


@dataclass(frozen=True, slots=True)
class Report:
    """How one score did on labelled rows.

    Attributes:
        positives, negatives: rows where it is known to hold, and not to hold.
        auc: None without rows of both kinds.
        hit, wrong: share of positives and of negatives flagged at the threshold in force; None
            without a threshold or without such rows.
        precision: share of the flagged that hold; None when none is flagged.
    """

    positives: int
    negatives: int
    auc: Auc | None
    hit: float | None
    wrong: float | None
    precision: float | None


@dataclass(frozen=True, slots=True)
class PackReport:
    """How a pack did on labelled rows.

    Attributes:
        categories: category -> report, in file order.
        macro_auc: mean AUC over the categories that have one; None when none has.
        verdict: of the decision against "any deciding category holds"; its `auc` is that of the
            decision's score, None in the mode per_category.
        routed: share of rows, of those where exactly one of the route's categories holds, that went
            to it; None without a route or such rows.
        abstained: share of these rows on which the route abstained.
    """

    categories: Mapping[str, Report]
    macro_auc: float | None
    verdict: Report
    routed: float | None
    abstained: float | None


def auc(
    scores: Sequence[float] | NDArray[np.float64], holds: Sequence[bool] | NDArray[np.bool_]
) -> Auc | None:
    """AUC by the Mann-Whitney statistic, ties counting half.

    The error is that of J. A. Hanley and B. J. McNeil, "The meaning and use of the area under a
    receiver operating characteristic curve", Radiology 143, 1982. It is 0 at an AUC of 0 or 1,
    which says that the formula cannot tell there, not that the value is certain.

    Args:
        scores: [N], finite.
        holds: [N] bools.

    Returns:
        None when one kind has no row.
    """
    values, positive = np.asarray(scores, dtype=np.float64), np.asarray(holds, dtype=bool)
    if values.shape != positive.shape:
        raise ValueError(f"{len(values)} scores but {len(positive)} labels")
    if not np.isfinite(values).all():
        raise ValueError("a score is not a finite number")
    p, n = int(positive.sum()), int((~positive).sum())
    if not p or not n:
        return None
    negatives = np.sort(values[~positive])
    below = np.searchsorted(negatives, values[positive], side="left")
    upto = np.searchsorted(negatives, values[positive], side="right")
    # Twice the statistic is a whole number: exact up to 2^53.
    area = int((below + upto).sum()) / (2 * p * n)
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    variance = area * (1 - area) + (p - 1) * (q1 - area**2) + (n - 1) * (q2 - area**2)
    return Auc(area, sqrt(max(0.0, variance) / (p * n)))


def report(
    scores: Sequence[float],
    flagged: Sequence[bool | None],
    labels: Sequence[bool | None],
) -> Report:
    """Judge one score. Rows whose label is None take no part; all three are [N]."""
    rows = [
        (score, flag, label)
        for score, flag, label in zip(scores, flagged, labels, strict=True)
        if label is not None
    ]
    holds = [label for _, _, label in rows]
    positives = sum(holds)
    negatives = len(rows) - positives
    cut = bool(rows) and all(flag is not None for _, flag, _ in rows)
    hits = sum(bool(flag) and label for _, flag, label in rows)
    wrongs = sum(bool(flag) and not label for _, flag, label in rows)
    return Report(
        positives,
        negatives,
        auc([score for score, _, _ in rows], holds),
        hits / positives if cut and positives else None,
        wrongs / negatives if cut and negatives else None,
        hits / (hits + wrongs) if cut and hits + wrongs else None,
    )


def judge(
    pack: Pack,
    constants: Constants,
    rows: Sequence[Sequence[Vectors]],
    labels: Sequence[Mapping[str, bool | None]],
    call: DecisionCall | None = None,
) -> PackReport:
    """Judge a pack on labelled rows that it was not fitted on.

    Args:
        rows: the chunks of each row, see `evaluate`; mostly one.
        labels: category -> whether it holds; None or no entry when that is not known.
        call: other thresholds or another mode; None takes the pack's.
    """
    call = call or DecisionCall()
    results = [evaluate(pack, constants, chunks, call) for chunks in rows]
    if len(results) != len(labels):
        raise ValueError(f"{len(results)} rows but {len(labels)} labels")
    categories = {}
    for id in pack.categories:
        scored = [result.categories[id] for result in results]
        categories[id] = report(
            [one.score for one in scored],
            [one.flagged for one in scored],
            [label.get(id) for label in labels],
        )
    areas = [one.auc.value for one in categories.values() if one.auc is not None]
    routed, abstained = _routed(pack, [result.route for result in results], labels)
    return PackReport(
        categories,
        sum(areas) / len(areas) if areas else None,
        _verdict(pack, constants, call, [result.verdict for result in results], labels),
        routed,
        abstained,
    )


def _verdict(
    pack: Pack,
    constants: Constants,
    call: DecisionCall,
    verdicts: Sequence[Verdict],
    labels: Sequence[Mapping[str, bool | None]],
) -> Report:
    in_force = thresholds(pack, constants, call)
    deciding = [
        id for id, one in pack.categories.items() if one.decides and in_force[id] is not None
    ]
    truth: list[bool | None] = []
    for label in labels:
        values = [label.get(id) for id in deciding]
        known = any(values) or None not in values
        truth.append(any(values) if known and deciding else None)
    unsafe = [verdict.unsafe for verdict in verdicts]
    scores = [verdict.score for verdict in verdicts]
    # Without a score, the flag stands in for the rates and the area is taken out again.
    filled = [0.0 if score is None else score for score in scores]
    found = report(filled, unsafe, truth)
    return found if None not in scores else replace(found, auc=None)


def _routed(
    pack: Pack,
    routes: Sequence[Routed | None],
    labels: Sequence[Mapping[str, bool | None]],
) -> tuple[float | None, float | None]:
    """Share of rows routed right and share abstained, of those with exactly one known target."""
    if pack.route is None:
        return None, None
    right = abstained = count = 0
    for routed, label in zip(routes, labels, strict=True):
        values = {id: label.get(id) for id in pack.route.categories}
        target = [id for id, value in values.items() if value]
        if routed is None or len(target) != 1 or None in values.values():
            continue
        count += 1
        right += routed.choice == target[0]
        abstained += routed.choice == pack.route.abstain
    return (right / count, abstained / count) if count else (None, None)
