"""Bounds of a connection: heads that are too large or too slow, and clients that hold one for nothing."""

import asyncio
import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from uvicorn.server import ServerState

from spinf_serve.server.app import create_app, http_config
from spinf_serve.server.config import ServerConfig
from spinf_serve.server.connection import (
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    REASONS,
    Connection,
    Connections,
    Patience,
)
from tests.contract.conftest import LIMITS
from tests.contract.test_errors import assert_works
from tests.support.servers import Running, no_packs, request, running
from tests.support.stub_engine import StubEngine
from tests.support.waiting import until

GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
QUICK = ServerConfig(
    limits=LIMITS, head_seconds=1, body_idle_seconds=1, answer_idle_seconds=1, keepalive_seconds=2
)


@pytest.fixture(scope="module")
def quick() -> Iterator[Running]:
    with running(StubEngine(LIMITS).as_engine, QUICK) as it:
        yield it


@contextmanager
def connected(server: Running) -> Iterator[socket.socket]:
    address = (server.http.base_url.host, server.http.base_url.port)
    with socket.create_connection(address, timeout=20) as connection:
        yield connection


def read_all(connection: socket.socket) -> bytes:
    with connection.makefile("rb") as stream:
        return stream.read()


def ended(server: Running, reason: str) -> float:
    text = server.http.get("/metrics").text
    [found] = re.findall(rf'spinf_connections_ended_total{{reason="{reason}"}} (\S+)', text)
    return float(found)


def refused(server: Running, sent: bytes, status: int, reason: str) -> bytes:
    """The answer to bytes behind which the server closes the connection."""
    before = ended(server, reason)
    with connected(server) as connection:
        connection.sendall(sent)
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"connection: close" in head
    assert list(json.loads(body)) == ["detail"]
    assert ended(server, reason) == before + 1
    assert_works(server)
    return body


def headers(count: int, size: int = 1) -> bytes:
    return b"".join(b"x-%d: %b\r\n" % (n, b"v" * size) for n in range(count))


def test_a_head_within_its_bounds_is_answered(quick):
    for more in (headers(MAX_HEADERS - 1), headers(10, MAX_HEAD_BYTES // 11)):
        with connected(quick) as connection:
            connection.sendall(GET + more + b"\r\n")
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "more",
    [
        headers(MAX_HEADERS) + b"\r\n",
        headers(9000),
        headers(9000, 100),
        headers(2, MAX_HEAD_BYTES // 2) + b"\r\n",
        b"x: " + b"v" * 4 * MAX_HEAD_BYTES,
        b"x" * 4 * MAX_HEAD_BYTES,
    ],
    ids=["one too many", "many", "many and long", "long", "one without end", "a name without end"],
)
def test_a_head_beyond_them_is_not_read_to_its_end(quick, more):
    body = refused(quick, GET + more, 431, "head_too_large")
    assert str(MAX_HEADERS).encode() in body


def test_a_target_without_end_is_a_head_too(quick):
    refused(quick, b"GET /" + b"x" * 4 * MAX_HEAD_BYTES, 431, "head_too_large")


def test_trailers_of_a_body_are_bounded_like_headers(quick):
    post = (
        b"POST /v1/score HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    )
    before = ended(quick, "head_too_large")
    with connected(quick) as connection:
        connection.sendall(post + headers(9000))
        # Nothing, or the answer to the body: never one that only begins.
        assert b"HTTP/1.1 2" not in read_all(connection)
    assert ended(quick, "head_too_large") == before + 1


@pytest.mark.parametrize(
    "sent", [b"\x16\x03\x01\x02\x00", b"GET / HTTP/9.9\r\n\r\n", b"hello\r\n\r\n"]
)
def test_what_is_no_http_is_told_so(quick, sent):
    refused(quick, sent, 400, "not_http")


def test_a_head_that_trickles_is_given_up(quick):
    before = ended(quick, "head_too_slow")
    with connected(quick) as connection:
        connection.settimeout(0.2)
        begun, answer = time.monotonic(), b""
        connection.sendall(GET)
        while not answer:
            assert time.monotonic() < begun + 10
            connection.sendall(b"x: y\r\n")
            try:
                answer = connection.recv(65536)
            except TimeoutError:
                continue
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert time.monotonic() - begun >= 1
    assert ended(quick, "head_too_slow") == before + 1
    assert_works(quick)


def test_a_client_that_says_nothing_is_let_go(quick):
    before = ended(quick, "idle")
    with connected(quick) as connection:
        assert read_all(connection) == b""
    assert ended(quick, "idle") == before + 1


def test_each_request_of_a_connection_has_the_time_of_a_head_again(quick):
    with connected(quick) as connection:
        for _ in range(3):
            for piece in (GET[:9], GET[9:] + b"\r\n"):
                connection.sendall(piece)
                time.sleep(0.6)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")


def test_a_body_that_nobody_reads_is_not_awaited_for_ever(quick):
    before = ended(quick, "body_abandoned")
    with connected(quick) as connection:
        connection.sendall(b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n")
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 404")
    assert ended(quick, "body_abandoned") == before + 1


def test_behind_a_body_that_nobody_read_the_connection_goes_on(quick):
    body = b"x" * 300_000
    post = b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    with connected(quick) as connection:
        for _ in range(2):
            connection.sendall(post)
            assert connection.recv(65536).startswith(b"HTTP/1.1 404")
            connection.sendall(body)
        connection.sendall(GET + b"\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")


def test_requests_that_are_sent_at_once_are_answered_in_turn(quick):
    with connected(quick) as connection:
        connection.sendall((GET + b"\r\n") * 3)
        got = b""
        while got.count(b'{"ok":true}') < 3:
            piece = connection.recv(65536)
            assert piece
            got += piece


@pytest.mark.parametrize("protocol", [b"h2c", b"websocket"])
@pytest.mark.parametrize("chunked", [False, True])
def test_nobody_is_upgraded_and_everybody_answered(quick, protocol, chunked):
    body = json.dumps(request()).encode()
    framed = (
        b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"
        if chunked
        else b"Content-Length: %d\r\n\r\n%b"
    ) % (len(body), body)
    post = b"POST /v1/score HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: %b\r\n%b" % (
        protocol,
        framed,
    )
    with connected(quick) as connection:
        for _ in range(2):
            connection.sendall(post)
            answer = b""
            while b'"results"' not in answer:
                piece = connection.recv(65536)
                assert piece, answer
                answer += piece
            assert answer.startswith(b"HTTP/1.1 200")


def test_a_stream_that_nobody_reads_gives_its_place_back():
    stub = StubEngine()
    config = ServerConfig(answer_idle_seconds=1, max_completion_tokens=1_000_000)
    body = {"model": "stub", "prompt": "It came " * 50, "max_tokens": 1_000_000, "stream": True}
    with running(stub.as_engine, config) as server, connected(server) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        endless(stub)
        sent = json.dumps(body).encode()
        connection.sendall(
            b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b"
            % (len(sent), sent)
        )
        until(lambda: server.service.admission.in_flight == 1)
        until(lambda: server.service.admission.in_flight == 0, 30)
        until(lambda: not stub.pending)
        assert ended(server, "answer_not_read") == 1
        assert_works(server)


def endless(stub: StubEngine) -> None:
    """Has the stub write pieces without end."""
    compiled = stub.compile_generation

    def compile_generation(wanted, on_text):
        job = compiled(wanted, on_text)
        assert job.writes is not None
        job.writes.pieces = Pieces()
        return job

    stub.compile_generation = compile_generation  # type: ignore[method-assign]


class Pieces(list[str]):
    """More text, whatever was taken."""

    def __bool__(self) -> bool:
        return True

    def pop(self, index: int = -1) -> str:  # type: ignore[override]
        return "word " * 2000


class Buffered(asyncio.Transport):
    """A transport whose client reads what a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting_bytes = 0
        self.aborted = self.closed = False

    def get_write_buffer_size(self) -> int:
        return self.waiting_bytes

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True


@pytest.mark.parametrize(
    ("waiting", "aborted"),
    [
        ([9, 8, 7, 6, 5, 4], False),
        ([9, 9, 8, 8, 7, 7], False),
        ([0, 9, 9, 0, 9, 9], False),
        ([9, 9, 9], True),
        ([9, 10, 11], True),
        ([9, 8, 8, 8], True),
    ],
)
def test_an_answer_may_be_read_slowly_and_not_left_unread(waiting, aborted):
    async def looked_at() -> bool:
        app = create_app(StubEngine().as_engine, ServerConfig(), no_packs())
        config = http_config(app)
        config.load()
        connections = Connections(Patience(idle=1000, head=1000, rest=1000, answer=1.5))
        given = {"config": config, "server_state": ServerState(), "app_state": {}}
        connection = Connection(connections, **given)
        transport = Buffered()
        connection.connection_made(transport)
        for second, size in enumerate(waiting):
            transport.waiting_bytes = size
            connection.look(second)
        assert connections.ended["answer_not_read"] == transport.aborted
        connections.discard(connection)
        return transport.aborted

    assert asyncio.run(looked_at()) is aborted


def test_every_reason_is_counted_from_the_start(quick):
    app = create_app(StubEngine().as_engine, ServerConfig(), no_packs())
    assert set(app.state.connections.ended) == set(REASONS)
    assert all(ended(quick, reason) >= 0 for reason in REASONS)
