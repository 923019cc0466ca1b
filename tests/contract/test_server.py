"""How the server behaves besides its answers: tokens, sizes, queue, shared passes, health."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import pytest

from spinf_serve.server.body import FREE_BYTES
from spinf_serve.server.config import ServerConfig
from tests.contract.conftest import LIMITS, TOKEN, TRUSTED_TOKEN
from tests.contract.test_errors import assert_error, assert_works
from tests.support.servers import Running, inputs, question, request, running
from tests.support.stub_engine import POOR, UNMERGED, StubEngine
from tests.support.waiting import until

OPEN = ["/healthz", "/readyz", "/livez"]
TRUSTED = {"Authorization": f"Bearer {TRUSTED_TOKEN}"}
PLAIN = {"Authorization": f"Bearer {TOKEN}"}


def quickest(check) -> float:
    """Least seconds of a few calls, all of which must be true: other work only adds to them."""
    seconds = []
    for _ in range(5):
        start = time.monotonic()
        assert check()
        seconds.append(time.monotonic() - start)
    return min(seconds)


# --- tokens


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/score"),
        ("POST", "/v1/chat/completions"),
        ("GET", "/v1/models"),
        ("GET", "/v1/packs"),
        ("GET", "/v1/packs/spinf/moderation"),
        ("GET", "/docs"),
        ("GET", "/redoc"),
        ("GET", "/openapi.json"),
        ("GET", "/metrics"),
        ("GET", "/"),
        ("GET", "/nowhere"),
        ("GET", "/healthz/"),
        ("GET", "//healthz"),
        ("GET", "/healthz/../v1/models"),
        ("OPTIONS", "/v1/score"),
    ],
)
def test_without_the_token_every_route_but_health_is_closed(guarded, method, path):
    for headers in ({}, {"Authorization": "Bearer"}, {"Authorization": "Bearer x"}):
        answer = guarded.http.request(method, path, headers=headers)
        assert_error(answer, "invalid_token", None)
        assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("path", OPEN)
def test_health_needs_no_token(guarded, path):
    assert guarded.http.get(path).status_code == 200


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/healthz/"])
def test_there_are_no_pages_about_the_api(guarded, path):
    assert guarded.http.get(path, headers=PLAIN).status_code == 404


def test_two_authorization_headers_are_no_token(guarded):
    headers = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer x")]
    assert_error(guarded.http.get("/v1/models", headers=headers), "invalid_token", None)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_both_tokens_are_accepted_whatever_the_case_of_the_scheme(guarded, scheme):
    for token in (TOKEN, TRUSTED_TOKEN):
        answer = guarded.http.get("/v1/models", headers={"Authorization": f"{scheme} {token}"})
        assert answer.status_code == 200


def test_an_open_server_takes_any_header(server):
    assert server.http.get("/v1/models", headers=PLAIN).status_code == 200


# --- trusted callers


def test_only_a_trusted_caller_sees_counters_and_the_engine(guarded):
    plain, trusted = (guarded.score(request(), **who).json() for who in (PLAIN, TRUSTED))
    assert "engine" not in plain and "packed_tokens" not in plain["usage"]
    prints = trusted["engine"]["fingerprint"]
    assert {len(prints["model"]), len(prints["bits"])} == {64}
    assert trusted["system_fingerprint"] == f"fp_{prints['bits'][:10]}"
    assert trusted["usage"]["packed_tokens"] > 0
    assert plain["results"] == trusted["results"]


def test_holders_of_the_only_token_are_trusted_and_debug_shows_counters_to_all():
    engine = StubEngine(LIMITS).as_engine()
    with running(lambda: engine, ServerConfig(token=TOKEN)) as server:
        assert "engine" in server.score(request(), **PLAIN).json()
    with running(lambda: engine, ServerConfig(debug=True)) as server:
        assert "engine" in server.score(request()).json()
        assert "rejected" not in server.score({}).json()
    with running(lambda: engine, ServerConfig(trusted_token=TRUSTED_TOKEN)) as server:
        assert "engine" not in server.score(request()).json()
        assert "engine" in server.score(request(), **TRUSTED).json()


def test_a_trusted_caller_sees_what_was_rejected(guarded):
    answer = guarded.score(request("x", question(options=[])), **TRUSTED).json()
    error = answer["error"]
    assert answer["rejected"] == {key: error[key] for key in ("code", "message", "param")}
    assert "rejected" not in guarded.score({}, **PLAIN).json()


@pytest.mark.parametrize(
    ("limit", "code", "param"),
    [
        ({"max_content_tokens": 1}, "content_too_long", "inputs.0"),
        ({"max_query_tokens": 2}, "template_too_long", "scoring.queries.0.template"),
        ({"max_query_tokens": 3}, "template_too_long", "scoring.queries.1.combinations.1"),
        ({"max_prompts_per_input": 2}, "too_many_prompts", "inputs.0"),
        ({"max_processed_tokens": 20}, "request_too_large", None),
        ({"max_options": 1}, "too_many_options", "scoring.queries.0.options"),
        ({"max_option_tokens": 1}, "option_too_long", "scoring.queries.1.options.1"),
    ],
)
def test_a_trusted_caller_may_lower_a_limit_for_one_call(guarded, limit, code, param):
    grid = question(
        "g",
        template="{A}:{?}",
        options=[" yes", " not so"],
        combinations=[{"A": "a"}, {"A": "b b b"}],
    )
    body = request("It came late.", question(template="\nIs it so{?}"), grid) | {"limits": limit}
    assert_error_of(guarded.score(body, **TRUSTED), code, param)
    assert guarded.score(body, **PLAIN).status_code == 200
    raised = body | {"limits": dict.fromkeys(limit, 10**6)}
    assert guarded.score(raised, **TRUSTED).status_code == 200


def assert_error_of(answer: httpx.Response, code: str, param: str | None):
    error = answer.json()["error"]
    assert (error["code"], error["param"]) == (code, param), answer.text


def test_a_limit_cannot_be_raised(guarded):
    body = request("It came late. " * 100) | {"limits": {"max_content_tokens": 10**9}}
    assert_error_of(guarded.score(body, **TRUSTED), "content_too_long", "inputs.0")


@pytest.mark.parametrize(
    ("field", "param"),
    [
        ({"limits": []}, "limits"),
        ({"limits": {"max_options": 0}}, "limits.max_options"),
        ({"limits": {"max_options": 1.5}}, "limits.max_options"),
        ({"limits": {"max_frames": True}}, "limits.max_frames"),
        ({"features": 1}, "features"),
        ({"features": {"media": ["image", 3]}}, "features.media.1"),
        ({"features": {"extraction": "no"}}, "features.extraction"),
    ],
)
def test_limits_and_features_are_read_for_trusted_callers_only(guarded, field, param):
    assert_error_of(guarded.score(request() | field, **TRUSTED), "invalid_field", param)
    assert guarded.score(request() | field, **PLAIN).status_code == 200


# --- sizes


def padded(size: int) -> bytes:
    """A good body of exactly this many bytes."""
    import json

    raw = json.dumps(request()).encode()
    return raw + b" " * (size - len(raw))


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_one_byte_over_the_limit_is_refused_in_bytes(server, chunked):
    limit = server.config.max_body_bytes

    def send(raw):
        pieces = (raw[at : at + 4096] for at in range(0, len(raw), 4096))
        return server.http.post("/v1/score", content=pieces if chunked else raw)

    assert send(padded(limit)).status_code == 200
    for size in (limit + 1, 50 * limit):
        answer = send(padded(size))
        assert_error(answer, "body_too_large", None)
        message = answer.json()["error"]["message"]
        assert f"{limit} bytes" in message and "token" not in message
        assert_works(server)


def test_an_absurd_content_length_is_refused(server):
    address = (server.http.base_url.host, server.http.base_url.port)
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(
            b"POST /v1/score HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999999999999\r\n\r\n"
        )
        assert connection.recv(100).startswith(b"HTTP/1.1 413")
    assert_works(server)


# --- queue, passes, health


def test_beyond_the_queue_requests_are_turned_away_at_once_and_the_rest_finish(stub, stub_server):
    stub.gate.clear()
    capacity = stub_server.config.queue + 1

    def ask(_: int) -> tuple[httpx.Response, float]:
        start = time.monotonic()
        answer = stub_server.score(request())
        return answer, time.monotonic() - start

    with ThreadPoolExecutor(4 * capacity) as pool:
        asked = [pool.submit(ask, n) for n in range(4 * capacity)]
        until(lambda: sum(one.done() for one in asked) == 3 * capacity)
        for path in OPEN:
            assert quickest(lambda path=path: stub_server.http.get(path).status_code == 200) < 0.1
        stub.gate.set()
        answers = [one.result() for one in asked]
    refused = [(answer, seconds) for answer, seconds in answers if answer.status_code == 429]
    assert len(refused) == 3 * capacity
    assert sum(answer.status_code == 200 for answer, _ in answers) == capacity
    for answer, _ in refused:
        assert_error(answer, "concurrency_limit", None)
        assert answer.headers["Retry-After"] == "2"
    assert sorted(seconds for _, seconds in refused)[len(refused) // 2] < 0.1
    assert_works(stub_server)


def test_requests_that_arrive_together_share_passes(stub, stub_server):
    stub.gate.clear()
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(stub_server.score, request("a"))
        until(lambda: stub.pending == 1)
        others = [pool.submit(stub_server.score, inputs("b", "c")) for _ in range(2)]
        time.sleep(0.1)
        stub.gate.set()
        assert {one.result().status_code for one in (first, *others)} == {200}
    assert stub.passes == [1, 4]


def test_a_client_that_leaves_takes_its_works_along(stub, stub_server):
    stub.gate.clear()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(stub_server.score, request("a"))
        until(lambda: stub.pending == 1)
        with pytest.raises(httpx.ReadTimeout):
            stub_server.http.post("/v1/score", json=inputs("b", "c"), timeout=0.2)
        time.sleep(0.1)
        stub.gate.set()
        assert first.result().status_code == 200
    until(lambda: stub.pending == 0)
    assert stub.passes == [1]
    assert stub.cancelled == 2
    assert_works(stub_server)


def test_a_slow_client_does_not_hold_a_slot(stub_server):
    address = (stub_server.http.base_url.host, stub_server.http.base_url.port)
    head = b"POST /v1/score HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{"
    with ExitStack() as open_until:
        for _ in range(8):
            slow = open_until.enter_context(socket.create_connection(address))
            slow.sendall(head)
        # Whoever comes in the same moment finds them at the door.
        until(lambda: stub_server.score(request()).status_code == 200)
        for _ in range(5):
            assert_works(stub_server)
    assert_works(stub_server)


def stalled(config: ServerConfig, *pieces: bytes) -> bytes:
    """What a client is answered that sends the head of a request and pieces, half a second apart."""
    with running(StubEngine(LIMITS).as_engine, config) as server:
        address = (server.http.base_url.host, server.http.base_url.port)
        with socket.create_connection(address, timeout=20) as connection:
            head = b"POST /v1/score HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
            connection.sendall(head % 400)
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(0.5)
            # To its end: the server closes the connection.
            answer = connection.makefile("rb").read()
        assert_works(server)
    return answer


def test_a_body_that_stalls_is_refused_and_the_connection_closed():
    answer = stalled(ServerConfig(body_idle_seconds=1), b'{"model"')
    assert answer.startswith(b"HTTP/1.1 400") and b"connection: close" in answer.lower()
    assert b'"code":"invalid_json"' in answer
    assert b"stopped after 8 bytes and nothing came for 1 seconds" in answer


def test_a_body_may_come_slowly():
    body = padded(400)
    pieces = [body[at : at + 100] for at in range(0, 400, 100)]
    answer = stalled(ServerConfig(body_idle_seconds=1, keepalive_seconds=1), *pieces)
    assert answer.startswith(b"HTTP/1.1 200")


def test_a_body_that_trickles_for_longer_than_an_answer_may_take_is_refused():
    config = ServerConfig(body_idle_seconds=5, request_seconds=1)
    answer = stalled(config, b" ", b" ")
    assert answer.startswith(b"HTTP/1.1 400") and b"connection: close" in answer.lower()
    assert b"was not whole after 1 seconds" in answer


def test_large_bodies_that_arrive_together_have_bounded_memory():
    mebibyte = 1024 * 1024
    config = ServerConfig(queue_bytes=3 * mebibyte, body_idle_seconds=20)
    head = b"POST /v1/score HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    with running(StubEngine(LIMITS).as_engine, config) as server, ExitStack() as open_until:
        address = (server.http.base_url.host, server.http.base_url.port)
        slow = [
            open_until.enter_context(socket.create_connection(address, timeout=20))
            for _ in range(3)
        ]
        for connection in slow[:2]:
            connection.sendall(head % (2 * mebibyte) + b" " * mebibyte)
        arriving = server.service.arriving
        until(lambda: arriving.held_bytes == 2 * (mebibyte - FREE_BYTES))
        slow[2].sendall(head % (2 * mebibyte) + b" " * (3 * mebibyte // 2))
        answer = b""
        while b"--queue-bytes" not in answer:
            piece = slow[2].recv(4096)
            assert piece, answer
            answer += piece
        assert answer.startswith(b"HTTP/1.1 429") and b"retry-after" in answer.lower()
        # Small ones are not turned away for them.
        assert_works(server)
        for connection in slow:
            connection.close()
        until(lambda: not arriving.held_bytes)
        body = padded(2 * mebibyte - 10)
        assert server.http.post("/v1/score", content=body).status_code == 200


def test_an_engine_thread_that_died_shows_in_livez(stub, stub_server, caplog):
    stub.step_error = ValueError("broken")
    stub.cancel = None
    assert_error(stub_server.score(request()), "engine_error", "inputs.0")
    until(lambda: stub_server.http.get("/livez").status_code == 503)
    assert stub_server.http.get("/readyz").json()["reason"] == "model_unavailable"
    assert_error(stub_server.score(request()), "model_unavailable", None)
    assert "thread died" in caplog.text


def test_a_request_in_work_is_answered_before_the_server_ends():
    stub = StubEngine(LIMITS)
    stub.step_seconds = 0.3
    answers: list[httpx.Response] = []
    with running(stub.as_engine, ServerConfig()) as server:
        asking = threading.Thread(target=lambda: answers.append(server.score(request())))
        asking.start()
        until(lambda: stub.pending == 1)
    asking.join()
    assert answers[0].status_code == 200


def test_an_idle_connection_outlives_five_seconds_of_a_proxy(server):
    assert server.config.keepalive_seconds > 65


def test_health_answers_are_the_documented_ones(server):
    assert server.http.get("/healthz").json() == {"ok": True}
    assert server.http.get("/livez").json() == {"live": True}
    ready = server.http.get("/readyz").json()
    assert ready["ready"] is True
    assert ready["boot"]["model"]
    assert all("X-Request-Id" in server.http.get(path).headers for path in OPEN)


@pytest.mark.parametrize("path", OPEN)
def test_health_answers_a_head_like_a_get_without_the_body(server, path):
    got, head = server.http.get(path), server.http.head(path)
    assert (head.status_code, head.content) == (got.status_code, b"")
    for name in ("content-type", "content-length"):
        assert head.headers[name] == got.headers[name]


# --- warnings


def test_a_question_whose_options_are_improbable_is_warned_of(stub_server):
    poor = question("poor", template=f"\n{POOR}{{?}}", options=["a", "b"])
    steps = question("steps", template=f"\n{POOR}{{?}}", options=["a b", "b"])
    mixed = question("mixed", template="\n{A}{?}", options=["a", "b"])
    mixed["combinations"] = [{"A": POOR}, {"A": "x"}]
    body = stub_server.score(inputs("x", "y") | {"scoring": {"queries": [poor, steps, mixed]}})
    warnings = body.json()["warnings"]
    assert [(entry["code"], entry["input_id"], entry["query_id"]) for entry in warnings] == [
        ("low_option_mass", "0", "poor"),
        ("low_option_mass", "1", "poor"),
    ]
    assert all("%" in entry["message"] for entry in warnings)


def test_a_join_that_could_not_be_merged_is_warned_of(stub_server):
    [warning] = stub_server.score(inputs("x", f"y {UNMERGED}")).json()["warnings"]
    assert (warning["code"], warning["param"]) == ("join_not_merged", "inputs.1")


# --- lists


def test_models_is_one_body_for_three_clients(server):
    body = server.http.get("/v1/models").json()
    [entry], [model] = body["data"], body["models"]
    assert body["object"] == "list"
    assert entry.keys() == {"id", "object", "created", "owned_by"}
    assert (entry["object"], type(entry["created"])) == ("model", int)
    assert model["id"] == entry["id"]
    for key in ("name", "description", "release_date", "family", "base_model"):
        assert isinstance(model[key], str)
    assert model["status"] == "available"
    assert {"spinf-12b", "jev-latest"} <= set(model["aliases"])
    assert model["capabilities"] == ["score", "extract", "generate"]
    assert model["media"] == []
    assert model["features"] == {"media": [], "extraction": True, "generation": True}
    assert model["limits"]["max_content_tokens"] == LIMITS.max_content_tokens
    for name in (model["id"], model["name"], *model["aliases"]):
        assert server.score(request() | {"model": name.upper()}).status_code == 200


def test_no_packs_are_served(server):
    assert server.http.get("/v1/packs").json() == {"packs": [], "sources": [], "faults": []}


def test_scoring_needs_no_content_type(server: Running):
    raw = padded(400)
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        answer = server.http.post("/v1/score", content=raw, headers={"Content-Type": kind})
        assert answer.status_code == 200
