"""The door: who is turned away by a head alone, and in which order a crowd is served."""

import asyncio
import json
import socket
from types import SimpleNamespace
from typing import cast

import pytest

from spinf_serve.engine.api import Priority
from spinf_serve.packs.errors import Busy
from spinf_serve.server.admission import Admission, Bounds
from spinf_serve.server.config import ServerConfig
from spinf_serve.server.door import PLACED_PATHS, Door
from spinf_serve.server.service import Service
from tests.contract.conftest import LIMITS, TOKEN
from tests.contract.test_hostile import JSON_BODIES
from tests.support.servers import Running, request, running
from tests.support.stub_engine import StubEngine
from tests.support.waiting import until

BOUNDS = Bounds(requests=3, size_bytes=10**6, tokens=10**6)


def door_of(bounds: Bounds = BOUNDS, draining: bool = False) -> tuple[Door, Admission]:
    admission = Admission(bounds, lambda: None)

    def check_draining() -> None:
        if draining:
            raise Busy("model_unavailable", "draining", 1)

    service = SimpleNamespace(admission=admission, check_draining=check_draining)
    return Door(cast(Service, service)), admission


def come(count: int, priority: str = "interactive") -> tuple[list[str], Door]:
    """What becomes of requests that come in the same round of the loop, in the order it did."""
    happened: list[str] = []

    async def ask(door: Door, admission: Admission) -> None:
        try:
            await door.enter({"X-Spinf-Priority": priority})
        except Busy:
            happened.append("refused")
            return
        with admission.slot(Priority.INTERACTIVE, 0):
            happened.append("begun")
            await asyncio.sleep(0.01)

    async def all_of_them() -> Door:
        door, admission = door_of()
        await asyncio.gather(*(ask(door, admission) for _ in range(count)))
        # Whoever comes when these are through finds room.
        await ask(door, admission)
        return door

    return happened, asyncio.run(all_of_them())


def test_of_a_crowd_those_without_room_are_told_first():
    happened, _ = come(20)
    assert happened == ["refused"] * 16 + ["begun"] * 4 + ["begun"]


def test_nobody_waits_for_a_crowd_that_does_not_come():
    assert come(1)[0] == ["begun"] * 2


def test_whoever_leaves_at_the_door_gives_the_place_back():
    async def leave() -> None:
        door, admission = door_of()
        for _ in range(3):
            asked = [asyncio.ensure_future(door.enter({})) for _ in range(4)]
            await asyncio.sleep(0)
            for one in asked:
                one.cancel()
            found = await asyncio.gather(*asked, return_exceptions=True)
            assert all(isinstance(one, asyncio.CancelledError) for one in found)
        await door.enter({})
        admission.check_requests(Priority.INTERACTIVE)

    asyncio.run(leave())


def test_a_door_that_drains_lets_nobody_in():
    door, _ = door_of(draining=True)
    with pytest.raises(Busy, match="draining"):
        asyncio.run(door.enter({}))


def test_an_unknown_priority_is_left_to_the_route():
    door = door_of(Bounds(requests=-1, size_bytes=0, tokens=0))[0]
    with pytest.raises(Busy):
        asyncio.run(door.enter({"X-Spinf-Priority": "batch"}))
    # Nobody else would tell of it by its own name.
    asyncio.run(door.enter({"X-Spinf-Priority": "urgent"}))


@pytest.fixture
def full():
    """A server whose places are taken."""
    stub = StubEngine(LIMITS)
    config = ServerConfig(limits=LIMITS, queue=1, token=TOKEN)
    with running(stub.as_engine, config) as server:
        stub.gate.clear()
        body = json.dumps(request()).encode()
        head = b"POST /v1/score HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %b\r\n"
        held = [connection_of(server) for _ in range(2)]
        for one in held:
            one.sendall(head % TOKEN.encode() + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        until(lambda: server.service.admission.in_flight == 2)
        yield server
        stub.gate.set()
        for one in held:
            one.close()


def connection_of(server: Running) -> socket.socket:
    address = (server.http.base_url.host, server.http.base_url.port)
    return socket.create_connection(address, timeout=10)


def told_without_a_body(server: Running, path: str, *more: bytes) -> bytes:
    """The answer to a head whose body never comes."""
    head = [b"POST %b HTTP/1.1" % path.encode(), b"Host: x", b"Content-Length: 500", *more]
    with connection_of(server) as connection:
        connection.sendall(b"\r\n".join(head) + b"\r\n\r\n")
        answer = connection.recv(65536)
        assert b"\r\n\r\n" in answer
    return answer


KEY = b"Authorization: Bearer " + TOKEN.encode()


@pytest.mark.parametrize("path", sorted(PLACED_PATHS))
def test_a_full_server_answers_before_the_body_comes(full, path):
    answer = told_without_a_body(full, path, KEY)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 429 ") and b"\r\nretry-after: 2" in head.lower()
    assert b"\r\nx-request-id: scr_" in head.lower()
    assert b"connection: close" not in head.lower()
    said = json.loads(body)
    if path == "/v1/systemone":
        assert said["detail"]["code"] == "concurrency_limit"
    else:
        assert said["error"]["code"] == "concurrency_limit" and said["request_id"]


def test_a_wrong_key_is_told_before_that(full):
    answer = told_without_a_body(full, "/v1/score", b"Authorization: Bearer wrong")
    assert answer.startswith(b"HTTP/1.1 401 ")


def test_a_batch_has_a_door_of_its_own(full):
    with connection_of(full) as connection:
        body = json.dumps({}).encode()
        connection.sendall(
            b"POST /v1/score HTTP/1.1\r\nHost: x\r\n%b\r\nX-Spinf-Priority: batch\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (KEY, len(body), body)
        )
        assert connection.recv(65536).startswith(b"HTTP/1.1 400 ")


def test_every_route_that_takes_a_place_has_the_door(full):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    bodies = JSON_BODIES | {"/v1/completions": [{"model": "stub", "prompt": "It came"}]}
    # Its body would close the door for all others.
    del bodies["/v0/drain"]
    statuses = {
        path: {full.http.post(path, json=body, headers=headers).status_code for body in some}
        for path, some in bodies.items()
    }
    assert {path for path, found in statuses.items() if 429 in found} == PLACED_PATHS
