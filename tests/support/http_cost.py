"""What HTTP costs besides the engine: `python -m tests.support.http_cost` prints milliseconds.

The request has 24 contents of about 466 words and 56 questions of two options, shared by all
contents or sent with each. A part's figure is the CPU time of one thread, the best of 15 runs, since
other work on the machine only adds to it; the stub engine's own work stands apart.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spinf_serve.engine.bench.machine import commit, processor_name
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
from tests.support.stub_engine import StubEngine

CONTENTS, QUESTIONS, WORDS = 24, 56, 466


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


def over_http(raw: bytes) -> float:
    """Least wall milliseconds of a whole request on a loopback connection, stub included."""
    engine = StubEngine().as_engine()
    with running(lambda: engine, ServerConfig()) as server:
        times = []
        for _ in range(15):
            start = time.perf_counter()
            server.http.post("/v1/score", content=raw).raise_for_status()
            times.append(1e3 * (time.perf_counter() - start))
    return min(times)


def stub_alone(raw: bytes) -> float:
    """Least CPU milliseconds of the stub: compile and answer."""
    stub = StubEngine()
    request = read_request(decode(raw), stub.as_engine(), ANYBODY, False, no_packs())
    works = [job.work for job in compile_call(stub.as_engine(), request.call)]
    return best(lambda: stub.run(works))


def main(out: str | None = None) -> None:
    """Prints the figures in milliseconds, and writes them as JSON to the file that is named."""
    cases: dict[str, dict[str, float]] = {}
    for name, shared in (("shared questions", True), ("questions of each content", False)):
        raw = body(shared)
        found = parts(raw)
        found["sum of the parts"] = sum(v for k, v in found.items() if k != "answer bytes")
        found["over HTTP, wall"] = over_http(raw)
        found["of which the stub"] = stub_alone(raw)
        cases[name] = {"request bytes": float(len(raw)), **found}
        print(name)
        for key, value in found.items():
            print(f"  {key:<20}{value:10.2f}")
    if out is not None:
        facts = {
            "command": f"python -m tests.support.http_cost {out}",
            "commit": commit(),
            "processor": processor_name(),
            "milliseconds": cases,
        }
        Path(out).write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:2])
