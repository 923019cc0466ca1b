"""The engine around a made-up model: what is asked comes back, alone or in company, bit for bit."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinf_serve.engine.api import Engine
from spinf_serve.engine.bench.checks import answer_bits
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.fingerprint import cpu_fingerprint
from spinf_serve.engine.models.served import ServedModel
from spinf_serve.engine.work import Limits, Work
from spinf_serve.packs.errors import Fault, Refused
from spinf_serve.packs.question import Prompt, Question
from tests.support.fake_forward import FakeForward, next_logprobs
from tests.support.toy_tokenizers import ByteTokenizer

SERVED = ServedModel(
    id="toy",
    name="toy",
    description="made up",
    release_date="2026-01-01",
    aliases=(),
    base_model="toy",
    family="toy",
    capabilities=("score",),
    media=(),
    stand_in=True,
    note="",
    revision="0",
)


def engine_of(
    tokenizer=None,
    *,
    ahead=0,
    token_budget=64,
    context_tokens=100_000,
    floor_cache_size=1000,
    **limits,
) -> Engine:
    tokenizer = tokenizer or ByteTokenizer()
    return Engine(
        served=SERVED,
        tokenizer=tokenizer,
        forward=FakeForward(tokenizer.vocab_size, ahead),
        fingerprint=cpu_fingerprint("0" * 64, "float32", "test"),
        config=EngineConfig(token_budget=token_budget, floor_cache_size=floor_cache_size),
        limits=Limits(**limits),
        context_tokens=context_tokens,
    )


def fake(engine: Engine) -> FakeForward:
    return cast(FakeForward, engine._forward)


def ask(
    name: str, *texts: str, options: Sequence[str] = (" yes", " no"), floor=True, case=False
) -> Question:
    return Question(
        id=name,
        prompts=tuple(Prompt(text) for text in texts),
        options=tuple(options),
        case_insensitive=case,
        empty_floor=floor,
    )


def alone(tokenizer, content: str, prompt: str, option: str) -> float:
    """logprob of an option by the chain rule, straight from the definition."""
    bos = [] if tokenizer.bos_id is None else [tokenizer.bos_id]
    before = bos + tokenizer.encode(content + prompt)
    joint = bos + tokenizer.encode(content + prompt + option)
    assert joint[: len(before)] == before
    return sum(
        float(next_logprobs(joint[:n], tokenizer.vocab_size)[joint[n]])
        for n in range(len(before), len(joint))
    )


def test_logprobs_are_those_of_the_definition():
    engine = engine_of(max_option_tokens=9)
    content = "The parcel came two days late in a crushed box, and nobody called about it."
    question = ask("late", "\nLate? Answer:", options=[" yes", " no", " a bit", " a lot"])
    [result] = engine.run([Work(content, (question,))])
    [prompt] = result.answers[0].prompts
    for option in prompt.options:
        want = alone(engine.tokenizer, content, "\nLate? Answer:", option.text)
        floor = alone(engine.tokenizer, "", "\nLate? Answer:", option.text)
        assert option.logprob == pytest.approx(want, abs=1e-9)
        assert option.floor_logprob == pytest.approx(floor, abs=1e-9)
    assert sum(option.p for option in prompt.options) == pytest.approx(1, abs=1e-12)
    mass = sum(math.exp(option.logprob) for option in prompt.options)
    assert mass + prompt.residual == pytest.approx(1, abs=1e-12)
    assert not result.answers[0].single_read


words = st.text(st.sampled_from("ab \n"), max_size=60)
prompts = st.text(st.sampled_from("xyz \n?"), max_size=8)
questions = st.lists(
    st.builds(
        lambda texts, floor: ask("q", *texts, floor=floor, options=(" a", " ab", "b")),
        st.lists(prompts, min_size=1, max_size=3),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(words, questions), min_size=2, max_size=4), st.integers(1, 200))
def test_company_moves_no_bit(specs, budget):
    together = engine_of(token_budget=budget).run(
        [Work(content, tuple(asked)) for content, asked in specs]
    )
    for (content, asked), result in zip(specs, together, strict=True):
        for n, question in enumerate(asked):
            [single] = engine_of().run([Work(content, (question,))])
            assert answer_bits(single) == _bits_of(result, n)


def _bits_of(result, n):
    return answer_bits(type(result)((result.answers[n],), result.counts, result.join_merged))


def test_empty_content_is_its_own_floor():
    [result] = engine_of().run([Work("", (ask("q", "\nx:", "\ny:", ""),))])
    for prompt in result.answers[0].prompts:
        assert prompt.residual == prompt.floor_residual
        for option in prompt.options:
            assert option.logprob == option.floor_logprob
            assert option.p == option.floor_p


def test_floors_are_read_once_and_kept():
    engine = engine_of(token_budget=10_000)
    asked = (ask("a", "\nx:"), ask("b", "\ny:"))
    first = engine.run([Work("some words here", asked), Work("other words", asked)])
    rows = sum(fake(engine).rows)
    again = engine.run([Work("some words here", (ask("a", "\nx:"), ask("c", "\nz:")))])
    assert answer_bits(again[0])[0] == answer_bits(first[0])[0]
    content_rows = [result.counts.packed_tokens for result in first + again]
    # bos, newline, letter, colon, space, y, e, n: the last letter of an option is read, not fed.
    floors_of_first, floors_of_second = 2 + 2 * 6, 2 + 6
    assert rows == sum(content_rows[:2]) + floors_of_first
    assert sum(fake(engine).rows) == sum(content_rows) + floors_of_first + floors_of_second


def test_floors_that_left_the_cache_are_read_again():
    engine = engine_of(floor_cache_size=1)
    one = engine.run([Work("words", (ask("a", "\nx:", "\ny:", "\nz:"),))])
    engine.run([Work("words", (ask("a", "\nx:"),))])
    two = engine.run([Work("words", (ask("b", "\ny:", "\nz:"),))])
    assert answer_bits(two[0]) == answer_bits(one[0])[1:]


def test_placeholder_names_belong_to_the_work_that_gave_them():
    engine = engine_of()
    first = Question("q", (Prompt("\nIs it x?", {"A": "x"}),), (" yes", " no"), False)
    second = Question("q", (Prompt("\nIs it x?", {"B": "x"}),), (" yes", " no"), False)
    results = engine.run([Work("words", (first,)), Work("words", (second,))])
    assert [dict(result.answers[0].prompts[0].values) for result in results] == [
        {"A": "x"},
        {"B": "x"},
    ]


def test_a_nan_fails_its_own_work_only():
    engine = engine_of()
    fake(engine).nan_tokens = {ord("#")}
    asked = (ask("q", "\nx:"),)
    jobs = [engine.compile(Work(text, asked)) for text in ("clean words", "a # here", "clean too")]
    for job in jobs:
        engine.submit(job)
    outcomes: dict[int, Any] = {}
    while engine.pending:
        outcomes |= {id(job): outcome for job, outcome in engine.step()}
    kinds = [type(outcomes[id(job)]).__name__ for job in jobs]
    assert kinds == ["Result", "Fault", "Result"]
    assert engine.stats.nan_faults == 1
    assert engine.run([Work("clean words", asked)])


def test_a_nan_floor_is_not_kept():
    engine = engine_of()
    fake(engine).nan_tokens = {ord("x")}
    with pytest.raises(Fault, match="empty content"):
        engine.run([Work("words", (ask("q", "\nx:"),))])
    fake(engine).nan_tokens = set()
    assert engine.run([Work("words", (ask("q", "\nx:"),))])


@pytest.mark.parametrize("faults", ["start_faults", "finish_faults"])
def test_a_failing_forward_fails_what_lay_in_the_pass_and_nothing_behind_it(faults):
    engine = engine_of(token_budget=10_000)
    getattr(fake(engine), faults)[0] = MemoryError("no memory")
    with pytest.raises(Fault, match="MemoryError"):
        engine.run([Work("words", (ask("q", "\nx:"),))])
    assert engine.pending == 0
    assert engine.run([Work("words", (ask("q", "\nx:"),))])


def test_a_cancelled_work_is_not_answered_and_keeps_nothing():
    engine = engine_of(token_budget=64)
    asked = (ask("q", *(f"\n{n} x:" for n in range(40)), floor=False),)
    jobs = [engine.compile(Work("words " * 40, asked)) for _ in range(2)]
    for job in jobs:
        engine.submit(job)
    for _ in range(6):
        assert engine.step() == []
    engine.cancel(jobs[0])
    outcomes = []
    while engine.pending:
        outcomes += engine.step()
    assert [job for job, _ in outcomes] == [jobs[1]]
    assert not fake(engine).kept


@pytest.mark.parametrize(
    ("work", "limits", "code", "param"),
    [
        (Work("x" * 65, (ask("q", "\nx:"),)), {"max_content_tokens": 64}, "content_too_long", "content"),
        (Work("", (ask("a", "\nx:"), ask("q", "x" * 9))), {"max_query_tokens": 8}, "template_too_long", "questions.1.template"),
        (Work("", (ask("q", "\nx:", options=[" y", " toolong"]),)), {}, "option_too_long", "questions.0.options.1"),
        (Work("", (ask("q", "\nx:", "\ny:", "\nz:"),)), {"max_prompts_per_input": 2}, "too_many_prompts", "questions"),
        (Work("", ()), {}, "empty_queries", None),
    ],
)  # fmt: skip
def test_limits_are_refused_with_their_field(work, limits, code, param):
    engine = engine_of(**limits)
    with pytest.raises(Refused) as refused:
        engine.compile(work)
    assert (refused.value.code, refused.value.param) == (code, param)


def test_a_pack_s_question_may_be_longer_than_a_caller_s():
    engine = engine_of(max_query_tokens=8)
    long = ask("q", "x" * 9)
    with pytest.raises(Refused, match="max_query_tokens"):
        engine.compile(Work("", (long,)))
    (result,) = engine.run([Work("", (replace(long, any_length=True),))])
    assert result.answers[0].prompts[0].options[0].logprob < 0


def test_a_content_of_the_limit_is_read_and_one_more_token_refused():
    engine = engine_of(max_content_tokens=64)
    asked = (ask("q", "\nx:"),)
    assert engine.run([Work("x" * 64, asked)])[0].counts.content_tokens == 64
    with pytest.raises(Refused, match="65.*64"):
        engine.compile(Work("x" * 65, asked))


def test_the_model_context_bounds_content_question_and_option_together():
    engine = engine_of(context_tokens=20)
    asked = (ask("q", "\nx:", options=[" y", " nn"]),)
    most = 20 - 1 - len("\nx:") - len(" nn")
    assert engine.run([Work("x" * most, asked)])
    with pytest.raises(Refused, match="21 tokens"):
        engine.compile(Work("x" * (most + 1), asked))
