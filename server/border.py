"""What every request passes first and every answer last: id, size, token, and errors as bodies.

This is the only place where an unforeseen exception is caught; it is logged, never its content.
"""

import asyncio
import logging
from dataclasses import replace

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spinf_serve.packs.errors import Busy, Fault, SpinfError
from spinf_serve.server import problems
from spinf_serve.server.auth import ANYBODY, OPEN_PATHS, Guard
from spinf_serve.server.body import check_declared
from spinf_serve.server.ids import new_request_id
from spinf_serve.server.service import Gone
from spinf_serve.server.wire.json_text import encode

logger = logging.getLogger(__name__)

_RESTART_SECONDS = 10


class Border:
    """ASGI middleware. Leaves `request_id` and `caller` in the state of the request."""

    def __init__(self, app: ASGIApp, guard: Guard, max_body_bytes: int) -> None:
        self._app = app
        self._guard = guard
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one connection's request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = new_request_id()
        state = scope.setdefault("state", {})
        state |= {"request_id": request_id, "caller": ANYBODY}
        started = False

        async def send_with_id(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                MutableHeaders(scope=message)["X-Request-Id"] = request_id
            await send(message)

        fault: SpinfError
        try:
            self._admit(scope)
            await self._app(scope, receive, send_with_id)
            return
        except (Gone, ClientDisconnect):
            return
        except asyncio.CancelledError:
            # Requests are cancelled only by a shutdown that has waited long enough for them.
            fault = Busy("model_unavailable", "the server is shutting down", _RESTART_SECONDS)
        except SpinfError as error:
            fault = error
        except Exception:
            logger.exception("request %s failed", request_id)
            fault = Fault(f"the server failed on this request; its log says why ({request_id})")
        if started:
            logger.error("request %s failed while its answer was being sent", request_id)
            return
        form = problems.envelope_of(scope["path"], state)
        answer = Response(
            encode(problems.envelope(fault, request_id, state["caller"], form)),
            status_code=problems.status_of(fault, form),
            headers=problems.headers(fault, request_id, form),
            media_type="application/json",
        )
        await answer(scope, receive, send_with_id)

    def _admit(self, scope: Scope) -> None:
        """Checks declared size and token, in this order, and finds out who is calling."""
        headers = Headers(scope=scope)
        check_declared(headers.get("content-length"), self._max_body_bytes)
        if scope["path"] not in OPEN_PATHS:
            caller = self._guard.caller(headers.getlist("authorization"))
            client = scope.get("client")
            scope["state"]["caller"] = replace(caller, address=client[0] if client else "")
