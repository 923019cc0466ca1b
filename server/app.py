"""Builds the app around an engine, and runs it."""

import asyncio
import errno
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from threading import Event, Thread
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from uvicorn.server import HANDLED_SIGNALS

from spinf_serve.engine.api import Engine
from spinf_serve.packs.errors import Unusable
from spinf_serve.server.auth import Guard
from spinf_serve.server.batches.folder import BatchFolder
from spinf_serve.server.batches.runner import Runner
from spinf_serve.server.batches.upload import ANY_SIZE
from spinf_serve.server.border import Border
from spinf_serve.server.config import ServerConfig
from spinf_serve.server.connection import Connections, Patience
from spinf_serve.server.cross_origin import cross_origin
from spinf_serve.server.decision_log.opening import open_decision_log
from spinf_serve.server.door import Door
from spinf_serve.server.ending import DrainingServer
from spinf_serve.server.exchange import Observer
from spinf_serve.server.gauges import Watched
from spinf_serve.server.keys import KeyRing
from spinf_serve.server.logs import RequestLog, log_config
from spinf_serve.server.metrics import Metrics
from spinf_serve.server.routes import (
    batches,
    chat,
    decisions,
    files,
    health,
    models,
    openapi,
    operations,
    score,
    systemone,
    texts,
)
from spinf_serve.server.routes import metrics as scraped
from spinf_serve.server.routes import packs as pack_routes
from spinf_serve.server.served_packs import ServedPacks
from spinf_serve.server.service import Service
from spinf_serve.server.traffic import Traffic
from spinf_serve.server.worker import Worker

logger = logging.getLogger(__name__)

# How soon an author who saved a pack can ask it; a look costs a few milliseconds.
_LOOK_SECONDS = 1.0
# How long a thread that computes may keep the others from Python. They each wait for it behind every
# system call, the event loop above all: with Python's own 5 ms, requests that come together are
# turned away one after the other in as many of them.
SWITCH_SECONDS = 0.0002
_LOOPBACK = ("localhost", "::1")


def create_app(
    open_engine: Callable[[], Engine], config: ServerConfig, packs: ServedPacks
) -> FastAPI:
    """The app. It answers from its start-up on; scoring answers 503 until the engine is open.

    Args:
        open_engine: called once, on the thread that then owns the engine.
        packs: the packs that calls may name; their local folders are watched.

    Raises `Unusable` when the decision log or the batch folder that the settings name cannot be one.
    """
    keys = KeyRing(config.keys, None if config.keys_file is None else Path(config.keys_file))
    guard = Guard(config.token, config.trusted_token, config.debug, keys, config.open_metrics)
    worker = Worker(open_engine)
    metrics = Metrics()
    traffic = Traffic(listeners=(metrics.handled, RequestLog().handled))
    log = open_decision_log(config, lambda: worker.engine)
    connections = Connections(
        Patience(
            idle=config.keepalive_seconds,
            head=config.head_seconds,
            rest=config.body_idle_seconds,
            answer=config.answer_idle_seconds,
        )
    )
    observers: list[Observer] = [traffic, metrics, *([] if log is None else [log])]
    service = Service(config, worker, packs, observers)
    folder = None if config.batch_dir is None else BatchFolder(Path(config.batch_dir), config)
    runner = None if folder is None else Runner(folder, service)
    ledger = None if folder is None else folder.ledger
    metrics.watch(Watched(service, traffic, connections, keys, log, ledger))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.worker.start()
        if log is not None:
            log.start()
        stopped = Event()
        # Daemons: a look at a folder that does not answer must not keep the process from its end.
        for what, look in (("packs", packs.refresh), ("keys", keys.refresh)):
            Thread(target=_watch, args=(what, look, stopped), name=what, daemon=True).start()
        if runner is not None:
            await runner.start()
        yield
        stopped.set()
        if runner is not None:
            await runner.stop()
        await asyncio.to_thread(service.stop)
        if log is not None:
            # Behind the last answer, which it is told of.
            await asyncio.to_thread(log.stop)

    # The document is ours, of server/openapi/, and pages about it would need the token too.
    app = FastAPI(
        lifespan=lifespan, openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    app.state.service = service
    app.state.decision_log = log
    app.state.batches = runner
    app.state.metrics = metrics
    app.state.traffic = traffic
    app.state.guard = guard
    app.state.connections = connections
    app.add_middleware(
        Border,
        guard=guard,
        door=Door(service),
        traffic=traffic,
        max_body_bytes=config.max_body_bytes,
        max_bytes_of={"/v1/files": ANY_SIZE},
    )
    if config.cors_origin:
        # Around the border, since a browser asks without a key whether it may ask with one.
        app.add_middleware(CORSMiddleware, **cross_origin(config.cors_origin))
    for module in (
        score,
        chat,
        texts,
        systemone,
        decisions,
        files,
        batches,
        models,
        pack_routes,
        openapi,
        health,
        scraped,
        operations,
    ):
        app.include_router(module.router)
    return app


def for_good(open_engine: Callable[[], Engine]) -> Callable[[], Engine]:
    """Opens an engine that is kept to the end of the process.

    What was loaded with it, Python's collector does not look through again: each time nobody would be
    answered for a third of a second.
    """

    def open_for_good() -> Engine:
        engine = open_engine()
        gc.collect()
        gc.freeze()
        return engine

    return open_for_good


def _watch(what: str, look: Callable[[], None], stopped: Event) -> None:
    """Looks for changes until it is stopped; a fault in one look leaves what is served."""
    while not stopped.wait(_LOOK_SECONDS):
        try:
            look()
        except Exception:
            logger.exception("%s could not be looked at; the next look is soon", what)


def serve(app: FastAPI, config: ServerConfig) -> None:
    """Serves an app of `create_app` until a signal; requests in work are then answered first.

    Call it on the main thread. An engine that is still being opened then is left behind: see
    `Worker.alive`.

    Raises:
        Unusable: the address cannot be listened on, or the engine cannot be opened for a reason
            that a person must mend.
    """
    listening = bind(config.host, config.port)
    service: Service = app.state.service
    worker = service.worker
    told = False

    async def watch() -> None:
        nonlocal told
        if isinstance(worker.load_error, Unusable):
            server.should_exit = True
        elif not told and worker.ready:
            told = True
            _tell_ready(worker, service.packs)

    def drain() -> None:
        service.draining = True

    sys.setswitchinterval(SWITCH_SECONDS)
    server = DrainingServer(
        http_config(
            app,
            log_config=log_config(config.log_format),
            timeout_graceful_shutdown=config.shutdown_seconds,
            callback_notify=watch,
            timeout_notify=0,
        ),
        traffic=app.state.traffic,
        drain=drain,
        drain_seconds=config.drain_seconds,
        shutdown_seconds=config.shutdown_seconds,
    )
    with _ended_by_signals(server):
        _tell_address(listening, app.state.guard)
        server.run(sockets=[listening])
    if isinstance(worker.load_error, Unusable):
        raise worker.load_error


def http_config(app: FastAPI, **changes: Any) -> uvicorn.Config:
    """How uvicorn serves an app of `create_app`; `changes` are uvicorn's own settings."""
    connections: Connections = app.state.connections
    given: dict[str, Any] = {
        "http": connections.protocol,
        "ws": "none",
        "log_config": None,
        "access_log": False,
        "timeout_keep_alive": connections.patience.idle,
        "server_header": False,
    }
    return uvicorn.Config(app, **given | changes)


@contextmanager
def _ended_by_signals(server: uvicorn.Server) -> Iterator[None]:
    """Has signals end a server and nothing else.

    uvicorn handles them while it runs. Once everything is answered it sends itself each one again,
    for the handlers that were there before: without these, for an end by the signal.
    """

    def end(_: int, __: FrameType | None) -> None:
        server.should_exit = True

    before = {number: signal.signal(number, end) for number in HANDLED_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens on an address. Raises `Unusable` with the remedy when there is none."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as fault:
        raise Unusable(f"--host {host} is no address of this machine: {fault}") from fault
    sock = socket.socket(family, kind, protocol)
    if os.name == "posix":
        # Else a restart waits for connections of the server before; on Windows it means other things.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(address)
        # From here on a client waits instead of being refused; who accepts may listen again.
        sock.listen()
    except OSError as fault:
        sock.close()
        raise Unusable(_why_not(fault, host, port)) from fault
    return sock


def _why_not(fault: OSError, host: str, port: int) -> str:
    if fault.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use: choose another with --port, or stop what uses it"
    if fault.errno == errno.EACCES:
        return f"port {port} needs administrator rights: choose one above 1023 with --port"
    if fault.errno == errno.EADDRNOTAVAIL:
        return f"--host {host} is no address of this machine; 127.0.0.1 and 0.0.0.0 always are"
    return f"cannot listen on {host} port {port}: {fault.strerror}"


def _tell_address(listening: socket.socket, guard: Guard) -> None:
    name, port = listening.getsockname()[:2]
    shown = f"[{name}]" if ":" in name else name
    logger.info("listening on http://%s:%d; the model is loading", shown, port)
    if not guard.closed and not (name.startswith("127.") or name in _LOOPBACK):
        logger.warning(
            "anybody who reaches this address may ask: set --token or --keys-file to change that"
        )


def _tell_ready(worker: Worker, packs: ServedPacks) -> None:
    engine = worker.engine
    logger.info(
        "%s is ready after %.1f s (%s)",
        engine.served.id,
        worker.load_seconds,
        engine.fingerprint.short,
    )
    if engine.served.stand_in:
        logger.warning("%s", engine.served.note)
    packs.tell(engine)
