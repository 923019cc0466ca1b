"""A tiny Gemma 4 through the engine's door: its scores are its own, in whatever company and passes."""

from typing import Any

import pytest
import torch

from spinf_serve.engine.api import Engine, open_engine
from spinf_serve.engine.bench.checks import answer_bits, invariance_checks
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.work import Limits, Work
from spinf_serve.packs.question import Prompt, Question
from tests.support.model_folders import save_tiny
from tests.support.tiny_models import TinyModel

CONTENT = "THE LATE BOX AND A BAD LID " * 12
QUESTIONS = tuple(
    Question("q", (Prompt(text),), ("A", "B", "CAB"), False)
    for text in ("\nLATE? ", "\nIS THE BOX BAD OR IS IT LATE? ", "\nA? ", "X")
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> tuple[str, TinyModel]:
    folder = tmp_path_factory.mktemp("models") / "gemma4"
    return str(folder), save_tiny(folder, "gemma4_with_tower")


def opened(folder: str, dtype: Any, **settings) -> Engine:
    config = EngineConfig(
        model=folder, device="cpu", dtype=dtype, threads=1, offline=True, **settings
    )
    return open_engine(config, Limits())


def test_the_log_says_what_is_left_out(saved):
    said: list[str] = []
    open_engine(EngineConfig(model=saved[0], device="cpu", offline=True), Limits(), said.append)
    [line] = [line for line in said if "left out" in line]
    assert line == "only text is read: left out 31 tensors (model.embed_vision, model.vision_tower)"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_alone_is_packed(saved, dtype):
    engine = opened(saved[0], dtype)
    works = [Work(CONTENT[:size], QUESTIONS) for size in (0, 1, 2, 5, 9, 40, 80, 200)]
    found = list(invariance_checks(engine, works))
    assert len(found) >= 6
    assert [one.name for one in found if not one.passed] == []


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_trunk_longer_than_a_pass_is_the_same(saved, dtype):
    wide, narrow = opened(saved[0], dtype), opened(saved[0], dtype, token_budget=64)
    works = [Work(CONTENT, QUESTIONS), Work("A BOX", QUESTIONS)]
    expected, found = wide.run(works), narrow.run(works)
    assert expected[0].counts.content_tokens > 3 * 64
    assert narrow.stats.passes > wide.stats.passes + 3
    assert [*map(answer_bits, found)] == [*map(answer_bits, expected)]
    for place, question in enumerate(QUESTIONS):
        [alone] = opened(saved[0], dtype, token_budget=128).run([Work(CONTENT, (question,))])
        assert answer_bits(alone) == answer_bits(expected[0])[place : place + 1]


def test_scores_are_those_of_transformers(saved):
    folder, made = saved
    engine = opened(folder, "float32")
    for content in (CONTENT, "A BOX", ""):
        [result] = engine.run([Work(content, QUESTIONS)])
        for question, answer in zip(QUESTIONS, result.answers, strict=True):
            text = content + question.prompts[0].text
            ids = [engine.tokenizer.bos_id, *engine.tokenizer.encode(text)]
            with torch.inference_mode():
                logits = made.reference(input_ids=torch.tensor([ids])).logits[0, -1]
            logprobs = torch.log_softmax(logits, -1)
            for option in answer.prompts[0].options[:2]:
                [token] = engine.tokenizer.encode(option.text)
                assert option.logprob == pytest.approx(float(logprobs[token]), abs=2e-5)
