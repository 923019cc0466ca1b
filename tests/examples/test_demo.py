"""The demo as a newcomer runs it: a server starts, answers make sense, nothing stays behind."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

DEMO = Path(__file__).resolve().parent.parent.parent / "examples" / "demo.py"
# A newcomer's proxy knows nothing of this machine; the demo must not ask it.
BEHIND_A_PROXY = dict.fromkeys(("http_proxy", "HTTP_PROXY", "all_proxy"), "http://127.0.0.1:9")

pytestmark = pytest.mark.weights


def start() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-u", str(DEMO)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **BEHIND_A_PROXY},
    )


@pytest.fixture(scope="module")
def output() -> str:
    demo = start()
    said, _ = demo.communicate(timeout=180)
    assert demo.returncode == 0, said
    return said


def test_the_table_names_the_sensible_answers(output):
    marked = re.findall(r"^.{14}(.{13}).{27}<", output, re.MULTILINE)
    assert [option.strip() for option in marked] == [
        "a refund",
        "angry",
        "refund",
        "sorry",
        "headphones",
        "broken",
        "missing",
        "fine",
    ]


def test_every_row_holds_p_floor_and_lift(output):
    rows = re.findall(r" (\d\.\d{3}) +(\d\.\d{3}) +([+-]\d\.\d{3})", output)
    assert len(rows) == 24
    for p, floor_p, lift in rows:
        assert abs(float(p) - float(floor_p) - float(lift)) < 0.0016


def test_the_stand_in_is_called_one(output):
    assert "stand-in" in output


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_stopping_the_demo_stops_its_server(stop):
    demo = start()
    server = wait_for_child(demo)
    demo.send_signal(stop)
    demo.communicate(timeout=60)
    assert demo.returncode == 128 + stop
    assert not server.is_running() or server.status() == psutil.STATUS_ZOMBIE


def wait_for_child(demo: subprocess.Popen[str]) -> psutil.Process:
    assert demo.stdout is not None
    # Said just before the server starts.
    demo.stdout.readline()
    for _ in range(600):
        children = psutil.Process(demo.pid).children()
        if children and "serve" in children[0].cmdline():
            return children[0]
        assert demo.poll() is None
        time.sleep(0.02)
    raise AssertionError("the demo started no server")
