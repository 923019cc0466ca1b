"""HTTP requests as they come and go: how many are in work, and who is told when one has ended.

Joins what the border knows of a request (status, time on the wire) with what the service knows of
it (tokens, stages). Belongs to the event loop's thread.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spinf_serve.server.auth import Caller
from spinf_serve.server.exchange import Ended

CLIENT_LEFT = 499
"""Status in logs and metrics of a request whose client left before its answer; never sent."""

UNROUTED = "(none)"
"""Route of requests that reached none: refused before that, or asking for what does not exist."""


@dataclass(frozen=True, slots=True)
class Handled:
    """A request that is over.

    Attributes:
        request_id: id of the answer.
        client_id: the `X-Request-Id` that the client sent; None without a usable one.
        trace_id: of the client's `traceparent`; None without a usable one.
        method: of HTTP.
        path: as it was asked for, without the query.
        route: the pattern that the path fits, such as `/v1/packs/{pack_id}`, or `UNROUTED`.
        status: of HTTP, or `CLIENT_LEFT`.
        code: error code of the answer; None where there is none.
        seconds: from the arrival of the head to the end of the answer.
        caller: whose it was.
    """

    request_id: str
    client_id: str | None
    trace_id: str | None
    method: str
    path: str
    route: str
    status: int
    code: str | None
    seconds: float
    caller: Caller


Listener = Callable[[Handled, Ended | None], None]
"""Gets a request that is over, and what the service did for it if it was asked."""


class Traffic:
    """The HTTP requests of a server. An observer of its service.

    Attributes:
        closing: whether connections are closed behind their answers, since the server ends.
    """

    def __init__(self, listeners: Sequence[Listener] = ()) -> None:
        """Each listener is told of every request that is over."""
        self.closing = False
        self._listeners = listeners
        self._running: dict[str, Ended | None] = {}

    @property
    def running(self) -> int:
        """Requests whose head has come and whose answer is not over."""
        return len(self._running)

    def begin(self, request_id: str) -> None:
        """A request has come."""
        self._running[request_id] = None

    def ended(self, request: Ended) -> None:
        """Keeps what the service did until the answer is over; rows of files have none."""
        if request.request_id in self._running:
            self._running[request.request_id] = request

    def end(self, handled: Handled) -> None:
        """A request is over."""
        ended = self._running.pop(handled.request_id)
        for listener in self._listeners:
            listener(handled, ended)
