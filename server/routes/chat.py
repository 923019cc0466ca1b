"""POST /v1/chat/completions: /v1/score for OpenAI's clients with `scoring` in the body, else a chat."""

from fastapi import APIRouter, Request, Response

from spinf_serve.server.features import features_of
from spinf_serve.server.routes.score import answered_body, body_of
from spinf_serve.server.routes.texts import written
from spinf_serve.server.service import Service
from spinf_serve.server.wire.score_wire import ScoreWire

router = APIRouter()


@router.post("/v1/chat/completions")
async def chat(request: Request) -> Response:
    """With `scoring` the same body and answer as /v1/score, with `choices`, which is empty.

    Without it the next turn of the chat, where the served model writes text.
    """
    service: Service = request.app.state.service
    body = await body_of(request)
    document = await service.decoded(body)
    value = document.value
    scores = not isinstance(value, dict) or value.get("scoring") is not None
    if scores or features_of(service.worker.engine, service.switches).generation is not None:
        wire = ScoreWire(chat=True, switches=service.switches)
        return await answered_body(request, wire, body, document)
    return await written(request, body, document, chat=True)
