"""Servers that the contract is tried on. Every engine that is served must pass the same tests."""

from collections.abc import Callable, Iterator

import pytest

from spinf_serve.engine.api import Engine
from spinf_serve.engine.work import Limits
from spinf_serve.server.config import ServerConfig
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

# Name -> how such an engine is opened with limits.
ENGINES: dict[str, Callable[[Limits], Engine]] = {
    "stub": lambda limits: StubEngine(limits).as_engine(),
}


@pytest.fixture(scope="session", params=[pytest.param(name) for name in ENGINES])
def open_engine(request: pytest.FixtureRequest) -> Callable[[], Engine]:
    """Opens one of the engines; the same one each time, since no test changes it."""
    engine = ENGINES[request.param](LIMITS)
    return lambda: engine


@pytest.fixture(scope="session")
def server(open_engine: Callable[[], Engine]) -> Iterator[Running]:
    """A server that is open to all."""
    with running(open_engine, ServerConfig(limits=LIMITS, max_body_bytes=64 * 1024)) as it:
        yield it


@pytest.fixture
def guarded() -> Iterator[Running]:
    """A server with a token and a token of trusted callers, on the stub."""
    config = ServerConfig(limits=LIMITS, token=TOKEN, trusted_token=TRUSTED_TOKEN)
    with running(lambda: StubEngine(LIMITS).as_engine(), config) as it:
        yield it


@pytest.fixture
def stub() -> StubEngine:
    """The engine behind `stub_server`, for tests that make it fail or wait."""
    return StubEngine(LIMITS)


@pytest.fixture
def stub_server(stub: StubEngine) -> Iterator[Running]:
    """A server on the stub, with room for one request in work and two that wait."""
    with running(stub.as_engine, ServerConfig(limits=LIMITS, queue=2)) as it:
        yield it
        stub.gate.set()
