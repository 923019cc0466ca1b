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


def duration(seconds: float) -> str:
    """A time in its largest fitting units: `8 s`, `3 min 20 s`, `2 h 5 min`."""
    if 0 < seconds < 1:
        return "less than 1 s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours:,} h {minutes} min" if minutes else f"{hours:,} h"


def money(amount: float | None) -> str:
    """An amount in the currency of the price that it came from."""
    if amount is None:
        return UNKNOWN
    return f"{amount:,.2f}" if amount >= 0.01 or amount == 0 else "less than 0.01"
