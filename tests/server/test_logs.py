"""The log: a line a request, as text or JSON, and what no line may hold."""

import io
import json
import logging
import logging.config
import re
import threading
from typing import Any

import pytest

from spinf_serve.server.config import ServerConfig
from spinf_serve.server.logs import JsonFormatter, log_config, without_message
from tests.contract.conftest import LIMITS
from tests.support.servers import question, request, running
from tests.support.stub_engine import StubEngine
from tests.support.waiting import until

LOGGER = "spinf_serve.server.logs"


def formatted(form: str, *records: logging.LogRecord) -> list[str]:
    """What the handler of a configuration writes."""
    config = log_config(form)
    named = config["formatters"]["default"]
    if form == "json":
        formatter: logging.Formatter = named["()"]()
    else:
        formatter = logging.Formatter(named["fmt"].replace("%(levelprefix)s", "%(levelname)s:"))
    return [formatter.format(record) for record in records]


def records_of(caplog, logger: str = LOGGER) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == logger]


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "spinf_serve")
    return caplog


def test_a_request_is_one_line_of_json_with_its_cost_and_no_content(log):
    config = ServerConfig(limits=LIMITS, token="a-token-of-ours")
    headers = {
        "Authorization": "Bearer a-token-of-ours",
        "X-Request-Id": "order-17",
        "traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01",
    }
    body = request("private words", question("hush", template="\nsilent:{?}"))
    with running(StubEngine(LIMITS).as_engine, config) as server:
        answer = server.http.post("/v1/score?x=unseen", json=body, headers=headers)
        assert answer.status_code == 200
    [record] = records_of(log)
    [text], [raw] = formatted("text", record), formatted("json", record)
    line = json.loads(raw)
    told = {key: line[key] for key in ("method", "route", "status", "key", "address")}
    assert told == {
        "method": "POST",
        "route": "/v1/score",
        "status": 200,
        "key": "token",
        "address": "127.0.0.1",
    }
    assert line["request_id"] == answer.headers["X-Request-Id"]
    assert line["client_request_id"] == "order-17"
    assert line["trace_id"] == "ab" * 16
    assert (line["inputs"], line["questions"], line["prompts"]) == (1, 1, 1)
    usage = answer.json()["usage"]["prompt_tokens_details"]
    assert line["content_tokens"] == usage["content_tokens"]
    assert line["ms"] >= line["score_ms"] >= 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
    assert line["level"] == "info"
    assert "POST /v1/score 200 in" in text and answer.headers["X-Request-Id"] in text
    for shown in (text, raw):
        assert not re.search("private|hush|silent|unseen|a-token-of-ours| yes", shown)


def test_the_address_is_the_one_that_a_proxy_on_this_machine_tells(log):
    with running(StubEngine(LIMITS).as_engine, ServerConfig(limits=LIMITS)) as server:
        assert server.score(request(), **{"X-Forwarded-For": "10.1.2.3"}).status_code == 200
    [line] = [json.loads(raw) for raw in formatted("json", *records_of(log))]
    assert line["address"] == "10.1.2.3"


def test_a_refusal_has_its_code_and_no_quote(log):
    with running(StubEngine(LIMITS).as_engine, ServerConfig(limits=LIMITS)) as server:
        assert server.score(request(scoring_typo="hidden")).status_code in (200, 400)
        assert server.score({"messages": "hidden"}).status_code == 400
        assert server.http.get("/v1/packs/no/such").status_code == 404
    *_, refused, missing = [json.loads(line) for line in formatted("json", *records_of(log))]
    assert (refused["status"], refused["code"]) == (400, "invalid_field")
    assert "prompts" not in refused
    assert (missing["status"], missing["route"]) == (404, "/v1/packs/{pack_id:path}")
    assert not any("hidden" in line for line in formatted("json", *records_of(log)))


def test_health_checks_that_go_well_are_silent_and_others_are_not(log):
    with running(StubEngine(LIMITS).as_engine, ServerConfig(limits=LIMITS)) as server:
        for path in ("/healthz", "/readyz", "/livez", "/metrics"):
            assert server.http.get(path).status_code == 200
        assert not records_of(log)
        assert server.http.post("/healthz").status_code == 405
        server.service.draining = True
        assert server.http.get("/readyz").status_code == 503
    statuses = [json.loads(line)["status"] for line in formatted("json", *records_of(log))]
    assert statuses == [405, 503]


def test_a_health_check_that_fails_is_told_of_once_and_when_it_goes_well_again(log):
    with running(StubEngine(LIMITS).as_engine, ServerConfig(limits=LIMITS)) as server:
        for draining in (True, False, True):
            server.service.draining = draining
            for _ in range(3):
                assert server.http.get("/readyz").status_code == (503 if draining else 200)
    statuses = [json.loads(line)["status"] for line in formatted("json", *records_of(log))]
    assert statuses == [503, 200, 503]


def test_of_many_refusals_a_few_have_a_line_and_the_others_are_counted(log):
    stub = StubEngine(LIMITS)
    with running(stub.as_engine, ServerConfig(limits=LIMITS, queue=1)) as server:
        stub.gate.clear()
        asking = [threading.Thread(target=server.score, args=(request(),)) for _ in range(2)]
        for one in asking:
            one.start()
        until(lambda: server.service.admission.in_flight == 2)
        for _ in range(40):
            assert server.score(request()).status_code == 429
        until(lambda: told(refusals(log)) == 40)
        stub.gate.set()
        for one in asking:
            one.join()
    lines = refusals(log)
    single = [line for line in lines if "requests" not in line]
    sums = [line for line in lines if "requests" in line]
    assert 10 <= len(single) < 40 and sums
    assert all(line["request_id"] and line["route"] == "/v1/score" for line in single)
    assert {line["code"] for line in lines} == {"concurrency_limit"}
    assert {line["key"] for line in sums} == {"anonymous"}


def refusals(log) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in formatted("json", *records_of(log))]
    return [line for line in found if line["status"] == 429]


def told(lines: list[dict[str, Any]]) -> int:
    """How many requests some lines tell of."""
    return sum(line.get("requests", 1) for line in lines)


def test_a_path_or_an_id_cannot_begin_a_line_of_its_own(log):
    ids = {"X-Request-Id": "a b\tc", "traceparent": "00-xyz-1-01"}
    with running(StubEngine(LIMITS).as_engine, ServerConfig(limits=LIMITS)) as server:
        answer = server.http.get("/no%0Awhere%1b[31m" + "x" * 5000, headers=ids)
        assert answer.status_code == 404
    [record] = records_of(log)
    [text], [raw] = formatted("text", record), formatted("json", record)
    assert text.isprintable() and len(text) < 400
    assert "client_request_id" not in json.loads(raw) and "trace_id" not in json.loads(raw)


def test_an_unforeseen_fault_is_logged_without_its_message(log):
    stub = StubEngine(LIMITS)
    with running(stub.as_engine, ServerConfig(limits=LIMITS)) as server:
        # Whatever breaks while the answer is made may quote what was asked.
        server.service.observers = [Breaking()]
        answer = server.score(request("private words"))
        assert answer.status_code == 500 and "quoted" not in answer.text
    [record] = records_of(log, "spinf_serve.server.border")
    [raw] = formatted("json", record)
    assert "ValueError" in raw and "test_logs.py" in raw
    assert answer.headers["X-Request-Id"] in raw
    assert "quoted" not in raw


class Breaking:
    """An observer that fails."""

    def ended(self, _: object) -> None:
        # Source lines are shown, so this one must not hold the word itself.
        raise ValueError("quo" + "ted")


def test_a_traceback_without_messages_names_all_that_led_to_it():
    try:
        try:
            raise KeyError("secret one")
        except KeyError as first:
            raise RuntimeError("secret two") from first
    except RuntimeError as second:
        told = without_message(second)
    assert "secret two" not in told.replace('raise RuntimeError("secret two")', "")
    assert "builtins.RuntimeError" in told and "builtins.KeyError" in told


@pytest.mark.parametrize("form", ["text", "json"])
def test_every_logger_writes_to_stderr_in_the_one_form(form):
    config = log_config(form)
    loggers = [*config["loggers"].values(), config["root"]]
    assert {name for one in loggers for name in one.get("handlers", ())} == {"default"}
    assert config["handlers"].keys() == {"default"}
    assert config["handlers"]["default"]["stream"] == "ext://sys.stderr"
    made = config["formatters"]["default"]["()"]
    assert (made is JsonFormatter) == (form == "json")
    assert config["loggers"]["uvicorn.access"]["handlers"] == []
    # What is set up must be acceptable; test_ending reads what a server then writes.
    logging.config.DictConfigurator(config)


def test_what_is_logged_of_an_exception_stays_on_its_line():
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("spinf_serve.of_a_test")
    logger.addHandler(handler)
    try:
        raise OSError("the disk\nis full")
    except OSError:
        logger.exception("it %s", "broke")
    finally:
        logger.removeHandler(handler)
    [raw] = out.getvalue().splitlines()
    line = json.loads(raw)
    assert (line["message"], line["level"]) == ("it broke", "error")
    assert "is full" in line["traceback"]
