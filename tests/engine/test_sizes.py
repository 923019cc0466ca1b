"""Sizes that must work, on a tiny model: thousands of prompts, long contents, both families."""

import random
import resource

import pytest
import torch

from spinf_serve.engine.api import Engine
from spinf_serve.engine.bench.checks import answer_bits
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.fingerprint import cpu_fingerprint
from spinf_serve.engine.forward import ModelForward
from spinf_serve.engine.kernels.cpu import CpuOps
from spinf_serve.engine.models.registry import build
from spinf_serve.engine.work import Limits, Work
from spinf_serve.packs.question import Prompt, Question
from tests.engine.test_api import SERVED, ask
from tests.support.tiny_models import tiny
from tests.support.toy_tokenizers import ByteTokenizer


def engine_on(name: str, *, token_budget: int = 2048, dtype=torch.float32) -> Engine:
    model = tiny(name)
    ops = CpuOps(dtype)
    return Engine(
        served=SERVED,
        tokenizer=ByteTokenizer(),
        forward=ModelForward(build(model.spec, model.checkpoint, ops), ops),
        fingerprint=cpu_fingerprint("0" * 64, "float32", "test"),
        config=EngineConfig(token_budget=token_budget),
        limits=Limits(max_content_tokens=60_000, max_option_tokens=9),
        context_tokens=100_000,
    )


def prompts(count: int) -> Question:
    draw = random.Random(count)
    texts = [f"\n{draw.randrange(10**6)} {n}? Answer:" for n in range(count)]
    return Question("q", tuple(map(Prompt, texts)), (" yes", " no"), False, False)


def test_ten_thousand_prompts_on_one_content():
    engine = engine_on("llama_tied")
    content = "The parcel came two days late in a crushed box. " * 3
    asked = prompts(10_000)
    [result] = engine.run([Work(content, (asked,))])
    assert engine.stats.rows <= 1.02 * result.counts.packed_tokens
    everything = answer_bits(result)
    assert len(everything) == 10_000
    for place in (0, 4_999, 9_999):
        alone = Question("q", asked.prompts[place : place + 1], asked.options, False, False)
        assert (
            answer_bits(engine.run([Work(content, (alone,))])[0]) == everything[place : place + 1]
        )


@pytest.mark.parametrize("name", ["llama_tied", "gemma3"])
def test_a_content_longer_than_a_pass_has_the_bits_of_one_pass(name):
    content = "The parcel came two days late in a crushed box. " * 60
    work = Work(content, (prompts(40),))
    [wide] = engine_on(name, token_budget=8192).run([work])
    for budget in (512, 640):
        narrow = engine_on(name, token_budget=budget)
        [result] = narrow.run([work])
        assert narrow.stats.passes > 4
        assert answer_bits(result) == answer_bits(wide)


def test_a_long_content_is_read_in_bounded_memory():
    engine = engine_on("llama_tied")
    asked = (ask("q", "\nLate? Answer:", options=(" yes", " no"), floor=False),)
    engine.run([Work("word " * 400, asked)])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    [result] = engine.run([Work("word " * 3_200, asked)])
    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert result.counts.content_tokens == 16_000
    # A dense 16,000 x 16,000 score matrix of the five heads would take 4.8 GiB.
    assert grown_mib < 300
    assert not engine._forward._ops._kept  # type: ignore[attr-defined]


def test_a_thousand_options():
    engine = engine_on("gemma3")
    options = tuple(f" {n}" for n in range(1000))
    [result] = engine.run([Work("Count them.", (ask("q", "\nNumber:", options=options),))])
    assert sum(option.p for option in result.answers[0].prompts[0].options) == pytest.approx(1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["llama_tied", "gemma3"])
def test_company_order_and_budget_move_no_bit(name, dtype):
    asked = (ask("a", "\nLate? Answer:", "\nLate again? Answer:"), ask("b", "\nA refund:"))
    contents = ["", "x", "ab", "a b c", "word " * 2, "word " * 13, "word " * 26, "late " * 70]
    works = [Work(content, asked) for content in contents]
    together = [answer_bits(r) for r in engine_on(name, dtype=dtype).run(works)]
    small = engine_on(name, dtype=dtype, token_budget=100)
    assert [answer_bits(r) for r in small.run(works[::-1])][::-1] == together
    for work, bits in zip(works, together, strict=True):
        one = Work(work.content, asked[1:])
        assert answer_bits(engine_on(name, dtype=dtype).run([one])[0]) == bits[2:]
