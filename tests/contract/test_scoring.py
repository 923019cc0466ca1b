"""What a 200 of /v1/score holds, on every engine that is served."""

import json
import math
import re

import pytest

from tests.contract.test_errors import assert_error, assert_works
from tests.support.servers import inputs, question, request

GRID = question(
    "grid",
    template="\nDoes it mention {F}? Answer:{?}",
    combinations=[{"F": "damage"}, {"F": "a refund"}],
    empty_floor=False,
)


def scored(server, body, **headers):
    answer = server.score(body, **headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def ignored(body):
    """Fields that a response says were ignored."""
    return [entry["param"] for entry in body["warnings"] if entry["code"] == "ignored_field"]


def combination(body, query=0, place=0, entry=0):
    return body["results"][entry]["queries"][query]["combinations"][place]


def test_a_response_has_the_documented_shape(server):
    answer = server.score(request("It came late.", question("late"), GRID) | {"endpoint": "desk"})
    body = answer.json()
    served = server.http.get("/v1/models").json()["data"][0]["id"]
    assert list(body) == [
        "id", "object", "created", "model", "endpoint", "system_fingerprint", "results",
        "warnings", "usage", "timing",
    ]  # fmt: skip
    assert re.fullmatch("scr_[0-9A-HJKMNP-TV-Z]{26}", body["id"])
    assert body["id"] == answer.headers["X-Request-Id"]
    assert (body["object"], body["model"], body["endpoint"]) == ("score", served, "desk")
    assert answer.headers["X-Spinf-Model"] == served
    assert re.fullmatch("fp_[0-9a-f]{10}", body["system_fingerprint"])
    assert body["timing"].keys() == {
        "wall_ms", "queue_ms", "compile_ms", "score_ms", "gpu_busy_ms",
    }  # fmt: skip
    assert all(type(value) is int and value >= 0 for value in body["timing"].values())
    [result] = body["results"]
    assert result["input_id"] == "0"
    late, grid = result["queries"]
    assert (list(late), list(grid)) == (["id", "combinations"], ["id", "combinations"])
    assert [list(entry) for entry in grid["combinations"]] == [
        ["values", "options", "residual", "floor_residual"]
    ] * 2
    assert [entry["values"] for entry in grid["combinations"]] == [
        {"F": "damage"},
        {"F": "a refund"},
    ]
    assert [option["text"] for option in late["combinations"][0]["options"]] == [" yes", " no"]
    assert list(late["combinations"][0]["options"][0]) == ["text", "logprob", "p", "floor_p"]
    assert grid["combinations"][0]["floor_residual"] is None
    assert {option["floor_p"] for option in grid["combinations"][0]["options"]} == {None}


def test_values_are_rounded_to_six_decimals_and_full_precision_is_not(server):
    rounded = combination(scored(server, request()))
    full = combination(scored(server, request(precision="full")))
    for short, long in zip(rounded["options"], full["options"], strict=True):
        assert long.keys() == short.keys() | {"floor_logprob"}
        for key in ("logprob", "p", "floor_p"):
            assert short[key] == round(long[key], 6)
        assert any(long[key] != short[key] for key in ("logprob", "p", "floor_p"))
        assert math.exp(long["floor_logprob"]) <= 1
    assert rounded["residual"] == round(full["residual"], 6)
    assert abs(sum(option["p"] for option in full["options"]) - 1) < 1e-12
    mass = sum(math.exp(option["logprob"]) for option in full["options"])
    assert abs(mass + full["residual"] - 1) < 1e-6


def test_the_model_is_echoed_as_the_caller_wrote_it(server):
    for name in ("SPINF-12B", "jev-latest"):
        assert scored(server, request() | {"model": name})["model"] == name


def test_inputs_choose_shared_queries_and_add_their_own(server):
    shared = [question("a"), GRID, question("c", options=[" x", " y", " z"])]
    entries = [
        {"id": "all", "messages": []},
        {"id": "some", "messages": [], "query_ids": ["c", "a"]},
        {"id": "own", "messages": [], "query_ids": ["a"], "queries": [question("c")]},
        {"id": "none", "messages": [], "query_ids": [], "queries": [question("d")]},
    ]
    body = scored(server, {"inputs": entries, "scoring": {"queries": shared}})
    assert {
        result["input_id"]: [query["id"] for query in result["queries"]]
        for result in body["results"]
    } == {"all": ["a", "grid", "c"], "some": ["c", "a"], "own": ["a", "c"], "none": ["d"]}
    assert [result["input_id"] for result in body["results"]] == ["all", "some", "own", "none"]
    scoring = body["usage"]["scoring"]
    assert (scoring["queries"], scoring["combinations"], scoring["options"]) == (5, 6, 11)
    assert scoring["prompts"] == 4 + 2 + 2 + 1
    # The same prompt and options under three ids is one floor; the grid asks for none.
    assert scoring["floor_prompts"] == 2


def test_usage_adds_up_over_inputs_and_counts_a_floor_once(server):
    one = scored(server, request("It came late."))["usage"]
    two = scored(server, inputs("It came late.", "It came late."))["usage"]
    assert two["inputs"] == 2
    assert two["content"]["tokens"] == 2 * one["content"]["tokens"] > 0
    assert two["scoring"]["query_tokens"] == 2 * one["scoring"]["query_tokens"] > 0
    assert two["scoring"]["floor_tokens"] == one["scoring"]["floor_tokens"] > 0
    for usage in (one, two):
        details = usage["prompt_tokens_details"]
        assert (
            usage["prompt_tokens"]
            == usage["total_tokens"]
            == (details["content_tokens"] + details["query_tokens"] + details["floor_tokens"])
        )
        assert usage["completion_tokens"] == 0
        assert usage["processed_tokens"] >= usage["content"]["tokens"]
    assert two["processed_tokens"] > one["processed_tokens"]
    assert "packed_tokens" not in one


def test_messages_are_joined_with_a_blank_line_and_parts_with_nothing(server):
    parts = [{"type": "text", "text": "It came "}, {"type": "text", "text": "late."}]
    messages = [
        {"role": "user", "content": parts},
        {"role": "user", "content": "It was crushed."},
    ]
    apart = scored(server, request() | {"messages": messages})
    joined = scored(server, request("It came late.\n\nIt was crushed."))
    assert apart["results"] == joined["results"]


def test_one_content_is_an_input_named_0(server):
    assert scored(server, request("x"))["results"] == scored(server, inputs("x"))["results"]


@pytest.mark.parametrize("content", ["", []])
def test_an_empty_content_gets_its_floor(server, content):
    for option in combination(scored(server, request(content, precision="full")))["options"]:
        assert option["p"] == option["floor_p"]
        assert option["logprob"] == option["floor_logprob"]


def test_blank_content_is_content(server):
    empty = scored(server, request(""))["usage"]["content"]["tokens"]
    for blank in (" ", "\n\n"):
        assert scored(server, request(blank))["usage"]["content"]["tokens"] > empty == 0
    assert scored(server, request() | {"messages": []})["usage"]["content"]["tokens"] == 0


@pytest.mark.parametrize("value", ["a {?} b", "}", "{{n}}"])
def test_braces_in_content_and_values_are_text(server, value):
    asked = question(template="\nIs it {A}? Answer:{?}", combinations=[{"A": value}])
    body = scored(server, request("See {?}, {{ and {name}.", asked))
    assert combination(body)["values"] == {"A": value}
    assert body["usage"]["scoring"]["prompts"] == 1


def test_options_that_differ_in_case_or_outer_space_only_are_refused_by_their_index(server):
    same = question(options=["Billing", "Billing ", "billing"])
    refused = server.score(request("x", same))
    assert_error(refused, "duplicate_option", "scoring.queries.0.options.1")
    assert "0" in refused.json()["error"]["message"] and "1" in refused.json()["error"]["message"]
    apart = combination(scored(server, request("x", same, case_insensitive=False)))
    assert [option["text"] for option in apart["options"]] == same["options"]


def test_a_single_option_is_certain(server):
    [option] = combination(scored(server, request("x", question(options=[" yes"]))))["options"]
    assert option["p"] == 1.0


def test_a_group_is_echoed_and_moves_no_score(server):
    plain = combination(scored(server, request("x", question())))
    body = scored(server, request("x", question(group="g"), question("b")))
    assert body["results"][0]["queries"][0]["group"] == "g"
    assert "group" not in body["results"][0]["queries"][1]
    assert combination(body) == plain


def test_limits_are_in_tokens_and_the_refusal_names_both_numbers(server):
    limit = server.config.limits.max_content_tokens
    body = scored(server, request(" a" * limit))
    assert body["usage"]["content"]["tokens"] == limit
    refused = server.score(request(" a" * (limit + 1)))
    assert_error(refused, "content_too_long", "inputs.0")
    message = refused.json()["error"]["message"]
    assert str(limit) in message and str(limit + 1) in message
    assert_works(server)


def test_rare_characters_count_as_tokens_not_characters(server):
    rare = "\U00013000\U0001f9ff" * 40
    answer = server.score(request(rare))
    if answer.status_code == 200:
        assert (
            answer.json()["usage"]["content"]["tokens"] <= server.config.limits.max_content_tokens
        )
    else:
        assert_error(answer, "content_too_long", "inputs.0")
    assert_error(server.score(request(rare * 20)), "content_too_long", "inputs.0")


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (request("half \ud83d"), "inputs.0.messages.0.content"),
        (inputs("x", "\ude00"), "inputs.1.messages.0.content"),
        (request("x", question(id="\udfff")), "scoring.queries.0.id"),
        (request("x", question(options=["a", "\ud800"])), "scoring.queries.0.options.1"),
        (request("x", question(template="\ud800{?}")), "scoring.queries.0.template"),
        (request() | {"model": "\ud800"}, "model"),
        (request() | {"endpoint": "\ud800"}, "endpoint"),
        (request() | {"unknown": {"deep": ["\ud800"]}}, "unknown.deep.0"),
        (request() | {"user": {"\ud800": 1}}, "user"),
    ],
)
def test_half_a_surrogate_pair_is_refused_with_its_path(server, body, path):
    # httpx cannot send such text; escapes can.
    raw = json.dumps(body, ensure_ascii=True).encode()
    answer = server.http.post("/v1/score", content=raw)
    assert_error(answer, "invalid_field", path)
    assert "surrogate" in answer.json()["error"]["message"]
    assert_works(server)


def test_a_whole_surrogate_pair_is_a_character(server):
    raw = json.dumps(request("\U0001f600"), ensure_ascii=True).encode()
    assert b"\\ud83d\\ude00" in raw
    assert (
        server.http.post("/v1/score", content=raw).json()["results"]
        == (scored(server, request("\U0001f600"))["results"])
    )


def test_a_byte_order_mark_is_read_over(server):
    raw = b"\xef\xbb\xbf" + json.dumps(request()).encode()
    assert server.http.post("/v1/score", content=raw).status_code == 200


@pytest.mark.parametrize(
    ("body", "near"),
    [
        (request("x", {"id": "a", "template": "{?}", "optoins": [" a"]}), "`options`"),
        (request("x", {"id": "a", "tempalte": "{?}", "options": [" a"]}), "`template`"),
        ({"mesages": [], "scoring": {"queries": [question()]}}, "`messages`"),
        ({"input": [], "scoring": {"queries": [question()]}}, "`inputs`"),
        ({"messages": [], "scoring": {"querys": [question()]}}, "`queries`"),
        ({"messages": [], "scorings": {"queries": [question()]}}, "`scoring`"),
    ],
)
def test_what_is_missing_points_at_a_misspelling(server, body, near):
    answer = server.score(body)
    assert answer.status_code == 400
    assert f"did you mean {near}" in answer.json()["error"]["message"]


def test_a_misspelt_field_that_is_not_needed_is_ignored_with_a_warning(server):
    body = scored(server, request("x", question(empty_flor=False), case_insensitve=False))
    assert combination(body)["options"][0]["floor_p"] is not None
    assert ignored(body) == ["scoring.case_insensitve", "scoring.queries.0.empty_flor"]


def test_unknown_fields_are_ignored_in_silence(server):
    body = request("x", question(note="mine")) | {"temperature": 0.3, "metadata": {"a": [1]}}
    body["messages"][0]["name"] = "Ann"
    body["scoring"]["packs"] = []
    answer = scored(server, body)
    assert ignored(answer) == []
    assert answer["results"] == scored(server, request("x", question()))["results"]


@pytest.mark.parametrize("temperature", [0, 0.3, 1.7])
def test_the_chat_alias_scores_the_same_at_any_temperature_and_says_so(server, temperature):
    sent = request() | {"temperature": temperature, "max_tokens": 5}
    answer = server.http.post("/v1/chat/completions", json=sent)
    body = answer.json()
    assert answer.status_code == 200
    assert body["choices"] == []
    assert body["object"] == "score"
    assert body["results"] == scored(server, request())["results"]
    assert ignored(body) == ["temperature", "max_tokens"]


def test_the_chat_alias_warns_of_a_misspelt_field_once(server):
    sent = request("x", question(empty_flor=False)) | {"endpiont": "x"}
    body = server.http.post("/v1/chat/completions", json=sent).json()
    assert sorted(ignored(body)) == ["endpiont", "scoring.queries.0.empty_flor"]
