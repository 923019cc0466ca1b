"""A server on recorded answers for the pages that ask, in the process of the test."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from spinf_serve.engine.work import Limits
from spinf_serve.server.config import ServerConfig
from spinf_serve.workbench.answering import Who
from spinf_serve.workbench.jobs import Job
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


def result_of(job: Job) -> dict[str, Any]:
    """What came of a job that is done."""
    assert job.state == "done", job.log()
    result = job.result()
    assert result is not None
    return result


def kill(job: Job) -> None:
    """End a job's process as the system does when memory is short."""
    assert job.pid is not None
    os.kill(job.pid, signal.SIGKILL)
