"""GET /healthz, /readyz, /livez: for whatever starts, feeds and restarts the server. No token."""

from typing import Any

from fastapi import APIRouter, Request, Response

from spinf_serve.packs.errors import Busy
from spinf_serve.server.service import Service
from spinf_serve.server.wire.json_text import encode

router = APIRouter()


@router.get("/healthz")
async def healthz() -> Response:
    """Whether the process serves."""
    return _answer(200, {"ok": True})


@router.get("/readyz")
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
    return _answer(200, {"ready": True, "boot": boot})


@router.get("/livez")
async def livez(request: Request) -> Response:
    """Whether the model is loaded and its thread runs; if not for long, a restart is the remedy."""
    service: Service = request.app.state.service
    live = service.worker.ready
    return _answer(200 if live else 503, {"live": live})


def _answer(status: int, body: dict[str, Any]) -> Response:
    return Response(encode(body), status_code=status, media_type="application/json")
