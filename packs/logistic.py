"""Logistic regression in float64, and Platt's map from a number to a probability.

Newton's method with backtracking; the loss is convex, so where it stops is the optimum. Sources:
J. Platt, "Probabilistic outputs for support vector machines and comparisons to regularized
likelihood methods", 1999 (the smoothed targets); H.-T. Lin, C.-J. Lin and R. C. Weng, "A note on
Platt's probabilistic outputs for support vector machines", Machine Learning 68, 2007 (the step).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_STEPS = 200
_FLAT_SPREAD = 1e-9


@dataclass(frozen=True, slots=True)
class Map:
    """`p = sigmoid(slope * x + shift)`.

    Attributes:
        turned: the best slope was below 0 and is held at 0: x runs against its meaning.
    """

    slope: float
    shift: float
    turned: bool = False


def smoothed_targets(holds: NDArray[np.bool_]) -> Array:
    """Platt's targets, [N]: (P + 1) / (P + 2) where it holds, else 1 / (Q + 2).

    P and Q count the rows where it holds and where not. They keep the optimum finite when the two
    are separable, and when one is empty.
    """
    positives = int(holds.sum())
    negatives = len(holds) - positives
    return np.where(holds, (positives + 1) / (positives + 2), 1 / (negatives + 2))


def platt(x: Array, holds: NDArray[np.bool_]) -> Map:
    """The map of least log loss against Platt's targets among those that do not fall.

    Args:
        x: [N] float64, at least one, finite.
        holds: [N], whether the category holds.

    The loss is convex, so where the free optimum falls the best flat map is the best of all that
    do not; its value is the mean target.
    """
    targets = smoothed_targets(holds)
    level = float(targets.mean())
    flat = float(np.log(level / (1 - level)))
    if np.ptp(x) < _FLAT_SPREAD or holds.all() or not holds.any():
        return Map(0.0, flat)
    slope, shift = logistic(x[:, None], targets, ridge=0).tolist()
    if slope <= 0:
        return Map(0.0, flat, turned=True)
    return Map(slope, shift)


def logistic(inputs: Array, targets: Array, ridge: float) -> Array:
    """Weights and, last, the shift of least mean log loss plus ridge / 2 times the squared weights.

    Args:
        inputs: [N, D] float64.
        targets: [N], 0 to 1.
        ridge: 0 or more; the shift is not held down. With 0 the inputs must not be collinear with
            the shift, and the targets must not be separable 0s and 1s.

    Returns:
        [D + 1] float64.
    """
    rows = np.column_stack([inputs, np.ones(len(inputs))])
    held = np.full(rows.shape[1], float(ridge))
    held[-1] = 0.0

    def loss(weights: Array) -> float:
        out = rows @ weights
        fit = np.mean(np.logaddexp(0, out) - targets * out)
        return float(fit + 0.5 * np.sum(held * weights**2))

    weights = np.zeros(rows.shape[1])
    # A mean target inside (0, 1) has a finite log-odds: the best flat map is the start.
    level = float(np.clip(targets.mean(), 1e-6, 1 - 1e-6))
    weights[-1] = np.log(level / (1 - level))
    now = loss(weights)
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(-np.clip(rows @ weights, -700, 700)))
        gradient = rows.T @ (p - targets) / len(rows) + held * weights
        # The 1e-12 keeps the matrix invertible where all p are 0 or 1 (Lin, Lin and Weng).
        curvature = (rows.T * (p * (1 - p))) @ rows / len(rows)
        curvature += np.diag(held + 1e-12)
        step = np.linalg.solve(curvature, -gradient)
        slope = float(gradient @ step)
        length = 1.0
        while length > 1e-10:
            tried = weights + length * step
            found = loss(tried)
            if found <= now + 1e-4 * length * slope:
                break
            length /= 2
        else:
            # No step helps any more: the rounding of the loss is reached.
            break
        weights, now = tried, found
        if float(np.abs(length * step).max()) < 1e-12 * max(1.0, float(np.abs(weights).max())):
            break
    return weights
