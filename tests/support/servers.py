"""Real servers on loopback ports, for tests that speak HTTP."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from spinf_serve.engine.api import Engine
from spinf_serve.packs.catalogue import load_catalogue
from spinf_serve.packs.sources import Access
from spinf_serve.server.app import bind, create_app, http_config
from spinf_serve.server.config import ServerConfig
from spinf_serve.server.served_packs import ServedPacks
from spinf_serve.server.service import Service


def no_packs() -> ServedPacks:
    """An empty catalogue."""
    access = Access(cache=Path("not-used"))
    return ServedPacks(load_catalogue((), official=None, access=access, say=print))


@dataclass(frozen=True, slots=True)
class Running:
    """A server that runs.

    Attributes:
        url: its address.
        http: a client for it, which carries no token.
        config: its settings.
        service: what its routes share, to see its state.
    """

    url: str
    http: httpx.Client
    config: ServerConfig
    service: Service

    def score(self, body: Any, **headers: str) -> httpx.Response:
        """POST of a JSON value to /v1/score."""
        return self.http.post("/v1/score", json=body, headers=headers)


@contextmanager
def running(
    open_engine: Callable[[], Engine],
    config: ServerConfig,
    *,
    wait: bool = True,
    packs: ServedPacks | None = None,
) -> Iterator[Running]:
    """Runs a server on a free port until the end of the block; waits until it is ready."""
    app = create_app(open_engine, config, packs or no_packs())
    listening = bind("127.0.0.1", 0)
    server = uvicorn.Server(http_config(app))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    with httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
        try:
            deadline = time.monotonic() + 60
            while wait and client.get("/readyz").status_code != 200:
                assert time.monotonic() < deadline, client.get("/readyz").text
                time.sleep(0.01)
            yield Running(url, client, config, app.state.service)
        finally:
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive()


def question(id: str = "q", **changes: Any) -> dict[str, Any]:
    """A query of two options."""
    return {"id": id, "template": "\nLate? Answer:{?}", "options": [" yes", " no"], **changes}


def request(
    content: Any = "It came late.", *queries: dict[str, Any], **scoring: Any
) -> dict[str, Any]:
    """A body with one content."""
    return {
        "messages": [{"role": "user", "content": content}],
        "scoring": {"queries": list(queries) or [question()], **scoring},
    }


def inputs(*contents: str, **scoring: Any) -> dict[str, Any]:
    """A body with several contents and one shared query."""
    entries = [
        {"id": str(n), "messages": [{"role": "user", "content": content}]}
        for n, content in enumerate(contents)
    ]
    return {"inputs": entries, "scoring": {"queries": [question()], **scoring}}
