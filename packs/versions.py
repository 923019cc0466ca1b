"""The order of versions, and the next one. Knows no files."""

import re
from collections.abc import Iterable
from typing import Final, Literal

Part = Literal["major", "minor", "patch"]
PARTS: Final[tuple[Part, ...]] = ("major", "minor", "patch")

_SEPARATORS: Final = re.compile(r"[.+-]")
_SEMANTIC: Final = re.compile(r"(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})")


def newest_first(versions: Iterable[str]) -> list[str]:
    """Versions in falling order: split on `.`, `+` and `-`, numeric parts compared as numbers.

    A word in a part's place comes before a release, as in `1.0.0-rc1` before `1.0.0`.
    """
    return sorted(versions, key=version_order, reverse=True)


def version_order(version: str) -> tuple[tuple[int, int, str], ...]:
    """Sorts versions from the oldest to the newest."""
    parts = [
        (2, int(part), "") if part.isascii() and part.isdigit() else (0, 0, part)
        for part in _SEPARATORS.split(version)
    ]
    # The end stands between a word and a number: older than 1.0.0.1, newer than 1.0.0-rc1.
    return (*parts, (1, 0, ""))


def bumped(version: str, part: Part) -> str | None:
    """The version after this one; None when it is not `major.minor.patch`."""
    matched = _SEMANTIC.fullmatch(version)
    if matched is None:
        return None
    numbers = [int(number) for number in matched.groups()]
    place = PARTS.index(part)
    raised = [*numbers[:place], numbers[place] + 1, *[0] * (2 - place)]
    return ".".join(map(str, raised))
