"""Keys and values that stay: what continues them on the CPU reads the same bits, within their bytes."""

import dataclasses
import random

import pytest
import torch

from spinf_serve.engine.api import Engine
from spinf_serve.engine.bench.checks import answer_bits
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.fingerprint import cpu_fingerprint
from spinf_serve.engine.forward import ModelForward
from spinf_serve.engine.kernels.cpu import CpuOps
from spinf_serve.engine.models import registry
from spinf_serve.engine.work import Limits, Work
from tests.engine.models.test_invariance import SPECS, _contents, _model, _pass
from tests.engine.models.test_invariance import _read as read_passes
from tests.engine.test_api import SERVED, ask
from tests.support.oracles import nan_memory
from tests.support.tiny_models import random_checkpoint
from tests.support.toy_tokenizers import ByteTokenizer

DTYPES = (torch.float32, torch.bfloat16)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["llama", "gemma3_wide_window", "gemma4"])
def test_trees_that_continue_one_trunk_side_by_side_read_what_they_read_alone(name, dtype):
    """The first pass keeps the trunks and reads nothing of their paths but one."""
    model, contents = _model(name, dtype), _contents()[1:]
    (whole,) = read_passes(model, _pass(*contents))
    expected = whole.split([len(part.paths) for part in contents])
    first = [dataclasses.replace(part, paths=part.paths[:1], keep=True) for part in contents]
    later = [
        dataclasses.replace(part, paths=paths, trunk_start=len(part.trunk), keep=True)
        for part in contents
        for paths in (part.paths[:2], part.paths[1:])
    ]
    wanted = torch.cat([rows for alone in expected for rows in (alone[:2], alone[1:])])
    with nan_memory():
        found = read_passes(model, _pass(*first), _pass(*later), _pass(*later[::-1]))
    assert torch.equal(found[1], wanted)
    turned = [len(part.paths) for part in later]
    assert torch.equal(found[2], torch.cat(wanted.split(turned)[::-1]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["llama", "gemma4"])
def test_a_room_takes_the_bytes_that_were_said_and_no_more_rooms_than_fit(name, dtype):
    ops = CpuOps(dtype)
    shapes = _model(name, dtype).shapes
    assert ops.room_bytes(1) is None
    ops.keep_up_to(1 << 30, shapes)
    block, longer = ops.room_bytes(64), ops.room_bytes(65)
    assert block is not None
    assert longer == 2 * block
    ops.keep_up_to(3 * block + 1, shapes)
    assert ops.room_bytes(3 * 64 + 1) is None
    assert [ops.reserve(key, 64) for key in (-1, -2, -3, -4)] == [True, True, True, False]
    tensors = [
        tensor
        for kept in ops._kept.values()
        for both in (kept.keys, kept.values)
        for tensor in both
    ]
    assert sum(tensor.nbytes for tensor in tensors) == 3 * block
    ops.release(-2)
    assert not ops.reserve(-5, 65)
    assert ops.reserve(-6, 64)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["llama", "gemma3_wide_window"])
def test_an_engine_that_keeps_contents_answers_as_one_that_does_not(name, dtype):
    draw = random.Random(3)
    contents = ["short one", "the parcel came late " * 4, "abc de " * 20, "word " * 60]
    works = [
        Work(
            draw.choice(contents),
            tuple(
                ask(f"{n}", f"\n{n} of it?", floor=n % 2 == 0) for n in range(draw.randint(1, 6))
            ),
        )
        for _ in range(10)
    ]

    def engine(cache_bytes: int) -> Engine:
        ops = CpuOps(dtype)
        model = registry.build(SPECS[name], random_checkpoint(SPECS[name]), ops)
        ops.keep_up_to(cache_bytes, model.shapes)
        return Engine(
            served=SERVED,
            tokenizer=ByteTokenizer(),
            forward=ModelForward(model, ops),
            fingerprint=cpu_fingerprint("0" * 64, "test", "test"),
            config=EngineConfig(token_budget=256, trunk_cache_bytes=cache_bytes),
            limits=Limits(),
            context_tokens=8192,
        )

    plain = list(map(answer_bits, engine(0).run(works)))
    # Room for all of them, and for the longest alone.
    for cache_bytes in (1 << 30, _bytes_of(name, dtype, 320)):
        keeping = engine(cache_bytes)
        together = list(map(answer_bits, keeping.run(works)))
        apart = [answer_bits(keeping.run([work])[0]) for work in works]
        assert together == apart == plain
        assert keeping.stats.trunk_hits > 2
        assert 0 < keeping.stats.trunk_bytes <= cache_bytes
        assert (keeping.stats.trunk_evictions > 0) == (cache_bytes < 1 << 30)


def _bytes_of(name: str, dtype: torch.dtype, tokens: int) -> int:
    ops = CpuOps(dtype)
    ops.keep_up_to(1 << 30, _model(name, dtype).shapes)
    found = ops.room_bytes(tokens)
    assert found is not None
    return found
