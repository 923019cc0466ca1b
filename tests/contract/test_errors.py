"""Every error code that applies: status, code and path, and a next request that works."""

import json
import threading

import httpx
import pytest

from spinf_serve.packs.errors import CODES
from spinf_serve.server.config import ServerConfig
from tests.contract.conftest import LIMITS
from tests.support.servers import Running, inputs, question, request, running
from tests.support.stub_engine import NAN, StubEngine

GRID = {"template": "\nIs {A} {B}? Answer:{?}"}
DUPLICATE = [question("a"), question("a")]
PNG = "data:image/png;base64,iVBORw0KGgo="


def part(**payload):
    return request([{"type": "text", "text": "See "}, payload])


def with_input(**changes):
    entry = {"id": "a", "messages": [{"role": "user", "content": "x"}], **changes}
    return {"inputs": [entry], "scoring": {"queries": [question()]}}


# code, param, body. A text body is sent as it is.
BAD: list[tuple[str, str | None, object]] = [
    ("invalid_json", None, b""),
    ("invalid_json", None, b"{"),
    ("invalid_json", None, b'{"model": NaN}'),
    ("invalid_json", None, b"[" * 50_000),
    ("invalid_json", None, b'{"model": "\xff"}'),
    ("invalid_json", None, b'{"inputs": [], "inputs": []}'),
    ("invalid_field", "body", []),
    ("invalid_field", "model", request() | {"model": None}),
    ("invalid_field", "model", request() | {"model": ""}),
    ("invalid_field", "messages", {"scoring": {"queries": [question()]}}),
    ("invalid_field", "messages", request() | inputs("x")),
    ("invalid_field", "inputs", {"inputs": []}),
    ("invalid_field", "scoring", request() | {"scoring": 3}),
    ("invalid_field", "endpoint", request() | {"endpoint": "e" * 129}),
    ("invalid_field", "scoring.queries", request() | {"scoring": {"queries": {}}}),
    ("invalid_field", "scoring.queries.0.id", request("x", {"template": "{?}"})),
    ("invalid_field", "scoring.queries.0.template", request("x", {"id": "a", "options": ["b"]})),
    ("invalid_field", "scoring.queries.1.id", request("x", question(), question("i" * 129))),
    ("invalid_field", "scoring.queries.0.options.1", request("x", question(options=["a", ""]))),
    ("invalid_field", "scoring.queries.0.options", request("x", question(options="yes"))),
    ("invalid_field", "scoring.queries.0.empty_floor", request("x", question(empty_floor="no"))),
    ("invalid_field", "scoring.queries.0.max_tokens", request("x", question(max_tokens=4))),
    ("invalid_field", "scoring.case_insensitive", request(case_insensitive=1)),
    ("invalid_field", "scoring.precision", request(precision="half")),
    ("invalid_field", "inputs.0.messages.0.role", with_input(messages=[{"role": "system"}])),
    ("invalid_field", "inputs.0.messages.0.content", request(None)),
    ("invalid_field", "inputs.0.messages.0.content", with_input(messages=[{"role": "user"}])),
    ("invalid_field", "inputs.0.messages.0.content.1.text", part(type="text", text=3)),
    ("invalid_field", "inputs.0.messages", with_input(messages=None)),
    ("model_not_served", "model", request() | {"model": "gpt-6"}),
    ("invalid_template", "scoring.queries.0.template", request("x", question(template="Late?"))),
    ("invalid_template", "scoring.queries.0.template", request("x", question(template="{?} {?}"))),
    (
        "invalid_template",
        "inputs.0.queries.0.template",
        with_input(queries=[question("b", template="}{?}")]),
    ),
    ("missing_value", "scoring.queries.0.options", request("x", question(options=None))),
    ("missing_value", "scoring.queries.0.combinations", request("x", question(**GRID))),
    (
        "missing_value",
        "scoring.queries.0.combinations.0",
        request("x", question(**GRID, combinations=[{"A": "x"}])),
    ),
    (
        "unknown_placeholder",
        "scoring.queries.0.combinations.0.C",
        request("x", question(**GRID, combinations=[{"A": "x", "B": "y", "C": "z"}])),
    ),
    (
        "too_many_combinations",
        "scoring.queries.0.values",
        request(
            "x", question(**GRID, combinations="all", values={"A": ["x"] * 40, "B": ["y"] * 40})
        ),
    ),
    ("too_many_options", "scoring.queries.0.options", request("x", question(options=[]))),
    (
        "too_many_options",
        "scoring.queries.0.options",
        request("x", question(options=[f" {n}" for n in range(51)])),
    ),
    (
        "duplicate_option",
        "scoring.queries.0.options.1",
        request("x", question(options=[" Yes", "yes "])),
    ),
    (
        "option_too_long",
        "scoring.queries.0.options.1",
        request("x", question(options=[" yes", " not at all" * 9])),
    ),
    ("duplicate_id", "scoring.queries.1.id", request("x", *DUPLICATE)),
    ("duplicate_id", "inputs.1.id", {"inputs": [inputs("x")["inputs"][0]] * 2}
     | {"scoring": {"queries": [question()]}}),
    ("duplicate_id", "inputs.0.queries.0.id", with_input(queries=[question()])),
    ("duplicate_id", "inputs.0.queries.1.id", with_input(queries=DUPLICATE)),
    ("duplicate_id", "inputs.0.query_ids.1", with_input(query_ids=["q", "q"])),
    ("unknown_query_id", "inputs.0.query_ids.0", with_input(query_ids=["r"])),
    ("empty_queries", "inputs.0", with_input(query_ids=[])),
    ("empty_queries", "inputs.0", request() | {"scoring": None}),
    (
        "template_too_long",
        "scoring.queries.0.template",
        request("x", question(template="\nIs it so?" * 40 + "{?}")),
    ),
    (
        "template_too_long",
        "scoring.queries.1.combinations.2",
        request(
            "x",
            question(),
            question(
                "g",
                template="{A} and" * 5 + "{?}",
                combinations=[{"A": "x"}, {"A": "y"}, {"A": "why not now " * 20}],
            ),
        ),
    ),
    ("content_too_long", "inputs.0", request("It came late. " * 100)),
    ("content_too_long", "inputs.1", inputs("x", "It came late. " * 100)),
    (
        "too_many_prompts",
        "inputs.0",
        request(
            "x", question(**GRID, combinations="all", values={"A": list("abcdefghijklmno"),
                                                              "B": list("abcdefghijklmno")})
        ),
    ),
    ("unsupported_content", "inputs.0.messages.0.content.1", part(type="file", file={})),
    ("unsupported_content", "inputs.0.messages.0.content.1", part(type="image_url")),
    (
        "invalid_media",
        "inputs.0.messages.0.content.1.image_url.url",
        part(type="image_url", image_url={"url": "https://example.com/a.png"}),
    ),
    (
        "invalid_media",
        "inputs.0.messages.0.content.1.image_url.url",
        part(type="image_url", image_url={"url": "data:image/png;base64,@@"}),
    ),
    (
        "media_not_supported",
        "inputs.0.messages.0.content.1.image_url",
        part(type="image_url", image_url={"url": PNG}),
    ),
    (
        "unknown_pack",
        "scoring.packs.0.id",
        request(packs=[{"id": "spinf/moderation"}]),
    ),
    ("body_too_large", None, request("x" * 70_000)),
    (
        "request_too_large",
        None,
        inputs(*["It came late. " * 50] * 60),
    ),
]  # fmt: skip

# Produced by the tests below, which need a server in another state.
ELSEWHERE = {
    # tests/server/test_served_packs.py
    "pack_of_other_model",
    # test_extraction.py
    "too_many_extractions",
    "extraction_disabled",
    "generation_disabled",
    # test_completions.py
    "scoring_required",
    "no_chat_template",
    "invalid_token",
    "concurrency_limit",
    # tests/contract/test_scheduling.py
    "deadline_exceeded",
    "engine_error",
    "warming_up",
    "model_unavailable",
    # tests/server/test_encodings.py
    "invalid_encoding",
    "unsupported_encoding",
    # tests/contract/test_batches.py
    "batches_disabled",
    "unknown_file",
    "unknown_batch",
    "file_in_use",
    "batch_ended",
    "storage_full",
    "storage_unavailable",
}
# They belong to packs and media, which are not served yet.
NOT_YET = {
    "media_disabled",
    "unknown_pack_version",
    "pack_not_available",
    "pack_media_not_supported",
    "pack_conflict",
    "unknown_category",
    "reserved_group",
}
TYPES = {
    400: "invalid_request",
    401: "authentication_error",
    404: "not_found",
    413: "invalid_request",
    429: "rate_limited",
    500: "api_error",
    503: "unavailable",
    504: "api_error",
}


def assert_error(answer: httpx.Response, code: str, param: str | None, status: int | None = None):
    status = status or CODES[code].status
    body = answer.json()
    assert (answer.status_code, body["error"]["code"]) == (status, code), answer.text
    assert body["error"]["param"] == param, answer.text
    assert body["error"]["type"] == TYPES[status]
    assert len(body["error"]["message"]) > 10
    assert body["error"].keys() == {"type", "code", "message", "param"}
    assert body["request_id"] == answer.headers["X-Request-Id"]
    assert answer.headers["content-type"] == "application/json"
    assert "Traceback" not in answer.text


def assert_works(server: Running, **headers: str):
    assert server.score(request(), **headers).status_code == 200


@pytest.mark.parametrize(("code", "param", "body"), BAD)
def test_a_bad_request_is_refused_with_its_path_and_the_next_one_works(server, code, param, body):
    content = body if isinstance(body, bytes) else json.dumps(body)
    headers = {"Content-Type": "application/json"}
    assert_error(server.http.post("/v1/score", content=content, headers=headers), code, param)
    assert_works(server)


def test_every_code_is_produced_or_not_served_yet():
    produced = {code for code, _, _ in BAD} | ELSEWHERE
    assert produced | NOT_YET == set(CODES)
    assert not produced & NOT_YET


@pytest.mark.parametrize(
    "header", [{}, {"Authorization": "Bearer no"}, {"Authorization": "Basic let-me-in"}]
)
def test_a_wrong_token_is_refused_before_the_body_is_read(guarded, header):
    answer = guarded.http.post("/v1/score", content=b"{", headers=header)
    assert_error(answer, "invalid_token", None)
    assert_works(guarded, Authorization="bearer let-me-in")


def test_a_body_that_says_it_is_too_large_is_refused_before_the_token_is_asked(guarded):
    answer = guarded.http.post("/v1/score", content=b"x" * (guarded.config.max_body_bytes + 1))
    assert_error(answer, "body_too_large", None)


def test_nan_fails_the_request_that_holds_the_input_and_no_other(stub, stub_server):
    stub.gate.clear()
    answers: dict[str, httpx.Response] = {}

    def ask(name, body):
        answers[name] = stub_server.score(body)

    bodies = {"first": inputs("a"), "bad": inputs("a", f"b {NAN}"), "good": inputs("c")}
    threads = [threading.Thread(target=ask, args=pair) for pair in bodies.items()]
    for thread in threads:
        thread.start()
    stub.gate.set()
    for thread in threads:
        thread.join()
    assert_error(answers["bad"], "engine_error", "inputs.1")
    assert answers["first"].status_code == answers["good"].status_code == 200
    assert_works(stub_server)


@pytest.mark.parametrize("hook", ["step_error", "submit_error"])
def test_a_failing_engine_fails_that_step_and_the_server_goes_on(stub, stub_server, hook, caplog):
    setattr(stub, hook, MemoryError("no memory"))
    assert_error(stub_server.score(request()), "engine_error", "inputs.0")
    assert "no memory" in caplog.text
    assert_works(stub_server)
    assert stub_server.http.get("/livez").status_code == 200


def test_an_unforeseen_fault_is_an_error_body_with_an_id_and_is_logged(stub, stub_server, caplog):
    stub.fingerprint = None
    answer = stub_server.score(request("private words"))
    assert_error(answer, "engine_error", None)
    assert answer.json()["request_id"] in caplog.text
    assert "private words" not in caplog.text


def test_while_the_model_loads_requests_are_told_when_to_come_back():
    loading = threading.Event()

    def open_engine():
        loading.wait(30)
        return StubEngine().as_engine()

    with running(open_engine, ServerConfig(limits=LIMITS), wait=False) as server:
        answer = server.score(request())
        assert_error(answer, "warming_up", None)
        assert answer.headers["Retry-After"] == "10"
        assert_error(server.http.get("/v1/models"), "warming_up", None)
        assert_error(server.http.post("/v1/score", content=b"{"), "invalid_json", None)
        assert server.http.get("/healthz").json() == {"ok": True}
        ready, live = server.http.get("/readyz"), server.http.get("/livez")
        assert (ready.status_code, live.status_code) == (503, 503)
        assert ready.json() == {"ready": False, "reason": "warming_up"}
        assert live.json() == {"live": False, "reason": "warming_up"}
        loading.set()


def test_a_model_that_cannot_be_loaded_leaves_a_server_that_says_so(caplog):
    def open_engine():
        raise MemoryError("too large for this machine")

    with running(open_engine, ServerConfig(limits=LIMITS), wait=False) as server:
        answer = server.score(request())
        assert_error(answer, "model_unavailable", None)
        assert answer.headers["Retry-After"] == "60"
        ready = server.http.get("/readyz")
        assert ready.status_code == 503
        assert ready.json()["ready"] is False
        assert "log" in ready.json()["error"]
        assert "too large" not in ready.text
        assert server.http.get("/livez").status_code == 503
        assert server.http.get("/healthz").status_code == 200
    assert "too large for this machine" in caplog.text


@pytest.mark.parametrize(
    "path", ["/v1/packs/spinf/moderation", "/v1/packs/x", "/v1/packs/a/b?version=1"]
)
def test_a_pack_that_is_not_served_is_not_found(server, path):
    assert_error(server.http.get(path), "unknown_pack", "id", status=404)


def test_unknown_routes_answer_as_the_framework_does(server):
    missing, wrong = server.http.get("/v1/account"), server.http.get("/v1/score")
    assert (missing.status_code, missing.json()) == (404, {"detail": "Not Found"})
    assert (wrong.status_code, wrong.json()) == (405, {"detail": "Method Not Allowed"})
    assert missing.headers["X-Request-Id"] != wrong.headers["X-Request-Id"]
