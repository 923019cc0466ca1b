"""Decision logs of running servers: finding a server's, and waiting until it has written."""

import time
from collections.abc import Callable

from spinf_serve.server.decision_log.log import DecisionLog
from tests.support.servers import Running

DEADLINE_SECONDS = 10.0


def log_of(server: Running) -> DecisionLog:
    """The log of a server that has one."""
    (log,) = (one for one in server.service.observers if isinstance(one, DecisionLog))
    return log


def by_deadline(holds: Callable[[], bool]) -> None:
    """Waits until something holds; an assertion fails when it does not come about."""
    end = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)
