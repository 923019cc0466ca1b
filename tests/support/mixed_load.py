"""Small requests beside large ones over HTTP, on the embedded model, and the same works in process.

`OMP_WAIT_POLICY=passive python -m tests.support.mixed_load FILE` writes what it found as JSON: threads
of the forward that wait must not take the cores from the clients. `--check` instead of FILE holds it to
its marks, and ends with 1 where one is missed twice; to be shorter, it reads less in process and leaves
large requests that are under way at the end. Clients run in a process of
their own, each with one request under way, every request with contents that nobody asked about
before. The rate is that of rows read while requests are counted; in process it is measured before
and behind that, on the same kinds of works, since other work on the machine moves both.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx

from spinf_serve.engine.api import Engine, open_engine
from spinf_serve.engine.bench.machine import commit, processor_name
from spinf_serve.engine.bench.workload import closed_questions
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.work import Work
from spinf_serve.server.config import ServerConfig
from tests.support.marks import checked
from tests.support.servers import Running, running
from tests.support.waiting import until


@dataclass(frozen=True, slots=True)
class Kind:
    """One sort of request: how many clients send it, and what is in it."""

    name: str
    clients: int
    contents: int
    content_tokens: float
    questions: int


KINDS = (Kind("small", 28, 1, 40.0, 3), Kind("large", 4, 2, 466.0, 56))
WARM_SECONDS, SECONDS, REQUESTS = 10.0, 60.0, 2000
# Works of each kind that are read in process, in a measurement and in a check.
IN_PROCESS, IN_PROCESS_OF_A_CHECK = 4, 2


def works_of(engine: Engine, kind: Kind, requests: int, seed: int) -> list[list[Work]]:
    """The works of each of some requests."""
    works = closed_questions(
        engine.tokenizer,
        requests * kind.contents,
        kind.questions,
        kind.content_tokens,
        seed=seed,
        distinct=False,
    )
    step = kind.contents
    return [works[at : at + step] for at in range(0, len(works), step)]


def body_of(works: list[Work]) -> str:
    """The request as it is sent."""
    queries = [
        {"id": one.id, "template": one.prompts[0].text + "{?}", "options": list(one.options)}
        for one in works[0].questions
    ]
    entries = [
        {"id": str(n), "messages": [{"role": "user", "content": work.content}]}
        for n, work in enumerate(works)
    ]
    return json.dumps({"inputs": entries, "scoring": {"queries": queries}})


async def _client(
    http: httpx.AsyncClient, name: str, bodies: list[str], end: float, found: list[Any]
) -> None:
    while time.monotonic() < end:
        start = time.monotonic()
        try:
            status = str((await http.post("/v1/score", content=bodies.pop())).status_code)
        except httpx.TransportError as fault:
            status = type(fault).__name__
        found.append((name, start, time.monotonic() - start, status))


async def _clients(plan: dict[str, Any]) -> list[Any]:
    found: list[Any] = []
    end = time.monotonic() + plan["seconds"]
    async with httpx.AsyncClient(base_url=plan["url"], timeout=300, trust_env=False) as http:
        tasks = {
            kind["name"]: [
                asyncio.create_task(_client(http, kind["name"], kind["bodies"], end, found))
                for _ in range(kind["clients"])
            ]
            for kind in plan["kinds"]
        }
        await asyncio.gather(*tasks["small"])
        if plan["leaves"]:
            for task in tasks["large"]:
                task.cancel()
        await asyncio.gather(*tasks["large"], return_exceptions=plan["leaves"])
    return found


def _in_process(engine: Engine, requests: int, seed: int) -> float:
    """Rows a second of works of all kinds, in the proportion that clients are served in."""
    small, large = (works_of(engine, kind, requests, seed) for kind in KINDS)
    works = [work for pair in zip(small, large, strict=True) for one in pair for work in one]
    engine.forget()
    before, start = engine.stats.rows, time.perf_counter()
    engine.run(works)
    return (engine.stats.rows - before) / (time.perf_counter() - start)


def _over_http(server: Running, engine: Engine, leaves: bool) -> dict[str, Any]:
    counts = {"small": REQUESTS, "large": REQUESTS // 20}
    kinds = [
        {
            "name": kind.name,
            "clients": kind.clients,
            "bodies": [body_of(w) for w in works_of(engine, kind, counts[kind.name], seed=7)],
        }
        for kind in KINDS
    ]
    seconds = WARM_SECONDS + SECONDS
    clients = subprocess.Popen(
        [sys.executable, "-m", "tests.support.mixed_load", "--clients"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert clients.stdin is not None
    plan = {"url": server.url, "seconds": seconds, "kinds": kinds, "leaves": leaves}
    clients.stdin.write(json.dumps(plan))
    clients.stdin.close()
    while server.service.admission.in_flight == 0:
        time.sleep(0.01)
    time.sleep(WARM_SECONDS)
    begun, rows, passes = time.monotonic(), engine.stats.rows, engine.stats.passes
    time.sleep(SECONDS - 1)
    rows, passes = engine.stats.rows - rows, engine.stats.passes - passes
    ended = time.monotonic()
    assert clients.stdout is not None
    found = json.loads(clients.stdout.read())
    assert clients.wait(timeout=300) == 0
    # Nothing of requests that were left may be read beside what comes next.
    until(lambda: server.service.admission.in_flight == 0, seconds=60)
    answers = [one for one in found if begun <= one[1] <= ended]
    result: dict[str, Any] = {
        "rows_per_s": rows / (ended - begun),
        "pass_seconds": (ended - begun) / passes,
        "pass_fill": rows / passes / engine.config.pass_tokens,
        "statuses": dict(Counter(one[3] for one in found)),
    }
    for kind in KINDS:
        seconds_of = [one[2] for one in answers if one[0] == kind.name]
        if leaves and kind.name == "large":
            # The slow ones are not among them.
            result[kind.name] = {"answers": len(seconds_of)}
            continue
        cuts = quantiles(seconds_of, n=100, method="inclusive")
        result[kind.name] = {
            "answers": len(seconds_of),
            "p50_seconds": median(seconds_of),
            "p99_seconds": cuts[98],
            "p99_of_p50": cuts[98] / median(seconds_of),
        }
    return result


def measured(engine: Engine, *, check: bool = False) -> dict[str, Any]:
    """What is found with a model that is open."""
    works = IN_PROCESS_OF_A_CHECK if check else IN_PROCESS
    before = _in_process(engine, works, seed=1)
    print(f"{before:.0f} rows/s in process", flush=True)
    engine.forget()
    with running(lambda: engine, ServerConfig()) as server:
        http = _over_http(server, engine, leaves=check)
    behind = _in_process(engine, works, seed=2)
    return {
        "in_process_rows_per_s": [before, behind],
        "http": http,
        "of_in_process": http["rows_per_s"] / median([before, behind]),
    }


def main(out: str) -> int:
    """Measures, prints, and writes the file; or checks. The exit code."""
    engine = open_engine(EngineConfig(model="embedded", device="cpu"), ServerConfig().limits)
    print(f"{engine.served.id} is open", flush=True)
    if out == "--check":
        return checked("mixed-load.json", lambda: measured(engine, check=True))
    facts = {
        "command": f"OMP_WAIT_POLICY=passive python -m tests.support.mixed_load {out}",
        "commit": commit(),
        "processor": processor_name(),
        "model": engine.served.id,
        "token_budget": engine.config.pass_tokens,
        "clients": {kind.name: kind.clients for kind in KINDS},
        **measured(engine),
    }
    text = json.dumps(facts, indent=1) + "\n"
    print(text)
    Path(out).write_text(text)
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "--clients":
        print(json.dumps(asyncio.run(_clients(json.load(sys.stdin)))))
    else:
        sys.exit(main(sys.argv[1]))
