"""Running a server: addresses, the end by a signal, set-up problems in one line."""

import gc
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time

import httpx
import pytest

from spinf_serve.packs.errors import Unusable
from spinf_serve.server import app as app_module
from spinf_serve.server.app import SWITCH_SECONDS, bind, create_app, for_good, serve
from spinf_serve.server.config import ServerConfig
from tests.support.processes import line_with, start_process
from tests.support.servers import no_packs, request
from tests.support.stub_engine import StubEngine


def test_a_busy_port_is_one_line_with_the_remedy():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(Unusable, match=f"port {port} of 127.0.0.1 is in use.*--port"):
            bind("127.0.0.1", port)


@pytest.mark.parametrize("host", ["203.0.113.7", "no host", "a" * 300, "\udc80"])
def test_an_address_that_is_not_ours_is_one_line(host):
    with pytest.raises(Unusable, match="--host .* is no address of this machine"):
        bind(host, 0)


def test_a_port_may_be_taken_again_at_once():
    first = bind("127.0.0.1", 0)
    port = first.getsockname()[1]
    with socket.create_connection(("127.0.0.1", port)) as client:
        accepted, _ = first.accept()
        accepted.close()
        client.recv(1)
    first.close()
    bind("127.0.0.1", port).close()


SERVER = """
import sys, threading
from spinf_serve.packs.errors import Unusable
from spinf_serve.server.app import create_app, serve
from spinf_serve.server.config import ServerConfig
from tests.support.servers import no_packs
from tests.support.stub_engine import StubEngine

def open_engine():
    {opening}

config = ServerConfig(port=0, token="hidden-token", shutdown_seconds={grace})
try:
    serve(create_app(open_engine, config, no_packs()), config)
except Unusable as fault:
    print("error:", fault, file=sys.stderr)
    sys.exit(2)
print("ended")
"""
SLOW_ENGINE = """
import time
stub = StubEngine()
step = stub.step
def slow_step():
    print("a pass begins", file=sys.stderr, flush=True)
    time.sleep(1)
    return step()
stub.step = slow_step
return stub.as_engine()
"""
AUTH = {"Authorization": "Bearer hidden-token"}


def start(root, opening: str, grace: int = 1) -> subprocess.Popen[str]:
    indented = textwrap.indent(textwrap.dedent(opening), "    ").strip()
    code = SERVER.format(opening=indented, grace=grace)
    return start_process(root, [sys.executable, "-c", code])


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_after_the_requests_in_work(root, stop):
    process = start(root, SLOW_ENGINE, grace=20)
    try:
        url = line_with(process, "listening on").split("listening on ")[1].split(";")[0]
        with httpx.Client(base_url=url, trust_env=False, headers=AUTH) as client:
            line_with(process, "no model at all")
            answers: list[httpx.Response] = []
            body = request("words that stay private")
            asking = threading.Thread(
                target=lambda: answers.append(client.post("/v1/score?x=1", json=body))
            )
            asking.start()
            line_with(process, "a pass begins")
            process.send_signal(stop)
            asking.join(20)
            assert answers[0].status_code == 200
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert out == "ended\n"
    said = out + err
    assert "POST /v1/score" in said
    assert "hidden-token" not in said and "private" not in said
    assert "Traceback" not in said


STALLED = b"POST /v1/score HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n%s\r\n{"


def test_a_client_that_stalls_in_its_body_does_not_keep_the_server_from_ending(root):
    process = start(root, "return StubEngine().as_engine()")
    try:
        url = httpx.URL(line_with(process, "listening on").split("listening on ")[1].split(";")[0])
        line_with(process, "no model at all")
        with socket.create_connection((url.host, url.port), timeout=20) as stalled:
            stalled.sendall(STALLED % b"Authorization: Bearer hidden-token\r\n")
            with httpx.Client(base_url=url, trust_env=False, headers=AUTH) as client:
                assert client.get("/healthz").status_code == 200
            begun = time.monotonic()
            process.send_signal(signal.SIGTERM)
            answer = stalled.makefile("rb").read()
        _, err = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    # A second of grace; the rest is a slow machine.
    assert 1 <= time.monotonic() - begun < 15
    assert answer.startswith(b"HTTP/1.1 503") and b"shutting down" in answer
    assert "Traceback" not in err


def test_a_model_that_a_person_must_mend_ends_the_server_with_one_line(root):
    process = start(root, "raise Unusable('no weights here: run make setup')")
    try:
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 2
    assert err.count("no weights here: run make setup") == 1
    assert "Traceback" not in err


def test_what_is_loaded_for_good_is_not_looked_through_for_garbage_again():
    engine = StubEngine().as_engine()
    gc.unfreeze()
    try:
        assert for_good(lambda: engine)() is engine
        assert gc.get_freeze_count() > 1000
    finally:
        gc.unfreeze()


def test_threads_that_compute_let_go_of_python_soon_while_a_server_runs(monkeypatch):
    seen: list[float] = []

    class Server:
        def __init__(self, *_: object, **__: object) -> None:
            self.should_exit = False

        def run(self, sockets: list[socket.socket]) -> None:
            seen.append(sys.getswitchinterval())
            sockets[0].close()

    monkeypatch.setattr(app_module, "DrainingServer", Server)
    monkeypatch.setattr(app_module, "http_config", lambda *_, **__: None)
    config = ServerConfig(port=0)
    before = sys.getswitchinterval()
    try:
        serve(create_app(StubEngine().as_engine, config, no_packs()), config)
    finally:
        sys.setswitchinterval(before)
    assert seen == [pytest.approx(SWITCH_SECONDS)] and SWITCH_SECONDS < before
