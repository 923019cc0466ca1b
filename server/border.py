"""What every request passes first and every answer last: id, size, key, room, and errors as bodies.

This is the only place where an unforeseen exception is caught; it is logged without its message,
which may quote what the caller sent.
"""

import asyncio
import logging
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spinf_serve.packs.errors import Busy, Fault, SpinfError
from spinf_serve.server import problems
from spinf_serve.server.auth import ANYBODY, Guard
from spinf_serve.server.body import check_declared
from spinf_serve.server.door import Door
from spinf_serve.server.ids import new_request_id
from spinf_serve.server.logs import without_message
from spinf_serve.server.traffic import CLIENT_LEFT, UNROUTED, Handled, Traffic
from spinf_serve.server.waiting import Gone
from spinf_serve.server.wire.json_text import encode

logger = logging.getLogger(__name__)

_RESTART_SECONDS = 10
NO_LIMITS_OF_THEIR_OWN: Mapping[str, int] = MappingProxyType({})
_CLIENT_ID = re.compile(r"[A-Za-z0-9._:/=+-]{1,128}")
# https://www.w3.org/TR/trace-context/#traceparent-header-field-values
_TRACE = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}.*")


@dataclass(slots=True)
class _Course:
    """How far a request has come: to which door, its status once that is sent, and its error code."""

    route: str = UNROUTED
    status: int = CLIENT_LEFT
    code: str | None = None


class Border:
    """ASGI middleware. Leaves `request_id` and `caller` in the state of the request."""

    def __init__(
        self,
        app: ASGIApp,
        guard: Guard,
        door: Door,
        traffic: Traffic,
        max_body_bytes: int,
        max_bytes_of: Mapping[str, int] = NO_LIMITS_OF_THEIR_OWN,
    ) -> None:
        """Stands before an app.

        Args:
            door: turns requests away that there is no room for.
            max_body_bytes: largest declared size of a body.
            max_bytes_of: path -> that of bodies which are written to disk as they arrive.
        """
        self._app = app
        self._guard = guard
        self._door = door
        self._traffic = traffic
        self._max_body_bytes = max_body_bytes
        self._max_bytes_of = max_bytes_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one connection's request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()
        request_id = new_request_id()
        state = scope.setdefault("state", {})
        state |= {"request_id": request_id, "caller": ANYBODY}
        course = _Course()
        headers = Headers(scope=scope)
        self._traffic.begin(request_id)
        try:
            await self._answer(scope, headers, receive, send, course)
        finally:
            self._traffic.end(_handled(scope, headers, course, time.perf_counter() - begun))

    async def _answer(
        self, scope: Scope, headers: Headers, receive: Receive, send: Send, course: _Course
    ) -> None:
        """Has the app answer, or answers in its place."""
        request_id: str = scope["state"]["request_id"]
        started = False

        async def send_with_id(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                course.status = message["status"]
                own = MutableHeaders(scope=message)
                own["X-Request-Id"] = request_id
                if self._traffic.closing:
                    own["Connection"] = "close"
            await send(message)

        fault: SpinfError
        try:
            self._admit(scope, headers)
            if self._door.leads_to(scope["method"], scope["path"]):
                course.route = scope["path"]
                await self._door.enter(headers)
            await self._app(scope, receive, send_with_id)
            return
        except (Gone, ClientDisconnect):
            return
        except asyncio.CancelledError:
            # Requests are cancelled only by a shutdown that has waited long enough for them.
            fault = Busy("model_unavailable", "the server is shutting down", _RESTART_SECONDS)
        except SpinfError as error:
            fault = error
        except Exception as error:
            told = without_message(error)
            logger.exception("request %s failed\n%s", request_id, told, exc_info=False)
            fault = Fault(f"the server failed on this request; its log says why ({request_id})")
        course.code = fault.code
        if started:
            logger.error("request %s failed while its answer was being sent", request_id)
            return
        form = problems.envelope_of(scope["path"], scope["state"])
        body = encode(problems.envelope(fault, request_id, scope["state"]["caller"], form))
        told_headers = {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **problems.headers(fault, request_id, form),
        }
        raw = [
            (name.lower().encode(), value.encode("latin-1")) for name, value in told_headers.items()
        ]
        status = problems.status_of(fault, form)
        await send_with_id({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": body})

    def _admit(self, scope: Scope, headers: Headers) -> None:
        """Checks declared size and key, in this order, and finds out who is calling."""
        limit_bytes = self._max_bytes_of.get(scope["path"], self._max_body_bytes)
        check_declared(headers.get("content-length"), limit_bytes)
        if not self._guard.is_open(scope["path"]):
            caller = self._guard.caller(headers.getlist("authorization"))
            client = scope.get("client")
            scope["state"]["caller"] = replace(caller, address=client[0] if client else "")


def _handled(scope: Scope, headers: Headers, course: _Course, seconds: float) -> Handled:
    client_id = _CLIENT_ID.fullmatch(headers.get("x-request-id", ""))
    trace = _TRACE.fullmatch(headers.get("traceparent", ""))
    return Handled(
        request_id=scope["state"]["request_id"],
        client_id=client_id and client_id[0],
        trace_id=trace and trace[1],
        method=scope["method"],
        path=scope["path"],
        # The router leaves the route it found.
        route=getattr(scope.get("route"), "path", course.route),
        status=course.status,
        code=course.code,
        seconds=seconds,
        caller=scope["state"]["caller"],
    )
