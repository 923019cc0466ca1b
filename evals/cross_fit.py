"""What a whole choice gives on rows it did not see: repeated folds, by group and by class.

A choice is anything that turns training rows into a cut, with a calibrator or a layer of weights
before it if it likes; it is made anew in every fold. The number on the rows that a cut was chosen on is
never reported.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from spinf_serve.evals.columns import group_codes
from spinf_serve.evals.exact import Array
from spinf_serve.evals.intervals import Interval


@dataclass(frozen=True, slots=True)
class Choice:
    """What training rows led to.

    Attributes:
        cut: rows with this score and above are flagged.
        scores: [N] the scores of all rows, where the choice makes its own; None takes the given.
    """

    cut: float
    scores: Array | None = None


@dataclass(frozen=True, slots=True)
class CrossFit:
    """How the choice did on left-out rows, pooled over folds and repeats.

    Attributes:
        folds, repeats: as they were made; fewer folds where a class has fewer groups.
        chosen: share of the folds in which a cut was chosen.
        cut: median; None where no fold chose one.
        cut_interval: 5 % to 95 % of the folds' cuts.
        precision, recall, npv, flag_rate: of the left-out rows of the folds that chose; None where
            there is no row to count.
    """

    folds: int
    repeats: int
    chosen: float
    cut: float | None
    cut_interval: Interval | None
    precision: float | None
    recall: float | None
    npv: float | None
    flag_rate: float | None


def cross_fit(
    choose: Callable[[NDArray[np.int64]], Choice | None],
    scores: ArrayLike,
    labels: ArrayLike,
    groups: Sequence[Hashable] | None = None,
    folds: int = 5,
    repeats: int = 10,
    seed: int = 0,
    weights: ArrayLike | None = None,
) -> CrossFit | None:
    """Repeat a whole choice on folds and judge it on what was left out.

    Args:
        choose: positions of the training rows -> the choice, or None where it makes none.
        scores: [N] float64. labels: [N] bools.
        groups: [N]; a group is never split. None for a row: it stands alone.
        folds: at least 2.
        weights: [N] what a row counts where it is left out, 0 or more: its inverse probability, or
            0 for a row of a queue. Class by class they re-weight to a base rate. None counts all 1.

    Returns:
        None where a class has fewer than two groups, so that no fold can leave rows of both out and
        keep both.
    """
    values, holds = np.asarray(scores, dtype=np.float64), np.asarray(labels, dtype=bool)
    if values.shape != holds.shape:
        raise ValueError(f"{len(values)} scores but {len(holds)} labels")
    weight = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
    if weight.shape != values.shape or not (weight >= 0).all():
        raise ValueError(f"{len(weight)} weights for {len(values)} rows, or one is below 0")
    codes = group_codes(groups, len(values))
    classes = [len(np.unique(codes[holds == one])) for one in (True, False)]
    folds = min(folds, *classes)
    if folds < 2:
        return None
    cuts: list[float] = []
    tallies = np.zeros(4)
    for repeat in range(repeats):
        for train, left_out in split(codes, holds, folds, seed + repeat):
            choice = choose(train)
            if choice is None:
                continue
            cuts.append(choice.cut)
            own = values if choice.scores is None else choice.scores
            flagged, truth = own[left_out] >= choice.cut, holds[left_out]
            tallies += np.bincount(2 * flagged + truth, weight[left_out], minlength=4)
    below_no, below_yes, above_no, above_yes = tallies.tolist()
    spread = np.quantile(cuts, [0.05, 0.95]) if cuts else None
    return CrossFit(
        folds,
        repeats,
        len(cuts) / (folds * repeats),
        float(np.median(cuts)) if cuts else None,
        None if spread is None else Interval(float(spread[0]), float(spread[1])),
        _share(above_yes, above_no),
        _share(above_yes, below_yes),
        _share(below_no, below_yes),
        _share(above_yes + above_no, below_yes + below_no),
    )


def split(
    codes: NDArray[np.int64], holds: NDArray[np.bool_], folds: int, seed: int
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Positions of the rows kept and left out, fold by fold: stratified, no group split.

    Args:
        codes: [N], the number of each row's group. holds: [N].
        folds: no more than there are groups of either kind.
    """
    # Many small groups make the grouped splitter slow, and rows that stand alone need none.
    if len(np.unique(codes)) == len(codes):
        alone = StratifiedKFold(folds, shuffle=True, random_state=seed)
        return list(alone.split(codes, holds))
    grouped = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    return list(grouped.split(codes, holds, codes))


def _share(inside: float, outside: float) -> float | None:
    return inside / (inside + outside) if inside + outside else None
