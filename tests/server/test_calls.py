"""Calls: errors with the caller's paths, tokens counted, warnings."""

import pytest

from spinf_serve.engine.work import Counts, Limits, Result
from spinf_serve.packs.answer import PromptAnswer, QuestionAnswer
from spinf_serve.packs.errors import Busy, Fault, Refused
from spinf_serve.packs.question import Prompt, Question
from spinf_serve.server.call_warnings import warnings_of
from spinf_serve.server.calls import Call, Input
from spinf_serve.server.compiling import Budget, compile_call, located
from spinf_serve.server.usage import usage_of
from tests.support.stub_engine import StubEngine

LATE = Question("late", (Prompt("Late?"),), (" yes", " no"))
GRID = Question("grid", (Prompt("A?", {"F": "A"}), Prompt("B?", {"F": "B"})), (" x", " y", " z"))
ENTRY = Input("a", "inputs.3", "text", (LATE, GRID), ("scoring.queries.7", "inputs.3.queries.0"), 2)


@pytest.mark.parametrize(
    ("param", "path"),
    [
        ("content", "inputs.3"),
        (None, "inputs.3"),
        ("questions", "inputs.3"),
        ("questions.0.options.1", "scoring.queries.7.options.1"),
        ("questions.1.combinations.5", "inputs.3.queries.0.combinations.5"),
        ("questions.1", "inputs.3.queries.0"),
    ],
)
def test_paths_of_a_work_become_paths_of_the_request(param, path):
    refused = located(Refused("option_too_long", "m", param), ENTRY)
    assert isinstance(refused, Refused)
    assert (refused.code, refused.message, refused.param) == ("option_too_long", "m", path)
    fault = located(Fault("m", param), ENTRY)
    assert isinstance(fault, Fault)
    assert fault.param == path


def test_an_error_without_a_place_stays_as_it_is():
    busy = Busy("warming_up", "m", 10)
    assert located(busy, ENTRY) is busy


def counts(content=0, query=0, packed=0, floors=None) -> Counts:
    return Counts(content, query, packed, floors or {})


def test_usage_counts_shared_questions_once_and_prompts_for_each_input():
    shared = (LATE, GRID)
    own = (LATE, Question("own", (Prompt("C?"),), (" x",)))
    paths = ("p", "p")
    call = Call(
        tuple(
            Input(str(n), f"inputs.{n}", "", q, paths, len(q))
            for n, q in enumerate([shared, shared, own])
        ),
        Limits(),
    )
    floors = {1: 10, 2: 20}
    costs = [counts(5, 7, 12, floors), counts(6, 7, 13, floors), counts(1, 2, 3, {2: 20, 3: 30})]
    usage = usage_of(call, [Result((), cost, True) for cost in costs])
    assert (usage.inputs, usage.questions, usage.combinations, usage.options) == (3, 3, 4, 6)
    assert usage.prompts == 3 + 3 + 2
    assert (usage.content_tokens, usage.query_tokens, usage.packed_tokens) == (12, 16, 28)
    assert (usage.floor_prompts, usage.floor_tokens) == (3, 60)
    assert usage.processed_tokens == 88


@pytest.mark.parametrize(("limit", "fits"), [(25, True), (24, False)])
def test_a_call_is_refused_as_soon_as_its_tokens_are_too_many(limit, fits):
    # Twice a content of 5 tokens and a question of 5, and its floor of 5 once.
    question = Question("q", (Prompt("is it so late?"),), (" yes",))
    entries = tuple(
        Input(name, f"inputs.{n}", "a b c d e", (question,), ("scoring.queries.0",), 1)
        for n, name in enumerate("ab")
    )
    engine = StubEngine().as_engine()
    call = Call(entries, Limits(max_processed_tokens=limit))
    if fits:
        assert len(compile_call(engine, call)) == 2
        return
    with pytest.raises(Refused) as caught:
        compile_call(engine, call)
    assert (caught.value.code, caught.value.param) == ("request_too_large", None)
    assert "25" in caught.value.message and "24" in caught.value.message


def test_a_budget_refuses_what_goes_beyond():
    budget = Budget(10, "things")
    budget.take(4)
    budget.take(6)
    with pytest.raises(Refused, match="11 things") as caught:
        budget.take(1)
    assert caught.value.code == "request_too_large"


@pytest.mark.parametrize(
    ("residuals", "single", "warned"),
    [
        ([0.9], True, False),
        ([0.91], True, True),
        ([0.91], False, False),
        ([1.0, 0.79], True, False),
        ([1.0, 0.81], True, True),
    ],
)
def test_a_question_is_poor_when_most_mass_lies_outside_its_options(residuals, single, warned):
    prompts = tuple(PromptAnswer({}, (), residual, None) for residual in residuals)
    result = Result((QuestionAnswer("late", prompts, single),), counts(), True)
    call = Call((Input("a", "inputs.0", "", (LATE,), ("scoring.queries.0",), 1),), Limits())
    found = warnings_of(call, [result])
    assert [(w.code, w.input_id, w.question_id) for w in found] == (
        [("low_option_mass", "a", "late")] if warned else []
    )


@pytest.mark.parametrize(
    ("text", "warned"), [("\nLate? Answer: ", True), ("\nLate? Answer:", False)]
)
def test_a_template_that_ends_in_a_space_is_pointed_out_once(text, warned):
    question = Question("late", (Prompt(text),), (" yes", " no"))
    entries = tuple(
        Input(name, f"inputs.{n}", "", (question,), ("scoring.queries.0",), 1)
        for n, name in enumerate("ab")
    )
    prompt = PromptAnswer({}, (), 0.1, None)
    result = Result((QuestionAnswer("late", (prompt,), True),), counts(), True)
    found = warnings_of(Call(entries, Limits()), [result, result])
    assert [(w.code, w.param, w.question_id) for w in found] == (
        [("template_ends_in_space", "scoring.queries.0.template", "late")] if warned else []
    )
