"""Slots and written texts on a card: answers of the CPU's, and the same bits whatever runs beside them."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, cast

import pytest
import torch

from spinf_serve.engine.api import Engine
from spinf_serve.engine.bench.checks import answer_bits
from spinf_serve.engine.bench.extraction import FAR
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.extraction.answers import SlotAnswers
from spinf_serve.engine.extraction.search import Search
from spinf_serve.engine.fingerprint import cpu_fingerprint
from spinf_serve.engine.forward import ModelForward
from spinf_serve.engine.kernels.cpu import CpuOps
from spinf_serve.engine.kernels.ops import Ops, WeightScheme
from spinf_serve.engine.models.registry import Model, build
from spinf_serve.engine.work import Generate, Limits, Work
from spinf_serve.packs.question import Prompt, Sampling, Slot
from spinf_serve.packs.template import SlotKind
from tests.engine.test_api import SERVED, ask
from tests.engine.test_slot_bits import CONTENTS, LONG
from tests.support.tiny_models import TINY, random_checkpoint
from tests.support.toy_tokenizers import ByteTokenizer

pytestmark = pytest.mark.gpu

CACHE_BYTES = 1 << 24
SCHEMES = {
    "float32": (torch.float32, WeightScheme()),
    "fp8": (torch.bfloat16, WeightScheme("fp8", "rows")),
}


def slots() -> tuple[Slot, ...]:
    drawn = Sampling(temperature=1.5, top_k=40, seed=5, n=2)
    text = (Prompt('\nIt says "'),)
    return (
        Slot("found", text, SlotKind.TEXT, stop='"', max_tokens=5),
        Slot("days", (Prompt("\nHow many days late was all of it?"),), SlotKind.NUMBER, "", 4),
        Slot("paid", (Prompt("\nPaid:"),), SlotKind.AMOUNT, "", 4),
        Slot("drawn", text, SlotKind.TEXT, stop='"', max_tokens=20, sampling=drawn),
        Slot("best", text, SlotKind.TEXT, stop='"', max_tokens=9, sampling=Sampling()),
    )


@cache
def _on_card(name: str, scheme: str) -> Model:
    from spinf_serve.engine.kernels.gpu import GpuOps

    dtype, weights = SCHEMES[scheme]
    return _model(name, GpuOps(dtype, torch.device("cuda"), weights))


def _model(name: str, ops: Ops) -> Model:
    spec = TINY[name][0]
    model = build(spec, random_checkpoint(spec), ops)
    ops.keep_up_to(CACHE_BYTES, model.shapes)
    return model


@cache
def _graphs(name: str, scheme: str):
    from spinf_serve.engine.graphs import Graphs

    model = _on_card(name, scheme)
    graphs = Graphs(model, cast(Any, model.ops))
    graphs.record()
    return graphs


def engine(name: str, scheme: str, *, budget: int = 2048, recorded: bool = True) -> Engine:
    model = _on_card(name, scheme)
    return _engine(
        ModelForward(model, model.ops, _graphs(name, scheme) if recorded else None), budget
    )


def _engine(forward: ModelForward, budget: int = 2048) -> Engine:
    return Engine(
        served=SERVED,
        tokenizer=ByteTokenizer(),
        forward=forward,
        fingerprint=cpu_fingerprint("0" * 64, "float32", "test"),
        config=EngineConfig(token_budget=budget, trunk_cache_bytes=CACHE_BYTES),
        limits=Limits(max_option_tokens=64),
        context_tokens=4096,
    )


def filled(engine: Engine, works: Sequence[Work]) -> list[list[SlotAnswers]]:
    """What the slots of each work gave, searched to the end."""
    jobs = [engine.compile(work) for work in works]
    for job in jobs:
        for slot in job.slots:
            if isinstance(slot, Search):
                slot.effort = FAR
        engine.submit(job)
    found: dict[int, list[SlotAnswers]] = {}
    while engine.pending:
        for job, outcome in engine.step():
            assert not isinstance(outcome, Exception), outcome
            found[job.tree.key] = [answers for one in outcome.slots for answers in one]
    assert not engine._slots.saved_rows
    engine.forget()
    return [found[job.tree.key] for job in jobs]


def _crowd() -> list[Work]:
    questions = (ask("q", "\nLate?", '\nIt says "'), ask("r", "\nIt", floor=False))
    works = [
        Work(content, questions if number % 2 else (), slots=slots())
        for number, content in enumerate(CONTENTS)
    ]
    return [*works, Work(LONG, questions), Work(LONG[:80], (), slots=slots()[:1])]


@pytest.mark.parametrize("name", ("llama_tied", "gemma3", "gemma4"))
def test_answers_are_those_of_the_cpu(name):
    ops = CpuOps(torch.float32)
    on_cpu = _engine(ModelForward(_model(name, ops), ops))
    works = [Work(content, (), slots=slots()) for content in CONTENTS]
    theirs = filled(on_cpu, works)
    ours = filled(engine(name, "float32"), works)
    compared = 0
    for mine, yours in zip(ours, theirs, strict=True):
        for one, other in zip(mine, yours, strict=True):
            assert one.kind == other.kind
            assert [text.text for text in one.generated] == [text.text for text in other.generated]
            expected = {answer.text: answer.p for answer in other.found}
            compared += len(expected)
            # Two orders of summation may pick another of two continuations that are alike.
            common = expected.keys() & {answer.text for answer in one.found}
            assert len(expected) - len(common) <= max(1, 0.1 * len(expected))
            # What is hardly ever written may have gained or lost a spelling so.
            least = 0.01 * max(expected.values(), default=0.0)
            for answer in one.found:
                if answer.text in common and expected[answer.text] > least:
                    # A number's end is what the others leave of one: little of it is left exactly.
                    near = math.isclose(answer.p, expected[answer.text], rel_tol=2e-2, abs_tol=1e-7)
                    assert near
            assert math.isclose(one.mass, other.mass, rel_tol=2e-2, abs_tol=1e-9)
    assert compared > 40


@pytest.mark.parametrize(
    ("name", "scheme"), [(n, s) for n in ("llama_tied", "gemma4") for s in SCHEMES]
)
def test_company_order_and_recording_move_no_bit(name, scheme):
    works = [work for work in _crowd() if work.slots]
    alone = [filled(engine(name, scheme, recorded=False), [work])[0] for work in works]
    assert any(answers.found for one in alone for answers in one)
    assert any(answers.generated for one in alone for answers in one)
    for recorded in (True, False):
        for budget in (2048, 96):
            for order in (1, -1):
                crowd = _crowd()[::order]
                found = _with_slots(engine(name, scheme, budget=budget, recorded=recorded), crowd)
                assert found[::order] == alone, (recorded, budget, order)
    each = [
        [
            filled(engine(name, scheme), [replace(work, questions=(), slots=(slot,))])[0][0]
            for slot in work.slots
        ]
        for work in works
    ]
    assert each == alone


def _with_slots(engine: Engine, works: Sequence[Work]) -> list[list[SlotAnswers]]:
    found = filled(engine, works)
    return [one for one, work in zip(found, works, strict=True) if work.slots]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_questions_have_the_bits_they_have_without_slots(scheme):
    questions = (ask("q", "\nLate?", '\nIt says "'), ask("r", "\nIt", floor=False))
    one = engine("gemma4", scheme)
    [alone] = one.run([Work(LONG, questions)])
    one.forget()
    [beside] = one.run([Work(LONG, questions, slots=slots())])
    assert answer_bits(beside) == answer_bits(alone)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_second_ask_continues_the_content_and_has_the_same_bits(scheme):
    work = Work(LONG, (ask("q", "\nLate?"),), slots=slots())
    one = engine("gemma4", scheme)
    results = [one.run([work])[0] for _ in range(2)]
    assert one.stats.trunk_hits == 1
    assert one.stats.trunk_cached_tokens > 60
    assert results[0].slots == results[1].slots
    assert answer_bits(results[0]) == answer_bits(results[1])
    one.forget()


@pytest.mark.parametrize("times", (2, 14, 20))
def test_few_rows_behind_a_long_content_have_the_bits_of_a_first_ask(times):
    """Recorded passes hold few rows; behind a kept content their positions are far."""
    content = LONG * times
    first, second = (ask(name, f"\n{name} late?", floor=False) for name in ("Was it", "How"))
    one = engine("gemma4", "fp8", budget=4096)
    one.run([Work(content, (first,))])
    rows = one.stats.rows
    [later] = one.run([Work(content, (second,), slots=slots())])
    assert one.stats.trunk_cached_tokens >= len(content) // 64 * 64 - 64
    assert one.stats.rows - rows < len(content)
    one.forget()
    plain = engine("gemma4", "fp8", budget=4096, recorded=False)
    [alone] = plain.run([Work(content, (second,), slots=slots())])
    assert answer_bits(later) == answer_bits(alone)
    assert later.slots == alone.slots
    plain.forget()


def test_a_cancelled_work_leaves_nothing_and_the_next_one_has_its_bits():
    one = engine("gemma4", "fp8")
    long = Sampling(temperature=2.0, top_k=40, n=4, seed=1)
    prompt = (Prompt("\nOnce"),)
    work = Work(LONG, (), slots=(Slot("s", prompt, SlotKind.TEXT, "", 64, sampling=long),))
    [before] = one.run([work])
    assert max(text.tokens for text in before.slots[0][0].generated) > 6
    job = one.compile(work)
    one.submit(job)
    for _ in range(3):
        one.step()
    assert one._slots.saved_rows
    one.cancel(job)
    assert not one._slots.saved_rows
    steps = one.stats.decode_rows
    assert one.step() == []
    assert one.stats.decode_rows == steps
    assert one.run([work])[0].slots == before.slots
    one.forget()


def test_a_text_with_a_seed_is_written_again_beside_others():
    one = engine("gemma4", "fp8")
    wanted = Generate(
        "The parcel", max_tokens=30, sampling=Sampling(temperature=1.2, top_k=40, seed=3)
    )
    alone = "".join(one.generate(wanted))
    assert alone
    job = one.compile(Work(LONG, (), slots=slots()))
    one.submit(job)
    assert "".join(one.generate(wanted)) == alone
    one.cancel(job)
    one.forget()
