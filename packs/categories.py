"""Categories: the mean of their reads' z, mapped to a score, a percentile and a flag.

Formulas of the pack format. Knows no decision.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log, log1p
from typing import Literal

from spinf_serve.packs.pack import Constants, Cuts, Pack, Quantiles

Band = Literal["act", "review", "pass"]

LEAST_SCORE = 2.0**-53
"""What a score of 0 counts as, and 1 less this what 1 counts as, below a `beta` map."""


@dataclass(frozen=True, slots=True)
class CategoryScore:
    """What is known of one category on one content.

    Attributes:
        score: 0 to 1.
        percentile: share of normal content with a lower score, 0 to 1; None without quantiles.
        flagged: whether the score reaches the threshold and what it requires is flagged too; None
            when it has no threshold.
        band: None when the pack has no cuts for the category; `pass` while something that it
            requires is not flagged, whatever its score.
        calibrated: the score through the category's `beta` map; None without one.
    """

    score: float
    percentile: float | None
    flagged: bool | None
    band: Band | None
    calibrated: float | None = None


def category_macros(pack: Pack, z: Mapping[str, float]) -> dict[str, float]:
    """Category -> mean z of its reads, or the mean over its views of the mean inside each.

    Reads without a view take no part where views are averaged. In the order of the file.
    """
    groups: dict[str, dict[str, list[float]]] = {id: {} for id in pack.categories}
    for read in pack.reads:
        view = ""
        if pack.categories[read.category].views:
            if read.view is None:
                continue
            view = read.view
        groups[read.category].setdefault(view, []).append(z[read.id])
    return {id: _mean([_mean(values) for values in views.values()]) for id, views in groups.items()}


def category_scores(
    pack: Pack,
    constants: Constants,
    macros: Mapping[str, float],
    thresholds: Mapping[str, float | None],
) -> dict[str, CategoryScore]:
    """Category -> score, percentile, flag and band, in the order of the file.

    Args:
        macros: of all categories.
        thresholds: of all categories, with a call's own already put in; None reports only.
    """
    scores = {}
    for id in pack.categories:
        slope, shift = constants.categories[id].platt
        scores[id] = sigmoid(slope * macros[id] + shift)
    flags: dict[str, bool | None] = {}
    for id, score in scores.items():
        threshold = thresholds[id]
        flags[id] = None if threshold is None else score >= threshold
    # In file order, over the flags as they stand: a chain of requirements written from its root on
    # falls as one.
    for id, category in pack.categories.items():
        if flags[id] and not all(flags[required] for required in category.requires):
            flags[id] = False
    cuts = constants.bands.categories if constants.bands is not None else {}
    result = {}
    for id, category in pack.categories.items():
        quantiles, beta = constants.categories[id].quantiles, constants.categories[id].beta
        band: Band | None = None
        if id in cuts:
            met = all(flags[required] for required in category.requires)
            band = band_of(scores[id], cuts[id]) if met else "pass"
            if flags[id] and band == "pass":
                # A cut above the threshold would say that nobody need look at what was flagged.
                band = "review"
        result[id] = CategoryScore(
            scores[id],
            None if quantiles is None else percentile(quantiles, scores[id]),
            flags[id],
            band,
            None if beta is None else calibrated(beta, scores[id]),
        )
    return result


def percentile(quantiles: Quantiles, score: float) -> float:
    """Level of a score, interpolated linearly, clamped to the first and last level."""
    values, levels = quantiles.values, quantiles.levels
    if score <= values[0]:
        return levels[0]
    if score >= values[-1]:
        return levels[-1]
    above = bisect_right(values, score)
    low, high = values[above - 1], values[above]
    return levels[above - 1] + (score - low) / (high - low) * (levels[above] - levels[above - 1])


def calibrated(beta: tuple[float, float, float], score: float) -> float:
    """The beta map of a score: sigmoid(a ln s - b ln(1 - s) + c), rising where a and b are.

    M. Kull, T. Silva Filho and P. Flach, "Beyond sigmoids", Electronic Journal of Statistics 11,
    2017. 0 and 1 count as `LEAST_SCORE` away from them.
    """
    on_score, on_rest, shift = beta
    held = min(max(score, LEAST_SCORE), 1 - LEAST_SCORE)
    return sigmoid(on_score * log(held) - on_rest * log1p(-held) + shift)


def band_of(score: float, cuts: Cuts) -> Band:
    """`act` and `review` at their cut and above, `pass` below both."""
    if score >= cuts.act:
        return "act"
    return "review" if score >= cuts.review else "pass"


def sigmoid(x: float) -> float:
    """1 / (1 + exp(-x)) without overflow."""
    if x >= 0:
        return 1 / (1 + exp(-x))
    grown = exp(x)
    return grown / (1 + grown)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
