"""Clients that keep a server busy, in a process of their own: `python -m spinf_serve.http_load`.

The plan comes as JSON on stdin, what happened goes as JSON to stdout. Plain asyncio streams: a
client must cost far less than what it measures.
"""

import asyncio
import json
import random
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Plan:
    """What the clients do.

    Attributes:
        port: of the server on 127.0.0.1.
        path: of the POST.
        clients: connections, each with one request under way.
        warm_seconds: at the beginning, not counted.
        seconds: that are counted.
        before, after: of a body, around the content as a JSON string.
        texts: contents; each request takes one with its sentences in another order, so that it is
            as long as that one and nobody has seen it before.
        seed: of the orders.
    """

    port: int
    path: str
    clients: int
    warm_seconds: float
    seconds: float
    before: str
    after: str
    texts: tuple[str, ...]
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened in the counted time.

    Attributes:
        done: requests that ended in it with status 200.
        failed: status or error -> requests, in the whole time.
        latencies: seconds of the requests that count.
        first_answer: body of the first answer.
        cpu_seconds: of this process, in the whole time.
        seconds: that are counted.
    """

    done: int
    failed: dict[str, int]
    latencies: list[float]
    first_answer: str
    cpu_seconds: float
    seconds: float


class _Clients:
    """The connections and what they saw."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._ended: list[tuple[float, float]] = []
        self._failed: dict[str, int] = {}
        self._first = ""
        self._sentences = [text.split(". ") for text in plan.texts]

    async def run(self) -> Outcome:
        plan = self._plan
        begin = time.perf_counter()
        counted = begin + plan.warm_seconds
        until = counted + plan.seconds
        await asyncio.gather(*(self._client(number, until) for number in range(plan.clients)))
        latencies = [end - start for start, end in self._ended if counted <= end <= until]
        return Outcome(
            len(latencies), self._failed, latencies, self._first, time.process_time(), plan.seconds
        )

    async def _client(self, number: int, until: float) -> None:
        draw = random.Random(f"{self._plan.seed} {number}")
        while time.perf_counter() < until:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self._plan.port)
                try:
                    while time.perf_counter() < until:
                        await self._ask(reader, writer, self._body(draw))
                finally:
                    writer.close()
            except (OSError, EOFError) as fault:
                self._count(type(fault).__name__)
                await asyncio.sleep(0.1)

    async def _ask(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes
    ) -> None:
        head = (
            f"POST {self._plan.path} HTTP/1.1\r\nHost: 127.0.0.1:{self._plan.port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        start = time.perf_counter()
        writer.write(head.encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status, length = _read_head(answer)
        data = await reader.readexactly(length)
        end = time.perf_counter()
        if status != 200:
            self._count(str(status))
            # A refusal costs the server little; asking again at once would only add to its load.
            await asyncio.sleep(0.05)
            return
        self._ended.append((start, end))
        self._first = self._first or data.decode()

    def _body(self, draw: random.Random) -> bytes:
        sentences = draw.choice(self._sentences).copy()
        draw.shuffle(sentences)
        content = json.dumps(". ".join(sentences))
        return f"{self._plan.before}{content}{self._plan.after}".encode()

    def _count(self, what: str) -> None:
        self._failed[what] = self._failed.get(what, 0) + 1


def _read_head(answer: str) -> tuple[int, int]:
    """Status and length of the body."""
    first, *lines = answer.split("\r\n")
    for line in lines:
        name, _, value = line.partition(":")
        if name.lower() == "content-length":
            return int(first.split(" ", 2)[1]), int(value)
    raise EOFError("the answer does not say how long it is")


def main() -> None:
    """Carries a plan out."""
    given: dict[str, Any] = json.load(sys.stdin)
    plan = Plan(**{**given, "texts": tuple(given["texts"])})
    json.dump(asdict(asyncio.run(_Clients(plan).run())), sys.stdout)


if __name__ == "__main__":
    main()
