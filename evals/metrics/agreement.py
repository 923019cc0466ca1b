"""How far two hands agree on the same rows beyond chance: Cohen's kappa.

The hands are two annotators, or labels and flags. Knows no score.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import cohen_kappa_score

from spinf_serve.evals.columns import group_codes, same_length, weights_of
from spinf_serve.evals.intervals import Interval, Share, bootstrap_counts, share

Distance = Literal["linear", "quadratic"]


@dataclass(frozen=True, slots=True)
class Agreement:
    """Two hands on the same rows.

    Attributes:
        agreed: share of rows with the same answer.
        kappa: Cohen's, at most 1, 0 at chance; None when both give one same answer throughout:
            chance agreement is then whole and nothing is left to measure.
        interval: of kappa, by the bootstrap; None where kappa is, or is in over 5 % of the draws.
    """

    agreed: Share
    kappa: float | None
    interval: Interval | None


def kappa(
    first: ArrayLike,
    second: ArrayLike,
    *,
    distance: Distance | None = None,
    order: Sequence[Any] | None = None,
    weights: ArrayLike | None = None,
    groups: Sequence[Any] | NDArray[Any] | None = None,
    repeats: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Agreement | None:
    """Agreement of two columns of answers; None without rows.

    J. Cohen, "A coefficient of agreement for nominal scales", Educational and Psychological
    Measurement 20, 1960; with `distance` the weighted kappa of J. Cohen, Psychological Bulletin 70,
    1968, where answers are steps of a scale.

    Args:
        first, second: [N] answers, all known.
        distance: how a disagreement grows with the steps between two answers; None: all are one.
        order: the answers in the order of the scale; None takes those that occur, sorted.
        weights, groups: [N], see `intervals.share`; the bootstrap draws groups as wholes.
    """
    one, other = np.asarray(first), np.asarray(second)
    same_length(len(one), second=other)
    if not len(one):
        return None
    weight = weights_of(weights, len(one))
    agreed = share(one == other, weights=weights, groups=groups, level=level)
    assert agreed is not None
    answers = np.unique(np.concatenate([one, other])) if order is None else np.asarray(order)
    cells = _codes(one, answers) * len(answers) + _codes(other, answers)
    value = _kappa(one, other, answers, distance, weight)
    if value is None:
        return Agreement(agreed, None, None)
    cost = _costs(len(answers), distance)

    # Rows of one cell count alike: a draw is known by the weight of each cell.
    used = np.unique(cells)
    of_cell = np.where(cells[:, None] == used, weight[:, None], 0.0)

    def drawn(counts: NDArray[np.int64]) -> NDArray[np.float64]:
        totals = np.zeros((len(counts), len(answers) ** 2))
        totals[:, used] = counts.astype(np.float64) @ of_cell
        return _kappas(totals.reshape(-1, len(answers), len(answers)), cost)

    interval = bootstrap_counts(drawn, group_codes(groups, len(one)), repeats, seed, level)
    return Agreement(agreed, value, interval)


def _kappa(
    one: NDArray[Any],
    other: NDArray[Any],
    answers: NDArray[Any],
    distance: Distance | None,
    weight: NDArray[np.float64],
) -> float | None:
    if len(np.unique(np.concatenate([one, other]))) < 2:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return float(
            cohen_kappa_score(one, other, labels=answers, weights=distance, sample_weight=weight)
        )


def _kappas(tables: NDArray[np.float64], cost: NDArray[np.float64]) -> NDArray[np.float64]:
    """Kappa of weighted tables [draws, answers, answers]; NaN where chance agreement is whole."""
    chance = tables.sum(axis=2)[:, :, None] * tables.sum(axis=1)[:, None, :]
    chance /= tables.sum(axis=(1, 2))[:, None, None]
    by_chance = (chance * cost).sum(axis=(1, 2))
    found = (tables * cost).sum(axis=(1, 2))
    return np.where(by_chance > 0, 1 - found / np.where(by_chance > 0, by_chance, 1), np.nan)


def _costs(count: int, distance: Distance | None) -> NDArray[np.float64]:
    steps = np.abs(np.arange(count)[:, None] - np.arange(count)).astype(np.float64)
    if distance is None:
        return np.asarray(steps > 0, dtype=np.float64)
    return np.asarray(steps if distance == "linear" else steps**2)


def _codes(column: NDArray[Any], answers: NDArray[Any]) -> NDArray[np.int64]:
    places = {answer: index for index, answer in enumerate(answers.tolist())}
    strange = sorted({str(value) for value in column.tolist() if value not in places})
    if strange:
        raise ValueError(f"the answers {list(places)} lack {strange}")
    return np.array([places[value] for value in column.tolist()], dtype=np.int64)
