"""Which requests are turned away by their heads alone, before a byte of their bodies is read.

Whoever comes when the server is full costs it next to nothing. Knows no formats: what else has to be
right about a request is found out behind the door.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping

from spinf_serve.engine.api import Priority
from spinf_serve.packs.errors import Refused
from spinf_serve.server.service import Service
from spinf_serve.server.urgency import priority_of

PLACED_PATHS = frozenset(
    {
        "/v1/score",
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/systemone",
        "/v1/decisions",
    }
)
"""Paths whose POST takes a place among the requests in work."""

# Of the event loop; so many that a crowd has come, so few that nobody notices.
_MOST_ROUNDS = 50


class Door:
    """The door of a service. Belongs to the event loop's thread.

    Of requests that come together, those that there is no room for are told before the others are
    begun with.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        # Those that were let in and have not begun.
        self._entering: Counter[Priority] = Counter()
        self._came = 0
        self._quiet: asyncio.Event | None = None

    def leads_to(self, method: str, path: str) -> bool:
        """Whether a request takes a place among those in work."""
        return method == "POST" and path in PLACED_PATHS

    async def enter(self, headers: Mapping[str, str]) -> None:
        """Lets a request in that takes a place.

        Raises `Busy` where it would be turned away whatever its body says.
        """
        self._service.check_draining()
        try:
            priority = priority_of(headers)
        except Refused:
            # The route tells of it, in its own form.
            return
        self._service.admission.check_requests(priority, self._entering[priority])
        self._came += 1
        self._entering[priority] += 1
        try:
            await self._all_have_come()
        finally:
            self._entering[priority] -= 1

    async def _all_have_come(self) -> None:
        """Returns when a round of the event loop has brought nobody else."""
        if self._quiet is None:
            self._quiet = asyncio.Event()
            self._look_soon(self._quiet, rounds=0)
        await self._quiet.wait()

    def _look_soon(self, quiet: asyncio.Event, rounds: int) -> None:
        asyncio.get_running_loop().call_soon(self._look, quiet, self._came, rounds)

    def _look(self, quiet: asyncio.Event, came: int, rounds: int) -> None:
        if self._came != came and rounds < _MOST_ROUNDS:
            self._look_soon(quiet, rounds + 1)
            return
        self._quiet = None
        quiet.set()
