"""A server answers like an engine in this process: the same values, refusals and digests."""

import socket
import threading
import time

import pytest

from spinf_serve.engine.work import Work
from spinf_serve.evals.remote import Remote, open_remote
from spinf_serve.packs.errors import Fault, Refused, Unusable
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.new import starter
from spinf_serve.packs.question import Prompt, Question
from spinf_serve.server.config import ServerConfig
from tests.support.servers import running
from tests.support.stub_engine import NAN, StubEngine


@pytest.fixture(scope="module")
def server():
    with running(lambda: StubEngine().as_engine(), ServerConfig(port=0, debug=True)) as started:
        yield started


@pytest.fixture(scope="module")
def questions():
    text = starter("demo/mood")["pack.yaml"].replace("Topic:", "Topic {{of}}:")
    return read_pack(text.encode(), "pack.yaml").questions


def test_answers_are_those_of_the_engine_bit_for_bit(server, questions):
    remote = open_remote(server.url, None)
    works = [Work(f"Content {number}", questions) for number in range(3)]
    here = StubEngine().run(works)
    for there, result in zip(remote.run(works), here, strict=True):
        for told, own in zip(there.answers, result.answers, strict=True):
            assert (told.id, len(told.prompts)) == (own.id, len(own.prompts))
            for a, b in zip(told.prompts, own.prompts, strict=True):
                assert (a.values, a.residual, a.floor_residual) == (
                    b.values, b.residual, b.floor_residual
                )  # fmt: skip
                assert a.options == b.options


def test_works_of_other_questions_are_asked_apart(server, questions):
    remote = open_remote(server.url, None)
    works = [Work("a", questions[:1]), Work("b", questions[:1]), Work("c", questions[1:])]
    counts = [len(one.answers) for one in remote.run(works)]
    assert counts == [1, 1, len(questions) - 1]


def test_the_model_is_told_and_its_digests_to_whom_the_server_trusts(server):
    engine = StubEngine()
    remote = open_remote(server.url + "/", None)
    assert remote.model == engine.served.id
    assert remote.digests is not None
    assert remote.digests.model == engine.fingerprint.model
    config = ServerConfig(port=0, token="secret-a", trusted_token="secret-b")
    with running(lambda: StubEngine().as_engine(), config) as closed:
        assert open_remote(closed.url, "secret-a").digests is None
        assert open_remote(closed.url, "secret-b").digests == remote.digests
        with pytest.raises(Unusable, match="answered 401: "):
            open_remote(closed.url, None)


def test_a_refusal_names_the_question_and_a_fault_stays_one(server, questions):
    remote = open_remote(server.url, None)
    long = read_pack(
        starter("demo/mood")["pack.yaml"].replace("Topic:", "word " * 300).encode(), "pack.yaml"
    ).questions
    with pytest.raises(Refused) as refused:
        remote.run([Work("a", long)])
    assert (refused.value.code, refused.value.param) == ("template_too_long", "questions.3")
    with pytest.raises(Refused) as refused:
        remote.run([Work("word " * 5000, questions)])
    assert refused.value.code == "content_too_long"
    with pytest.raises(Fault):
        remote.run([Work(f"bad {NAN}", questions)])


def test_a_server_whose_model_loads_is_waited_for():
    opened = threading.Event()
    waits: list[float] = []

    def slow():
        assert opened.wait(30)
        return StubEngine().as_engine()

    def wait(seconds: float) -> None:
        waits.append(seconds)
        opened.set()
        time.sleep(0.05)

    with running(slow, ServerConfig(), wait=False) as loading:
        assert open_remote(loading.url, None, wait).model == "stub/words-1"
    assert waits and set(waits) == {2}


def test_it_is_not_waited_for_for_ever():
    opened = threading.Event()
    waits: list[float] = []

    def never():
        assert opened.wait(30)
        raise ValueError("no model after all")

    with running(never, ServerConfig(), wait=False) as loading:
        with pytest.raises(Unusable, match="still loading its model; waited 1800 s"):
            open_remote(loading.url, None, waits.append)
        assert sum(waits) == 1800
        opened.set()
        while loading.service.worker.load_error is None:
            time.sleep(0.01)
        with pytest.raises(Unusable, match="503"):
            open_remote(loading.url, None, waits.append)
        assert sum(waits) == 1800


@pytest.mark.parametrize("url", ["localhost:80", "ftp://localhost", "http://127.0.0.1:1"])
def test_an_address_that_leads_nowhere_is_one_line(url):
    with pytest.raises(Unusable, match="address is needed|cannot be reached"):
        open_remote(url, None)


def test_a_server_that_falls_silent_is_given_up(monkeypatch):
    monkeypatch.setattr("spinf_serve.evals.remote.SILENT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unusable, match="sent nothing for 0 s"):
            open_remote(url, None)


def answer(**changes):
    option = {"logprob": -0.5, "p": 0.5, "floor_p": None}
    told = {"options": [{"text": text, **option} for text in (" a", " b")]}
    queries = [{"combinations": [{**told, "residual": 0.0, "floor_residual": None, **changes}]}]
    return {"model": "m", "results": [{"queries": queries}]}


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        None,
        {"results": []},
        {"results": None},
        {"results": [{"queries": []}]},
        answer(options=[]),
        answer(options=[{"text": " a", "logprob": "x", "p": 1, "floor_p": None}] * 2),
        answer(options=[{"text": " a", "logprob": float("nan"), "p": 1, "floor_p": None}] * 2),
        answer(residual=True),
    ],
)
def test_an_answer_that_is_none_is_one_line(monkeypatch, body):
    question = Question("q", (Prompt("Is it?", {}),), (" a", " b"), False, False)
    monkeypatch.setattr("spinf_serve.evals.remote.post", lambda *_: (200, answer()))
    remote = Remote("http://there", None, "m", None)
    assert remote.run([Work("a", (question,))])[0].answers[0].prompts[0].residual == 0.0
    monkeypatch.setattr("spinf_serve.evals.remote.post", lambda *_: (200, body))
    with pytest.raises(Unusable, match="http://there answered with something else than scores"):
        remote.run([Work("a", (question,))])


@pytest.mark.parametrize("body", [[], None, {}, {"model": 1}, {"model": "m", "engine": {}}])
def test_a_probe_that_is_not_answered_as_by_this_server_is_one_line(monkeypatch, body):
    monkeypatch.setattr("spinf_serve.evals.remote.post", lambda *_: (200, body))
    with pytest.raises(Unusable, match="answered with something else than scores"):
        open_remote("http://there", None)
