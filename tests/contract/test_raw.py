"""/v0/score: prompts as they are, for trusted callers, on every engine that is served."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from spinf_serve.engine.api import Engine
from spinf_serve.engine.work import Work
from spinf_serve.packs.errors import Refused
from spinf_serve.server.config import ServerConfig
from spinf_serve.server.openapi.routes import operations
from spinf_serve.server.wire.raw_jobs import in_place
from tests.contract.conftest import ENGINES, LIMITS, TOKEN, TRUSTED_TOKEN
from tests.contract.test_errors import assert_error
from tests.contract.test_openapi import SCHEMAS, assert_told, scheme, shape
from tests.support.servers import Running, request, running
from tests.support.stub_engine import SERVED
from tests.support.waiting import until

CONTENT = "The kettle arrived broken, and I want my money back."
TEMPLATE = "\nIn short, the customer is"
OPTIONS = [" no", " very glad", " tired of waiting"]


@pytest.fixture(scope="module", name="kept", params=ENGINES)
def _kept(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """A server with both kinds of keys and a decision log."""
    config = ServerConfig(
        limits=LIMITS,
        token=TOKEN,
        trusted_token=TRUSTED_TOKEN,
        decision_log=str(tmp_path_factory.mktemp("log") / "log.db"),
    )
    with running(request.param, config) as server:
        yield server


def post(server: Running, body: Any, key: str = TRUSTED_TOKEN, path: str = "/v0/score"):
    headers = {"Authorization": f"Bearer {key}"}
    answer: httpx.Response = server.http.post(path, json=body, headers=headers)
    return answer


def job(id: str = "a", prompts: Any = (CONTENT + TEMPLATE,), options: Any = None) -> dict[str, Any]:
    listed = [OPTIONS for _ in prompts] if options is None else options
    return {"id": id, "prompts": list(prompts), "options": listed}


def answered(server: Running, *jobs: dict[str, Any]) -> dict[str, Any]:
    answer = post(server, {"jobs": list(jobs)})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def test_an_answer_has_the_documented_shape(kept):
    body = answered(kept, job("a"), job("b", ["One", "Two"], [[" x"], [" y", " z"]]))
    assert list(body) == ["results", "usage", "timing", "engine"]
    first, second = body["results"]
    assert list(first) == ["id", "logprobs", "packed_tokens", "trees"]
    assert (first["id"], second["id"]) == ("a", "b")
    assert [len(row) for row in first["logprobs"]] == [3]
    assert [len(row) for row in second["logprobs"]] == [1, 2]
    assert all(value <= 0 for one in body["results"] for row in one["logprobs"] for value in row)
    packed = sum(one["packed_tokens"] for one in body["results"])
    assert body["usage"]["packed_tokens"] == packed > 0
    assert body["usage"]["forwards"] >= 1
    assert body["timing"].keys() == {"wall_s", "gpu_busy_s"}
    assert body["timing"]["wall_s"] >= body["timing"]["gpu_busy_s"] >= 0
    assert body["engine"].keys() == {"model", "revision", "family", "fingerprint"}


@pytest.mark.weights
@pytest.mark.slow
def test_what_is_read_is_what_counts_however_it_is_called(kept):
    if kept.service.worker.engine.served.id == SERVED.id:
        pytest.skip("the stub answers from contents and questions, not from what is read")
    raw = answered(kept, job("a", [CONTENT + TEMPLATE, "Something else:"]))["results"][0]
    logprobs = raw["logprobs"][0]

    def scored(content: str, template: str) -> list[float]:
        query = {"id": "q", "template": template + "{?}", "options": OPTIONS[:2]}
        scoring = {"queries": [query], "precision": "full", "case_insensitive": False}
        body = {"messages": [{"role": "user", "content": content}], "scoring": scoring}
        found = post(kept, body, path="/v1/score").json()["results"][0]["queries"][0]
        return [option["logprob"] for option in found["combinations"][0]["options"]]

    # A content and a question about it are added up apart, and so end in other last bits.
    assert scored(CONTENT, TEMPLATE) == pytest.approx(logprobs[:2], abs=1e-4)
    # Nothing that is asked beside it moves any.
    assert answered(kept, job("z"))["results"][0]["logprobs"] == [logprobs]
    alone = answered(kept, job("z", [CONTENT + TEMPLATE], [OPTIONS[:2]]))
    assert alone["results"][0]["logprobs"] == [logprobs[:2]]
    assert scored("", CONTENT + TEMPLATE) == logprobs[:2]
    # A spelling counts for itself alone.
    spelt = answered(kept, job("z", [CONTENT + TEMPLATE], [[" no", " No"]]))
    (row,) = spelt["results"][0]["logprobs"]
    assert row[0] == logprobs[0] and len(set(row)) == 2


def test_the_documents_example_runs(kept):
    (operation,) = [one for one in operations() if one.name == "raw"]
    (example,) = operation.examples
    answer = post(kept, example.sent)
    assert answer.status_code == 200
    assert_told("raw", answer)
    assert SCHEMAS.faults(scheme(200, operation), example.got) == []
    assert shape(example.got | {"engine": 0}) == shape(answer.json() | {"engine": 0})


def test_only_trusted_callers_are_answered(kept):
    for key in (TOKEN, "another"):
        assert_error(post(kept, {"jobs": [job()]}, key), "invalid_token", None)


BAD: list[tuple[str, str | None, Any]] = [
    ("invalid_field", "jobs", {}),
    ("invalid_field", "jobs", {"jobs": []}),
    ("invalid_field", "jobs", {"jobs": [job(str(number)) for number in range(1001)]}),
    ("invalid_field", "model", {"jobs": [job()], "model": "x"}),
    ("invalid_field", "jobs.0", {"jobs": [3]}),
    ("invalid_field", "jobs.0.id", {"jobs": [{"prompts": [], "options": []}]}),
    ("invalid_field", "jobs.0.id", {"jobs": [job("x" * 129)]}),
    ("duplicate_id", "jobs.1.id", {"jobs": [job("a"), job("a")]}),
    ("invalid_field", "jobs.0.floor", {"jobs": [job() | {"floor": True}]}),
    ("invalid_field", "jobs.0.prompts", {"jobs": [{"id": "a", "options": []}]}),
    ("invalid_field", "jobs.0.options", {"jobs": [{"id": "a", "prompts": ["x"]}]}),
    ("too_many_prompts", "jobs.0.prompts", {"jobs": [job("a", [])]}),
    ("too_many_prompts", "jobs.0.prompts", {"jobs": [job("a", ["x"] * 201)]}),
    ("invalid_field", "jobs.0.options", {"jobs": [job("a", ["x"], [])]}),
    ("invalid_field", "jobs.0.prompts.1", {"jobs": [job("a", ["x", 3])]}),
    ("invalid_field", "jobs.0.options.0", {"jobs": [job("a", ["x"], [" y"])]}),
    ("invalid_field", "jobs.0.options.0.1", {"jobs": [job("a", ["x"], [[" y", None]])]}),
    ("invalid_field", "jobs.0.options.0.0", {"jobs": [job("a", ["x"], [[""]])]}),
    ("too_many_options", "jobs.0.options.0", {"jobs": [job("a", ["x"], [[]])]}),
    ("duplicate_option", "jobs.0.options.0.1", {"jobs": [job("a", ["x"], [[" y", " y"]])]}),
    ("content_too_long", "jobs.0.prompts.0", {"jobs": [job("a", ["a b " * 400])]}),
    ("request_too_large", None, {"jobs": [job(str(n), ["a b " * 150]) for n in range(40)]}),
]


@pytest.mark.parametrize(("code", "param", "body"), BAD)
def test_a_bad_body_is_refused_with_its_path(kept, code, param, body):
    assert_error(post(kept, body), code, param)


def test_what_the_engine_refuses_is_named_where_it_stands_here():
    for theirs, here in {
        "jobs.3.prompts.2.options.1": "jobs.3.options.2.1",
        "jobs.3.prompts.2.template": "jobs.3.prompts.2",
        "jobs.3": "jobs.3",
        None: None,
    }.items():
        placed = in_place(Refused("invalid_field", "is not to be read", theirs))
        assert (placed.code, placed.message, placed.param) == (
            "invalid_field",
            "is not to be read",
            here,
        )


def test_a_refusal_of_the_engine_comes_with_that_place(kept, monkeypatch):
    def compile(_self: Engine, work: Work) -> Any:
        raise Refused("invalid_field", "this is not to be read", "questions.0.options.1")

    monkeypatch.setattr(type(kept.service.worker.engine), "compile", compile)
    assert_error(post(kept, {"jobs": [job()]}), "invalid_field", "jobs.0.options.0.1")


def test_half_a_character_is_refused(kept):
    headers = {"Authorization": f"Bearer {TRUSTED_TOKEN}", "Content-Type": "application/json"}
    body = json.dumps({"jobs": [job("a", ["half \ud83d"])]})
    answer = kept.http.post("/v0/score", content=body, headers=headers)
    assert_error(answer, "invalid_field", "jobs.0.prompts.0")


def test_nothing_of_it_is_in_the_decision_log(kept):
    def written() -> float:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        families = text_string_to_metric_families(kept.http.get("/metrics", headers=headers).text)
        (found,) = [one for one in families if one.name == "spinf_decision_log_written"]
        return float(found.samples[0].value)

    before = written()
    answered(kept, job(), job("b"))
    assert post(kept, request(), path="/v1/score").status_code == 200
    # It is written in the order of the answers.
    until(lambda: written() > before)
    assert written() == before + 1
