"""Why a verdict is what it is, in a line: for sheets, for the decision log, for whoever asks.

Knows a pack's evaluation and the call that it was made for.
"""

from spinf_serve.packs.decision import DecisionCall, Verdict, thresholds
from spinf_serve.packs.evaluate import Evaluation
from spinf_serve.packs.pack import Constants, Pack


def reason(pack: Pack, constants: Constants, call: DecisionCall, found: Evaluation) -> str:
    """The scores that decided, each beside its threshold; with none flagged, the nearest one.

    Args:
        constants, call: those that `found` was made with.
    """
    verdict = found.verdict
    parts = []
    if verdict.critical:
        parts.append(f"critical: {', '.join(verdict.critical)}")
    if verdict.by is None:
        parts.append(_reason_of_mode(pack, constants, call, found))
    if verdict.warning is not None:
        parts.append(verdict.warning)
    return "; ".join(parts)


def against(score: float, threshold: float) -> str:
    """A score beside a threshold in words: `0.8 reaches 0.5`."""
    side = "reaches" if score >= threshold else "stays below"
    return f"{_number(score)} {side} {_number(threshold)}"


def _reason_of_mode(pack: Pack, constants: Constants, call: DecisionCall, found: Evaluation) -> str:
    verdict: Verdict = found.verdict
    if verdict.mode != "per_category":
        name = "the layer" if verdict.category is None else verdict.category
        return f"{name} {against(verdict.score or 0.0, verdict.threshold or 0.0)}"
    in_force = thresholds(pack, constants, call)
    limits = {
        id: limit
        for id, category in pack.categories.items()
        if category.decides and (limit := in_force[id]) is not None
    }
    scores = {id: found.categories[id].score for id in limits}
    if verdict.categories:
        return ", ".join(f"{id} {against(scores[id], limits[id])}" for id in verdict.categories)
    nearest = max(limits, key=lambda id: scores[id] - limits[id], default=None)
    if nearest is None:
        return "no category of the pack decides"
    told = f"{nearest} {against(scores[nearest], limits[nearest])}"
    if scores[nearest] < limits[nearest]:
        return told
    return f"{told}, but not what it requires: {', '.join(pack.categories[nearest].requires)}"


def _number(value: float) -> str:
    return f"{value:.4g}"
