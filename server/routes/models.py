"""GET /v1/models, one body that OpenAI's, spinf's and TypeSafe's clients can read, and one of them."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, date, datetime, time
from typing import Any

from fastapi import APIRouter, Request, Response

from spinf_serve.engine.api import Engine
from spinf_serve.packs.errors import Refused
from spinf_serve.server.features import Features, features_of
from spinf_serve.server.problems import NotFound
from spinf_serve.server.service import Service
from spinf_serve.server.wire.json_text import encode
from spinf_serve.server.wire.model_field import check_served

router = APIRouter()


@router.get("/v1/models")
async def models(request: Request) -> Response:
    """The served model."""
    service: Service = request.app.state.service
    engine = service.worker.engine
    features = features_of(engine, service.switches)
    limits = {
        **asdict(engine.limits),
        "max_completion_tokens": service.config.max_completion_tokens,
        "max_body_bytes": service.config.max_body_bytes,
    }
    body = models_body(engine, limits, features)
    return Response(encode(body), media_type="application/json")


@router.get("/v1/models/{model_id:path}")
async def model(request: Request) -> Response:
    """The served model by any of its names, as OpenAI's SDK reads it.

    An id holds a slash, so the rest of the path is the id.
    """
    service: Service = request.app.state.service
    engine = service.worker.engine
    try:
        check_served(request.path_params["model_id"], engine)
    except Refused as refused:
        raise NotFound(refused.code, refused.message, refused.param) from None
    return Response(encode(_entry(engine)), media_type="application/json")


def models_body(engine: Engine, limits: Mapping[str, int], features: Features) -> dict[str, Any]:
    """`data` is what OpenAI's SDK reads, `models` what the others do."""
    served = engine.served
    return {
        "object": "list",
        "data": [_entry(engine)],
        "models": [
            {
                "id": served.id,
                "name": served.name,
                "description": served.description,
                "release_date": served.release_date,
                "status": "available",
                "base_model": served.base_model,
                "revision": served.revision,
                "aliases": list(served.aliases),
                "family": served.family,
                "capabilities": list(served.capabilities),
                "media": list(served.media),
                "limits": dict(limits),
                "features": {
                    "media": [],
                    "extraction": features.extraction is None,
                    "generation": features.generation is None,
                },
                "stand_in": served.stand_in,
                "note": served.note,
            }
        ],
    }


def _entry(engine: Engine) -> dict[str, Any]:
    return {
        "id": engine.served.id,
        "object": "model",
        "created": _unix_seconds(engine.served.release_date),
        "owned_by": "local",
    }


def _unix_seconds(release_date: str) -> int:
    """Midnight of a date in ISO form; 0 when there is none, as for a checkpoint of one's own."""
    try:
        day = date.fromisoformat(release_date)
    except ValueError:
        return 0
    return int(datetime.combine(day, time(), UTC).timestamp())
