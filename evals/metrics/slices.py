"""Slices: the same statistic for the rows of one language, length or source at a time.

Knows no statistic. A small slice is judged like a large one and says that it is small.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from spinf_serve.evals.columns import Truths

Result = TypeVar("Result")

LEAST_ROWS = 30
"""Rows below which a slice is called small: a share of 90 % then spans 74 % to 97 % (Wilson)."""

MISSING = "(none)"
"""The value of rows that lack a slice column."""


@dataclass(frozen=True, slots=True)
class Slice(Generic[Result]):
    """One slice.

    Attributes:
        name, value: the column and its value there; `(none)` for rows without the column.
        rows: how many.
        warning: why its figures are weak; None when they are not.
        result: what the statistic gave for its rows.
    """

    name: str
    value: str
    rows: int
    warning: str | None
    result: Result


def masks(slices: Sequence[Mapping[str, str]]) -> dict[str, dict[str, Truths]]:
    """Column -> value -> which rows have it, [N]; columns and values sorted, `(none)` last.

    Args:
        slices: each row's columns.
    """
    found = {}
    for name in sorted({name for row in slices for name in row}):
        column = np.array([row.get(name, MISSING) for row in slices], dtype=object)
        values = sorted(set(column), key=lambda value: (value == MISSING, value))
        found[name] = {value: np.asarray(column == value, dtype=bool) for value in values}
    return found


def by(
    slices: Sequence[Mapping[str, str]],
    statistic: Callable[[Truths], Result],
    least_rows: int = LEAST_ROWS,
) -> tuple[Slice[Result], ...]:
    """The statistic of every slice, in the order of `masks`.

    Args:
        statistic: called with which rows are in, [N] bools; at least one is.
    """
    return tuple(
        Slice(name, value, rows, _warning(rows, least_rows), statistic(mask))
        for name, values in masks(slices).items()
        for value, mask in values.items()
        for rows in [int(mask.sum())]
    )


def _warning(rows: int, least_rows: int) -> str | None:
    if rows >= least_rows:
        return None
    return f"{rows} rows, fewer than {least_rows}: look at the interval, not at the figure"
