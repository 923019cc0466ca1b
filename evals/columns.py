"""Checked columns: one number, truth, weight or group a row, on their way into a statistic.

Knows no dataset and no statistic. What does not belong in a column is refused with its positions;
nothing is dropped, clamped or filled in.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinf_serve.packs.errors import Refused

Numbers = NDArray[np.float64]
Truths = NDArray[np.bool_]
Codes = NDArray[np.int64]

_LISTED = 5


def numbers(name: str, values: ArrayLike, rows: Sequence[str] | None = None) -> Numbers:
    """A column of finite numbers, [N] float64.

    Args:
        name: what the column is called in a message.
        rows: the id of each row for a message; None tells positions, counted from 0.

    Raises `Refused` (`invalid_field`) that lists where a value is NaN, infinite or no number.
    """
    column = _numeric(name, values)
    _all(name, np.isfinite(column), column, rows, "is not a finite number")
    return column


def probabilities(name: str, values: ArrayLike, rows: Sequence[str] | None = None) -> Numbers:
    """A column of numbers from 0 to 1, [N] float64; refuses others like `numbers`."""
    column = numbers(name, values, rows)
    _all(name, (column >= 0) & (column <= 1), column, rows, "is not between 0 and 1")
    return column


def truths(name: str, values: ArrayLike) -> Truths:
    """A column of bools, [N]. Whole numbers are taken when all are 0 or 1.

    Raises `Refused` (`invalid_field`) for anything else, unknown labels (None) among it: a missing
    label is not a negative one, so such rows are taken out before.
    """
    column = np.asarray(values)
    if column.size == 0:
        return np.zeros(0, dtype=bool)
    if column.dtype == object:
        good = np.array([isinstance(value, bool | np.bool_) for value in column])
        _all(name, good, column, None, "is not true or false")
        return column.astype(bool)
    if column.dtype.kind not in "biuf":
        raise Refused("invalid_field", f"{name}: a label is a text; turn it into true or false")
    _all(name, (column == 0) | (column == 1), column, None, "is not true or false")
    return column.astype(bool)


def weights_of(weights: ArrayLike | None, count: int) -> Numbers:
    """One weight a row, [N], above 0; ones where none are given.

    A weight says how many rows of the traffic one drawn row stands for: the inverse of its chance
    to be drawn, up to a factor.
    """
    if weights is None:
        return np.ones(count)
    column = numbers("weights", weights)
    _all("weights", column > 0, column, None, "is not above 0")
    same_length(count, weights=column)
    return column


def group_codes(groups: Sequence[Any] | NDArray[Any] | None, count: int) -> Codes:
    """The group of each row as numbers from 0 in order of appearance, [N] int64.

    Without groups, and for a row whose group is None, a row is a group of its own.
    """
    if groups is None:
        return np.arange(count)
    if len(groups) != count:
        raise ValueError(f"{count} rows but {len(groups)} groups")
    if isinstance(groups, np.ndarray) and groups.dtype.kind in "iu":
        _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first))[inverse]
    seen: dict[Any, int] = {}
    codes = np.empty(count, dtype=np.int64)
    for index, group in enumerate(groups):
        key = ("row", index) if group is None else ("group", group)
        codes[index] = seen.setdefault(key, len(seen))
    return codes


def effective_count(weights: Numbers, codes: Codes) -> float:
    """How many independent rows of one weight the rows are worth, at most N.

    L. Kish, "Survey sampling", 1965: (sum w)^2 / sum w^2, here over the groups' totals, as if the
    rows of a group were copies of each other, which is the worst that they can be. 0 for no rows.
    """
    if not len(weights):
        return 0.0
    totals = np.bincount(codes, weights)
    # Divided first: the squares of large weights stay finite.
    shares = totals / totals.max()
    return float(shares.sum() ** 2 / (shares**2).sum())


def same_length(count: int, **columns: Any) -> None:
    """Raise ValueError, with both lengths, unless every column has `count` rows."""
    for name, column in columns.items():
        if len(column) != count:
            raise ValueError(f"{count} rows but {len(column)} in {name}")


def _numeric(name: str, values: ArrayLike) -> Numbers:
    try:
        column = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise Refused("invalid_field", f"{name}: not all values are numbers ({error})") from error
    if column.ndim != 1:
        raise ValueError(f"{name} has {column.ndim} dimensions instead of one")
    return column


def _all(
    name: str, good: Truths, column: NDArray[Any], rows: Sequence[str] | None, fault: str
) -> None:
    wrong = np.flatnonzero(~good)
    if not len(wrong):
        return
    places = ", ".join(
        f"{index if rows is None else rows[index]!r} ({column[index]})"
        for index in wrong[:_LISTED].tolist()
    )
    more = f" and {len(wrong) - _LISTED} more" if len(wrong) > _LISTED else ""
    raise Refused(
        "invalid_field",
        f"{name}: the value {fault} in {len(wrong)} of {len(column)} rows: {places}{more};"
        " take them out or mend them",
    )
