"""What whoever runs a server relies on: keys on every route, metrics, drain, liveness, CORS."""

import re
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from spinf_serve.engine.api import DeviceMemory
from spinf_serve.packs.errors import Unusable
from spinf_serve.server.app import create_app
from spinf_serve.server.config import ServerConfig
from tests.contract.conftest import LIMITS, TOKEN, TRUSTED_TOKEN
from tests.contract.test_errors import assert_error
from tests.support.servers import Running, inputs, no_packs, question, request, running
from tests.support.stub_engine import NAN, StubEngine
from tests.support.waiting import until

OPEN = {"/healthz", "/readyz", "/livez"}
TRUSTED = {"Authorization": f"Bearer {TRUSTED_TOKEN}"}
PLAIN = {"Authorization": f"Bearer {TOKEN}"}


def served(config: ServerConfig, stub: StubEngine | None = None):
    return running((stub or StubEngine(LIMITS)).as_engine, config)


# --- keys


def endpoints(routes: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Method and path of every route, also of those that were included."""
    for route in routes:
        inner = getattr(route, "original_router", route)
        if hasattr(inner, "methods"):
            for method in inner.methods:
                yield method, inner.path
        else:
            yield from endpoints(inner.routes)


def test_every_route_there_is_needs_a_key_but_health(guarded):
    app = create_app(StubEngine().as_engine, ServerConfig(), no_packs())
    found = sorted(endpoints(app.routes))
    assert {("POST", "/v1/score"), ("GET", "/metrics"), ("DELETE", "/v0/drain")} <= set(found)
    opened = set()
    for method, pattern in found:
        path = re.sub(r"{[^}]*}", "x", pattern)
        answer = guarded.http.request(method, path)
        if answer.status_code == 401:
            assert_error_code(answer, "invalid_token")
        else:
            opened.add(pattern)
    assert opened == OPEN


def assert_error_code(answer: httpx.Response, code: str) -> None:
    """The code, in whichever envelope the route has."""
    assert code in answer.text or "detail" in answer.json(), answer.text


def test_named_keys_come_and_go_while_the_server_runs(tmp_path):
    first, second = "first-key-of-shop", "second-key-of-shop"
    file = tmp_path / "keys"

    def write(text: str) -> None:
        part = tmp_path / "part"
        part.write_text(text)
        part.chmod(0o600)
        part.replace(file)

    def status(key: str) -> int:
        headers = {"Authorization": f"Bearer {key}"}
        answer: httpx.Response = server.http.get("/v1/models", headers=headers)
        return answer.status_code

    write(f"shop: {first}\n")
    with served(ServerConfig(keys_file=str(file))) as server:
        assert (status(first), status(second)) == (200, 401)
        assert server.http.get("/v1/models").status_code == 401
        write(f"shop: {second}\n")
        until(lambda: status(second) == 200)
        assert status(first) == 401
        write("")
        until(lambda: value(server, "spinf_keys_file_fault", key=second) == 1)
        assert status(second) == 200


def test_a_server_does_not_start_on_a_damaged_file_of_keys(tmp_path):
    file = tmp_path / "keys"
    file.write_text("shop\n")
    with pytest.raises(Unusable, match="keys, line 1"):
        create_app(StubEngine().as_engine, ServerConfig(keys_file=str(file)), no_packs())


# --- metrics


def samples(server: Running, key: str = "", text: str | None = None) -> dict[Any, float]:
    """(name, labels) -> value."""
    if text is None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        answer = server.http.get("/metrics", headers=headers)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        text = answer.text
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(server: Running, name: str, key: str = "", **labels: str) -> float:
    return samples(server, key).get((name, tuple(sorted(labels.items()))), 0.0)


@pytest.fixture
def metered() -> Iterator[Running]:
    with served(ServerConfig(limits=LIMITS, queue=2)) as server:
        yield server


def test_scored_requests_are_counted_by_what_they_cost(metered):
    grid = question("g", template="\n{A}:{?}", combinations=[{"A": "a"}, {"A": "b"}])
    body = inputs("It came late.", "No.") | {"scoring": {"queries": [question(), grid]}}
    usages = [metered.score(body).json()["usage"] for _ in range(2)]
    assert usages[0] == usages[1]
    counted = {
        "spinf_scored_requests_total": (2, {"route": "score"}),
        "spinf_inputs_total": (4, {}),
        "spinf_questions_total": (8, {}),
        "spinf_prompts_total": (12, {}),
        "spinf_key_requests_total": (2, {"key": "anonymous"}),
        "spinf_content_tokens_count": (4, {}),
        "spinf_content_questions_sum": (8, {}),
        "spinf_content_prompts_sum": (12, {}),
        "spinf_reuse_ratio_count": (4, {}),
        "spinf_passes_total": (2, {}),
    }
    found = samples(metered)
    for name, (number, labels) in counted.items():
        # Health checks while the server started had no key either.
        least = name == "spinf_key_requests_total"
        seen = found[name, tuple(labels.items())]
        assert seen >= number if least else seen == number, name
    for kind in ("content", "query", "floor"):
        asked = sum(usage["prompt_tokens_details"][f"{kind}_tokens"] for usage in usages)
        assert found["spinf_tokens_total", (("kind", kind),)] == asked > 0
    read = found["spinf_tokens_total", (("kind", "read"),)]
    assert read == found["spinf_key_tokens_total", (("key", "anonymous"),)] > 0
    assert found["spinf_pass_tokens_total", ()] > 0
    assert found["spinf_pass_tokens_limit", ()] >= 128
    for stage in ("wall", "compile", "queue", "score", "busy", "wire"):
        assert found["spinf_stage_seconds_count", (("stage", stage),)] == 2
    assert found["spinf_stage_seconds_sum", (("stage", "wall"),)] > 0
    assert ("spinf_stage_seconds_count", (("stage", "decode"),)) not in found


def test_what_slots_take_is_a_stage_of_those_that_have_any(metered):
    slot = {"id": "s", "template": '\nIt says "{*}"'}
    for queries in ([question()], [question(), slot]):
        assert metered.score(request("It came late.", *queries)).status_code == 200
    for stage, count in (("score", 2), ("decode", 1)):
        assert value(metered, "spinf_stage_seconds_count", stage=stage) == count


def test_texts_have_stages_of_their_own(metered):
    for stream in (False, True):
        body = {"prompt": "one two three", "max_tokens": 2, "stream": stream}
        assert metered.http.post("/v1/completions", json=body).status_code == 200
    # They are counted once the answer is out.
    until(lambda: value(metered, "spinf_text_seconds_count", stage="decode") == 2)
    for stage in ("queue", "first"):
        assert value(metered, "spinf_text_seconds_count", stage=stage) == 2
    assert value(metered, "spinf_text_seconds_sum", stage="first") > 0
    assert value(metered, "spinf_stage_seconds_count", stage="score") == 0


def test_reuse_is_what_reading_the_content_for_each_question_would_take(metered):
    # The stub reads content and questions once: (2 * 4 + 8) / (4 + 8) tokens.
    body = request("It came late.", question("a"), question("b"))
    details = metered.score(body).json()["usage"]["prompt_tokens_details"]
    assert details["content_tokens"] == 4
    found = samples(metered)
    asked = found["spinf_tokens_total", (("kind", "query"),)]
    assert found["spinf_reuse_ratio_sum", ()] == (2 * 4 + asked) / (4 + asked) > 1


def test_requests_are_counted_by_route_and_status_and_refusals_by_code(metered):
    assert metered.score(request()).status_code == 200
    assert metered.score({}).status_code == 400
    assert metered.http.post("/v1/score", content=b"{").status_code == 400
    assert metered.score(request(f"a {NAN}")).status_code == 500
    assert metered.http.get("/v1/packs/none/such").status_code == 404
    assert metered.http.get("/nowhere").status_code == 404
    assert metered.http.request("BREW", "/v1/score").status_code in (400, 405)

    def requests(route: str, method: str, status: str) -> float:
        labels = {"route": route, "method": method, "status": status}
        return value(metered, "spinf_http_requests_total", **labels)

    assert requests("/v1/score", "POST", "200") == 1
    assert requests("/v1/score", "POST", "400") == 2
    assert requests("/v1/score", "POST", "500") == 1
    assert requests("/v1/packs/{pack_id:path}", "GET", "404") == 1
    assert requests("(none)", "GET", "404") == 1
    for code in ("invalid_field", "invalid_json", "engine_error", "unknown_pack"):
        assert value(metered, "spinf_errors_total", code=code) == 1, code
    methods = {dict(labels).get("method") for _, labels in samples(metered)}
    assert methods <= {None, "GET", "HEAD", "POST", "other"}


def test_a_client_that_leaves_is_counted_and_nothing_stays_in_work(metered):
    stub = StubEngine(LIMITS)
    with served(ServerConfig(limits=LIMITS), stub) as server:
        stub.gate.clear()
        with pytest.raises(httpx.ReadTimeout):
            server.http.post("/v1/score", json=request(), timeout=0.2)
        left = {"route": "/v1/score", "method": "POST", "status": "499"}
        until(lambda: value(server, "spinf_http_requests_total", **left) == 1)
        assert value(server, "spinf_requests_in_flight", priority="interactive") == 0
        stub.gate.set()
        # The scrape itself is in work.
        assert value(server, "spinf_http_requests_running") == 1


def test_requests_in_work_and_turned_away_show(metered):
    stub = StubEngine(LIMITS)
    with served(ServerConfig(limits=LIMITS, queue=1), stub) as server:
        stub.gate.clear()
        asking = [threading.Thread(target=server.score, args=(request(),)) for _ in range(2)]
        for one in asking:
            one.start()
        until(lambda: value(server, "spinf_requests_in_flight", priority="interactive") == 2)
        assert server.score(request()).status_code == 429
        until(lambda: value(server, "spinf_step_running_seconds") > 0.02)
        stub.gate.set()
        for one in asking:
            one.join()
        assert value(server, "spinf_errors_total", code="concurrency_limit") == 1
        until(lambda: value(server, "spinf_step_running_seconds") == 0)


def test_metrics_answer_while_the_model_loads():
    opened = threading.Event()

    def slow():
        assert opened.wait(30)
        return StubEngine(LIMITS).as_engine()

    with running(slow, ServerConfig(), wait=False) as server:
        assert value(server, "spinf_ready") == 0
        opened.set()
        until(lambda: value(server, "spinf_ready") == 1)
        [build] = [dict(labels) for name, labels in samples(server) if name == "spinf_build_info"]
        assert build["model"] == "stub/words-1" and build["fingerprint"].startswith("fp_")


def test_the_memory_of_a_card_and_what_is_kept_there_show():
    stub = StubEngine(LIMITS)
    with served(ServerConfig(limits=LIMITS), stub) as server:
        assert not any(name == "spinf_device_memory_bytes" for name, _ in samples(server))
        stub.memory = DeviceMemory(used=1, reserved=2, free=3, total=4)
        stub.stats.trunk_hits, stub.stats.trunk_bytes = 5, 6
        found = samples(server)
        kinds = ("used", "reserved", "free", "total")
        memory = [found["spinf_device_memory_bytes", (("kind", kind),)] for kind in kinds]
        assert memory == [1, 2, 3, 4]
        assert found["spinf_trunk_cache_hits_total", ()] == 5
        assert found["spinf_trunk_cache_bytes", ()] == 6


def test_the_decision_log_shows_where_one_is_kept(metered, tmp_path):
    name = "spinf_decision_log_written_total"
    assert not any("decision_log" in name for name, _ in samples(metered))
    config = ServerConfig(limits=LIMITS, decision_log=str(tmp_path / "log.db"))
    with served(config) as server:
        assert server.score(inputs("a", "b")).status_code == 200
        until(lambda: value(server, name) == 2)
        assert value(server, "spinf_decision_log_lost_total") == 0
        assert ("spinf_decision_log_failing", ()) in samples(server)


def test_metrics_hold_no_text_of_callers(metered):
    body = request("a word nobody may see", question("secretname", template="\nhidden:{?}"))
    assert metered.score(body | {"endpoint": "somewhere"}).status_code == 200
    text = metered.http.get("/metrics").text
    assert not re.search("nobody|secretname|hidden|somewhere|127.0.0.1|scr_", text)


def test_metrics_need_a_key_unless_they_are_opened(guarded):
    assert_error(guarded.http.get("/metrics"), "invalid_token", None)
    assert value(guarded, "spinf_ready", key=TOKEN) == 1
    with served(ServerConfig(token=TOKEN, open_metrics=True)) as server:
        assert value(server, "spinf_ready") == 1
        assert server.http.get("/v1/models").status_code == 401


# --- drain


def test_a_drained_server_turns_new_requests_away_and_finishes_those_in_work():
    stub = StubEngine(LIMITS)
    config = ServerConfig(limits=LIMITS, token=TOKEN, trusted_token=TRUSTED_TOKEN)
    with served(config, stub) as server:
        stub.gate.clear()
        answers: list[httpx.Response] = []
        asking = threading.Thread(target=lambda: answers.append(server.score(request(), **PLAIN)))
        asking.start()
        until(lambda: stub.pending == 1)
        drained = server.http.post("/v0/drain", headers=TRUSTED)
        assert (drained.status_code, drained.json()) == (200, {"draining": True})
        refused = server.score(request(), **PLAIN)
        assert_error(refused, "model_unavailable", None)
        assert int(refused.headers["Retry-After"]) > 0
        ready = server.http.get("/readyz")
        assert ready.status_code == 503
        assert ready.json() == {"ready": False, "reason": "draining", "draining": True}
        assert server.http.get("/livez").json() == {"live": True}
        assert value(server, "spinf_draining", key=TOKEN) == 1
        stub.gate.set()
        asking.join()
        assert answers[0].status_code == 200
        assert server.http.delete("/v0/drain", headers=TRUSTED).json() == {"draining": False}
        assert server.score(request(), **PLAIN).status_code == 200
        assert server.http.get("/readyz").status_code == 200


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "drain"), ("DELETE", "drain"), ("GET", "info")]
)
def test_only_trusted_callers_run_a_server(guarded, server, method, path):
    for headers in ({}, PLAIN):
        answer = guarded.http.request(method, f"/v0/{path}", headers=headers)
        assert_error(answer, "invalid_token", None)
    assert guarded.http.get("/readyz").status_code == 200
    assert_error(server.http.request(method, f"/v0/{path}"), "invalid_token", None)


def test_info_says_what_is_served_and_no_secret(guarded):
    answer = guarded.http.get("/v0/info", headers=TRUSTED)
    body = answer.json()
    assert body["engine"]["model"] == body["boot"]["model"] == "stub/words-1"
    assert len(body["engine"]["fingerprint"]["bits"]) == 64
    assert body["engine"]["limits"]["max_options"] == LIMITS.max_options
    assert body["boot"]["draining"] is False
    assert not {TOKEN, TRUSTED_TOKEN} & set(re.findall(r'"([^"]*)"', answer.text))


# --- liveness


def test_a_stuck_pass_shows_in_health_until_it_is_over():
    stub = StubEngine(LIMITS)
    with served(ServerConfig(limits=LIMITS, stuck_seconds=1), stub) as server:
        stub.gate.clear()
        asking = threading.Thread(target=server.score, args=(request(),))
        asking.start()
        until(lambda: stub.pending == 1)
        assert server.http.get("/livez").status_code == 200
        until(lambda: server.http.get("/livez").status_code == 503)
        live, ready = (server.http.get(path).json() for path in ("/livez", "/readyz"))
        assert (live["live"], live["reason"]) == (False, "stuck")
        assert (ready["ready"], ready["reason"]) == (False, "stuck")
        assert (
            "--stuck-seconds" in live["error"] == ready["error"] or "running for" in ready["error"]
        )
        assert server.http.get("/healthz").status_code == 200
        assert value(server, "spinf_ready") == 0
        stub.gate.set()
        asking.join()
        until(lambda: server.http.get("/livez").status_code == 200)
        assert server.http.get("/readyz").status_code == 200


def test_an_idle_server_is_never_stuck():
    with served(ServerConfig(limits=LIMITS, stuck_seconds=1)) as server:
        assert server.score(request()).status_code == 200
        time.sleep(1.2)
        assert server.http.get("/livez").status_code == 200


def test_health_says_why_a_server_is_not_ready_yet():
    opened = threading.Event()

    def slow():
        assert opened.wait(30)
        raise ValueError("no model after all")

    with running(slow, ServerConfig(), wait=False) as server:
        assert server.http.get("/livez").json() == {"live": False, "reason": "warming_up"}
        assert server.http.get("/readyz").json() == {"ready": False, "reason": "warming_up"}
        opened.set()
        until(lambda: server.http.get("/livez").json()["reason"] == "model_unavailable")
        ready = server.http.get("/readyz").json()
        assert ready["reason"] == "model_unavailable" and "log" in ready["error"]


# --- pages of other origins

ORIGIN = "https://shop.example.org"
ASKED = {
    "Origin": ORIGIN,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization, content-type",
}


def test_pages_of_other_origins_may_not_call_by_default(guarded):
    assert guarded.http.options("/v1/score", headers=ASKED).status_code == 401
    for who in ({}, PLAIN):
        answer = guarded.score(request(), Origin=ORIGIN, **who)
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_pages_of_a_named_origin_may_call_and_others_not():
    with served(ServerConfig(token=TOKEN, cors_origin=(ORIGIN,))) as server:
        asked = server.http.options("/v1/score", headers=ASKED)
        assert asked.status_code == 200
        assert asked.headers["Access-Control-Allow-Origin"] == ORIGIN
        assert "Access-Control-Allow-Credentials" not in asked.headers
        # A refusal can be read by the page too.
        for who, status in ((PLAIN, 200), ({}, 401)):
            answer = server.score(request(), Origin=ORIGIN, **who)
            assert answer.status_code == status
            assert answer.headers["Access-Control-Allow-Origin"] == ORIGIN
            assert "X-Request-Id" in answer.headers["Access-Control-Expose-Headers"]
        other = ASKED | {"Origin": "https://evil.example.org"}
        assert (
            "Access-Control-Allow-Origin"
            not in server.http.options("/v1/score", headers=other).headers
        )
        answer = server.score(request(), Origin="https://evil.example.org", **PLAIN)
        assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize(
    "origin", ["example.org", "https://a.org/", "https://a.org/x", "null", "ftp://a"]
)
def test_what_is_no_origin_is_refused_at_the_start(origin):
    with pytest.raises(Unusable, match="--cors-origin"):
        create_app(StubEngine().as_engine, ServerConfig(cors_origin=(origin,)), no_packs())
