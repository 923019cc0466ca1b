"""How firmly a micro layer's weights are held down: the ridge that left-out rows like best."""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold

from spinf_serve.evals.columns import Numbers, Truths, group_codes
from spinf_serve.packs.fit import LAYER_RIDGE
from spinf_serve.packs.logistic import logistic

RIDGES = (1e-3, 3e-3, LAYER_RIDGE, 3e-2, 1e-1, 3e-1, 1.0)
"""Those that are tried, ascending."""

FOLDS = 5


def best_ridge(
    inputs: Numbers, holds: Truths, groups: Sequence[Hashable], seed: int = 0
) -> float | None:
    """The ridge with the least log loss on left-out rows; of nearly equal ones the largest.

    Nearly equal is within one standard error of the least, over the folds (L. Breiman and others,
    "Classification and regression trees", 1984, section 3.4.3).

    Args:
        inputs: [N, D] of the layer. holds: [N]. groups: [N]; a group is in one fold.

    Returns:
        None when either kind has fewer groups than there are folds.
    """
    codes = group_codes(groups, len(holds))
    if min(len(np.unique(codes[holds == kind])) for kind in (True, False)) < FOLDS:
        return None
    split = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=seed)
    folds = list(split.split(inputs, holds, codes))
    losses = np.array([[_loss(inputs, holds, ridge, *fold) for fold in folds] for ridge in RIDGES])
    means = losses.mean(axis=1)
    least = int(means.argmin())
    error = float(losses[least].std(ddof=1) / np.sqrt(FOLDS))
    return max(
        ridge for ridge, mean in zip(RIDGES, means, strict=True) if mean <= means[least] + error
    )


def _loss(
    inputs: Numbers,
    holds: Truths,
    ridge: float,
    train: NDArray[np.int64],
    left_out: NDArray[np.int64],
) -> float:
    """Mean log loss on the rows left out."""
    weights = logistic(inputs[train], holds[train].astype(np.float64), ridge)
    out = inputs[left_out] @ weights[:-1] + weights[-1]
    return float(np.mean(np.logaddexp(0, out) - holds[left_out] * out))
