"""GET and HEAD of /healthz, /readyz, /livez: for whatever starts, feeds and restarts the server.

They need no token.
"""

from typing import Any

from fastapi import APIRouter, Request, Response

from spinf_serve.engine.api import Engine
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
    """Whether requests are answered now; if not, `reason` says why in a word, `error` in a line.

    The reasons are `warming_up` and `model_unavailable`, codes that requests get, `draining` and
    `stuck`.
    """
    service: Service = request.app.state.service
    if service.draining:
        # `draining` is what clients of the first server of this contract look for.
        return _answer(503, {"ready": False, "reason": "draining", "draining": True})
    stuck = _stuck(service)
    if stuck is not None:
        return _answer(503, {"ready": False, "reason": "stuck", "error": stuck})
    engine = _engine(service)
    if isinstance(engine, Busy):
        error = {} if engine.code == "warming_up" else {"error": engine.message}
        return _answer(503, {"ready": False, "reason": engine.code, **error})
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
    """Whether the model is loaded and its thread goes on; if not for long, a restart is the remedy.

    A server that drains lives.
    """
    service: Service = request.app.state.service
    stuck = _stuck(service)
    if stuck is not None:
        return _answer(503, {"live": False, "reason": "stuck", "error": stuck})
    engine = _engine(service)
    if isinstance(engine, Busy):
        return _answer(503, {"live": False, "reason": engine.code})
    return _answer(200, {"live": True})


def _engine(service: Service) -> Engine | Busy:
    """The engine, or what requests get that ask for it now."""
    try:
        return service.worker.engine
    except Busy as busy:
        return busy


def _stuck(service: Service) -> str | None:
    """Why the engine counts as stuck; None when it does not."""
    seconds, limit = service.worker.step_seconds, service.config.stuck_seconds
    if seconds <= limit:
        return None
    return (
        f"a pass has been running for {seconds:.0f} seconds; more than {limit} (--stuck-seconds) "
        "counts as stuck"
    )


def _answer(status: int, body: dict[str, Any]) -> Response:
    return Response(encode(body), status_code=status, media_type="application/json")
