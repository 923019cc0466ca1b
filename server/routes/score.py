"""POST /v1/score."""

from urllib.parse import quote

from fastapi import APIRouter, Request, Response

from spinf_serve.server.body import read_body
from spinf_serve.server.encodings import decoded
from spinf_serve.server.exchange import Wire
from spinf_serve.server.service import Arrival, Service
from spinf_serve.server.urgency import deadline_of, priority_of
from spinf_serve.server.wire.json_text import Document
from spinf_serve.server.wire.score_wire import ScoreWire

router = APIRouter()

MODEL_HEADER = "X-Spinf-Model"
"""Header with the id of the model that answered."""


@router.post("/v1/score")
async def score(request: Request) -> Response:
    """Questions about contents, answered."""
    service: Service = request.app.state.service
    return await answered(request, ScoreWire(switches=service.switches))


async def answered(request: Request, wire: Wire) -> Response:
    """The answer to a scoring request, for every route that takes one."""
    return await answered_body(request, wire, await body_of(request))


async def body_of(request: Request) -> bytes:
    """The whole body of a request, decoded. Raises as `read_body` and `decoded`."""
    service: Service = request.app.state.service
    config = service.config
    body = await read_body(
        request,
        config.max_body_bytes,
        config.body_idle_seconds,
        config.request_seconds,
        service.arriving,
    )
    encoding = request.headers.get("content-encoding")
    if encoding is None:
        return body
    return await service.on_host(lambda: decoded(body, encoding, config.max_body_bytes))


async def answered_body(
    request: Request, wire: Wire, body: bytes, document: Document | None = None
) -> Response:
    """The answer to the body of a scoring request; `document` is what it says, if it is known."""
    service: Service = request.app.state.service
    answer = await service.answer(arrival_of(request, body, document), wire)
    headers = {MODEL_HEADER: served_id(service)}
    return Response(answer, media_type="application/json", headers=headers)


def arrival_of(request: Request, body: bytes, document: Document | None = None) -> Arrival:
    """A request as the service gets it."""
    service: Service = request.app.state.service

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return Arrival(
        request.state.request_id,
        request.state.caller,
        body,
        gone,
        priority_of(request.headers),
        deadline_of(request.headers, service.config.request_seconds),
        document,
    )


def served_id(service: Service) -> str:
    """The served model's id as a header can have it.

    Ids are printable ASCII, but one made from a path may hold anything.
    """
    return quote(service.worker.engine.served.id, safe="/:@+,;=()[]!$&' ")
