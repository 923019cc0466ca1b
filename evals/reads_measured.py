"""A target's reads one by one: how well each answer alone tells rows apart, p beside floor p.

The other half of `spinf_serve.evals.measuring`. Knows no verdict.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spinf_serve.evals.judged import Judged, Lifts, Measured, ReadReport, TargetReport, figure_of
from spinf_serve.evals.metrics.areas import roc_area
from spinf_serve.evals.scored import Answers, Values, question_values
from spinf_serve.packs.pack import Pack, Read

MOST_POINTS = 2000
"""Points of a target that a report keeps."""


def with_reads(pack: Pack, target: TargetReport, answers: Answers) -> TargetReport:
    """The target's report with its reads' figures, and their points to draw.

    Args:
        answers: on the rows of the target, in their order.
    """
    at = target.judged.labelled()
    at = at[answers.chunks[at] == 1]
    reads = [read for read in pack.reads if read.category == target.judged.target]
    if not reads or not len(at):
        return target
    holds = np.array([target.judged.labels[index] for index in at], dtype=bool)
    groups = groups_of(target.judged, at)
    by_value = {
        (question.id, prompt.values.get("F")): (question.id, index)
        for question in pack.questions
        for index, prompt in enumerate(question.prompts)
    }
    told, floors, points = [], [], []
    for read in reads:
        values = question_values(answers, by_value[read.query, read.value])
        p = speaking(read, values.p)[at]
        floor_p = None
        if values.floor_p is not None:
            floor_p = float(speaking(read, values.floor_p[None])[0])
            floors.append(np.full(len(p), floor_p))
            points.append(p)
        found = roc_area(p, holds, groups=groups)
        area = Measured(None)
        if found is not None:
            area = figure_of(found.value, found.interval, len(at))
        lifts = _lifts(read, values, p, floor_p, at)
        means = [
            float(one[side].mean()) if one is not None and side.any() else None
            for one in lifts
            for side in (holds, ~holds)
        ]
        told.append(ReadReport(read.id, read.query, read.value, area, floor_p, *means))
    lifts_shown = None
    if points:
        lifts_shown = thinned(
            np.concatenate(floors), np.concatenate(points), np.tile(holds, len(points))
        )
    return replace(target, reads=tuple(told), lifts=lifts_shown)


def speaking(read: Read, p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probability of the options that speak for the read's category, [N] of p [N, K]."""
    if read.kind in ("pair", "option"):
        return p[:, _option(read)]
    chosen = list(range(1, p.shape[1]) if read.kind == "any" else read.unsafe)
    summed: NDArray[np.float64] = p[:, chosen].sum(axis=1)
    return np.minimum(summed, 1.0)


def groups_of(judged: Judged, at: NDArray[np.int64]) -> list[str | None] | None:
    """Groups of some rows, by index; None when each stands alone, which is faster."""
    found = [judged.groups[index] for index in at]
    return found if any(group is not None for group in found) else None


def _option(read: Read) -> int:
    """The one option that a read of the kind `pair` or `option` is about."""
    if read.kind == "pair":
        return 0 if read.sign > 0 else 1
    if read.option is None:
        raise AssertionError(f"read {read.id} is of kind option and names none")
    return read.option


def _lifts(
    read: Read,
    values: Values,
    p: NDArray[np.float64],
    floor_p: float | None,
    at: NDArray[np.int64],
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Lift and logit lift of the options that speak for the category, [N] each."""
    if floor_p is None:
        return None, None
    if read.kind in ("pair", "option"):
        # A single option's logit keeps small probabilities apart, which a sum of options has lost.
        logit_lift = values.logit_lift
        return p - floor_p, None if logit_lift is None else speaking(read, logit_lift)[at]
    return p - floor_p, None


def thinned(
    floor_p: NDArray[np.float64], p: NDArray[np.float64], holds: NDArray[np.bool_]
) -> Lifts:
    """At most `MOST_POINTS` of the points, by chance and always the same; all are [M]."""
    left_out = max(0, len(p) - MOST_POINTS)
    if left_out:
        chosen = np.random.default_rng(0).choice(len(p), MOST_POINTS, replace=False)
        return Lifts(floor_p[chosen], p[chosen], holds[chosen], left_out)
    return Lifts(floor_p, p, holds)
