"""A server that ends in order: on a signal it first drains, and gives its address up when idle.

While it drains, requests in work are answered, new ones get 503, and /readyz says so: whoever
spreads requests over servers has time to notice. Knows no routes.
"""

import math
import time
from collections.abc import Callable
from types import FrameType

import uvicorn

from spinf_serve.server.traffic import Traffic


class DrainingServer(uvicorn.Server):
    """Ends when asked twice, or once every request that was in work is answered."""

    def __init__(
        self,
        config: uvicorn.Config,
        traffic: Traffic,
        drain: Callable[[], None],
        drain_seconds: float,
        shutdown_seconds: float,
    ) -> None:
        """Prepares a server.

        Args:
            traffic: what is in work.
            drain: turns new requests away from its call on.
            drain_seconds: how long it drains at the least.
            shutdown_seconds: how long requests in work may take; those left then are cancelled.
        """
        super().__init__(config)
        self._traffic = traffic
        self._drain = drain
        self._drain_seconds = drain_seconds
        self._shutdown_seconds = shutdown_seconds
        self._asked_at: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal: the first one drains, one more ends the wait."""
        if self._asked_at is None:
            self.leave()
        else:
            super().handle_exit(sig, frame)

    def leave(self) -> None:
        """Begins to drain. Signals call it, on the thread of the event loop."""
        self._asked_at = time.monotonic()
        self._traffic.closing = True
        self._drain()

    async def on_tick(self, counter: int) -> bool:
        """Whether to end now; called ten times a second."""
        if self._asked_at is not None:
            waited = time.monotonic() - self._asked_at
            left = self._shutdown_seconds - waited
            # What is left of the time is for clients that do not close their connections.
            self.config.timeout_graceful_shutdown = max(0, math.ceil(left))
            idle = self._traffic.running == 0
            if waited >= self._drain_seconds and (idle or left <= 0):
                self.should_exit = True
        return await super().on_tick(counter)
