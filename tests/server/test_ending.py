"""The end of a server by a signal: what was begun is answered, what is new is sent elsewhere."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from tests.support.processes import line_with, start_process
from tests.support.servers import request

SERVER = """
import sys, threading, time
from spinf_serve.server.app import create_app, serve
from spinf_serve.server.config import ServerConfig
from tests.support.servers import no_packs
from tests.support.stub_engine import StubEngine

def open_engine():
    stub = StubEngine()
    step = stub.step
    def slow_step():
        print("a pass begins", file=sys.stderr, flush=True)
        time.sleep({pass_seconds})
        return step()
    stub.step = slow_step
    return stub.as_engine()

config = ServerConfig(port=0, shutdown_seconds=20, drain_seconds={drain_seconds}, log_format="json")
serve(create_app(open_engine, config, no_packs()), config)
print("ended")
"""


@contextmanager
def server(
    root, pass_seconds: float, drain_seconds: int
) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    code = SERVER.format(pass_seconds=pass_seconds, drain_seconds=drain_seconds)
    process = start_process(root, [sys.executable, "-c", code])
    try:
        told = json.loads(line_with(process, "listening on"))["message"]
        url = told.split("listening on ")[1].split(";")[0]
        line_with(process, "no model at all")
        with httpx.Client(base_url=url, trust_env=False, timeout=20) as client:
            yield process, client
    finally:
        process.kill()
        process.communicate()


def ended_well(process: subprocess.Popen[str]) -> list[dict[str, object]]:
    """The rest of its log, each line of which is JSON."""
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert out == "ended\n"
    return [json.loads(line) for line in err.splitlines()]


def test_while_a_request_is_finished_new_ones_are_sent_elsewhere(root):
    with server(root, pass_seconds=2, drain_seconds=0) as (process, client):
        # A connection that was there before, and is kept.
        assert client.get("/readyz").status_code == 200
        answers: list[httpx.Response] = []
        asking = threading.Thread(
            target=lambda: answers.append(client.post("/v1/score", json=request()))
        )
        asking.start()
        line_with(process, "a pass begins")
        process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 10
        while client.get("/readyz").status_code == 200:
            assert time.monotonic() < deadline
        refused = client.post("/v1/score", json=request())
        ready, live = client.get("/readyz"), client.get("/livez")
        assert not answers, "the test's pass is too short to see what happens meanwhile"
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "model_unavailable"
        assert int(refused.headers["Retry-After"]) > 0
        assert refused.headers["Connection"] == "close"
        assert (ready.status_code, ready.json()["reason"]) == (503, "draining")
        assert (live.status_code, live.json()) == (200, {"live": True})
        asking.join(20)
        assert answers[0].status_code == 200
        lines = ended_well(process)
    scored = [line for line in lines if line.get("route") == "/v1/score"]
    assert [line["status"] for line in scored] == [503, 200]


def test_an_idle_server_goes_on_saying_that_it_leaves_for_as_long_as_asked(root):
    with server(root, pass_seconds=0, drain_seconds=2) as (process, client):
        process.send_signal(signal.SIGTERM)
        begun = time.monotonic()
        seen = set()
        try:
            while True:
                seen.add(client.get("/readyz").status_code)
                time.sleep(0.02)
        except httpx.TransportError:
            assert time.monotonic() - begun > 1.5
        assert seen <= {200, 503} and 503 in seen
        ended_well(process)


def test_a_second_signal_ends_the_wait(root):
    with server(root, pass_seconds=0, drain_seconds=600) as (process, client):
        process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 10
        while client.get("/readyz").status_code == 200:
            assert time.monotonic() < deadline
        client.close()
        process.send_signal(signal.SIGTERM)
        ended_well(process)
