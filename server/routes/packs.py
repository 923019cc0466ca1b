"""GET /v1/packs and /v1/packs/{id}."""

from fastapi import APIRouter, Request, Response

from spinf_serve.packs.errors import Refused
from spinf_serve.packs.plain import plain
from spinf_serve.server.problems import NotFound
from spinf_serve.server.service import Service
from spinf_serve.server.wire.json_text import encode
from spinf_serve.server.wire.pack_reply import listing

router = APIRouter()


@router.get("/v1/packs")
async def packs(request: Request) -> Response:
    """The served packs."""
    service: Service = request.app.state.service
    body = await service.on_host(lambda: encode(listing(service.packs, service.worker.engine)))
    return Response(body, media_type="application/json")


@router.get("/v1/packs/{pack_id:path}")
async def pack(request: Request) -> Response:
    """One pack's file in the plain format, for the served model.

    An id holds a slash, so the rest of the path is the id.
    """
    service: Service = request.app.state.service
    name = request.path_params["pack_id"]
    version = request.query_params.get("version")
    try:
        found = service.packs.catalogue.get(name, version)
    except Refused as refused:
        raise NotFound(refused.code, refused.message, refused.param) from None

    def body() -> bytes:
        constants = service.packs.fit(found, service.worker.engine).constants
        return encode(plain(found, None if constants is None else constants.model))

    return Response(await service.on_host(body), media_type="application/json")
