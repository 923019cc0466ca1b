"""Bodies of /v1/score answered by a server, or by the service in this process."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Event
from typing import Any

from spinf_serve.flags import ENGINE_PACKAGES, require
from spinf_serve.packs.errors import SpinfError
from spinf_serve.progress import progress
from spinf_serve.server.config import ServerConfig
from spinf_serve.streams import interruptible

Ask = Callable[[bytes], tuple[int, Any]]
"""From a body to the status and the body of its answer."""


@contextmanager
def asker(config: ServerConfig, server: str | None) -> Iterator[Ask]:
    """Who answers during the block.

    Args:
        server: its URL; None opens the configured model here, with the configured packs.

    Raises `Unusable`: there is no such server, or the model or packs cannot be opened.
    """
    if server is not None:
        from spinf_serve.evals.remote import post

        yield lambda body: post(server, body, config.token)
        return
    require(ENGINE_PACKAGES)
    from spinf_serve.engine.api import open_engine
    from spinf_serve.server.auth import Caller
    from spinf_serve.server.ids import new_request_id
    from spinf_serve.server.problems import envelope
    from spinf_serve.server.served_packs import open_packs
    from spinf_serve.server.service import Arrival, Service
    from spinf_serve.server.wire.score_wire import ScoreWire
    from spinf_serve.server.worker import Worker

    opened = Event()
    worker = Worker(partial(open_engine, config.engine, config.limits), opened.set)
    with interruptible(), progress("loading the model"):
        worker.start()
        opened.wait()
    if worker.load_error is not None:
        raise worker.load_error
    with progress("reading the packs"):
        packs = open_packs(config)
    service = Service(config, worker, packs)
    caller = Caller(trusted=False, sees_counters=config.debug)

    async def stays() -> None:
        await asyncio.Event().wait()

    def ask(body: bytes) -> tuple[int, Any]:
        arrival = Arrival(new_request_id(), caller, body, gone=stays)
        try:
            wire = ScoreWire(switches=service.switches)
            return 200, json.loads(asyncio.run(service.answer(arrival, wire)))
        except SpinfError as refusal:
            return refusal.status, envelope(refusal, arrival.request_id, caller)

    try:
        yield ask
    finally:
        service.stop()
