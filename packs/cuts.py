"""The cut of a score that tells two kinds of rows apart best, by Youden's J.

J is the rate of positives at the cut and above less that of negatives (W. J. Youden, "Index for
rating diagnostic tests", Cancer 3, 1950): the same weight for both kinds, however rare one is.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray


def best_cut(
    scores: NDArray[np.float64],
    holds: NDArray[np.bool_],
    written: Callable[[float], float],
) -> float | None:
    """The cut with the highest J: rows at it and above are taken to hold.

    Candidates lie halfway between neighbouring scores. Of equal ones the highest is taken, which
    flags least.

    Args:
        scores: [N] float64.
        holds: [N].
        written: a cut as the file will hold it; J is counted for that number.

    Returns:
        None when one kind has no row, or no cut does better than chance.
    """
    positives, negatives = np.sort(scores[holds]), np.sort(scores[~holds])
    if not len(positives) or not len(negatives):
        return None
    distinct = np.unique(scores)
    cuts = np.array([written(float(cut)) for cut in (distinct[:-1] + distinct[1:]) / 2])
    if not len(cuts):
        return None
    hit = 1 - np.searchsorted(positives, cuts, side="left") / len(positives)
    wrong = 1 - np.searchsorted(negatives, cuts, side="left") / len(negatives)
    gain = hit - wrong
    best = float(gain.max())
    # Below this the differences are the rounding of the rates.
    if best < 1e-9:
        return None
    return float(cuts[gain > best - 1e-9].max())
