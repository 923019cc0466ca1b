"""How much may be in work at once; what is more is turned away at once, and told when to come back.

Each priority has a room of its own, so that files of requests never take the place of people. Knows
no engine: what a request needs is told, and so is how fast requests are answered.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from spinf_serve.engine.api import Priority
from spinf_serve.packs.errors import Busy

UNKNOWN_RETRY_SECONDS = 2
"""What a client is told to wait before anything was measured."""

_MOST_RETRY_SECONDS = 60
# Texts are read before they are counted; a token of English has four to five bytes.
_BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the requests of one priority may come to, together.

    Attributes:
        requests: how many may wait besides one that is being answered.
        size_bytes: of their bodies.
        tokens: that are read for them.
    """

    requests: int
    size_bytes: int
    tokens: int


@dataclass(slots=True)
class Held:
    """What the requests of one priority come to.

    Attributes:
        requests: how many hold a slot.
        size_bytes: of their bodies.
        tokens: that are read for them; an estimate for those that are not compiled yet.
    """

    requests: int = 0
    size_bytes: int = 0
    tokens: int = 0


class Slot:
    """The place of a request that was let in."""

    def __init__(self, admission: "Admission", priority: Priority, size_bytes: int) -> None:
        self.tokens = size_bytes // _BYTES_PER_TOKEN
        self._admission = admission
        self._priority = priority

    def weigh(self, tokens: int) -> None:
        """Says how many tokens are read for the request.

        Raises:
            Busy: `concurrency_limit`, when they are more than there is room for beside others.
        """
        held = self._admission.held[self._priority]
        held.tokens += tokens - self.tokens
        self.tokens = tokens
        self._admission.check_tokens(self._priority)


class Admission:
    """Slots of a server. Belongs to the event loop's thread; counts may be read from any.

    Attributes:
        held: what holds slots, by priority.
    """

    def __init__(self, bounds: Bounds, pace: Callable[[], float | None]) -> None:
        """`pace` gives the tokens that are read in a second; None before that was measured."""
        self.held = {priority: Held() for priority in Priority}
        self._bounds = bounds
        self._pace = pace

    @property
    def in_flight(self) -> int:
        """Requests that hold a slot."""
        return sum(held.requests for held in self.held.values())

    @contextmanager
    def slot(self, priority: Priority, size_bytes: int) -> Iterator[Slot]:
        """Holds a slot for a body of a size. Raises `Busy` (`concurrency_limit`) without room."""
        self.check_requests(priority)
        held, bounds = self.held[priority], self._bounds
        if held.requests and held.size_bytes + size_bytes > bounds.size_bytes:
            raise self._full(
                f"requests of {held.size_bytes} bytes are in work, and with this one of "
                f"{size_bytes} they would be over the queue's {bounds.size_bytes}"
            )
        slot = Slot(self, priority, size_bytes)
        held.requests += 1
        held.size_bytes += size_bytes
        held.tokens += slot.tokens
        try:
            yield slot
        finally:
            held.requests -= 1
            held.size_bytes -= size_bytes
            held.tokens -= slot.tokens

    def check_requests(self, priority: Priority, entering: int = 0) -> None:
        """Raises `Busy` when no further request of a priority has a place, whatever its size.

        Args:
            entering: how many more are about to take one.
        """
        requests, most = self.held[priority].requests + entering, self._bounds.requests
        if requests > most:
            raise self._full(f"{requests} requests are in work and the queue holds {most}")

    def check_tokens(self, priority: Priority) -> None:
        """Raises `Busy` when several requests need more tokens together than there is room for."""
        held, bounds = self.held[priority], self._bounds
        if held.requests > 1 and held.tokens > bounds.tokens:
            raise self._full(
                f"requests of {held.tokens} tokens would be in work and the queue holds "
                f"{bounds.tokens}"
            )

    def _full(self, problem: str) -> Busy:
        seconds = self._retry_seconds()
        return Busy("concurrency_limit", f"{problem}; ask again in {seconds} seconds", seconds)

    def _retry_seconds(self) -> int:
        """When what is in work now will be answered, as far as can be told."""
        pace = self._pace()
        if not pace:
            return UNKNOWN_RETRY_SECONDS
        tokens = sum(held.tokens for held in self.held.values())
        return max(1, min(math.ceil(tokens / pace), _MOST_RETRY_SECONDS))
