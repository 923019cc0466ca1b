"""GET /v1/packs and /v1/packs/{id}. No packs are served yet, so the list is empty."""

from fastapi import APIRouter, Request, Response

from spinf_serve.server.problems import NotFound
from spinf_serve.server.wire.json_text import encode

router = APIRouter()

_SHOWN_CHARS = 128


@router.get("/v1/packs")
async def packs() -> Response:
    """The served packs."""
    return Response(encode({"packs": [], "sources": []}), media_type="application/json")


@router.get("/v1/packs/{pack_id:path}")
async def pack(request: Request) -> Response:
    """One pack's file. An id holds a slash, so the rest of the path is the id."""
    name = request.path_params["pack_id"]
    raise NotFound("unknown_pack", f"no pack {name[:_SHOWN_CHARS]!r} is served here", "id")
