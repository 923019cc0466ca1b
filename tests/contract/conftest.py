"""Servers that the contract is tried on. Every engine that is served must pass the same tests."""

from collections.abc import Iterator
from typing import Any

import pytest

from spinf_serve.engine.api import Engine, open_engine
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.work import Limits
from spinf_serve.server.config import ServerConfig
from tests.support.gated_engine import Gated
from tests.support.servers import Running, running
from tests.support.stub_engine import StubEngine

LIMITS = Limits(
    max_content_tokens=256,
    max_query_tokens=64,
    max_prompts_per_input=200,
    max_processed_tokens=8_000,
    max_options=50,
    max_option_tokens=5,
)
TOKEN = "let-me-in"
TRUSTED_TOKEN = "let-me-in-and-trust-me"


def _stub() -> Engine:
    return StubEngine(LIMITS).as_engine()


def _embedded() -> Engine:
    return open_engine(EngineConfig(model="embedded", device="cpu"), LIMITS)


ENGINES: list[Any] = [
    pytest.param(_stub, id="stub"),
    pytest.param(_embedded, id="embedded", marks=[pytest.mark.weights, pytest.mark.slow]),
]


@pytest.fixture(scope="session", params=ENGINES)
def server(request: pytest.FixtureRequest) -> Iterator[Running]:
    """A server that is open to all."""
    with running(request.param, ServerConfig(limits=LIMITS, max_body_bytes=64 * 1024)) as it:
        yield it


@pytest.fixture
def guarded() -> Iterator[Running]:
    """A server with a token and a token of trusted callers, on the stub."""
    config = ServerConfig(limits=LIMITS, token=TOKEN, trusted_token=TRUSTED_TOKEN)
    with running(_stub, config) as it:
        yield it


@pytest.fixture
def stub() -> StubEngine:
    """The engine behind `stub_server`, for tests that make it fail or wait."""
    return StubEngine(LIMITS)


@pytest.fixture
def gated() -> Iterator[tuple[Gated, Running]]:
    """An engine whose passes begin when they are told to, and a server on it."""
    made = Gated()
    with running(made.open, ServerConfig()) as server:
        yield made, server
        made.may_begin.release(1000)


@pytest.fixture
def stub_server(stub: StubEngine) -> Iterator[Running]:
    """A server on the stub, with room for one request in work and two that wait."""
    with running(stub.as_engine, ServerConfig(limits=LIMITS, queue=2)) as it:
        yield it
        stub.gate.set()
