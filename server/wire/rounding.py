"""The decimals that answers carry, in one place for answers and packs."""

DECIMALS = 6
"""Decimals of probabilities, log-probabilities and scores, unless full precision is asked for."""

_STEPS = 10.0**DECIMALS


def rounded(value: float) -> float:
    """The value with `DECIMALS` decimals."""
    # Three times as fast as `round(value, DECIMALS)`, and gives no -0.0.
    return round(value * _STEPS) / _STEPS
