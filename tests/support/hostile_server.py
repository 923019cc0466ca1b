"""A server on the stub engine with everything switched on, in a process whose memory can be seen.

`python -m tests.support.hostile_server FOLDER`: the folder for batches and the decision log. Writes
its address as the only line of stdout.
"""

import logging
import sys
from pathlib import Path
from typing import cast

import uvicorn

from spinf_serve.engine.api import Turn
from spinf_serve.engine.work import Limits, Result, Work
from spinf_serve.packs.errors import SpinfError
from spinf_serve.server.app import bind, create_app, http_config
from spinf_serve.server.config import ServerConfig
from tests.support.servers import no_packs
from tests.support.stub_engine import StubEngine, StubJob

MAX_BODY_BYTES = 64 * 1024
_KEPT_SETS = 64


class ForgetfulEngine(StubEngine):
    """The stub without its records for tests, which grow."""

    def compile(self, work: Work) -> StubJob:
        if len(self._sets) > _KEPT_SETS:
            self._sets.clear()
        return super().compile(work)

    def submit(self, job: StubJob, turn: Turn | None = None) -> None:
        self.turns.clear()
        super().submit(job, turn)

    def step(self) -> list[tuple[StubJob, Result | SpinfError]]:
        self.passes.clear()
        return super().step()


def main(folder: str) -> None:
    """Serves until the process is ended."""
    limits = Limits(
        max_content_tokens=256,
        max_query_tokens=64,
        max_prompts_per_input=200,
        max_processed_tokens=8_000,
        max_options=50,
        max_option_tokens=5,
    )
    config = ServerConfig(
        limits=limits,
        max_body_bytes=MAX_BODY_BYTES,
        batch_dir=str(Path(folder, "batches")),
        decision_log=str(Path(folder, "log.sqlite")),
        log_content="text",
        log_answers=True,
    )
    # Nobody reads it, and a pipe that is full would stop the server.
    logging.disable()
    app = create_app(lambda: ForgetfulEngine(limits).as_engine(), config, no_packs())
    listening = bind("127.0.0.1", 0)
    port = cast(int, listening.getsockname()[1])
    print(f"http://127.0.0.1:{port}", flush=True)
    uvicorn.Server(http_config(app)).run(sockets=[listening])


if __name__ == "__main__":
    main(sys.argv[1])
