"""Cuts that are promised on labelled rows, put on the scale of the pack's own scores.

The cuts of a category without requirements are set on its macro. Its map only moves them to the scale of
its scores and takes no row from one side to the other: no label has a part in which rows a cut flags,
so the rows that the pack is fitted on may carry the promise. A score that labels had a part in, such as the decision's, is
certified on rows that were held back. Knows no project file; what was spent is handed in.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from spinf_serve.evals.certificates import Certificate, NotReachable
from spinf_serve.evals.certify import bands, certify
from spinf_serve.evals.cost import cheapest
from spinf_serve.evals.cross_fit import Choice, CrossFit, cross_fit
from spinf_serve.evals.cuts import Target, preset_cuts
from spinf_serve.evals.judged import DECISION
from spinf_serve.evals.scored import Numbers, Scored, outcomes
from spinf_serve.evals.wishes import Answer, Promise, Rows, Wish
from spinf_serve.packs.categories import sigmoid
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.pack import Bands, Constants, Cuts, Pack

CUTS_FROM, CUTS_TO, CUTS = -3.0, 5.0, 65
"""Cuts of a macro, fixed before labels are seen: in standard deviations from its mean over the rows."""

FOLDS, REPEATS = 5, 4


@dataclass(frozen=True, slots=True, eq=False)
class Sight:
    """Rows as a cut sees them, [N] each.

    Attributes:
        walked: the score that cuts are walked on: the pack's, moved below or above all others where
            it does not decide.
        own: the pack's score.
        free: where the score alone decides; elsewhere a requirement or the critical list does.
        truths: whether it holds; None for not known.
        cuts: those of the macro, on the scale of the score; None where labels have a part in which
            rows a cut flags.
    """

    walked: Numbers
    own: Numbers
    free: NDArray[np.bool_]
    truths: tuple[bool | None, ...]
    cuts: Numbers | None = None

    @property
    def label_free(self) -> bool:
        """Whether no label has a part in which rows a cut flags."""
        return self.cuts is not None


def sight(
    pack: Pack,
    constants: Constants,
    scored: Scored,
    labels: Sequence[Mapping[str, bool]],
    name: str,
) -> Sight:
    """The rows as the cut of a category or of the decision sees them."""
    everywhere = np.ones(scored.count, dtype=bool)
    if name != DECISION and not pack.categories[name].requires:
        truths = tuple(label.get(name) for label in labels)
        own = scored.scores[name]
        cuts = _macro_cuts(scored.macros[name], constants.categories[name].platt)
        return Sight(own, own, everywhere, truths, cuts)
    found = outcomes(pack, constants, scored)
    if name != DECISION:
        required = pack.categories[name].requires
        free = np.array([all(one.categories[id].flagged for id in required) for one in found])
        own = scored.scores[name]
        truths = tuple(label.get(name) for label in labels)
        # Below every score: never flagged, whatever the cut.
        return Sight(np.where(free, own, own.min(initial=0) - 1), own, free, truths)
    own = np.array([one.verdict.score or 0.0 for one in found])
    free = np.array([not one.verdict.critical for one in found])
    deciding = [
        id
        for id, one in pack.categories.items()
        if one.decides and constants.categories[id].threshold is not None
    ]
    walked = np.where(free, own, own.max(initial=0) + 1)
    truths = tuple(one[DECISION] if DECISION in one else any_holds(deciding, one) for one in labels)
    return Sight(walked, own, free, truths)


def any_holds(categories: Sequence[str], labels: Mapping[str, bool]) -> bool | None:
    """Whether any category holds; None when that is not known."""
    values = [labels.get(id) for id in categories]
    if True in values:
        return True
    return None if None in values or not values else False


def answer(
    wish: Wish,
    pack: Pack,
    seen: Sight,
    fitted: Sight,
    rows: Rows,
    delta: float,
) -> Answer:
    """Cuts that are promised on rows, or why there are none.

    Args:
        seen: the rows that carry the promise; `rows` are the same.
        fitted: the rows that the constants were fitted on; the same ones for a `label_free` score,
            else others. Cuts are set by their scores and no label.
        delta: the chance of a wrong promise that is left, see `certify.allowance`.
    """
    first = wish.targets[0]
    if first.kind == "cost":
        return _cheapest(wish, pack, seen, rows)
    if first.kind != "flag_rate":
        rows = rows.counted_for(wish.name)
    cuts = fitted.cuts
    if cuts is None:
        cuts = preset_cuts("coverage", fitted.own[fitted.free])
    if len(wish.targets) == 1:
        labels = None if first.kind == "flag_rate" else list(seen.truths)
        result = certify(
            seen.walked,
            labels,
            first,
            cuts,
            groups=rows.groups,
            weights=rows.weights,
            drawn=rows.drawn,
            base_rate=wish.base_rate,
            delta=delta,
            ids=rows.ids,
        )
        made = (_promise(wish.name, first, result, wish, pack, seen),)
        return Answer(wish, made, _left_out(wish, seen, rows, cuts, delta), None, result.notes)
    both = bands(
        seen.walked,
        list(seen.truths),
        wish.targets[0],
        wish.targets[1],
        cuts,
        groups=rows.groups,
        weights=rows.weights,
        drawn=rows.drawn,
        base_rate=wish.base_rate,
        delta=delta,
    )
    results = {"act": both.act, "review": both.pass_}
    promises = tuple(
        _promise(f"{wish.name}/{band}", target, result, wish, pack, seen)
        for (band, result), target in zip(results.items(), wish.targets, strict=True)
    )
    notes = tuple(dict.fromkeys((*both.act.notes, *both.pass_.notes)))
    left_out = _left_out(wish, seen, rows, cuts, delta / 2)
    return Answer(wish, promises, left_out, both.review_per_1000, notes)


def _macro_cuts(macro: Numbers, platt: tuple[float, float]) -> Numbers:
    """Cuts by macros alone, on the scale of the scores that a map makes of them."""
    mean, spread = float(macro.mean()), float(macro.std()) or 1.0
    low, high = mean + CUTS_FROM * spread, mean + CUTS_TO * spread
    cuts = preset_cuts("lift", low=low, high=high, count=CUTS)
    return np.array([sigmoid(platt[0] * cut + platt[1]) for cut in cuts.tolist()])


def _promise(
    name: str,
    target: Target,
    result: Certificate | NotReachable,
    wish: Wish,
    pack: Pack,
    seen: Sight,
) -> Promise:
    cut = None
    if isinstance(result, Certificate):
        cut = own_cut(wish.name, pack, seen, result.cut)
    return Promise(name, target, result, cut)


def own_cut(name: str, pack: Pack, seen: Sight, wanted: float) -> float | None:
    """The number that the file will hold for a cut of the walked score: it flags the same rows.

    It lies between two scores that were seen. None when no number that can be written does.
    """
    flagged = seen.walked[seen.free] >= wanted
    own = seen.own[seen.free]
    layer = name == DECISION and pack.decision.mode == "micro_layer"
    above = float(own[flagged].min()) if flagged.any() else None
    below = float(own[~flagged].max()) if not flagged.all() else None
    for cut in _candidates(wanted, below, above):
        held = float(np.float32(cut)) if layer else cut
        inside = (below is None or below < held) and (above is None or held <= above)
        if inside and (layer or 0 <= held <= 1):
            return held
    return None


def _candidates(wanted: float, below: float | None, above: float | None) -> list[float]:
    """Cuts that tell `below` and `above` apart, the preferred first."""
    if above is None or below is None:
        edge = above if above is not None else float(np.nextafter(cast(float, below), np.inf))
        return [wanted, edge]
    middle = below + (above - below) / 2
    # A cut on a score would turn with the last bit of another machine's.
    return [*([wanted] if wanted != above else []), middle, above]


def _left_out(wish: Wish, seen: Sight, rows: Rows, cuts: Numbers, delta: float) -> CrossFit | None:
    """How the certified choice does on rows left out of it.

    The score needs no refit: another map would move the cuts with the scores, and a score that labels
    have a part in was fitted on other rows.
    """
    target = wish.targets[0]
    known = [index for index, truth in enumerate(seen.truths) if truth is not None]
    if target.kind == "flag_rate" or not known or delta <= 0:
        return None
    labelled = rows.taken(np.array(known))
    walked = seen.walked[known]
    truths = [bool(seen.truths[index]) for index in known]

    def choose(train: NDArray[np.int64]) -> Choice | None:
        part = labelled.taken(train)
        found = certify(
            walked[train],
            [truths[index] for index in train.tolist()],
            target,
            cuts,
            groups=part.groups,
            weights=part.weights,
            drawn=part.drawn,
            base_rate=wish.base_rate,
            delta=delta,
        )
        return Choice(found.cut) if isinstance(found, Certificate) else None

    return cross_fit(choose, walked, truths, labelled.groups, FOLDS, REPEATS)


def _cheapest(wish: Wish, pack: Pack, seen: Sight, rows: Rows) -> Answer:
    target = wish.targets[0]
    # Where something else decides, the cost is the same at every cut.
    counted = [
        index for index, truth in enumerate(seen.truths) if truth is not None and seen.free[index]
    ]
    if not counted:
        raise Unusable(f"{wish.name}: no row is labelled, so no cut has a cost; label rows")
    found = cheapest(
        seen.walked[counted],
        [seen.truths[index] is True for index in counted],
        target.value,
        weights=np.nan_to_num(rows.weights[counted], nan=1.0),
        groups=[rows.groups[index] for index in counted],
    )
    cut = None
    if found.cut is not None:
        cut = own_cut(wish.name, pack, seen, found.cut)
    note = "the cheapest cut on these rows; nothing is promised of it"
    return Answer(wish, (Promise(wish.name, target, found, cut),), notes=(note,))


def with_cuts(pack: Pack, constants: Constants, given: Answer) -> Constants:
    """The constants with an answer's cuts in force; unchanged unless every target is met.

    With bands the upper cut is the threshold too: what is flagged is what is acted on.
    """
    if not given.met:
        return constants
    name, held = given.wish.name, [cast(float, promise.cut) for promise in given.promises]
    if name != DECISION:
        fit = replace(constants.categories[name], threshold=held[0])
        constants = replace(constants, categories={**constants.categories, name: fit})
    elif pack.decision.mode == "max":
        constants = replace(constants, max_threshold=held[0])
    elif constants.layer is not None:
        layer = replace(constants.layer, weights=(*constants.layer.weights[:-1], held[0]))
        constants = replace(constants, layer=layer)
    if len(held) > 1:
        cuts = Cuts(act=held[0], review=held[1])
        before = constants.bands or Bands()
        if name == DECISION:
            made = replace(before, decision=cuts)
        else:
            made = replace(before, categories={**before.categories, name: cuts})
        constants = replace(constants, bands=made)
    return constants
