"""What a cell of an imported file says: a text, a label, a list of labels, a weight.

Every reader hands cells on as text, or as a list or an object where the file has such.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final

from spinf_serve.evals.data.labels import NO, UNSURE, YES

Cell = str | None | Sequence["Cell"] | Mapping[str, "Cell"]
"""Text as the file has it; None for what is not there; a list or an object of cells."""

_WORDS: Final[Mapping[str, str]] = {
    "yes": YES,
    "true": YES,
    "1": YES,
    "1.0": YES,
    "no": NO,
    "false": NO,
    "0": NO,
    "0.0": NO,
    "unsure": UNSURE,
}

WORDS: Final = "yes, true, 1, no, false, 0, unsure, or nothing where it is not known"
"""What a label may say, in words."""


def cell(value: Any) -> Cell:
    """A value of a typed file as a cell: `true`, `false`, plain numbers, ISO dates.

    A number without a fraction has none in text either; NaN stays `nan`, to be refused by name.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else str(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): cell(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [cell(item) for item in value]
    if isinstance(value, int | Decimal):
        return str(value)
    return repr(value) if isinstance(value, bytes | bytearray) else str(value)


def label_of(text: str) -> str | None:
    """`yes`, `no` or `unsure` in any of their spellings; None for any other text that is not blank."""
    return _WORDS.get(text.strip().lower())


def weight_of(text: str) -> float | None:
    """A finite number above 0, or None for any other text."""
    try:
        weight = float(text)
    except ValueError:
        return None
    return weight if math.isfinite(weight) and weight > 0 else None
