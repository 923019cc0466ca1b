"""How soon an answer is wanted: the two headers that say so."""

import time
from collections.abc import Mapping

from spinf_serve.engine.api import Priority
from spinf_serve.packs.errors import Refused

PRIORITY_HEADER = "X-Spinf-Priority"
DEADLINE_HEADER = "X-Request-Deadline-Ms"

_PRIORITIES = {priority.label: priority for priority in Priority}
# Python refuses to read integers of thousands of digits; this is some thirty years.
_MOST_DIGITS = 12


def priority_of(headers: Mapping[str, str]) -> Priority:
    """The priority that a request asks for; interactive when it says nothing.

    Raises:
        Refused: `invalid_field` for any other word.
    """
    given = headers.get(PRIORITY_HEADER)
    if given is None:
        return Priority.INTERACTIVE
    priority = _PRIORITIES.get(given.strip().lower())
    if priority is None:
        raise Refused(
            "invalid_field",
            f"the header {PRIORITY_HEADER} is {given!r}; it takes {' or '.join(_PRIORITIES)}",
        )
    return priority


def deadline_of(headers: Mapping[str, str], most_seconds: float) -> float:
    """When nobody wants the answer any more, in seconds of `time.monotonic`, counted from now.

    Args:
        most_seconds: how long any answer may take; the sooner of the two counts.

    Raises:
        Refused: `invalid_field` when the header is no whole number from 1 on.
    """
    given = headers.get(DEADLINE_HEADER)
    if given is None:
        return time.monotonic() + most_seconds
    digits = given.strip()
    if not (digits.isdecimal() and len(digits) <= _MOST_DIGITS and int(digits)):
        raise Refused(
            "invalid_field",
            f"the header {DEADLINE_HEADER} is {given!r}; it takes a whole number of milliseconds "
            "from 1 on",
        )
    return time.monotonic() + min(int(digits) / 1000, most_seconds)
