"""Slots over HTTP: what they take, what they answer, what they cost, and who is refused."""

import math
from dataclasses import replace
from typing import Any

import pytest
from spinf_client.client import SpinfClient, query, text  # type: ignore[import-untyped]

from spinf_serve.server.config import ServerConfig
from spinf_serve.server.wire.slots import Calibration
from tests.contract.conftest import LIMITS, TOKEN
from tests.contract.test_errors import assert_error, assert_works
from tests.support.servers import question, request, running
from tests.support.stub_engine import SERVED, StubEngine

CONTENT = "Order 8841 came 2 days late. $12 went back, or 1,234 points. (5)"
ORDER: Any = {"id": "order", "template": '\nThe order is "{*}"'}
DAYS: Any = {"id": "days", "template": "\nDays late:{n}"}
BACK: Any = {"id": "back", "template": "\nAmount returned:{$}"}
LINE: Any = {"id": "line", "template": '\nIn one line: "{*}"', "generate": True}


@pytest.fixture(scope="module")
def server():
    """A server on the stub; `test_written_embedded.py` asks a model the most important of these."""
    config = ServerConfig(limits=LIMITS, max_body_bytes=64 * 1024)
    with running(lambda: StubEngine(LIMITS).as_engine(), config) as it:
        yield it


def answered(server, *queries: dict[str, Any], content: str = CONTENT) -> dict[str, Any]:
    answer = server.score(request(content, *queries))
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def found(server, *queries: dict[str, Any]) -> list[dict[str, Any]]:
    return answered(server, *queries)["results"][0]["queries"]  # type: ignore[no-any-return]


def test_slots_and_questions_are_answered_in_the_order_in_which_they_were_asked(server):
    asked = [ORDER, question("late"), DAYS, BACK, question("more"), LINE]
    answers = found(server, *asked)
    assert [one["id"] for one in answers] == [one["id"] for one in asked]
    kinds = [one.get("kind") for one in answers]
    assert kinds == ["text", None, "number", "currency", None, "text"]
    assert [one.get("generate") for one in answers] == [None] * 5 + [True]


def test_the_shape_of_each_kind(server):
    order, days, back, line = found(server, ORDER, DAYS, BACK, LINE)
    for slot in (order, days, back):
        assert slot.keys() == {"id", "kind", "combinations"}
        [combination] = slot["combinations"]
        ps = [one["p"] for one in combination["answers"]]
        assert ps == sorted(ps, reverse=True) and ps and all(0 <= p <= 1 for p in ps)
        assert sum(ps) <= combination["mass"] + 1e-5 <= 1 + 2e-5
    assert order["combinations"][0].keys() == {"values", "answers", "mass"}
    assert order["combinations"][0]["answers"][0].keys() == {"text", "p"}
    assert days["combinations"][0].keys() == {"values", "answers", "mass", "p_negative"}
    for one in days["combinations"][0]["answers"]:
        assert {"text", "p", "value"} <= one.keys() <= {"text", "p", "value", "unit", "ambiguous",
                                                        "values"}  # fmt: skip
    for one in back["combinations"][0]["answers"]:
        assert {"text", "p", "value", "currency"} <= one.keys()
    assert line.keys() == {"id", "kind", "generate", "combinations"}
    [written] = line["combinations"]
    assert written.keys() == {"values", "answers"}
    assert [one.keys() for one in written["answers"]] == [{"text", "finish"}]
    assert written["answers"][0]["finish"] in ("stop", "length")


def test_two_readings_are_both_told_and_one_is_not_flagged(stub_server):
    [days] = found(stub_server, DAYS | {"top_k": 20})
    by_text = {one["text"]: one for one in days["combinations"][0]["answers"]}
    assert by_text["1,234"] == {
        "text": "1,234",
        "p": by_text["1,234"]["p"],
        "value": 1234.0,
        "ambiguous": True,
        "values": [1234.0, 1.234],
    }
    assert by_text["(5)"].keys() == {"text", "p", "value"}
    assert by_text["(5)"]["value"] == -5.0


def test_combinations_fill_a_slot_each(server):
    grid = {"template": "\nHow many {W}:{n}", "combinations": [{"W": "days"}, {"W": "points"}]}
    body = answered(server, DAYS | grid)
    [days] = body["results"][0]["queries"]
    assert [one["values"] for one in days["combinations"]] == [{"W": "days"}, {"W": "points"}]
    assert body["usage"]["extraction"]["slots"] == 2


def test_top_k_bounds_what_is_shown_and_not_the_mass(stub_server):
    one, all_of_them = found(stub_server, DAYS | {"top_k": 1}, DAYS | {"id": "all", "top_k": 20})
    [short], [long] = one["combinations"], all_of_them["combinations"]
    assert len(short["answers"]) == 1 < len(long["answers"]) == 5
    assert short["answers"] == long["answers"][:1]
    assert short["mass"] == long["mass"]


def test_a_calibration_is_that_of_the_formula(server):
    [days] = found(server, DAYS | {"calibration": {"a": 0.8, "b": 1.1}})
    [combination] = days["combinations"]
    p = combination["answers"][0]["p"]
    wanted = 1 / (1 + math.exp(-(0.8 * math.log(p / (1 - p)) + 1.1)))
    assert combination["p_calibrated"] == pytest.approx(wanted, abs=2e-5)


@pytest.mark.parametrize(
    ("a", "b", "p", "wanted"),
    [
        (1, 0, 0.25, 0.25),
        (1, 0, 0.0, 1e-9),
        (1, 0, 1.0, 1 - 1e-9),
        (1e6, 0, 0.9, 1.0),
        (1e6, 0, 0.1, 0.0),
        (0, 2, 0.3, 1 / (1 + math.exp(-2))),
    ],
)
def test_a_calibration_never_overflows(a, b, p, wanted):
    assert Calibration(a, b)(p) == pytest.approx(wanted, abs=1e-12)


def test_a_slot_without_an_answer_has_neither_calibration_nor_sign(stub_server):
    answer = answered(stub_server, DAYS | {"calibration": {}}, content="no digits")
    [combination] = answer["results"][0]["queries"][0]["combinations"]
    assert combination == {"values": {}, "answers": [], "mass": 0.0}


def test_full_precision_is_unrounded(stub_server):
    body = request(CONTENT, ORDER | {"top_k": 20}, precision="full")
    [order] = stub_server.score(body).json()["results"][0]["queries"]
    ps = [one["p"] for one in order["combinations"][0]["answers"]]
    assert any(round(p, 6) != p for p in ps)


def test_a_group_is_echoed(server):
    assert found(server, DAYS | {"group": "mine"})[0]["group"] == "mine"


def test_own_slots_of_an_input_stand_behind_the_shared_queries(server):
    entry = {"id": "a", "messages": [{"role": "user", "content": CONTENT}], "queries": [ORDER]}
    other = {"id": "b", "messages": [{"role": "user", "content": "Thanks 3."}], "query_ids": ["q"]}
    body = {"inputs": [entry, other], "scoring": {"queries": [DAYS, question()]}}
    a, b = server.score(body).json()["results"]
    assert [one["id"] for one in a["queries"]] == ["days", "q", "order"]
    assert [one["id"] for one in b["queries"]] == ["q"]


def test_a_template_that_ends_in_a_space_is_warned_of(server):
    [warning] = answered(server, DAYS | {"template": "\nDays late: {n}"})["warnings"]
    assert (warning["code"], warning["query_id"]) == ("template_ends_in_space", "days")
    assert "{n}" in warning["message"]


def test_usage_and_timing_tell_of_slots(stub_server):
    body = answered(stub_server, ORDER, DAYS, BACK, LINE | {"max_tokens": 3}, question())
    usage = body["usage"]
    assert usage["extraction"] == {
        "slots": 4,
        "text": 2,
        "number": 1,
        "currency": 1,
        "answers": 8 + 5 + 1 + 1,
        "decode_tokens": 25 + 16 + 4,
    }
    assert usage["generation"] == {
        "slots": 1,
        "sequences": 1,
        "max_tokens": 3,
        "generated_tokens": 3,
    }
    assert usage["completion_tokens"] == 3
    assert usage["total_tokens"] == usage["prompt_tokens"] + 3
    assert usage["scoring"]["queries"] == usage["scoring"]["prompts"] == 1
    plain = answered(stub_server, question())["usage"]
    templates = sum(
        len(StubEngine().tokenizer.encode(one["template"].split("{")[0]))
        for one in (ORDER, DAYS, BACK, LINE)
    )
    assert usage["scoring"]["query_tokens"] == plain["scoring"]["query_tokens"] + templates
    reserved = 6 * (16 + 16 + 16 + 3)
    assert usage["processed_tokens"] == plain["processed_tokens"] + templates + reserved
    assert body["timing"]["decode_ms"] >= 0
    assert "extraction" not in plain and "generation" not in plain
    assert "decode_ms" not in answered(stub_server, question())["timing"]


@pytest.mark.parametrize(
    ("code", "param", "queries"),
    [
        ("invalid_field", "queries.0.options", [DAYS | {"options": [" 1"]}]),
        ("invalid_field", "queries.0.max_tokens", [DAYS | {"max_tokens": 65}]),
        ("invalid_field", "queries.0.max_tokens", [DAYS | {"max_tokens": 0}]),
        ("invalid_field", "queries.0.max_tokens", [DAYS | {"max_tokens": 2.0}]),
        ("invalid_field", "queries.0.max_tokens", [LINE | {"max_tokens": 101}]),
        ("invalid_field", "queries.0.top_k", [DAYS | {"top_k": 21}]),
        ("invalid_field", "queries.0.top_k", [DAYS | {"top_k": True}]),
        ("invalid_field", "queries.0.top_k", [LINE | {"top_k": 3}]),
        ("invalid_field", "queries.0.calibration", [LINE | {"calibration": {}}]),
        ("invalid_field", "queries.0.calibration", [DAYS | {"calibration": [1, 0]}]),
        ("invalid_field", "queries.0.calibration.a", [DAYS | {"calibration": {"a": "1"}}]),
        ("invalid_field", "queries.0.calibration.b", [DAYS | {"calibration": {"b": 10**400}}]),
        ("invalid_field", "queries.0.generate", [DAYS | {"generate": True}]),
        ("invalid_field", "queries.0.generate", [LINE | {"generate": "yes"}]),
        ("invalid_field", "queries.0.generate.temp", [LINE | {"generate": {"temp": 1}}]),
        ("invalid_field", "queries.0.generate.n", [LINE | {"generate": {"n": 7}}]),
        ("invalid_field", "queries.0.generate.seed", [LINE | {"generate": {"seed": 2**31}}]),
        ("invalid_field", "queries.0.generate.top_p", [LINE | {"generate": {"top_p": 0}}]),
        ("invalid_field", "queries.0.generate.top_k", [LINE | {"generate": {"top_k": 101}}]),
        (
            "invalid_field",
            "queries.0.generate.temperature",
            [LINE | {"generate": {"temperature": 2.5}}],
        ),
        ("invalid_field", "queries.0.max_tokens", [question(max_tokens=5)]),
        ("invalid_field", "queries.0.generate", [question(generate=True)]),
        ("invalid_template", "queries.0.template", [DAYS | {"template": "\nDays:{n} days"}]),
        ("invalid_template", "queries.0.template", [ORDER | {"template": '\n"{*}" {n}'}]),
        ("missing_value", "queries.0.combinations", [DAYS | {"template": "\n{W}:{n}"}]),
        ("duplicate_id", "queries.1.id", [DAYS, DAYS]),
        ("template_too_long", "queries.1.template", [DAYS, ORDER | {"template": "so " * 99 + "{*}"}]),
    ],
)  # fmt: skip
def test_what_slots_refuse(server, code, param, queries):
    assert_error(server.score(request(CONTENT, *queries)), code, f"scoring.{param}")


def test_slots_of_an_input_are_counted_with_their_combinations(server):
    grid = DAYS | {
        "template": "\n{W}:{n}",
        "combinations": "all",
        "values": {"W": list("abcdefghij")},
    }
    assert_error(server.score(request(CONTENT, grid, ORDER)), "too_many_extractions", "inputs.0")
    assert len(found(server, grid)[0]["combinations"]) == 10


def test_what_slots_may_cost_counts_before_anything_is_read():
    limits = replace(LIMITS, max_processed_tokens=1000)
    stub = StubEngine(limits)
    with running(stub.as_engine, ServerConfig(limits=limits)) as server:
        many = [LINE | {"id": str(n), "max_tokens": 100} for n in range(2)]
        assert_error(server.score(request(CONTENT, *many)), "request_too_large", None)
        assert server.score(request(CONTENT, many[0])).status_code == 200
    assert len(stub.passes) == 1


def served_with(**changes: Any) -> StubEngine:
    stub = StubEngine(LIMITS)
    stub.served = replace(SERVED, **changes)
    return stub


@pytest.mark.parametrize(
    ("stub", "config", "why"),
    [
        (served_with(capabilities=("score",)), ServerConfig(), "only scores"),
        (StubEngine(LIMITS), ServerConfig(extraction=False, generation=False), "--no-"),
    ],
)
def test_a_server_without_slots_refuses_them_and_scores(stub, config, why):
    with running(stub.as_engine, config) as server:
        for asked, code, field in (
            (DAYS, "extraction_disabled", "template"),
            (ORDER, "extraction_disabled", "template"),
            (LINE, "generation_disabled", "generate"),
        ):
            answer = server.score(request(CONTENT, asked))
            assert_error(answer, code, f"scoring.queries.0.{field}")
            assert why in answer.json()["error"]["message"]
        assert_works(server)
        [model] = server.http.get("/v1/models").json()["models"]
        assert model["features"] == {"media": [], "extraction": False, "generation": False}


def test_a_trusted_caller_may_switch_slots_off_and_lower_their_number():
    config = ServerConfig(limits=LIMITS, token=TOKEN)
    with running(lambda: StubEngine(LIMITS).as_engine(), config) as server:
        server.http.headers["Authorization"] = f"Bearer {TOKEN}"
        body = request(CONTENT, DAYS, LINE)
        assert server.score(body).status_code == 200
        for features, code in (
            ({"extraction": False}, "extraction_disabled"),
            ({"generation": False}, "generation_disabled"),
        ):
            assert server.score(body | {"features": features}).json()["error"]["code"] == code
        fewer = {"limits": {"max_extractions_per_input": 1}}
        assert_lower = server.score(body | fewer).json()
        assert assert_lower["error"]["code"] == "too_many_extractions"
        shorter = server.score(body | {"limits": {"max_query_tokens": 2}}).json()
        assert shorter["error"]["param"] == "scoring.queries.0.template"


def test_nobody_else_may(server):
    body = request(CONTENT, DAYS) | {"features": {"extraction": False}}
    assert server.score(body).status_code == 200


def test_the_query_helpers_of_the_client_ask_them_all(server):
    queries = [
        query("late", "\nWas it late? Answer:{?}", options=[" yes", " no"]),
        query("order", '\nThe order is "{*}"', max_tokens=8, top_k=2),
        query("days", "\nDays late:{n}", calibration=(0.8, 1.1)),
        query("back", "\nAmount returned:{$}"),
        query("line", '\nIn one line: "{*}"', generate=True, max_tokens=12),
        query(
            "two",
            '\nIn other words: "{*}"',
            generate={"temperature": 0.7, "top_p": 0.8, "top_k": 20, "seed": 1, "n": 2},
        ),
    ]
    with SpinfClient(base_url=server.url) as client:
        out = client.score(content=[text(CONTENT)], queries=queries)
    _, order, days, _, line, two = out["results"][0]["queries"]
    assert len(order["combinations"][0]["answers"]) <= 2
    assert "p_calibrated" in days["combinations"][0]
    assert len(line["combinations"][0]["answers"]) == 1
    assert len(two["combinations"][0]["answers"]) == 2
    assert out["usage"]["generation"]["sequences"] == 3


def test_slots_alone_need_no_question_and_move_no_answer(server):
    alone = found(server, DAYS)
    beside = found(server, question("late"), DAYS, ORDER, LINE)
    assert beside[1] == alone[0]
    assert found(server, question("late")) == beside[:1]


def test_a_fault_of_the_content_is_that_of_its_slots_too(stub_server):
    answer = stub_server.score(request("<nan> 3", DAYS))
    assert_error(answer, "engine_error", "inputs.0")
