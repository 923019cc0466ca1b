"""Beta maps on top of the scores of a fitted pack, where the rows show that they pay.

A map moves no score, no cut and no verdict: it says what a score is as a share. It is taken from
`calibration.BETA_ROWS` labels on, and only where left-out rows like it better than Platt's map
alone. Knows no project file.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from spinf_serve.evals import calibration
from spinf_serve.evals.columns import Numbers, Truths, group_codes
from spinf_serve.evals.cross_fit import split
from spinf_serve.evals.metrics.probability import log_loss
from spinf_serve.evals.scored import Scored
from spinf_serve.evals.wishes import Rows
from spinf_serve.packs.build_fitted import MOST
from spinf_serve.packs.fit import Fitting, log_odds, rounded
from spinf_serve.packs.logistic import platt
from spinf_serve.packs.pack import CategoryFit, Constants, Pack

FOLDS, REPEATS = 5, 4

MANY_ROWS = 5000
"""Labels beyond which the folds are drawn once: another draw takes long and tells little."""


@dataclass(frozen=True, slots=True)
class Losses:
    """Mean log loss on left-out rows, in nats: of Platt's map alone, and with a beta map on it."""

    platt: float
    beta: float


def with_beta_maps(
    pack: Pack,
    constants: Constants,
    scored: Scored,
    rows: Rows,
    base_rates: Mapping[str, float],
) -> Fitting:
    """The constants with `beta` for each category that gains by it, and why each has one or not.

    Args:
        constants: fitted on these rows; what they hold of `beta` is replaced.
        scored: the rows through them.
        base_rates: category -> share of the traffic that holds, which its `platt` was moved to. The
            map's shift is moved as far, so that it gives shares of that traffic too.
    """
    codes = group_codes(rows.groups, len(rows.ids))
    categories, notes = {}, []
    for id in pack.categories:
        fit = constants.categories[id]
        truths = [labels.get(id) for labels in rows.labels]
        known = np.flatnonzero([truth is not None for truth in truths])
        holds = np.array([truths[index] for index in known.tolist()], dtype=bool)
        beta, told = _map(
            fit,
            scored.macros[id][known],
            scored.scores[id][known],
            holds,
            codes[known],
            base_rates.get(id),
        )
        categories[id] = replace(fit, beta=beta)
        taken = "no beta map" if beta is None else "calibrated by a beta map"
        notes.append(f"categories.{id}: {taken}: {told}")
    return Fitting(replace(constants, categories=categories), tuple(notes))


def _map(
    fit: CategoryFit,
    macro: Numbers,
    scores: Numbers,
    holds: Truths,
    codes: NDArray[np.int64],
    base_rate: float | None,
) -> tuple[tuple[float, float, float] | None, str]:
    """One category's map, if it gets one, and why."""
    rows, positives = len(holds), int(holds.sum())
    if calibration.choose(rows) != "beta":
        return None, f"{rows} labels, fewer than the {calibration.BETA_ROWS} that it takes"
    if positives in (0, rows):
        return None, f"its {rows:,} labels are all of one kind"
    if fit.platt[0] == 0:
        return None, "its score is the same everywhere"
    moved = 0.0 if base_rate is None else log_odds(base_rate) - log_odds(positives / rows)
    losses = left_out(macro, holds, codes, moved)
    if losses is None:
        return None, f"fewer than {FOLDS} independent rows of one kind of label"
    told = (
        f"over {rows:,} labels, left-out rows lose {losses.beta:.4f} with one and"
        f" {losses.platt:.4f} with Platt's map alone"
    )
    if losses.beta >= losses.platt:
        return None, told
    found = calibration.beta(scores, holds)
    beta = rounded(found.on_p), rounded(found.on_rest), rounded(found.shift + moved)
    if max(map(abs, beta)) > MOST:
        return None, f"{told}; but the map is steeper than a file may say"
    return beta, told


def left_out(
    macro: Numbers, holds: Truths, codes: NDArray[np.int64], moved: float = 0.0
) -> Losses | None:
    """What both maps lose on rows that neither was fitted on, pooled over folds and repeats.

    Args:
        macro: [N]. holds: [N]. codes: [N], numbers of the rows' groups; none is split.
        moved: what a stated base rate adds to Platt's shift below the beta map. The losses are
            those at the rows' own share.

    Returns:
        None when either kind has fewer groups than there are folds.
    """
    if min(len(np.unique(codes[holds == kind])) for kind in (True, False)) < FOLDS:
        return None
    losses = np.zeros(2)
    repeats = REPEATS if len(macro) <= MANY_ROWS else 1
    for seed in range(repeats):
        alone, mapped = np.empty(len(macro)), np.empty(len(macro))
        for train, rest in split(codes, holds, FOLDS, seed):
            own = platt(macro[train], holds[train])
            logits = own.slope * macro + own.shift
            score = special.expit(logits + moved)
            alone[rest] = special.expit(logits[rest])
            mapped[rest] = calibration.beta(score[train], holds[train]).apply(score[rest])
        for index, p in enumerate((alone, mapped)):
            found = log_loss(p, holds)
            losses[index] += 0.0 if found is None else found.value / repeats
    return Losses(*losses.tolist())
