"""GET and HEAD of /healthz, /readyz, /livez: for whatever starts, feeds and restarts the server.

They need no token.
"""

from typing import Any

from fastapi import APIRouter, Request, Response

from spinf_serve.packs.errors import Busy
from spinf_serve.server.service import Service
from spinf_serve.server.wire.json_text import encode

router = APIRouter()

_METHODS = ["GET", "HEAD"]


@router.api_route("/healthz", methods=_METHODS)
async def healthz() -> Response:
    """Whether the process serves."""
    return _answer(200, {"ok": True})


@router.api_route("/readyz", methods=_METHODS)
async def readyz(request: Request) -> Response:
    """Whether requests are answered now; if not, `reason` is the code they get, `error` says more."""
    service: Service = request.app.state.service
    try:
        engine = service.worker.engine
    except Busy as busy:
        error = {} if busy.code == "warming_up" else {"error": busy.message}
        return _answer(503, {"ready": False, "reason": busy.code, **error})
    boot = {
        "model": engine.served.id,
        "stand_in": engine.served.stand_in,
        "system_fingerprint": engine.fingerprint.short,
        "load_seconds": round(service.worker.load_seconds, 3),
    }
    body: dict[str, Any] = {"ready": True, "boot": boot}
    if service.packs.catalogue.faults:
        body["packs"] = {"faults": list(service.packs.catalogue.faults)}
    return _answer(200, body)


@router.api_route("/livez", methods=_METHODS)
async def livez(request: Request) -> Response:
    """Whether the model is loaded and its thread runs; if not for long, a restart is the remedy."""
    service: Service = request.app.state.service
    live = service.worker.ready
    return _answer(200 if live else 503, {"live": live})


def _answer(status: int, body: dict[str, Any]) -> Response:
    return Response(encode(body), status_code=status, media_type="application/json")
