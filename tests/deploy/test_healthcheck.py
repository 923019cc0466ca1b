"""The container's health check: 0 while the server lives, whatever proxies are set, else 1."""

import os
import subprocess
import sys
from pathlib import Path

from spinf_serve.server.config import ServerConfig
from tests.support.servers import running
from tests.support.stub_engine import StubEngine

SCRIPT = Path(__file__).resolve().parent.parent.parent / "deploy" / "healthcheck.py"


def check(port: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "SPINF_PORT": port, "http_proxy": "http://127.0.0.1:9"}
    return subprocess.run(
        [sys.executable, str(SCRIPT)], env=environment, capture_output=True, text=True, check=False
    )


def test_a_server_that_lives_is_healthy_and_one_that_is_gone_is_not():
    config = ServerConfig(token="let-me-in")
    with running(lambda: StubEngine().as_engine(), config) as server:
        port = server.url.rpartition(":")[2]
        ran = check(port)
        assert (ran.returncode, ran.stdout.strip()) == (0, '{"live":true}'), ran.stderr
    ran = check(port)
    assert ran.returncode == 1
    assert ran.stderr.startswith(f"http://127.0.0.1:{port}/livez: ")


def test_a_server_that_loads_is_not_healthy_yet():
    stub = StubEngine()
    stub.gate.clear()

    def slow():
        stub.gate.wait(30)
        return stub.as_engine()

    with running(slow, ServerConfig(), wait=False) as server:
        try:
            ran = check(server.url.rpartition(":")[2])
            assert ran.returncode == 1 and "503" in ran.stderr
        finally:
            stub.gate.set()
