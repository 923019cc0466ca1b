"""The unmodified spinf-client against a running server."""

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import spinf_client.client  # type: ignore[import-untyped]
from spinf_client.client import SpinfClient, SpinfError, query, text

from spinf_serve.server.config import ServerConfig
from tests.contract.conftest import LIMITS, TOKEN
from tests.support.servers import request, running
from tests.support.stub_engine import StubEngine

LATE = query("late", "\nWas it late? Answer:{?}", options=[" yes", " no"])
SAYS = query(
    "says",
    "\nDoes it mention {F}? Answer:{?}",
    options=[" yes", " no"],
    combinations=[{"F": "damage"}, {"F": "a refund"}],
    empty_floor=False,
)


@pytest.fixture
def client(server):
    with SpinfClient(base_url=server.url) as client:
        yield client


def instead_of_waiting(monkeypatch: pytest.MonkeyPatch, wait: Callable[[float], None]) -> None:
    """Gives the client, and nobody else, another way to wait."""
    monkeypatch.setattr(spinf_client.client, "time", SimpleNamespace(sleep=wait))
    monkeypatch.setattr(spinf_client.client, "random", SimpleNamespace(random=lambda: 0.0))


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the client waits between tries, without waiting."""
    found: list[float] = []
    instead_of_waiting(monkeypatch, found.append)
    return found


def test_one_content_is_scored(client):
    out = client.score(content=[text("It came late.")], queries=[LATE, SAYS], endpoint="desk")
    assert (out["model"], out["endpoint"]) == ("spinf-12b", "desk")
    late, says = out["results"][0]["queries"]
    assert [option["text"] for option in late["combinations"][0]["options"]] == [" yes", " no"]
    assert [entry["values"]["F"] for entry in says["combinations"]] == ["damage", "a refund"]


def test_many_contents_are_scored_with_shared_and_own_queries(client):
    entries = [
        {"id": "a", "content": [text("It came late.")]},
        {"id": "b", "messages": [{"role": "user", "content": "Thanks."}], "queries": [SAYS]},
    ]
    out = client.score(inputs=entries, queries=[LATE], case_insensitive=False)
    assert [entry["input_id"] for entry in out["results"]] == ["a", "b"]
    assert [len(entry["queries"]) for entry in out["results"]] == [1, 2]


def test_a_raw_body_and_the_model_list(client):
    assert client.request(request())["object"] == "score"
    models = client.models()["models"]
    assert client.score(content=[text("x")], queries=[LATE], model=models[0]["id"])["results"]


def test_packs_are_listed_as_none_and_refused_by_name(client, waits):
    assert client.list_packs() == {"packs": [], "sources": [], "faults": []}
    for call in (client.get_pack, lambda: client.moderate("x")):
        with pytest.raises(SpinfError) as caught:
            call()
        assert caught.value.code == "unknown_pack"
    assert waits == []


@pytest.mark.parametrize(
    ("ask", "status", "code", "param"),
    [
        (
            lambda client: client.score(content=[text("x")], queries=[LATE], model="other"),
            400,
            "model_not_served",
            "model",
        ),
        (
            lambda client: client.score(content=[text("x")], queries=[{**LATE, "options": ["a", "a"]}]),
            400,
            "duplicate_option",
            "scoring.queries.0.options.1",
        ),
        (
            lambda client: client.score(content=[text("late " * 3000)], queries=[LATE]),
            400,
            "content_too_long",
            "inputs.0",
        ),
        (
            lambda client: client.score(content=[text("late " * 30_000)], queries=[LATE]),
            413,
            "body_too_large",
            None,
        ),
        (lambda client: client.account(), 404, "error", None),
    ],
)  # fmt: skip
def test_a_refusal_is_raised_at_once(
    client, waits, ask: Callable[[SpinfClient], object], status, code, param
):
    with pytest.raises(SpinfError) as caught:
        ask(client)
    assert (caught.value.status, caught.value.code, caught.value.param) == (status, code, param)
    assert waits == []
    assert client.score(content=[text("x")], queries=[LATE])["results"]


def test_a_wrong_key_is_raised_at_once_and_the_right_one_works(guarded, waits):
    with (
        SpinfClient(api_key="no", base_url=guarded.url) as client,
        pytest.raises(SpinfError) as caught,
    ):
        client.models()
    assert (caught.value.status, caught.value.code) == (401, "invalid_token")
    assert waits == []
    with SpinfClient(api_key=TOKEN, base_url=guarded.url) as client:
        assert client.score(content=[text("x")], queries=[LATE])["results"]


def test_a_full_queue_is_tried_again_after_what_the_server_says(stub, stub_server, monkeypatch):
    waits: list[float] = []

    def wait(seconds: float):
        waits.append(seconds)
        stub.gate.set()
        for thread in threads:
            thread.join()

    stub.gate.clear()
    threads = [threading.Thread(target=stub_server.score, args=[request()]) for _ in range(3)]
    for thread in threads:
        thread.start()
    while stub_server.service.admission.in_flight < 3:
        time.sleep(0.005)
    instead_of_waiting(monkeypatch, wait)
    with SpinfClient(base_url=stub_server.url) as client:
        assert client.score(content=[text("x")], queries=[LATE])["results"]
    assert waits == [2.0]


def test_a_server_that_warms_up_is_tried_again(monkeypatch):
    loading = threading.Event()
    waits: list[float] = []

    def open_engine():
        loading.wait(30)
        return StubEngine(LIMITS).as_engine()

    with running(open_engine, ServerConfig(), wait=False) as server:

        def wait(seconds: float):
            waits.append(seconds)
            loading.set()
            while server.http.get("/readyz").status_code != 200:
                time.sleep(0.005)

        instead_of_waiting(monkeypatch, wait)
        with SpinfClient(base_url=server.url) as client:
            assert client.score(content=[text("x")], queries=[LATE])["results"]
    assert waits == [10.0]
