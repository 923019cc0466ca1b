"""The main job over HTTP: the real server around an engine, and clients in a process of their own."""

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from statistics import quantiles
from typing import Any

import uvicorn

import spinf_serve
from spinf_serve.engine.api import Engine
from spinf_serve.engine.bench.jobs import Sizes
from spinf_serve.engine.bench.results import Measurement
from spinf_serve.engine.bench.workload import closed_questions
from spinf_serve.engine.work import Work
from spinf_serve.http_load import Outcome, Plan
from spinf_serve.packs.errors import Unusable
from spinf_serve.server.app import bind, create_app, http_config
from spinf_serve.server.config import ServerConfig
from spinf_serve.server.served_packs import ServedPacks

_READY_SECONDS = 60.0
_ALONE_SECONDS = 1.5
_SCORE = "/v1/score"
_MARK = "<content>"


def measured_over_http(
    engine: Engine,
    config: ServerConfig,
    packs: ServedPacks,
    sizes: Sizes,
    *,
    clients: int,
    seconds: float,
    in_process: Measurement | None,
) -> Measurement:
    """Runs the server in this process on `engine` and keeps it busy: a request has one content that
    nobody asked about before, and all questions.

    Args:
        engine: nobody else uses it meanwhile.
        clients: each with one request under way.
        seconds: that count, after a third of them that do not.
        in_process: the main job as it was measured without HTTP.

    Raises `Unusable` when requests fail.
    """
    works = closed_questions(
        engine.tokenizer,
        sizes.contents,
        sizes.questions,
        sizes.content_tokens,
        sizes.question_tokens,
        seed=1,
    )
    own = replace(
        config, host="127.0.0.1", port=0, token=None, queue=max(config.queue, 2 * clients)
    )
    before = asdict(engine.stats)
    start = time.perf_counter()
    with _serving(engine, own, packs) as port:
        plan = _plan(port, works, clients, seconds)
        outcome = _load(plan)
    wall = time.perf_counter() - start
    spent = {name: value - before[name] for name, value in asdict(engine.stats).items()}
    _check(outcome, sizes.questions)
    alone = _client_alone(plan, outcome.first_answer)
    rate = outcome.done * sizes.questions / outcome.seconds
    p50, p99 = _percentiles(outcome.latencies)
    extra: dict[str, Any] = {
        "clients": clients,
        "seconds": outcome.seconds,
        "requests": outcome.done,
        "latency_p50_seconds": p50,
        "latency_p99_seconds": p99,
        "client_cpu_seconds": outcome.cpu_seconds,
        "client_alone_requests_per_s": alone,
        "passes": spent["passes"],
        "rows": spent["rows"],
        "device_seconds": spent["device_seconds"],
        "seconds_with_start_and_end": wall,
    }
    if in_process is not None:
        extra["of_in_process"] = rate / in_process.questions_per_s_wall
    return Measurement(
        job=sizes.main,
        path="http",
        contents=outcome.done,
        questions=outcome.done * sizes.questions,
        content_tokens=sizes.content_tokens,
        questions_per_s_wall=rate,
        contents_per_hour=3600 * outcome.done / outcome.seconds,
        wall_seconds=[outcome.seconds],
        extra=extra,
    )


def lines_of(found: Measurement) -> list[str]:
    """What it found, for a person."""
    extra = found.extra
    latency = (
        f"latency p50 {1000 * extra['latency_p50_seconds']:.0f} ms, "
        f"p99 {1000 * extra['latency_p99_seconds']:.0f} ms"
    )
    requests = (
        f"clients alone would do {extra['client_alone_requests_per_s']:.0f} requests/s, "
        f"these were {extra['requests'] / extra['seconds']:.1f}"
    )
    lines = [
        f"{found.job} over HTTP: {found.questions_per_s_wall:.1f} questions/s, "
        + f"{extra['clients']} clients, {latency}",
        f"  {requests}",
    ]
    if "of_in_process" in extra:
        lines.append(f"  {100 * extra['of_in_process']:.1f} % of the rate in process")
    return lines


def _plan(port: int, works: list[Work], clients: int, seconds: float) -> Plan:
    queries = [
        {
            "id": question.id,
            "template": question.prompts[0].text + "{?}",
            "options": list(question.options),
        }
        for question in works[0].questions
    ]
    body = json.dumps(
        {"messages": [{"role": "user", "content": _MARK}], "scoring": {"queries": queries}}
    )
    before, after = body.split(json.dumps(_MARK))
    texts = tuple(work.content for work in works)
    return Plan(port, _SCORE, clients, seconds / 3, seconds, before, after, texts)


def _load(plan: Plan) -> Outcome:
    """The clients in a process of their own, so that they take nothing of the server's Python."""
    done = subprocess.run(
        [sys.executable, "-m", "spinf_serve.http_load"],
        input=json.dumps(asdict(plan)),
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(spinf_serve.__file__).parent.parent,
    )
    if done.returncode:
        raise Unusable(f"the clients failed: {done.stderr.strip().splitlines()[-1]}")
    return Outcome(**json.loads(done.stdout))


def _check(outcome: Outcome, questions: int) -> None:
    if outcome.failed:
        what = ", ".join(f"{name}: {count}" for name, count in outcome.failed.items())
        raise Unusable(f"requests failed under load ({what}); a rate with failures says nothing")
    if not outcome.done:
        raise Unusable(f"no request was answered within {outcome.seconds:.0f} s; take more seconds")
    answered = json.loads(outcome.first_answer)["results"][0]["queries"]
    if len(answered) != questions:
        raise AssertionError(f"{len(answered)} questions were answered, not {questions}")


def _percentiles(latencies: list[float]) -> tuple[float, float]:
    if len(latencies) == 1:
        return latencies[0], latencies[0]
    cuts = quantiles(latencies, n=100, method="inclusive")
    return cuts[49], cuts[98]


@contextmanager
def _serving(engine: Engine, config: ServerConfig, packs: ServedPacks) -> Iterator[int]:
    """The port of a server that answers on this engine until the end of the block."""
    app = create_app(lambda: engine, config, packs)
    listening = bind(config.host, config.port)
    server = uvicorn.Server(http_config(app))
    with _running(lambda: server.run(sockets=[listening]), lambda: _end(server)):
        until = time.monotonic() + _READY_SECONDS
        while not app.state.service.worker.ready:
            if time.monotonic() > until:
                raise Unusable(f"the server was not ready within {_READY_SECONDS:.0f} s")
            time.sleep(0.01)
        yield listening.getsockname()[1]


def _end(server: uvicorn.Server) -> None:
    server.should_exit = True


@contextmanager
def _running(run: Callable[[], object], end: Callable[[], object]) -> Iterator[None]:
    thread = threading.Thread(target=run, name="http", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end()
        thread.join(_READY_SECONDS)


def _client_alone(plan: Plan, answer: str) -> float:
    """Requests a second of the same clients at a server that answers at once and always the same."""
    data = answer.encode()
    reply = f"HTTP/1.1 200 OK\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = head.partition("content-length:")[2].split("\r\n")[0]
                await reader.readexactly(int(length))
                writer.write(reply)
        except EOFError:
            writer.close()

    loop = asyncio.new_event_loop()
    stub = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0))

    def close() -> None:
        loop.call_soon_threadsafe(loop.stop)

    with _running(loop.run_forever, close):
        port = stub.sockets[0].getsockname()[1]
        quick = replace(plan, port=port, warm_seconds=_ALONE_SECONDS / 3, seconds=_ALONE_SECONDS)
        found = _load(quick)
    stub.close()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    return found.done / found.seconds
