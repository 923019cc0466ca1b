"""How sure an answer is: the confidence of a distribution over options or over levels.

Formulas of the System One contract; the Decisions API documents none of its own and gets the same.
"""

import math
from collections.abc import Sequence


def choice_confidence(p: Sequence[float]) -> float:
    """(max p - 1/n) / (1 - 1/n), within 0 and 1: 0 for equal options, 1 for a sure one or a lone one."""
    count = len(p)
    if count == 1:
        return 1.0
    return _within((max(p) - 1 / count) / (1 - 1 / count))


def score_confidence(p: Sequence[float]) -> float:
    """1 - (sum of p_i |i - m|) / D, at least 0; 1 for a lone level.

    m is the most probable level, the lowest of equal ones, and D the mean distance of the levels
    from their middle: what the same sum would be about if every level were as probable as another.
    """
    count = len(p)
    if count == 1:
        return 1.0
    top = max(range(count), key=lambda level: p[level])
    middle = (count - 1) / 2
    spread = math.fsum(abs(level - middle) for level in range(count)) / count
    distance = math.fsum(share * abs(level - top) for level, share in enumerate(p))
    return _within(1 - distance / spread)


def expected_level(p: Sequence[float]) -> float:
    """Sum of i * p_i, rounded once and not above the highest level."""
    return min(float(len(p) - 1), math.fsum(level * share for level, share in enumerate(p)))


def _within(value: float) -> float:
    return min(1.0, max(0.0, value))
