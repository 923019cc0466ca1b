"""POST /v1/systemone: closed questions about one state, in the form of TypeSafe's clients."""

from functools import partial

from fastapi import APIRouter, Request, Response

from spinf_serve.server.multipart import boundary_of, take_apart
from spinf_serve.server.problems import SYSTEM_ONE, SYSTEM_ONE_REQUEST_ID
from spinf_serve.server.routes.score import answered_body, body_of
from spinf_serve.server.service import Service
from spinf_serve.server.wire.closed_wires import SystemOneWire

router = APIRouter()


@router.post(SYSTEM_ONE)
async def systemone(request: Request) -> Response:
    """Yes or no, one of some options, or a level of a scale, each with its probability."""
    body = await body_of(request)
    boundary = boundary_of(request.headers.get("content-type"))
    parts: frozenset[str] = frozenset()
    if boundary is not None:
        service: Service = request.app.state.service
        apart = await service.on_host(partial(take_apart, body, boundary))
        body, parts = apart.request, apart.others
    answer = await answered_body(request, SystemOneWire(parts), body)
    answer.headers[SYSTEM_ONE_REQUEST_ID] = request.state.request_id
    return answer
