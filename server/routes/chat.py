"""POST /v1/chat/completions: /v1/score for OpenAI's clients, with `scoring` in the extra body."""

from fastapi import APIRouter, Request, Response

from spinf_serve.server.routes.score import answered
from spinf_serve.server.wire.score_wire import ScoreWire

router = APIRouter()


@router.post("/v1/chat/completions")
async def chat(request: Request) -> Response:
    """The same body and answer as /v1/score, with `choices`, which is empty."""
    return await answered(request, ScoreWire(chat=True))
