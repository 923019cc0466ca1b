"""Numbers in the words of those who read them: shares, counts per 1,000 and per day."""

from typing import Final

UNKNOWN: Final = "–"


def percent(share: float | None, places: int = 1) -> str:
    """A share between 0 and 1 as a percentage."""
    return UNKNOWN if share is None else f"{share * 100:.{places}f} %"


def volume(share: float | None, per_day: float | None) -> str:
    """A share of the traffic as messages per 1,000, and per day where that is known.

    Args:
        per_day: messages a day; None when nobody said.
    """
    if share is None:
        return UNKNOWN
    told = f"{share * 1000:,.0f} of 1,000 messages"
    return told if per_day is None else f"{told}, {share * per_day:,.0f} a day"


def count(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun: `1 row`, `2 rows`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
