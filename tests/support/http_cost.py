"""What HTTP costs besides the engine: `python -m tests.support.http_cost [FILE]`.

The request has 24 contents of about 466 words and 56 questions of two options, shared by all
contents or sent with each. What is held to the mark is the processor time that the server's process
spends on a request, all threads together, without that of the stub that stands for the engine; the
client is a process of its own. Beside it stand single parts, each the CPU time of one thread, the best
of 15 runs, since other work on the machine only adds to it.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from spinf_serve.engine.api import Turn
from spinf_serve.engine.bench.machine import commit, processor_name
from spinf_serve.engine.work import Result, Work
from spinf_serve.packs.errors import SpinfError
from spinf_serve.server.auth import ANYBODY
from spinf_serve.server.call_warnings import warnings_of
from spinf_serve.server.compiling import compile_call
from spinf_serve.server.config import ServerConfig
from spinf_serve.server.exchange import Timing
from spinf_serve.server.usage import usage_of
from spinf_serve.server.wire.json_text import decode
from spinf_serve.server.wire.spinf import read_request
from spinf_serve.server.wire.spinf_reply import reply
from tests.support.servers import no_packs, question, running
from tests.support.stub_engine import StubEngine, StubJob

CONTENTS, QUESTIONS, WORDS = 24, 56, 466
WARM, REQUESTS = 5, 31


class TimedStub(StubEngine):
    """A stub that knows how long the server's threads were in it, in seconds of processor time."""

    def __init__(self) -> None:
        super().__init__()
        self.spent: list[float] = []

    def compile(self, work: Work) -> StubJob:
        with self._timed():
            return super().compile(work)

    def submit(self, job: StubJob, turn: Turn | None = None) -> None:
        with self._timed():
            super().submit(job, turn)

    def step(self) -> list[tuple[StubJob, Result | SpinfError]]:
        with self._timed():
            return super().step()

    @contextmanager
    def _timed(self) -> Iterator[None]:
        start = time.thread_time()
        try:
            yield
        finally:
            # Two threads may come here at once; a list takes both.
            self.spent.append(time.thread_time() - start)


def body(shared: bool) -> bytes:
    """The request."""
    queries = [
        question(
            f"q{n}", template=f"\nDoes the {n}th text mention a thing of kind {n}? Answer:{{?}}"
        )
        for n in range(QUESTIONS)
    ]
    entries: list[dict[str, Any]] = []
    for n in range(CONTENTS):
        content = " ".join(f"word{(n * 7 + m * 13) % 997}" for m in range(WORDS))
        entry = {"id": f"c{n}", "messages": [{"role": "user", "content": content}]}
        entries.append(entry if shared else entry | {"queries": queries})
    return json.dumps(
        {"inputs": entries, "scoring": {"queries": queries if shared else []}}
    ).encode()


def best(work: Callable[[], object], repeats: int = 15) -> float:
    """Least CPU milliseconds of this thread."""
    times = []
    for _ in range(repeats):
        start = time.thread_time()
        work()
        times.append(1e3 * (time.thread_time() - start))
    return min(times)


def parts(raw: bytes) -> dict[str, float]:
    """Milliseconds of each part, without the engine."""
    stub = StubEngine()
    engine, packs = stub.as_engine(), no_packs()
    request = read_request(decode(raw), engine, ANYBODY, False, packs)
    jobs = compile_call(engine, request.call)
    results = stub.run([job.work for job in jobs])
    usage = usage_of(request.call, results)

    def answer() -> bytes:
        return reply(
            request,
            results,
            usage,
            [],
            engine=engine,
            request_id="scr_",
            created=0,
            timing=Timing(0, 0, 0, 0, 0),
            extras=False,
        )

    return {
        "decode": best(lambda: decode(raw)),
        "read": best(lambda: read_request(decode(raw), engine, ANYBODY, False, packs))
        - best(lambda: decode(raw)),
        "usage and warnings": best(
            lambda: (
                usage_of(request.call, results),
                warnings_of(request.call, results),
            )
        ),
        "build and encode": best(answer),
        "answer bytes": float(len(answer())),
    }


def serve() -> None:
    """The server's process: says its address, then at each line its processor time and the stub's."""
    stub = TimedStub()
    with running(stub.as_engine, ServerConfig()) as server:
        print(server.url, flush=True)
        for _ in sys.stdin:
            print(json.dumps([time.process_time(), sum(stub.spent)]), flush=True)


def over_http(raw: bytes, requests: int = REQUESTS) -> dict[str, float]:
    """Milliseconds of a whole request on a loopback connection: the wall's, and the server's."""
    command = [sys.executable, "-m", "tests.support.http_cost", "--serve"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        url = process.stdout.readline().strip()
        walls: list[float] = []
        readings: list[tuple[float, float]] = []
        with httpx.Client(base_url=url, timeout=60, trust_env=False) as http:
            for _ in range(WARM + requests + 1):
                # From one reading to the next, so that what a server does behind an answer counts.
                process.stdin.write("\n")
                process.stdin.flush()
                readings.append(tuple(json.loads(process.stdout.readline())))
                start = time.perf_counter()
                http.post("/v1/score", content=raw).raise_for_status()
                walls.append(1e3 * (time.perf_counter() - start))
        process.stdin.close()
    assert process.returncode == 0
    spent = [
        (1e3 * (after[0] - before[0]), 1e3 * (after[1] - before[1]))
        for before, after in pairwise(readings[WARM:])
    ]
    return {
        "over HTTP, wall": median(walls[WARM:-1]),
        "server's process": median(whole for whole, _ in spent),
        "of which the stub": median(stub for _, stub in spent),
        "server without the stub": median(whole - stub for whole, stub in spent),
    }


def main(out: str | None = None) -> None:
    """Prints the figures in milliseconds, and writes them as JSON to the file that is named."""
    cases: dict[str, dict[str, float]] = {}
    for name, shared in (("shared questions", True), ("questions of each content", False)):
        raw = body(shared)
        found = parts(raw)
        found["sum of the parts"] = sum(v for k, v in found.items() if k != "answer bytes")
        found |= over_http(raw)
        cases[name] = {"request bytes": float(len(raw)), **found}
        print(name)
        for key, value in found.items():
            print(f"  {key:<25}{value:10.2f}")
    if out is not None:
        facts = {
            "command": f"python -m tests.support.http_cost {out}",
            "commit": commit(),
            "processor": processor_name(),
            "milliseconds": cases,
        }
        Path(out).write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    else:
        main(*sys.argv[1:2])
