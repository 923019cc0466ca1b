"""What is below /v0, for whoever runs the server, with a trusted key: drain, info, raw scores."""

import platform
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request, Response

from spinf_serve import __version__
from spinf_serve.engine.api import Engine
from spinf_serve.packs.errors import Refused
from spinf_serve.server.routes.score import answered
from spinf_serve.server.service import Service
from spinf_serve.server.wire.json_text import encode
from spinf_serve.server.wire.raw_jobs import RawWire, in_place

router = APIRouter()


@router.post("/v0/drain")
async def drain(request: Request) -> Response:
    """Turns new requests away and lets those in work finish; the server goes on running."""
    service = _for_trusted(request)
    service.draining = True
    return _answer({"draining": True})


@router.delete("/v0/drain")
async def resume(request: Request) -> Response:
    """Takes new requests again."""
    service = _for_trusted(request)
    service.draining = False
    return _answer({"draining": False})


@router.get("/v0/info")
async def info(request: Request) -> Response:
    """What is served, on what, with which settings that are no secrets."""
    service = _for_trusted(request)
    engine = service.worker.engine
    return _answer({"engine": _engine(engine), "boot": _boot(service, engine)})


@router.post("/v0/score")
async def raw(request: Request) -> Response:
    """Log-probabilities of texts behind prompts that are read as they are."""
    _for_trusted(request)
    try:
        return await answered(request, RawWire())
    except Refused as refused:
        raise in_place(refused) from None


def _for_trusted(request: Request) -> Service:
    """What the routes share. Raises `Refused` (`invalid_token`) for callers without the right."""
    if not request.state.caller.trusted:
        raise Refused(
            "invalid_token",
            "this route is for trusted callers: send a trusted key of this server, or start it "
            "with one",
        )
    service: Service = request.app.state.service
    return service


def _engine(engine: Engine) -> dict[str, Any]:
    prints = engine.fingerprint
    return {
        "model": engine.served.id,
        "revision": engine.served.revision,
        "family": engine.served.family,
        "fingerprint": {"model": prints.model, "bits": prints.bits},
        "facts": dict(prints.facts),
        "limits": asdict(engine.limits),
    }


def _boot(service: Service, engine: Engine) -> dict[str, Any]:
    return {
        "version": __version__,
        "python": platform.python_version(),
        "model": engine.served.id,
        "stand_in": engine.served.stand_in,
        "system_fingerprint": engine.fingerprint.short,
        "load_seconds": round(service.worker.load_seconds, 3),
        "draining": service.draining,
        "packs": {"faults": list(service.packs.catalogue.faults)},
    }


def _answer(body: dict[str, Any]) -> Response:
    return Response(encode(body), media_type="application/json")
