"""The OpenAPI document: it is the kept one, names every route and field, and its examples run."""

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from starlette.routing import Route

from spinf_serve.engine.work import Limits
from spinf_serve.packs.errors import CODES
from spinf_serve.server.app import create_app
from spinf_serve.server.batches import reading
from spinf_serve.server.config import ServerConfig
from spinf_serve.server.openapi import asking
from spinf_serve.server.openapi.document import document
from spinf_serve.server.openapi.operation import Operation
from spinf_serve.server.openapi.routes import operations
from spinf_serve.server.openapi.slots import SEARCHED_TEMPLATE
from spinf_serve.server.wire import (
    content,
    decisions,
    inputs,
    media,
    pack_refs,
    slots,
    spinf,
    systemone,
    texts,
)
from tests.contract.conftest import LIMITS, TOKEN
from tests.support import api_page, documents
from tests.support.openapi_schemas import Schemas, references, resolved
from tests.support.served_packs import fitted, served_from, write_packs
from tests.support.servers import Running, no_packs, question, request, running
from tests.support.servers import inputs as several
from tests.support.stub_engine import StubEngine

KEPT = api_page.kept()
SCHEMAS = Schemas(KEPT)
SENT = [
    (one, example) for one in operations() for example in one.examples if one.tag != "operations"
]
"""Those that any caller may send."""


def scheme(status: int, operation: Operation, kept: Any = KEPT) -> Any:
    """The schema of an operation's JSON answer with a status."""
    responses = kept["paths"][operation.path][operation.method]["responses"]
    response = responses[str(status)]
    response = resolved(kept, response["$ref"]) if "$ref" in response else response
    return response["content"]["application/json"]["schema"]


def by_name(name: str) -> Operation:
    return next(one for one in operations() if one.name == name)


def assert_told(name: str, answer: Any) -> None:
    """Fails unless an answer is as the document says and holds nothing that it does not say."""
    schema = scheme(answer.status_code, by_name(name))
    assert SCHEMAS.faults(schema, answer.json()) == [], answer.text
    assert list(SCHEMAS.unnamed(schema, answer.json())) == []


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """A server on the stub with the limits that nobody configured."""
    with running(lambda: StubEngine().as_engine(), ServerConfig()) as it:
        yield it


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with packs, whose client is a trusted caller."""
    folder = tmp_path_factory.mktemp("packs") / "given"
    contexts = {"email": fitted()["contexts"]["email"]}
    write_packs(
        folder,
        fitted(),
        fitted(pack="demo/draft", model="other/model", contexts=contexts),
        fitted(pack="demo/long", on_long={"chunk": "max"}, contexts=contexts),
    )
    packs = served_from(folder)
    (folder / "broken.json").write_text('{"pack": "demo/broken", "scoring": 1}')
    packs.refresh()
    config = ServerConfig(token=TOKEN)
    with running(lambda: StubEngine(LIMITS).as_engine(), config, packs=packs) as it:
        it.http.headers["Authorization"] = f"Bearer {TOKEN}"
        yield it


def test_the_document_is_kept():
    assert json.loads((documents.DOCS / "openapi.json").read_text("utf-8")) == KEPT


def test_a_server_serves_it(server):
    answer = server.http.get("/openapi.json")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == KEPT


def test_a_server_serves_its_own_limits():
    config = ServerConfig(limits=LIMITS, max_body_bytes=4096)
    with running(lambda: StubEngine(LIMITS).as_engine(), config) as server:
        served = server.http.get("/openapi.json").json()
    assert served == document(LIMITS, 4096) != KEPT
    options = served["components"]["schemas"]["Query"]["properties"]["options"]
    assert options["maxItems"] == LIMITS.max_options
    for number in (4096, LIMITS.max_content_tokens, LIMITS.max_processed_tokens):
        assert f" {number} " in served["info"]["description"]


def test_a_server_that_is_loading_serves_it():
    stub = StubEngine()
    stub.gate.clear()

    def slow() -> Any:
        stub.gate.wait(30)
        return stub.as_engine()

    with running(slow, ServerConfig(), wait=False) as server:
        try:
            assert server.http.get("/readyz").status_code == 503
            assert_told("readyz", server.http.get("/readyz"))
            assert_told("livez", server.http.get("/livez"))
            assert server.http.get("/openapi.json").json() == KEPT
        finally:
            stub.gate.set()


def test_a_guarded_server_wants_the_token():
    with running(lambda: StubEngine().as_engine(), ServerConfig(token=TOKEN)) as server:
        answer = server.http.get("/openapi.json")
        assert answer.status_code == 401
        assert_told("openapi", answer)


def test_every_route_is_told_and_every_told_route_is_there():
    app = create_app(lambda: StubEngine().as_engine(), ServerConfig(), no_packs())
    there = set()
    for route in _routes(app.router):
        for method in route.methods or ():
            path = re.sub(r"{(pack|model)_id:path}", "{id}", route.path)
            there.add((method.lower(), path))
    assert len(there) > 20
    assert {(one.method, one.path) for one in operations()} == there


def _routes(router: Any) -> Iterator[Route]:
    for route in router.routes:
        # Of a router that was included there is a stand-in.
        if hasattr(route, "original_router"):
            yield from _routes(route.original_router)
        else:
            assert isinstance(route, Route)
            yield route


def test_its_schemas_are_schemas_and_its_references_lead_somewhere():
    for schema in KEPT["components"]["schemas"].values():
        jsonschema_rs.meta.validate(schema)
    found = set(references(KEPT))
    for reference in found:
        resolved(KEPT, reference)
    for kind in ("schemas", "responses", "headers"):
        for name in KEPT["components"][kind]:
            assert f"#/components/{kind}/{name}" in found, f"{name} is not used"


def test_it_says_every_code_with_its_status():
    said = set()
    for path in KEPT["paths"].values():
        for operation in path.values():
            for status, response in operation["responses"].items():
                said |= {(code, int(status)) for code in _codes(response)}
    assert {(code.name, code.status) for code in CODES.values()} <= said


def _codes(response: Any) -> Iterator[str]:
    """The codes that a response tells, but not those of the error that all have in common."""
    if isinstance(response, dict):
        yield from response.get("code", {}).get("enum", [])
        named = response.get("$ref", "")
        if named.startswith("#/components/responses/"):
            yield from _codes(resolved(KEPT, named))
        response = list(response.values())
    if isinstance(response, list):
        for value in response:
            yield from _codes(value)


READ = {
    "SystemOneRequest": systemone._BODY,
    "DecisionsRequest": decisions._BODY,
    "BatchRequest": reading._CREATE,
    "ScoreRequest": spinf._BODY,
    "ChatRequest": spinf._BODY,
    "Scoring": spinf._SCORING,
    "CallLimits": frozenset(Limits.__dataclass_fields__),
    "Features": spinf._FEATURES,
    "Input": inputs._INPUT,
    "Query": inputs._QUERY - set(slots.SLOT_FIELDS),
    "SearchedSlot": inputs._QUERY - {"empty_floor"},
    "WrittenSlot": inputs._QUERY - {"empty_floor"},
    "CompletionRequest": texts._COMPLETION,
    "ChatTextRequest": texts._CHAT | {"scoring"},
    "ChatMessage": texts._MESSAGE,
    "Message": content._MESSAGE,
    "PackReference": pack_refs._PACK,
    "Decision": pack_refs._DECISION,
    "Image": media._IMAGE_KEYS,
}


@pytest.mark.parametrize("name", READ)
def test_it_names_the_fields_that_are_read(name):
    assert set(KEPT["components"]["schemas"][name]["properties"]) == READ[name]


@pytest.mark.parametrize(
    ("operation", "example"), SENT, ids=[f"{one.name}-{example.name}" for one, example in SENT]
)
def test_its_examples_run(server, operation, example):
    path = operation.path
    for name, value in example.given.items():
        path = path.replace(f"{{{name}}}", value)
    answer = server.http.request(operation.method, path, json=example.sent)
    assert answer.status_code == min(operation.replies), answer.text
    assert_told(operation.name, answer)
    schema = scheme(answer.status_code, operation)
    assert SCHEMAS.faults(schema, example.got) == []
    assert shape(example.got) == shape(answer.json())


def shape(value: Any) -> Any:
    """The value without its numbers and texts, but for the ids and texts of the request."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        kinds = [shape(item) for item in value]
        # Of texts there may be any number: aliases of a model, say.
        return ["text"] if set(map(str, kinds)) == {"text"} else kinds
    kinds_of: dict[type, str] = {str: "text", float: "number", int: "whole", bool: "flag"}
    return kinds_of.get(type(value), "null")


def test_probabilities_that_it_shows_sum_to_one():
    for _, example in SENT:
        for result in example.got.get("results", []):
            for query in result["queries"]:
                for combination in query["combinations"]:
                    ps = [option["p"] for option in combination["options"]]
                    assert abs(sum(ps) - 1) < 1e-5


def test_templates_are_told_as_they_are_read():
    for template, fits in {
        "\nLate?{?}": True,
        "{{{name}}} and }} {?}": True,
        "no slot": False,
        "{?} behind": False,
        "{na me}{?}": False,
        "}{?}": False,
        "{n}{?}": True,
    }.items():
        found = SCHEMAS.faults({"type": "string", "pattern": asking.TEMPLATE}, template)
        assert (found == []) is fits, template


WORDS = " ".join(f"word{n}" for n in range(600))
SLOTS: list[dict[str, Any]] = [
    {"id": "text", "template": 'Who? "{*}"', "top_k": 2, "max_tokens": 4, "group": "g"},
    {"id": "number", "template": "How many{n}", "calibration": {"a": 2}, "generate": None},
    {"id": "amount", "template": "{X}{$}", "combinations": "all", "values": {"X": ["a", "b"]}},
    {"id": "written", "template": "{*}.", "generate": True, "max_tokens": 90},
    {"id": "drawn", "template": "{*}", "generate": {"temperature": 1, "n": 2}},
]


@pytest.mark.parametrize(
    "body",
    [
        request("It came late.", precision="full"),
        request("It came late.", question("q", group="g", empty_floor=False)),
        {**several("a", "b"), "endpoint": "desk", "model": "stub"},
        request("1,234 of 5 % on $3.", *SLOTS),
        {**request("x"), "limitz": 1, "limits": {"max_options": 3}, "features": {"media": []}},
        request("x", packs=[{"id": "demo/draft"}]),
        request("x", packs=[{"id": "demo/support", "include_queries": True}]),
        request("x", packs=[{"id": "demo/support", "decision": {"mode": "max"}}]),
        request("x", packs=[{"id": "demo/support", "decision": {"mode": "per_category"}}]),
        {
            "inputs": [{"id": "long", "messages": [{"role": "user", "content": WORDS}]}],
            "scoring": {"packs": [{"id": "demo/long"}]},
        },
    ],
    ids=lambda body: str(body.get("scoring"))[:40],
)
def test_it_tells_everything_that_is_answered(packed, body):
    assert SCHEMAS.faults(scheme_of_body("score"), body) == []
    answer = packed.score(body)
    assert answer.status_code == 200, answer.text
    assert_told("score", answer)
    chat = packed.http.post("/v1/chat/completions", json=body)
    assert_told("chat", chat)


def scheme_of_body(name: str) -> Any:
    body = KEPT["paths"][by_name(name).path]["post"]["requestBody"]
    return body["content"]["application/json"]["schema"]


def test_it_tells_every_answer_to_closed_questions(packed):
    questions = {
        "a.b": {"type": "noul", "colour": 1},
        "c": {"type": "choice", "criteria": {"x": None, "y": {"long": 1}}, "instructions": []},
        "d": {"type": "score", "criteria": ["low", {"level": 1}]},
    }
    body = {"model": "jev-latest", "state": ["x"], "questions": questions, "extra": 1}
    for name in ("systemone", "decisions"):
        answer = packed.http.post(by_name(name).path, json=body)
        assert answer.status_code == 200, answer.text
        assert answer.json()["x_warnings"]
        assert_told(name, answer)
    named = {"type": "choice", "name": "n", "instructions": "Which?", "colour": 1}
    choices = [{"value": True}, {"value": "true", "description": "the word"}]
    body = {"model": "stub", "input": "x", "questions": [{**named, "choices": choices}]}
    answer = packed.http.post("/v1/decisions", json=body)
    assert answer.status_code == 200, answer.text
    assert_told("decisions", answer)


def test_it_tells_what_operators_get(packed):
    for name in ("info", "drain", "resume"):
        one = by_name(name)
        answer = packed.http.request(one.method, one.path)
        assert answer.status_code == 200
        assert_told(name, answer)
        if name == "drain":
            assert_told("readyz", packed.http.get("/readyz"))
            assert_told("livez", packed.http.get("/livez"))
            turned_away = packed.score(request())
            assert turned_away.status_code == 503
            assert_told("score", turned_away)
    scraped = packed.http.get("/metrics")
    assert scraped.status_code == 200
    assert scraped.headers["content-type"].split(";")[0] in by_name("metrics").replies[200].content


def test_it_tells_what_batches_get(tmp_path):
    row = {"custom_id": "1", "method": "POST", "url": "/v1/score", "body": request()}
    with running(lambda: StubEngine().as_engine(), ServerConfig(batch_dir=str(tmp_path))) as server:
        for name in ("create_batch", "upload_file", "file", "batch", "delete_file"):
            one = by_name(name)
            path = one.path.format(file_id="none", batch_id="none")
            answer = server.http.request(one.method, path)
            assert answer.status_code in (400, 404)
            assert_told(name, answer)
        file = server.http.post(
            "/v1/files",
            files={"file": ("rows.jsonl", json.dumps(row).encode())},
            data={"purpose": "batch"},
        )
        assert file.status_code == 200
        assert_told("upload_file", file)
        sent = {"input_file_id": file.json()["id"], "endpoint": "/v1/score"}
        batch = server.http.post("/v1/batches", json={**sent, "completion_window": "24h"})
        assert batch.status_code == 200
        assert_told("create_batch", batch)
        deadline = time.monotonic() + 20
        while batch.json()["status"] != "completed":
            assert time.monotonic() < deadline, batch.text
            time.sleep(0.02)
            batch = server.http.get(f"/v1/batches/{batch.json()['id']}")
            assert_told("batch", batch)
        ended = server.http.post(f"/v1/batches/{batch.json()['id']}/cancel")
        assert ended.json()["error"]["code"] == "batch_ended"
        assert_told("cancel_batch", ended)
        for name in ("files", "batches"):
            listed = server.http.get(by_name(name).path, params={"limit": 1})
            assert listed.json()["data"]
            assert_told(name, listed)
        id = batch.json()["output_file_id"]
        told = server.http.get(f"/v1/files/{id}/content")
        assert told.headers["content-type"] in by_name("file_content").replies[200].content
        assert_told("delete_file", server.http.delete(f"/v1/files/{id}"))


def test_it_tells_that_a_server_keeps_no_batches(server):
    for name in ("files", "batches", "create_batch", "upload_file"):
        one = by_name(name)
        answer = server.http.request(one.method, one.path)
        assert answer.json()["error"]["code"] == "batches_disabled"
        assert_told(name, answer)


def test_it_tells_what_lists_and_health_routes_answer(packed):
    for name in ("models", "packs", "readyz", "livez", "healthz"):
        answer = packed.http.get(by_name(name).path)
        assert answer.status_code == 200, name
        assert_told(name, answer)
    assert packed.http.get("/v1/packs").json()["faults"]
    for path in ("demo/support", "demo/draft?version=0.1.0", "demo/none", "%0A"):
        assert_told("pack", packed.http.get(f"/v1/packs/{path}"))


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"messages": []}', b" " * 3_000_000], ids=lambda b: repr(b[:9])
)
def test_it_tells_what_refusals_are(packed, body):
    answer = packed.http.post("/v1/score", content=body)
    assert answer.status_code in (400, 413)
    assert_told("score", answer)
    for name in ("systemone", "decisions"):
        answer = packed.http.post(by_name(name).path, content=body)
        assert answer.status_code in (400, 413, 422)
        assert_told(name, answer)


def test_it_tells_what_other_refusals_are(packed):
    for name in ("score", "systemone", "decisions", "models", "info", "upload_file"):
        one = by_name(name)
        answer = packed.http.request(one.method, one.path, headers={"Authorization": "Bearer no"})
        assert answer.status_code == 401
        assert_told(name, answer)
    headers = {"Content-Encoding": "br"}
    for name in ("score", "systemone", "decisions"):
        answer = packed.http.post(by_name(name).path, content=b"{}", headers=headers)
        assert answer.status_code == 415
        assert_told(name, answer)
    body = {"model": "other", "state": "x", "questions": {"a": {"type": "noul"}}}
    for name in ("systemone", "decisions"):
        answer = packed.http.post(by_name(name).path, json=body)
        assert answer.status_code == 400
        assert_told(name, answer)
    late = packed.score(request(), **{"X-Request-Deadline-Ms": "soon"})
    assert late.status_code == 400
    assert_told("score", late)


def test_an_answer_with_a_field_that_is_not_told_is_seen(server):
    answer = server.score(request())
    body = answer.json()
    schema = scheme(200, by_name("score"))
    assert list(SCHEMAS.unnamed(schema, body)) == []
    body["results"][0]["queries"][0]["combinations"][0]["options"][0]["rank"] = 1
    body["usage"]["cost"] = 1
    assert list(SCHEMAS.unnamed(schema, body)) == [
        ".results.0.queries.0.combinations.0.options.0.rank",
        ".usage.cost",
    ]
    del body["usage"]["inputs"]
    assert SCHEMAS.faults(schema, body) == ['usage: "inputs" is a required property']


def test_it_tells_what_texts_are_answered_with(server):
    for path, name, sent in (
        ("completions", "completions", {"prompt": "a b c", "stop": ["x"]}),
        ("chat/completions", "chat", {"messages": [{"role": "user", "content": "a b c"}]}),
    ):
        assert SCHEMAS.faults(scheme_of_body(name), sent) == []
        answer = server.http.post(f"/v1/{path}", json=sent)
        assert answer.status_code == 200, answer.text
        assert_told(name, answer)
        refused = server.http.post(f"/v1/{path}", json={**sent, "n": 3})
        assert refused.status_code == 400
        assert_told(name, refused)
        stream = server.http.post(f"/v1/{path}", json={**sent, "stream": True})
        kind = stream.headers["content-type"].split(";")[0]
        assert kind in by_name(name).replies[200].content


def test_templates_of_slots_are_told_as_they_are_read():
    for template, fits in {
        "\nDays:{n}": True,
        "{W} cost{$}": True,
        'Who? "{*}"': True,
        "{*} a {{b}}": True,
        "{*} a\nb": False,
        "{n} days": False,
        "Late?{?}": False,
    }.items():
        pattern = {"type": "string", "pattern": SEARCHED_TEMPLATE}
        assert (SCHEMAS.faults(pattern, template) == []) is fits, template
