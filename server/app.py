"""Builds the app around an engine, and runs it."""

import asyncio
import copy
import errno
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from threading import Event, Thread
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.config import LOGGING_CONFIG
from uvicorn.server import HANDLED_SIGNALS

from spinf_serve.engine.api import Engine
from spinf_serve.packs.errors import Unusable
from spinf_serve.server.auth import Guard
from spinf_serve.server.border import Border
from spinf_serve.server.config import ServerConfig
from spinf_serve.server.decision_log.opening import open_decision_log
from spinf_serve.server.routes import chat, decisions, health, models, openapi, score, systemone
from spinf_serve.server.routes import packs as pack_routes
from spinf_serve.server.served_packs import ServedPacks
from spinf_serve.server.service import Service
from spinf_serve.server.worker import Worker

logger = logging.getLogger(__name__)

# How soon an author who saved a pack can ask it; a look costs a few milliseconds.
_LOOK_SECONDS = 1.0
_LOOPBACK = ("localhost", "::1")


def create_app(
    open_engine: Callable[[], Engine], config: ServerConfig, packs: ServedPacks
) -> FastAPI:
    """The app. It answers from its start-up on; scoring answers 503 until the engine is open.

    Args:
        open_engine: called once, on the thread that then owns the engine.
        packs: the packs that calls may name; their local folders are watched.

    Raises `Unusable` when the decision log that the settings name cannot be one.
    """
    worker = Worker(open_engine)
    log = open_decision_log(config, lambda: worker.engine)
    service = Service(config, worker, packs, observers=[] if log is None else [log])

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.worker.start()
        if log is not None:
            log.start()
        stopped = Event()
        # A daemon: a look at a folder that does not answer must not keep the process from its end.
        Thread(target=_watch, args=(packs, stopped), name="packs", daemon=True).start()
        yield
        stopped.set()
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
    app.add_middleware(
        Border,
        guard=Guard(config.token, config.trusted_token, config.debug),
        max_body_bytes=config.max_body_bytes,
    )
    for module in (score, chat, systemone, decisions, models, pack_routes, openapi, health):
        app.include_router(module.router)
    return app


def _watch(packs: ServedPacks, stopped: Event) -> None:
    """Takes up changed packs until it is stopped; a fault in one look leaves what is served."""
    while not stopped.wait(_LOOK_SECONDS):
        try:
            packs.refresh()
        except Exception:
            logger.exception("the packs' folders could not be looked at; the next look is soon")


def serve(app: FastAPI, config: ServerConfig) -> None:
    """Serves an app of `create_app` until a signal; requests in work are then answered first.

    Call it on the main thread. An engine that is still being opened then is left behind: see
    `Worker.alive`.

    Raises:
        Unusable: the address cannot be listened on, or the engine cannot be opened for a reason
            that a person must mend.
    """
    listening = bind(config.host, config.port)
    worker = app.state.service.worker
    told = False

    async def watch() -> None:
        nonlocal told
        if isinstance(worker.load_error, Unusable):
            server.should_exit = True
        elif not told and worker.ready:
            told = True
            _tell_ready(worker, app.state.service.packs)

    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=_log_config(),
            timeout_keep_alive=config.keepalive_seconds,
            timeout_graceful_shutdown=config.shutdown_seconds,
            callback_notify=watch,
            timeout_notify=0,
            server_header=False,
        )
    )
    with _ended_by_signals(server):
        _tell_address(listening, config)
        server.run(sockets=[listening])
    if isinstance(worker.load_error, Unusable):
        raise worker.load_error


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


def _tell_address(listening: socket.socket, config: ServerConfig) -> None:
    name, port = listening.getsockname()[:2]
    shown = f"[{name}]" if ":" in name else name
    logger.info("listening on http://%s:%d; the model is loading", shown, port)
    if config.token is None and not (name.startswith("127.") or name in _LOOPBACK):
        logger.warning("anybody who reaches this address may ask: set --token to change that")


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


def _log_config() -> dict[str, Any]:
    """uvicorn's own, with our loggers beside its; requests are logged without bodies or headers."""
    config = copy.deepcopy(LOGGING_CONFIG)
    # All of the log goes to one place; stdout may be closed.
    config["handlers"]["access"]["stream"] = "ext://sys.stderr"
    ours = {"handlers": ["default"], "level": "INFO", "propagate": False}
    config["loggers"]["spinf_serve"] = ours
    return config
