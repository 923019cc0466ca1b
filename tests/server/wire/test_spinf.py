"""Reading bodies: what is shared, what is bounded, what is warned of."""

from dataclasses import replace
from typing import Any

import pytest

from spinf_serve.engine.work import Limits
from spinf_serve.packs.errors import Refused
from spinf_serve.server.auth import ANYBODY, Caller
from spinf_serve.server.wire.json_text import Document
from spinf_serve.server.wire.spinf import read_request
from tests.support.servers import inputs, no_packs, question, request
from tests.support.stub_engine import StubEngine, named

TRUSTED = Caller(trusted=True, sees_counters=True)
GRID = question(template="{A}{B}{?}", combinations="all")


def read(body: Any, limits: Limits | None = None, caller: Caller = ANYBODY, chat: bool = False):
    return read_request(Document(body), StubEngine(limits).as_engine(), caller, chat, no_packs())


def refusal(body: Any, limits: Limits | None = None) -> Refused:
    with pytest.raises(Refused) as caught:
        read(body, limits)
    return caught.value


def test_inputs_with_the_same_selection_share_one_tuple_of_questions():
    body = inputs("a", "b", "c", "d", "e")
    body["scoring"]["queries"] = [question("x"), question("y")]
    for entry, ids in zip(
        body["inputs"], [None, None, ["y", "x"], ["y", "x"], ["x", "y"]], strict=True
    ):
        entry["query_ids"] = ids
    a, b, c, d, e = read(body).call.inputs
    assert a.questions is b.questions
    assert c.questions is d.questions
    assert [q.id for q in c.questions] == ["y", "x"]
    assert c.question_paths == ("scoring.queries.1", "scoring.queries.0")
    assert a.questions == e.questions


def test_own_questions_follow_the_chosen_ones_with_their_own_paths():
    body = inputs("a")
    body["inputs"][0]["queries"] = [question("own")]
    [entry] = read(body).call.inputs
    assert [q.id for q in entry.questions] == ["q", "own"]
    assert entry.question_paths == ("scoring.queries.0", "inputs.0.queries.0")


def test_defaults_of_the_call_hold_for_questions_that_do_not_differ():
    body = request(
        "x",
        question("a"),
        question("b", empty_floor=True),
        empty_floor=False,
        case_insensitive=False,
    )
    a, b = read(body).call.inputs[0].questions
    assert (a.empty_floor, b.empty_floor) == (False, True)
    assert not a.case_insensitive
    default = read(request()).call.inputs[0].questions[0]
    assert default.empty_floor and default.case_insensitive


@pytest.mark.parametrize("null", ["queries", "query_ids", "parameters"])
def test_null_is_the_same_as_absent_in_an_input(null):
    body = inputs("a")
    body["inputs"][0][null] = None
    assert read(body).call == read(inputs("a")).call


def test_null_is_the_same_as_absent_in_a_query_and_in_scoring():
    nulls: dict[str, Any] = dict.fromkeys(
        ["combinations", "values", "empty_floor", "group", "max_tokens", "generate"]
    )
    body = request("x", question(**nulls), empty_floor=None, case_insensitive=None, packs=None)
    assert read(body).call == read(request("x")).call


def test_parameters_are_ignored_without_packs():
    body = inputs("a")
    body["inputs"][0]["parameters"] = "not even an object"
    assert read(body).call == read(inputs("a")).call


def test_the_default_model_is_the_served_one():
    assert read(request()).model == "stub/words-1"


def test_a_refusal_of_a_model_names_those_that_are_served():
    message = refusal(request() | {"model": "gpt-6"}).message
    assert "'gpt-6'" in message and "stub/words-1" in message and "jev-latest" in message


def test_a_refusal_of_a_model_names_no_served_name_twice():
    for served, also in (
        (named("my-model"), ", also called stub, spinf-12b, jev-latest, stub/base"),
        (replace(named("my-model"), name="My-Model", aliases=(), base_model=""), ""),
    ):
        stub = StubEngine()
        stub.served = served
        with pytest.raises(Refused) as caught:
            read_request(
                Document(request() | {"model": "x"}), stub.as_engine(), ANYBODY, False, no_packs()
            )
        assert caught.value.message.endswith(f"; this server serves my-model{also}")


def test_the_chat_route_says_where_its_questions_belong():
    with pytest.raises(Refused) as caught:
        read({"messages": []}, chat=True)
    assert caught.value.code == "scoring_required"
    assert "scoring is missing" in caught.value.message
    assert "give scoring.queries" in caught.value.message


def test_a_trusted_caller_s_misspelt_limits_and_features_are_warned_of():
    body = request() | {"limits": {"max_opitons": 1, "x": 2}, "features": {"medai": []}}
    notes = read(body, caller=TRUSTED).warnings
    assert [(note.code, note.param) for note in notes] == [
        ("ignored_field", "limits.max_opitons"),
        ("ignored_field", "features.medai"),
    ]
    assert "did you mean `max_options`?" in notes[0].message
    assert not read(body).warnings


@pytest.mark.parametrize("count", [20, 21])
def test_answers_are_bounded_before_anything_is_tokenised(count):
    limits = Limits(max_processed_tokens=40)
    body = inputs(*["x"] * count)
    if count == 20:
        assert len(read(body, limits).call.inputs) == 20
        return
    error = refusal(body, limits)
    assert (error.code, error.param) == ("request_too_large", None)
    assert "42 probabilities" in error.message and "40" in error.message


def test_filled_templates_are_bounded_even_when_no_input_asks_them():
    values = {"A": [str(n) for n in range(30)], "B": [str(n) for n in range(30)]}
    body = inputs("x")
    body["scoring"]["queries"] += [GRID | {"id": f"g{n}", "values": values} for n in range(3)]
    body["inputs"][0]["query_ids"] = ["q"]
    assert read(body, Limits(max_processed_tokens=2701)).call.inputs[0].questions[0].id == "q"
    assert refusal(body, Limits(max_processed_tokens=2700)).code == "request_too_large"


def test_characters_of_filled_templates_are_bounded_before_anything_is_tokenised():
    values = {"A": ["x" * 200], "B": [str(n) for n in range(100)]}
    body = request("x", GRID | {"template": "{A}" * 10 + "{B}{?}", "values": values})
    chars = 100 * 2000 + 190
    assert read(body, Limits(max_processed_tokens=chars // 8 + 1))
    error = refusal(body, Limits(max_processed_tokens=chars // 8))
    assert error.code == "request_too_large"
    assert f"{chars} characters" in error.message


def test_too_many_prompts_says_both_numbers():
    body = request("x", GRID | {"values": {"A": list("abc"), "B": list("abc")}})
    assert read(body, Limits(max_prompts_per_input=9))
    error = refusal(body, Limits(max_prompts_per_input=8))
    assert (error.code, error.param) == ("too_many_prompts", "inputs.0")
    assert "9" in error.message and "8" in error.message


def test_a_trusted_caller_lowers_limits_for_one_call():
    body = request() | {"limits": {"max_options": 3, "max_content_tokens": 10**9, "max_frames": 2}}
    own = Limits()
    assert read(body, own, TRUSTED).call.limits == Limits(max_options=3)
    assert read(body, own, ANYBODY).call.limits == own


def test_an_object_full_of_unknown_fields_is_neither_slow_nor_loud():
    body = request() | {f"optionz{n}": n for n in range(50_000)}
    assert read(body).warnings == ()
    assert len(read(body, chat=True).warnings) == 32


@pytest.mark.parametrize(
    ("pack", "code", "param"),
    [
        ("spinf/moderation", "invalid_field", "scoring.packs.0"),
        ({}, "invalid_field", "scoring.packs.0.id"),
        ({"id": "a/b", "mode": "max"}, "invalid_field", "scoring.packs.0.mode"),
        ({"id": "a/b"}, "unknown_pack", "scoring.packs.0.id"),
    ],
)
def test_packs_are_not_served_yet(pack, code, param):
    error = refusal(request(packs=[pack]))
    assert (error.code, error.param) == (code, param)


def test_empty_ids_are_allowed_and_the_longest_ones_too():
    body = {
        "inputs": [{"id": "", "messages": []}, {"id": "i" * 128, "messages": []}],
        "scoring": {"queries": [question(""), question("q" * 128, group="g" * 128)]},
        "endpoint": "e" * 128,
    }
    call = read(body).call
    assert [entry.id for entry in call.inputs] == ["", "i" * 128]
    assert [entry.id for entry in call.inputs[0].questions] == ["", "q" * 128]
