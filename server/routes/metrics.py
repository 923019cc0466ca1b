"""GET /metrics: what Prometheus scrapes."""

import asyncio

from fastapi import APIRouter, Request, Response

from spinf_serve.server.metrics import CONTENT_TYPE, Metrics

router = APIRouter()


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """All metrics in Prometheus' text format; needs a key unless the server opens them."""
    found: Metrics = request.app.state.metrics
    # Beside the threads that compile, so that it does not wait for these.
    return Response(await asyncio.to_thread(found.text), media_type=CONTENT_TYPE)
