"""What a slot is shown has the bits that the same tokens have as an option, whatever runs beside it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, cast

import numpy as np
import pytest
import torch

from spinf_serve.engine.api import Engine
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.extraction.answers import SlotAnswers
from spinf_serve.engine.extraction.search import Effort, NumberSearch
from spinf_serve.engine.extraction.steps import Ask, Seen
from spinf_serve.engine.extraction.steps import Slot as Asking
from spinf_serve.engine.fingerprint import cpu_fingerprint
from spinf_serve.engine.forward import ModelForward
from spinf_serve.engine.kernels.cpu import CpuOps
from spinf_serve.engine.models.registry import build
from spinf_serve.engine.tree.packing import Reads, new_tree, next_pass
from spinf_serve.engine.tree.trie import build_trie
from spinf_serve.engine.work import Limits, Work
from spinf_serve.packs.question import Prompt, Sampling, Slot
from spinf_serve.packs.template import SlotKind
from tests.engine.test_api import SERVED, ask
from tests.support.oracles import nan_memory, threads
from tests.support.tiny_models import TINY, random_checkpoint
from tests.support.toy_tokenizers import ByteTokenizer

LONG = "The parcel came two days late in a crushed box. Nobody called about it, and the card was charged."
CONTENTS = ("", "Short.", LONG[:62], LONG * 2)
MODELS = ("llama_tied", "gemma3_wide", "gemma4_wide")
DTYPES = (torch.float32, torch.bfloat16)
VOCAB = 257
"""Tokens that the tokenizer knows; the models have some more."""

Tokens = tuple[int, ...]
Bits = dict[tuple[int, Tokens], tuple[bytes, bytes, bytes, bytes]]


@dataclass(eq=False)
class Recorder:
    """A slot, and all that it was shown."""

    inner: Asking
    asked: list[Ask] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)

    def asks(self) -> Sequence[Ask]:
        return self.inner.asks()

    def take(self, seen: Sequence[Seen]) -> None:
        self.asked += self.inner.asks()
        self.seen += seen
        self.inner.take(seen)

    def answers(self) -> SlotAnswers:
        return self.inner.answers()


def slots() -> tuple[Slot, ...]:
    drawn = Sampling(temperature=1.5, top_k=40, seed=5, n=2)
    texts = {"prompts": (Prompt('\nIt says "'), Prompt("\nIt")), "kind": SlotKind.TEXT}
    number = (Prompt("\nHow many days late was all of it?"),)
    return (
        Slot("found", **cast(Any, texts), stop='"', max_tokens=4),
        Slot("days", number, SlotKind.NUMBER, max_tokens=4),
        Slot("drawn", **cast(Any, texts), max_tokens=20, sampling=drawn),
        Slot("best", **cast(Any, texts), max_tokens=9, sampling=Sampling()),
    )


@cache
def _model(name: str, dtype: torch.dtype) -> Any:
    spec = TINY[name.removesuffix("_wide")][0]
    if name.endswith("_wide"):
        layers = tuple(replace(layer, window=layer.window and 70) for layer in spec.layers)
        spec = replace(spec, layers=layers)
    return build(spec, random_checkpoint(spec), CpuOps(dtype))


def _engine(name: str, dtype: torch.dtype, budget: int = 2048, cache_bytes: int = 0) -> Engine:
    return engine_on(_model(name, dtype), budget, cache_bytes)


def engine_on(model: Any, budget: int = 2048, cache_bytes: int = 0) -> Engine:
    """An engine around a model; texts are bytes to it."""
    model.ops.keep_up_to(cache_bytes, model.shapes)
    return Engine(
        served=SERVED,
        tokenizer=ByteTokenizer(),
        forward=ModelForward(model, model.ops),
        fingerprint=cpu_fingerprint("0" * 64, "float32", "test"),
        config=EngineConfig(token_budget=budget, trunk_cache_bytes=cache_bytes),
        limits=Limits(max_option_tokens=64),
        context_tokens=1024,
    )


def recorded(engine: Engine, works: Sequence[Work]) -> list[Bits]:
    """What the slots of each work were shown, by the place of their prompt and by continuation."""
    jobs = [engine.compile(work) for work in works]
    for job in jobs:
        job.slots = tuple(Recorder(slot) for slot in job.slots)
        engine.submit(job)
    while engine.pending:
        engine.step()
    found = []
    for job in jobs:
        bits: Bits = {}
        for number, slot in enumerate(cast(tuple[Recorder, ...], job.slots)):
            for asked, seen in zip(slot.asked, slot.seen, strict=True):
                bits[number, asked.tokens] = (
                    asked.columns.astype(np.int32).tobytes(),
                    seen.logprobs.tobytes(),
                    seen.top_ids.tobytes(),
                    seen.top_logprobs.tobytes(),
                )
        found.append(bits)
    return found


@cache
def _alone(name: str, dtype: torch.dtype) -> list[Bits]:
    with threads(1):
        return [
            recorded(_engine(name, dtype), [Work(content, (), slots=slots())])[0]
            for content in CONTENTS
        ]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MODELS)
def test_what_is_shown_is_what_an_option_gets(name, dtype):
    for content, bits in zip(CONTENTS, _alone(name, dtype), strict=True):
        assert max(len(tokens) for _, tokens in bits) >= 15
        with threads(1):
            check_against_plain(_engine(name, dtype), Work(content, (), slots=slots()), bits)


def check_against_plain(engine: Engine, work: Work, bits: Bits) -> None:
    """Reads each continuation again as a plain path, with all tokens as its columns."""
    job = engine.compile(work)
    trie = job.tree.trie
    paths = []
    for number, tokens in bits:
        node = job.forest.openings[number].node
        owner = int(np.searchsorted(trie.own_start, node, side="right")) - 1
        path = trie.path_nodes[owner, : trie.depth[node] + 1]
        paths.append((*job.tree.chain.tolist(), *trie.tokens[path].tolist(), *tokens))
    plain = build_trie(paths)
    nodes = np.unique(plain.end)
    starts = np.arange(len(nodes) + 1, dtype=np.int32) * VOCAB
    wanted = Reads(nodes, starts, np.tile(np.arange(VOCAB, dtype=np.int32), len(nodes)))
    packed = next_pass([new_tree(1, job.tree.trunk, np.zeros(0, np.int32), plain, wanted)], 10**6)
    assert packed is not None
    forward = engine._forward
    read = forward.finish(forward.start(packed)).logprobs.astype(np.float64)
    rows = {int(node): read[VOCAB * n : VOCAB * (n + 1)] for n, node in enumerate(nodes)}
    for (_, found), end in zip(bits.items(), plain.end, strict=True):
        row = rows[int(end)]
        kinds = (np.int32, np.float64, np.int32, np.float64)
        columns, logprobs, ids, tops = map(np.frombuffer, found, kinds)
        assert np.array_equal(logprobs, row[columns])
        assert np.array_equal(tops, row[ids])
        # The best of all, in order, as far as the tokenizer knows them.
        assert ids.tolist() == np.argsort(-row, kind="stable")[: len(ids)].tolist()


def _works() -> list[Work]:
    questions = (ask("q", "\nLate?", '\nIt says "'), ask("r", "\nIt", floor=False))
    works = [
        Work(content, questions if number % 2 else (), slots=slots())
        for number, content in enumerate(CONTENTS)
    ]
    return [*works, Work(LONG, questions), Work(LONG[:80], (), slots=slots()[:1])]


@pytest.mark.parametrize(("budget", "cache_bytes"), ((2048, 1 << 24), (70, 0)))
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MODELS)
def test_company_and_cuts_move_no_bit(name, dtype, budget, cache_bytes):
    alone, crowd = _alone(name, dtype), _works()
    with nan_memory(), threads(1):
        engine = _engine(name, dtype, budget, cache_bytes)
        assert recorded(engine, crowd)[: len(alone)] == alone
        if cache_bytes:
            again = recorded(engine, crowd[::-1])[::-1]
            assert again[: len(alone)] == alone
            assert engine.stats.trunk_hits


@pytest.mark.parametrize("dtype", DTYPES)
def test_threads_move_no_bit(dtype):
    # Few passes: where others use the cores too, two threads wait for each other in each of them.
    content, alone = CONTENTS[-1], _alone("llama_tied", dtype)[-1]
    with threads(2):
        engine = _engine("llama_tied", dtype)
        found = recorded(engine, [Work(content, (), slots=slots())])
    assert found == [alone]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_number_found_has_the_bits_of_its_option(dtype):
    engine = _engine("llama_tied", dtype)
    slot = slots()[1]
    for content in CONTENTS:
        job = engine.compile(Work(content, (), slots=(slot,)))
        # A model that knows nothing gives no number much probability.
        far = Effort(least=0.0, share=0.0)
        vocabulary = engine._vocabulary()
        recorder = Recorder(NumberSearch(vocabulary, "number", max_tokens=4, effort=far))
        job.slots = (recorder,)
        engine.submit(job)
        while engine.pending:
            engine.step()
        seen = dict(zip((one.tokens for one in recorder.asked), recorder.seen, strict=True))
        columns = {one.tokens: one.columns.tolist() for one in recorder.asked}
        texts = [tokens for tokens in seen if tokens and max(tokens) < 128][-6:]
        assert texts
        options = tuple(bytes(tokens).decode() for tokens in texts)
        question = ask("n", slot.prompts[0].text, options=options, floor=False)
        [result] = engine.run([Work(content, (question,))])
        for tokens, option in zip(texts, result.answers[0].prompts[0].options, strict=True):
            steps = [
                seen[tokens[:n]].logprobs[columns[tokens[:n]].index(token)]
                for n, token in enumerate(tokens)
            ]
            assert option.logprob == np.add.reduceat(np.array(steps), [0])[0]
