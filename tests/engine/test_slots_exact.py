"""Slots through the whole engine against brute force: every continuation of up to four tokens, read
by a plain pass that knows no slots.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
import torch

from spinf_serve.engine.api import Engine
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.extraction.merging import text_key
from spinf_serve.engine.extraction.numbers.reader import read
from spinf_serve.engine.extraction.search import Effort, NumberSearch, TextSearch
from spinf_serve.engine.fingerprint import cpu_fingerprint
from spinf_serve.engine.forward import ModelForward
from spinf_serve.engine.kernels.cpu import CpuOps
from spinf_serve.engine.models.registry import build
from spinf_serve.engine.tree.packing import Reads, new_tree, next_pass
from spinf_serve.engine.tree.trie import build_trie
from spinf_serve.engine.work import Limits, Result, Work
from spinf_serve.packs.question import Prompt, Slot
from spinf_serve.packs.template import SlotKind
from tests.engine.extraction.test_search import is_viable, merged, number_key_of, text_oracle
from tests.engine.extraction.toy_model import (
    Tokens,
    ToyModel,
    ToyTokenizer,
    continuations,
    numbers_by_enumeration,
)
from tests.engine.test_api import SERVED
from tests.support.tiny_models import TINY, random_checkpoint

MOST = 4
WORDS = ("a", " the", "C", "++", '"', '."', "\n")
DIGITS = ("1", "00", ",", ".", "-", "%")
MONEY = ("1", "00", ".", "$", " EUR")
EVERYTHING = Effort(10**9, 10**9, 0.0, 0.0, spare=10**6)


class PieceTokenizer(ToyTokenizer):
    """Texts as the longest pieces that they begin with."""

    bos_id: int | None = None

    def encode(self, text: str) -> list[int]:
        left, tokens = text.encode(), []
        while left:
            fitting = [piece for piece in self.pieces if left.startswith(piece)]
            tokens.append(self.pieces.index(max(fitting, key=len)))
            left = left.removeprefix(self.pieces[tokens[-1]])
        return tokens

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def encode_with_ends(self, text: str) -> tuple[list[int], list[int]]:
        tokens = self.encode(text)
        return tokens, np.cumsum([len(self.pieces[token]) for token in tokens]).tolist()

    def breaks_before(self, char: str) -> bool:
        return False


class RealModel(ToyModel):
    """What a model says behind a prompt, of every continuation, from plain passes."""

    def __init__(self, engine: Engine, prompt: Tokens) -> None:
        super().__init__(engine.tokenizer.vocab_size, 0)
        vocab = self.vocab
        every = [tokens for tokens, _ in continuations(_Even(vocab), MOST)]
        trie = build_trie([prompt + tokens for tokens in every])
        nodes = np.unique(trie.end)
        starts = np.arange(len(nodes) + 1, dtype=np.int32) * vocab
        wanted = Reads(nodes, starts, np.tile(np.arange(vocab, dtype=np.int32), len(nodes)))
        none = np.zeros(0, np.int32)
        packed = next_pass([new_tree(1, none, none, trie, wanted)], 10**6)
        assert packed is not None
        forward = engine._forward
        logprobs = forward.finish(forward.start(packed)).logprobs.astype(np.float64)
        row = {int(node): n for n, node in enumerate(nodes)}
        for tokens, end in zip(every, trie.end, strict=True):
            n = row[int(end)]
            self._known[tokens] = logprobs[vocab * n : vocab * (n + 1)]


class _Even(ToyModel):
    def __init__(self, vocab: int) -> None:
        super().__init__(vocab, 0)

    def logprobs(self, tokens: Tokens) -> np.ndarray:
        return np.full(self.vocab, -math.log(self.vocab))


def engine_of(pieces: Sequence[str]) -> Engine:
    tokenizer = PieceTokenizer(pieces)
    # With the cap no token is out of the question.
    spec = replace(TINY["gemma3"][0], vocab=tokenizer.vocab_size, logit_soft_cap=2.0)
    ops = CpuOps(torch.float32)
    return Engine(
        served=SERVED,
        tokenizer=tokenizer,
        forward=ModelForward(build(spec, random_checkpoint(spec), ops), ops),
        fingerprint=cpu_fingerprint("0" * 64, "float32", "test"),
        config=EngineConfig(token_budget=700),
        limits=Limits(),
        context_tokens=1024,
    )


def _pieces(engine: Engine) -> list[bytes]:
    return cast(PieceTokenizer, engine.tokenizer).pieces


def answers_of(engine: Engine, content: str, slot: Slot, search=None):
    job = engine.compile(Work(content, (), slots=(slot,)))
    if search is not None:
        job.slots = (search,)
    engine.submit(job)
    while engine.pending:
        for _, result in engine.step():
            assert isinstance(result, Result)
            [[answers]] = result.slots
    return answers


@pytest.mark.parametrize(("stop", "content"), (('"', "a the"), ("", 'C++"' * 20), ("a", "")))
def test_texts(stop, content):
    engine = engine_of(WORDS)
    slot = Slot("s", (Prompt(" theC"),) if content else (Prompt("C++"),), SlotKind.TEXT, stop, MOST)
    prompt = tuple(engine.tokenizer.encode(content + slot.prompts[0].text))
    model = RealModel(engine, prompt)
    found = text_oracle(model, _pieces(engine), stop)
    expected = merged(found, text_key)
    vocabulary = engine._vocabulary()
    search = TextSearch(vocabulary, stop, max_tokens=MOST, effort=EVERYTHING)
    answers = answers_of(engine, content, slot, search)
    assert [one.p for one in answers.found] == pytest.approx([p for _, p in expected], abs=1e-5)
    assert answers.mass == pytest.approx(math.fsum(found.values()), abs=1e-5)
    assert _order(answers.found, text_key) == [text_key(text) for text, _ in expected]
    usual = answers_of(engine, content, slot)
    exact = {text_key(text): p for text, p in expected}
    for answer in usual.found:
        assert answer.p <= exact[text_key(answer.text)] + 1e-5


@pytest.mark.parametrize(
    ("kind", "pieces", "content"),
    [("number", DIGITS, "1,00"), ("number", DIGITS, "-1." * 30), ("amount", MONEY, "$1.00")],
)
def test_numbers(kind, pieces, content):
    engine = engine_of(pieces)
    slot = Slot(
        "s",
        (Prompt("1."),),
        SlotKind.NUMBER if kind == "number" else SlotKind.AMOUNT,
        max_tokens=MOST,
    )
    model = RealModel(engine, tuple(engine.tokenizer.encode(content + "1.")))
    found = numbers_by_enumeration(
        model,
        _pieces(engine),
        MOST,
        is_viable(kind),
        lambda text: read(text, kind) is not None,
    )
    expected = merged(found, lambda text: number_key_of(text, kind))
    vocabulary = engine._vocabulary()
    search = NumberSearch(vocabulary, kind, max_tokens=MOST, effort=EVERYTHING)
    answers = answers_of(engine, content, slot, search)
    assert len(expected) > 20
    assert [one.p for one in answers.found] == pytest.approx([p for _, p in expected], abs=1e-5)
    assert answers.mass == pytest.approx(math.fsum(found.values()), abs=1e-5)
    by_key = [number_key_of(one.text, kind) for one in answers.found]
    assert by_key == [number_key_of(text, kind) for text, _ in expected]


def _order(found, key) -> list[object]:
    return [key(one.text) for one in found]
