"""Four times as many requests at once as the queue takes, at the real server on the embedded model.

`python -m tests.support.overload FILE [BEFORE]` writes what it found as JSON; BEFORE is a checkout of
an earlier commit, measured in turn with this one, without the libraries of HTTP that it did not ask
for. `--check` instead of FILE holds this checkout to its marks, and ends with 1 where one is missed
twice. The clients are one process of plain sockets; the health routes are asked on new connections all
the while, as whoever restarts servers does.
"""

import contextlib
import json
import os
import re
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from spinf_serve.engine.bench.machine import processor_name
from spinf_serve.server.config import ServerConfig
from tests.support.marks import checked

ROOT = Path(__file__).parents[2]
CAPACITY = ServerConfig().queue + 1
TIMES = 4
WAVES = 2
WAYS = {"new connections": False, "connections open before": True}
"""Name -> whether connections are open before the requests come."""
PROBE_SECONDS = 0.01
PROBED = "/livez"
_READY_SECONDS = 120.0
_WAVE_SECONDS = 300.0
# Neither is imported by a server that begins like this, whatever is installed.
_PLAIN = (
    "import sys; sys.modules['uvloop'] = sys.modules['httptools'] = None; "
    "from spinf_serve.cli import main; main()"
)


@dataclass(slots=True)
class _Asked:
    """A request under way: its socket, what of it is not sent yet, what has come, and since when."""

    connection: socket.socket
    unsent: bytes
    probe: bool
    start: float
    came: bytearray = field(default_factory=bytearray)

    @property
    def status(self) -> int | None:
        """The status, once the whole answer is there."""
        head, found, body = self.came.partition(b"\r\n\r\n")
        if not found:
            return None
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        if length is None or len(body) < int(length[1]):
            return None
        return int(head[9:12])


def wave(port: int, requests: list[bytes], *, opened: bool) -> dict[str, list[Any]]:
    """Sends everything at once; [status, seconds] of each request and of each health check.

    Args:
        opened: whether the connections are open before; else the time to open them counts.
    """
    connections = [_connection(port) for _ in requests] if opened else []
    # A connection is open for its client before the server has taken it up.
    time.sleep(0.5 if opened else 0.0)
    selector = selectors.DefaultSelector()
    found: dict[str, list[Any]] = {"requests": [], "probes": []}

    def ask(request: bytes, probe: bool, connection: socket.socket | None = None) -> None:
        start = time.perf_counter()
        asked = _Asked(connection or _connection(port), request, probe, start)
        selector.register(asked.connection, selectors.EVENT_WRITE, asked)

    probe = f"GET {PROBED} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
    for number, request in enumerate(requests):
        ask(request, False, connections[number] if opened else None)
    next_probe = begun = time.perf_counter()
    while len(found["requests"]) < len(requests):
        now = time.perf_counter()
        assert now < begun + _WAVE_SECONDS, Counter(one[0] for one in found["requests"])
        if now >= next_probe:
            ask(probe, True)
            next_probe = now + PROBE_SECONDS
        for key, events in selector.select(max(0.0, next_probe - now)):
            asked: _Asked = key.data
            if events & selectors.EVENT_WRITE:
                asked.unsent = asked.unsent[asked.connection.send(asked.unsent) :]
                if not asked.unsent:
                    selector.modify(asked.connection, selectors.EVENT_READ, asked)
                continue
            piece = asked.connection.recv(65536)
            asked.came += piece
            status = asked.status
            if status is None and piece:
                continue
            selector.unregister(asked.connection)
            asked.connection.close()
            kind = "probes" if asked.probe else "requests"
            found[kind].append([status or 0, time.perf_counter() - asked.start])
    for key in list(selector.get_map().values()):
        key.data.connection.close()
    return found


def _connection(port: int) -> socket.socket:
    connection = socket.socket()
    connection.setblocking(False)
    connection.connect_ex(("127.0.0.1", port))
    return connection


def request_bytes(number: int) -> bytes:
    """A small request with a content that no other has."""
    query = {"id": "q", "template": "\nIs it late? Answer:{?}", "options": [" yes", " no"]}
    content = f"Case {number} came at {time.time_ns() % 10**9}."
    body = json.dumps(
        {"messages": [{"role": "user", "content": content}], "scoring": {"queries": [query]}}
    )
    return (
        f"POST /v1/score HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    ).encode()


@contextlib.contextmanager
def _serving(checkout: Path, before: bool) -> Iterator[int]:
    """The port of a server of a checkout; its log goes to a file."""
    command = ["-c", _PLAIN] if before else ["-m", "spinf_serve"]
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, *command, "serve", "embedded", "--device", "cpu", "--port", "0"],
            cwd=checkout,
            env=environment,
            stdout=log,
            stderr=log,
        )
        try:
            yield _port(process, log)
        finally:
            process.terminate()
            assert process.wait(timeout=60) == 0


def _port(process: "subprocess.Popen[bytes]", log: Any) -> int:
    deadline = time.monotonic() + _READY_SECONDS
    while True:
        log.seek(0)
        text = log.read().decode()
        address = re.search(r"listening on http://127\.0\.0\.1:(\d+)", text)
        if address and " is ready after " in text:
            return int(address[1])
        assert process.poll() is None and time.monotonic() < deadline, text
        time.sleep(0.1)


def measured(port: int, *, opened: bool) -> dict[str, Any]:
    """What some waves found, and the time of a lone request before them; times in milliseconds."""
    alone = min(wave(port, [request_bytes(n)], opened=opened)["requests"][0][1] for n in range(5))
    waves = [
        wave(port, [request_bytes(n) for n in range(TIMES * CAPACITY)], opened=opened)
        for _ in range(WAVES)
    ]
    refused = [[1e3 * s for status, s in one["requests"] if status == 429] for one in waves]
    probes = [[1e3 * s for _, s in one["probes"]] for one in waves]
    statuses = Counter(str(status) for one in waves for status, _ in one["requests"])
    answered = [[s for status, s in one["requests"] if status == 200] for one in waves]
    return {
        "statuses": dict(statuses),
        "statuses_of_health": dict(Counter(str(s) for one in waves for s, _ in one["probes"])),
        "alone_ms": 1e3 * alone,
        "refused_median_ms": [median(one) for one in refused],
        "refused_slowest_ms": [max(one) for one in refused],
        "health_median_ms": [median(one) for one in probes],
        "health_slowest_ms": [max(one) for one in probes],
        "answered_slowest_s": [max(one) for one in answered],
    }


def _in_a_process(port: int, opened: bool) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.support.overload", "--clients", str(port)]
    done = subprocess.run(
        [*command, "opened" if opened else "new"], stdout=subprocess.PIPE, check=True, cwd=ROOT
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _commit(checkout: Path) -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=checkout, stdout=subprocess.PIPE, check=True
    )
    return done.stdout.decode().strip()


def check() -> int:
    """Holds a server of this checkout to its marks. The exit code."""
    with _serving(ROOT, False) as port:
        return checked("overload.json", lambda: {"queue": CAPACITY - 1, "after": _both_ways(port)})


def _both_ways(port: int) -> dict[str, Any]:
    return {name: _in_a_process(port, opened) for name, opened in WAYS.items()}


def main(out: str, before: str | None = None) -> None:
    """Measures, prints, and writes the file."""
    sides = [("after", ROOT)]
    if before is not None:
        sides.insert(0, ("before", Path(before).resolve()))
    facts: dict[str, Any] = {
        "command": f"python -m tests.support.overload {out}"
        + ("" if before is None else " CHECKOUT_OF_BEFORE"),
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "queue": CAPACITY - 1,
        "requests_at_once": TIMES * CAPACITY,
        "health_route": f"{PROBED} every {1e3 * PROBE_SECONDS:.0f} ms, on new connections",
        "each_wave_is": "one number of each list",
        "a_request_is": "one content of some ten tokens and one question",
    }
    with contextlib.ExitStack() as servers:
        # All of them first: a start takes longer than what is measured.
        ports = {
            side: servers.enter_context(_serving(checkout, side == "before"))
            for side, checkout in sides
        }
        for side, checkout in sides:
            facts[side] = {"commit": _commit(checkout)}
        for name, opened in WAYS.items():
            for side, port in ports.items():
                facts[side][name] = _in_a_process(port, opened)
                print(side, name, json.dumps(facts[side][name]), flush=True)
    Path(out).write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "--clients":
        print(json.dumps(measured(int(sys.argv[2]), opened=sys.argv[3] == "opened")))
    elif sys.argv[1] == "--check":
        sys.exit(check())
    else:
        main(*sys.argv[1:3])
