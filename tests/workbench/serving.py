"""A server on recorded answers for the pages that ask, in the process of the test."""

from collections.abc import Iterator
from contextlib import contextmanager

from spinf_serve.engine.work import Limits
from spinf_serve.server.config import ServerConfig
from spinf_serve.workbench.answering import Who
from tests.support.recorded_engine import RecordedEngine
from tests.support.servers import running

TOKEN = "trusted-1"


@contextmanager
def recorded_server(limits: Limits | None = None) -> Iterator[tuple[Who, RecordedEngine]]:
    """Who answers, and the engine behind it, whose passes can be made slow."""
    engine = RecordedEngine(limits)
    config = ServerConfig(port=0, trusted_token=TOKEN, limits=limits or Limits())
    with running(engine.as_engine, config) as server:
        yield Who(server.url, TOKEN), engine
