"""Threads that compute stand behind those that answer, in the system's own order."""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from spinf_serve.server.config import ServerConfig
from spinf_serve.server.yielding import give_way
from tests.contract.conftest import LIMITS
from tests.support.servers import request, running
from tests.support.stub_engine import StubEngine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has such threads")


def nice() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_a_thread_and_those_that_it_begins_give_way_and_nobody_else():
    before = nice()
    with ThreadPoolExecutor(1, initializer=give_way) as pool:
        behind = pool.submit(nice).result()
        with ThreadPoolExecutor(1) as inner:
            assert pool.submit(lambda: inner.submit(nice).result()).result() == behind
    assert nice() == before < behind


def test_what_computes_in_a_server_gives_way_to_what_answers():
    stub = StubEngine(LIMITS)
    seen: dict[str, int] = {}
    compiled, step = stub.compile, stub.step
    stub.compile = lambda work: (seen.update(host=nice()), compiled(work))[1]  # type: ignore
    stub.step = lambda: (seen.update(engine=nice()), step())[1]  # type: ignore
    others = threading.enumerate()
    with running(stub.as_engine, ServerConfig(limits=LIMITS)) as server:
        assert server.score(request()).status_code == 200
        [http] = [one for one in threading.enumerate() if "(run)" in one.name and one not in others]
        assert http.native_id is not None
        assert os.getpriority(os.PRIO_PROCESS, http.native_id) == nice()
    assert seen["host"] > nice() and seen["engine"] > nice()
