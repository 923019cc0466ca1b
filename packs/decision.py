"""The decision: category scores to safe or unsafe in one of three modes, and the critical list.

Also what a call may say about it, and where a content is routed. Rules of the pack format; bands
and routes are additions of this server.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from math import isfinite

from spinf_serve.packs.categories import Band, CategoryScore, band_of
from spinf_serve.packs.errors import Refused
from spinf_serve.packs.layer import layer_threshold, layer_value
from spinf_serve.packs.pack import Constants, Mode, Pack, Route

_RANK: Mapping[Band, int] = {"pass": 0, "review": 1, "act": 2}


@dataclass(frozen=True, slots=True)
class DecisionCall:
    """What a call says about the decision; what is left out is the pack's.

    Attributes:
        mode: one of the pack's modes.
        threshold: cut of the requested mode, `max` or `micro_layer`; a fallback keeps its own.
        thresholds: category -> threshold, in every mode; None reports only.
        critical: categories that force the verdict when flagged; empty for none.
    """

    mode: Mode | None = None
    threshold: float | None = None
    thresholds: Mapping[str, float | None] = field(default_factory=dict)
    critical: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Safe or unsafe, and why.

    Attributes:
        unsafe: the verdict.
        mode: the mode that decided, the fallback where it had to.
        score, threshold: of the modes `max` and `micro_layer`, else None.
        category: with `max` the highest category that decides; None when none does.
        categories: with `per_category` those that decide and are flagged, in file order.
        critical: the flagged ones of the critical list.
        by: `critical` when these alone made it unsafe.
        warning: why the fallback decided.
        band: `act`, `review` or `pass`; None when the pack has no cuts that apply. Cuts of the
            decision are read on the scale of the pack's own mode, and apply when it decides.
    """

    unsafe: bool
    mode: Mode
    score: float | None = None
    threshold: float | None = None
    category: str | None = None
    categories: tuple[str, ...] = ()
    critical: tuple[str, ...] = ()
    by: str | None = None
    warning: str | None = None
    band: Band | None = None


@dataclass(frozen=True, slots=True)
class Routed:
    """Where a content goes.

    Attributes:
        choice: a category, or the route's word for abstaining.
        leader: the category with the highest score, also when the route abstains.
        score: the leader's.
        second: the next score; None when only one category competes.
        margin: the leader's lead; None likewise.
    """

    choice: str
    leader: str
    score: float
    second: float | None
    margin: float | None


def check_call(pack: Pack, constants: Constants | None, call: DecisionCall) -> None:
    """Refuse what the pack cannot do.

    Args:
        constants: what was fitted on the served model; None for a draft, where nothing is decided
            but a wrong call is refused all the same.

    Raises `Refused` (`invalid_field`, `unknown_category`) with a `param` such as `decision.mode`.
    """
    if call.mode is not None:
        _check_mode(pack, constants, call.mode)
    mode = call.mode or pack.decision.mode
    if call.threshold is not None:
        if mode == "per_category":
            raise Refused(
                "invalid_field",
                "decision.threshold does nothing in the mode per_category; give"
                " decision.thresholds, one for each category, or another decision.mode",
                "decision.threshold",
            )
        _check_number(call.threshold, "decision.threshold", within_one=mode == "max")
    for id, threshold in call.thresholds.items():
        where = f"decision.thresholds.{id}"
        _check_category(pack, id, where)
        if threshold is not None:
            _check_number(threshold, where, within_one=True)
    for index, id in enumerate(call.critical or ()):
        _check_category(pack, id, f"decision.critical.{index}")


def _check_mode(pack: Pack, constants: Constants | None, mode: str) -> None:
    if mode not in pack.modes:
        raise Refused(
            "invalid_field",
            f"decision.mode is {mode!r}; the pack {pack.id} has {', '.join(pack.modes)}",
            "decision.mode",
        )
    lacks_layer = constants is not None and mode == "micro_layer" and constants.layer is None
    lacks_cut = constants is not None and mode == "max" and constants.max_threshold is None
    if lacks_layer or lacks_cut:
        raise Refused(
            "invalid_field",
            f"decision.mode is {mode!r}, which was not fitted on the served model for the pack"
            f" {pack.id}; use per_category or leave it out",
            "decision.mode",
        )


def _check_category(pack: Pack, id: str, where: str) -> None:
    if id not in pack.categories:
        near = get_close_matches(id, pack.categories, n=1)
        raise Refused(
            "unknown_category",
            f"the pack {pack.id} has no category {id!r}; "
            + (f"did you mean {near[0]!r}?" if near else f"it has {', '.join(pack.categories)}"),
            where,
        )


def _check_number(value: float, where: str, *, within_one: bool) -> None:
    if isinstance(value, bool) or not isfinite(value):
        raise Refused("invalid_field", f"{where} is {value}; give a finite number", where)
    if within_one and not 0 <= value <= 1:
        raise Refused("invalid_field", f"{where} is {value}; give a number from 0 to 1", where)


def thresholds(pack: Pack, constants: Constants, call: DecisionCall) -> dict[str, float | None]:
    """Category -> threshold that holds in this call: the call's where it has one."""
    return {
        id: call.thresholds[id] if id in call.thresholds else constants.categories[id].threshold
        for id in pack.categories
    }


def decide(
    pack: Pack,
    constants: Constants,
    call: DecisionCall,
    scores: Mapping[str, CategoryScore],
    macros: Mapping[str, float],
    z: Mapping[str, float],
) -> Verdict:
    """The verdict on one content; `call` has passed `check_call`.

    A flagged critical category lifts the band to `review` at least: the list says that a content
    must not pass, and makes no claim of its own that it is beyond doubt.
    """
    in_force = thresholds(pack, constants, call)
    deciding = [
        id
        for id, category in pack.categories.items()
        if in_force[id] is not None and category.decides
    ]
    mode, warning = _mode(pack, constants, call)
    threshold = _threshold(pack, constants, call, mode)
    score: float | None = None
    category: str | None = None
    flagged: tuple[str, ...] = ()
    cuts = constants.bands.decision if constants.bands is not None else None
    band: Band | None = None
    if mode == "per_category":
        flagged = tuple(id for id in deciding if scores[id].flagged)
        unsafe = bool(flagged)
        band = _highest_band(scores[id].band for id in deciding)
    else:
        if mode == "max":
            category = max(deciding, key=lambda id: scores[id].score, default=None)
            score = 0.0 if category is None else scores[category].score
        else:
            if constants.layer is None:
                raise AssertionError("the mode micro_layer without a layer falls back before")
            score = layer_value(constants.layer, macros, z)
        if threshold is None:
            raise AssertionError(f"the mode {mode} without a threshold falls back before")
        unsafe = score >= threshold
        # The cuts were set on the scale of the pack's own mode and say nothing on another's.
        if cuts is not None and mode == pack.decision.mode:
            band = band_of(score, cuts)
    listed = pack.decision.critical if call.critical is None else call.critical
    critical = tuple(id for id in listed if scores[id].flagged)
    if critical and band == "pass":
        band = "review"
    return Verdict(
        unsafe or bool(critical),
        mode,
        score,
        threshold,
        category,
        flagged,
        critical,
        "critical" if critical and not unsafe else None,
        warning,
        band,
    )


def _mode(pack: Pack, constants: Constants, call: DecisionCall) -> tuple[Mode, str | None]:
    """The mode that decides, and why it is not the one that was asked for."""
    mode = call.mode or pack.decision.mode
    why = ""
    if mode == "micro_layer":
        if constants.layer is None:
            why = f"no micro layer was fitted on {constants.model}"
        elif not constants.layer.holds:
            why = (
                "micro-layer lock mismatch: questions, reads or maps are not those it was fitted on"
            )
    elif mode == "max" and constants.max_threshold is None and call.threshold is None:
        why = f"no threshold of the mode max was fitted on {constants.model}"
    if not why:
        return mode, None
    mode = pack.decision.fallback
    if mode == "max" and constants.max_threshold is None:
        mode = "per_category"
    return mode, f"{why}; the mode {mode} decided"


def _threshold(pack: Pack, constants: Constants, call: DecisionCall, mode: Mode) -> float | None:
    """The cut of the mode that decides; a call's own is for the mode that was asked for."""
    if mode == "per_category":
        return None
    if call.threshold is not None and mode == (call.mode or pack.decision.mode):
        return call.threshold
    if mode == "max":
        return constants.max_threshold
    return None if constants.layer is None else layer_threshold(constants.layer)


def _highest_band(bands: Iterable[Band | None]) -> Band | None:
    """`act` before `review` before `pass`; None when there is none."""
    return max((band for band in bands if band is not None), key=_RANK.__getitem__, default=None)


def choose(route: Route, scores: Mapping[str, CategoryScore]) -> Routed:
    """The category that leads, or the route's word for abstaining when it leads by too little.

    Of equal scores the first of the route's list leads.
    """
    ranked = sorted(route.categories, key=lambda id: -scores[id].score)
    leader, score = ranked[0], scores[ranked[0]].score
    second = scores[ranked[1]].score if len(ranked) > 1 else None
    margin = None if second is None else score - second
    clear = score >= route.minimum and (margin is None or margin >= route.margin)
    return Routed(leader if clear else route.abstain, leader, score, second, margin)
