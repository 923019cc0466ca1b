"""How many requests may be in work at once; one more is turned away at once."""

from collections.abc import Iterator
from contextlib import contextmanager

from spinf_serve.packs.errors import Busy

RETRY_SECONDS = 2


class Admission:
    """Slots of a server. Belongs to the event loop's thread.

    Attributes:
        in_flight: requests that hold a slot.
    """

    def __init__(self, queue: int) -> None:
        """`queue` requests may wait besides one that is being answered."""
        self.in_flight = 0
        self._queue = queue

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Holds a slot. Raises `Busy` (`concurrency_limit`) when none is free."""
        if self.in_flight > self._queue:
            raise Busy(
                "concurrency_limit",
                f"{self.in_flight} requests are in work and the queue holds {self._queue}; "
                f"ask again in {RETRY_SECONDS} seconds",
                RETRY_SECONDS,
            )
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
