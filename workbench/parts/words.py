"""What stands between a page's own words: numbers as people say them, and texts of others as written.

The one place where what came out of files and from people is made safe for Markdown.
"""

import re
from typing import Final

from spinf_serve.evals import volumes

UNKNOWN: Final = "–"

MOST_PLAIN: Final = 2_000
"""Characters of a text of others that stand in the middle of a page's own words."""

_UNSEEN: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_MEANS: Final = re.compile(r"[\\`*_\[\]<$~|]|&(?=#|\w+;)|:(?=[\w\[{/])|^[#>+=-]|^\d+(?=[.)])")
# What is looked for when signs were read already: a backslash is no help there, a joiner is.
_LATER: Final = re.compile(
    r"(:)(?=material/)|(:)(?=//)|(:)(?=[\w+-]+:)|(www)(?=\.)|(@)(?=\w)|([-<>~])(?=[->=])",
    re.IGNORECASE,
)
_JOINER: Final = "\u2060"


def plain(text: object, most: int = MOST_PLAIN) -> str:
    """A text of others for Markdown and labels, where it stands as it was written.

    Names, ids, labels and messages come out of files and from people: a picture in one would be
    fetched from elsewhere by everybody who looks at it. Everything of that kind goes through here.

    Args:
        most: characters; a longer text is cut, with a mark.
    """
    told = str(text)
    told = told if len(told) <= most else f"{told[:most]}…"
    told = _UNSEEN.sub("\ufffd", " ".join(told.split("\n")).replace("\t", " ")).strip()
    told = _LATER.sub(lambda found: found[0] + _JOINER, told)
    return _MEANS.sub(_escaped, told)


def _escaped(found: re.Match[str]) -> str:
    # A number at the beginning would begin a list: the sign behind it is what is escaped.
    return found[0] + "\\" if found[0][0].isdigit() else "\\" + found[0]


def code(text: object, most: int = MOST_PLAIN) -> str:
    """Likewise as code, in a fence that the text cannot end."""
    told = _UNSEEN.sub("\ufffd", " ".join(str(text).split()))[:most] or " "
    fence = "`" * (max((len(run) for run in re.findall("`+", told)), default=0) + 1)
    edge = " " if told[0] == "`" or told[-1] == "`" else ""
    return f"{fence}{edge}{told}{edge}{fence}"


def message(text: object) -> str:
    """Likewise a message of ours about something of others: what it marks as code is code."""
    parts = re.split("`([^`]+)`", str(text)[:MOST_PLAIN])
    told = [code(part) if place % 2 else _inside(part) for place, part in enumerate(parts)]
    return "".join(told).strip()


def _inside(part: str) -> str:
    """A part of a sentence, with the spaces at its edges."""
    core = plain(part)
    before, after = (" " if part[:1].isspace() else ""), (" " if part[-1:].isspace() else "")
    return before + core + after if core else " " if part else ""


def percent(share: float | None, places: int = 1) -> str:
    """A share between 0 and 1 as a percentage."""
    return UNKNOWN if share is None else f"{share * 100:.{places}f} %"


def volume(share: float | None, per_day: float | None) -> str:
    """A share of the traffic as `evals.volumes.volume` has it; None where it is not known."""
    return UNKNOWN if share is None else volumes.volume(share, per_day)


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
