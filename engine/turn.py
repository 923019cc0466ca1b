"""Whose a request is and how soon it is wanted: what decides when its trees are read.

A plain value that travels from the server to the schedule. Knows neither.
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final


class Priority(IntEnum):
    """How soon an answer is wanted; a lower number goes first."""

    INTERACTIVE = 0
    BATCH = 1

    @property
    def label(self) -> str:
        """Its name in headers and metrics."""
        return self.name.lower()


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """A request's place among others; trees that are put with the same object are one request.

    Attributes:
        caller: whose it is; callers share the device evenly, whatever each of them asks for.
        priority: nothing of a lower one is read while something of a higher one waits.
        writes: whether it is a completion or a chat, for which within a priority is read what
            scoring leaves of passes.
    """

    caller: str = ""
    priority: Priority = Priority.INTERACTIVE
    writes: bool = False

    @property
    def lane(self) -> tuple[Priority, bool]:
        """What it shares passes with evenly; a lower one goes first."""
        return self.priority, self.writes

    def aside(self) -> "Turn":
        """The turn of what this request needs and others may wait for too: a request of its own."""
        return self if self is FIRST_COME else replace(self)


FIRST_COME: Final = Turn()
"""The turn of whoever has nobody to share with: works are read in the order of their coming."""
