"""What a written number says: its value, or both where a text can be read in two ways."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from spinf_serve.engine.extraction.numbers.currencies import code_of
from spinf_serve.engine.extraction.numbers.grammar import (
    FRACTIONS,
    GERMAN_SCALES,
    GRAMMARS,
    LONG_SCALES,
    SHORT_SCALES,
    UNITS,
    Kind,
    exactly,
)
from spinf_serve.engine.extraction.numbers.pieces import parses, tagged


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text says.

    Attributes:
        values: every value that it can have, the preferred one first; none for a range.
        currency: sign or code of the currency as it was written, if any.
        currency_code: its ISO 4217 code, where the sign is of one currency only.
        unit: `%`, `‰` or `bp` behind the number, which changes no value.
        is_range: whether the text is two numbers with a dash or a word between them.
    """

    values: tuple[Decimal, ...]
    currency: str | None
    currency_code: str | None
    unit: str | None
    is_range: bool

    @property
    def value(self) -> Decimal | None:
        """The preferred value; None where there is not one number."""
        return self.values[0] if self.values else None

    @property
    def ambiguous(self) -> bool:
        """Whether the text can be read in several ways."""
        return len(self.values) > 1


@lru_cache(maxsize=4096)
def read(text: str, kind: Kind) -> Reading | None:
    """What a whole text says as a number or an amount; None when it is no form of the grammar.

    The space with which answers begin may be there or not.
    """
    values: list[Decimal] = []
    currency = unit = None
    is_range = found = False
    for tags in parses(GRAMMARS[kind], text):
        found = True
        parts = tagged(tags)
        if "range" in parts:
            is_range = True
            continue
        currency = parts.get("currency", currency)
        unit = _unit(parts) or unit
        value = _value(parts)
        if value not in values:
            values.append(value)
    if not found:
        return None
    return Reading(
        values=tuple(values),
        currency=currency if values else None,
        currency_code=code_of(currency) if values and currency is not None else None,
        unit=unit,
        is_range=is_range and not values,
    )


def _unit(parts: Mapping[str, str]) -> str | None:
    written = parts.get("unit")
    if written is None:
        return None
    return {name.casefold(): short for name, short in UNITS.items()}[written.casefold()]


def _value(parts: Mapping[str, str]) -> Decimal:
    """One reading's value: digits, fraction, scale, and at most one negation."""
    digits = "".join(char for char in parts.get("whole", "") if char.isdecimal())
    value = Fraction(int(digits or "0"))
    if "decimals" in parts:
        value += Fraction(int(parts["decimals"]), 10 ** len(parts["decimals"]))
    if "vulgar" in parts:
        value += FRACTIONS[parts["vulgar"]]
    if "lower" in parts:
        value += Fraction(int(parts["upper"]), int(parts["lower"]))
    if "scale" in parts:
        value *= 10 ** _power(parts["scale"])
    if "german scale" in parts:
        value *= 10 ** GERMAN_SCALES[parts["german scale"]]
    # However often it is written: a bracket with a minus before it is negative, once.
    negative = any(mark in parts for mark in ("minus", "minus behind", "brackets"))
    return exactly(-value if negative else value)


def _power(scale: str) -> int:
    power = SHORT_SCALES.get(scale)
    return LONG_SCALES[scale.lower()] if power is None else power
