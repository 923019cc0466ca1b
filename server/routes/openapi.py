"""GET /openapi.json: what the routes take and answer, with this server's limits."""

from fastapi import APIRouter, Request, Response

from spinf_serve.packs.errors import Busy
from spinf_serve.server.openapi.document import document
from spinf_serve.server.service import Service
from spinf_serve.server.wire.json_text import encode

router = APIRouter()


@router.get("/openapi.json")
async def openapi(request: Request) -> Response:
    """The document."""
    service: Service = request.app.state.service
    config = service.config
    try:
        # A model may lower what was left open.
        limits = service.worker.engine.limits
    except Busy:
        limits = config.limits
    made = await service.on_host(lambda: encode(document(limits, config.max_body_bytes)))
    return Response(made, media_type="application/json")
