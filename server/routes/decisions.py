"""POST /v1/decisions: closed questions about one input, in the form of OpenAI's SDK."""

from fastapi import APIRouter, Request, Response

from spinf_serve.server.problems import SYSTEM_ONE_REQUEST_ID, Envelope
from spinf_serve.server.routes.score import answered
from spinf_serve.server.wire.closed_wires import DecisionsWire

router = APIRouter()


@router.post("/v1/decisions")
async def decisions(request: Request) -> Response:
    """Predicates, choices and scores; a body of System One is answered in that form."""
    wire = DecisionsWire()
    try:
        answer = await answered(request, wire)
    finally:
        # For the errors too, which are answered outside of this route.
        if wire.speaks_systemone:
            request.state.envelope = Envelope.DETAIL
    if wire.speaks_systemone:
        answer.headers[SYSTEM_ONE_REQUEST_ID] = request.state.request_id
    return answer
