"""Priorities, deadlines, clients that leave, and what is turned away: seen over HTTP."""

import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from spinf_serve.engine.api import Priority
from spinf_serve.server.config import ServerConfig
from tests.contract.conftest import LIMITS
from tests.contract.test_errors import assert_error, assert_works
from tests.engine.test_api import fake
from tests.support.servers import inputs, question, request, running
from tests.support.stub_engine import StubEngine
from tests.support.waiting import until

BATCH = {"X-Spinf-Priority": "batch"}


def test_works_of_a_request_share_a_turn_that_says_whose_they_are(stub, stub_server):
    assert stub_server.score(inputs("a", "b")).status_code == 200
    assert stub_server.score(request("c"), **BATCH).status_code == 200
    first, second, batch = stub.turns
    assert first is second is not None
    assert (first.caller, first.priority) == ("address:127.0.0.1", Priority.INTERACTIVE)
    assert (batch.caller, batch.priority) == ("address:127.0.0.1", Priority.BATCH)


def test_completions_and_chats_are_texts_and_slots_are_scoring(stub, stub_server):
    line = question(template='\nIn one line: "{*}"', generate=True) | {"options": None}
    turn = [{"role": "user", "content": "It came late."}]
    for path, body, writes in (
        ("score", request("It came late.", line), False),
        ("chat/completions", request("It came late."), False),
        ("chat/completions", {"messages": turn}, True),
        ("completions", {"prompt": "It came"}, True),
    ):
        answer = stub_server.http.post(f"/v1/{path}", json=body)
        assert answer.status_code == 200, answer.text
        assert stub.turns[-1].writes is writes
        assert stub.turns[-1].priority is Priority.INTERACTIVE


@pytest.mark.parametrize(
    "headers", [{"X-Spinf-Priority": "urgent"}, {"X-Request-Deadline-Ms": "soon"}]
)
def test_a_header_that_says_nothing_known_is_refused(headers, stub_server):
    answer = stub_server.score(request(), **headers)
    assert_error(answer, "invalid_field", None)
    assert next(iter(headers)) in answer.json()["error"]["message"]


@pytest.mark.parametrize("by_header", [True, False])
def test_what_is_late_is_dropped_and_answered_504(stub, by_header):
    config = ServerConfig(limits=LIMITS, request_seconds=600 if by_header else 1)
    headers = {"X-Request-Deadline-Ms": "200"} if by_header else {}
    with running(stub.as_engine, config) as server, ThreadPoolExecutor(1) as pool:
        stub.gate.clear()
        first = pool.submit(server.score, request("a"), **{"X-Request-Deadline-Ms": "900"})
        until(lambda: stub.pending == 1)
        start = time.monotonic()
        late = server.score(inputs("b", "c"), **headers)
        seconds = time.monotonic() - start
        assert late.status_code == 504
        assert_error(late, "deadline_exceeded", None)
        assert (0.2 if by_header else 1.0) <= seconds < (0.7 if by_header else 1.9)
        assert first.result().status_code == 504
        assert server.service.admission.in_flight == 0
        stub.gate.set()
        # The pass that had begun held the first alone, and nothing of the second ever ran.
        assert_works(server)
        assert stub.passes == [1, 1]


def test_a_client_that_leaves_gives_its_slot_back_while_the_pass_still_runs(stub, stub_server):
    stub.gate.clear()
    with pytest.raises(httpx.ReadTimeout):
        stub_server.http.post("/v1/score", json=request("a"), timeout=0.2)
    until(lambda: stub_server.service.admission.in_flight == 0)
    assert stub.passes == []
    stub.gate.set()
    assert_works(stub_server)


def test_the_engine_reads_nothing_for_a_client_that_left_but_the_pass_that_runs(gated):
    made, server = gated
    long = [question(f"q{n}", template=f"\n{n} late? Answer:{{?}}") for n in range(30)]
    body = request("word " * 40, *long)
    with pytest.raises(httpx.ReadTimeout):
        server.http.post("/v1/score", json=body, timeout=0.5)
    until(lambda: server.service.admission.in_flight == 0)
    assert made.begun == 1
    assert made.engine.schedule.rows > 640
    made.may_begin.release(1)
    # The worker takes the cancel before it begins another pass.
    until(lambda: made.engine.pending == 0)
    assert len(made.engine.schedule) == made.engine.schedule.rows == 0
    made.may_begin.release(1000)
    assert server.score(request("x")).status_code == 200
    [left, *others] = fake(made.engine).trees
    assert others and not left & set().union(*others)


def test_a_batch_takes_no_place_of_others(stub, stub_server):
    stub.gate.clear()
    room = stub_server.config.queue + 1
    with ThreadPoolExecutor(2 * room) as pool:
        batch = [pool.submit(stub_server.score, request("b"), **BATCH) for _ in range(room)]
        until(lambda: stub_server.service.admission.held[Priority.BATCH].requests == room)
        assert_error(stub_server.score(request("b"), **BATCH), "concurrency_limit", None)
        others = [pool.submit(stub_server.score, request("a")) for _ in range(room)]
        until(lambda: stub_server.service.admission.in_flight == 2 * room)
        stub.gate.set()
        assert {one.result().status_code for one in (*batch, *others)} == {200}
    assert stub_server.service.admission.in_flight == 0


@pytest.mark.parametrize("bound", [{"queue_bytes": 4000}, {"queue_tokens": 500}])
def test_large_requests_are_turned_away_before_there_are_many(bound):
    stub = StubEngine(LIMITS)
    with running(stub.as_engine, ServerConfig(limits=LIMITS, **bound)) as server:
        # Measured at some tokens a second, so that clients can be told when to come back.
        stub.step_seconds = 0.1
        assert_works(server)
        stub.gate.clear()
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(server.score, request("word " * 200, *_many(15)))
            until(lambda: stub.pending == 1)
            refused = server.score(request("word " * 200, *_many(15)))
            assert_error(refused, "concurrency_limit", None)
            assert 1 <= int(refused.headers["Retry-After"]) <= 60
            assert any(str(value) in refused.json()["error"]["message"] for value in bound.values())
            assert server.service.admission.in_flight == 1
            stub.gate.set()
            assert first.result().status_code == 200
            assert server.score(request("word " * 200, *_many(15))).status_code == 200


def _many(count: int) -> list[dict[str, object]]:
    return [
        question(f"q{n}", template=f"\nIs it {n} days late? Answer:{{?}}") for n in range(count)
    ]
