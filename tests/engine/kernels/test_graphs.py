"""Passes filled up to the shape of a recorded one: what fills them up moves no bit of what was asked.

Recording itself needs a card: tests/engine/test_opening_gpu.py.
"""

import dataclasses

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="triton is not installed")

from spinf_serve.engine import graphs
from spinf_serve.engine.kernels.gpu import GpuOps
from spinf_serve.engine.kernels.ops import WeightScheme
from spinf_serve.engine.kernels.tree_attention.words import in_words, out_of_words
from spinf_serve.engine.models import registry
from tests.engine.kernels.test_gpu_models import COLUMNS, DEVICE, _spec
from tests.support.oracles import nan_memory
from tests.support.passes import Part, make_pass
from tests.support.tiny_models import random_checkpoint


@pytest.fixture
def model(monkeypatch):
    def matmul(a, b, dtype):
        out = np.zeros((len(a), b.shape[1]), dtype)
        for column, row in zip(a.T.astype(dtype), b.astype(dtype), strict=True):
            out += column[:, None] * row
        return out

    if DEVICE.type == "cpu":
        # Rows of the interpreter's products depend on one another; a card's do not.
        monkeypatch.setattr(np, "matmul", matmul)
    spec = _spec("gemma4")
    return registry.build(
        spec, random_checkpoint(spec), GpuOps(torch.float32, DEVICE, WeightScheme("fp8", "rows"))
    )


def _read(model, inner, longest):
    with torch.inference_mode(), nan_memory():
        layout = model.ops.placed(inner, longest)
        return model.read(model.forward(layout), layout.column_start, layout.columns).cpu()


def test_a_filled_pass_reads_what_the_pass_reads(model):
    parts = (Part([5, 7, 9, 11], [[1, 2, 3], [1, 2, 4, 5]]), Part([], [[8, 9]], key=1))
    plan = make_pass(*parts, columns=COLUMNS)
    arranged = model.ops.arranged(plan, model.shapes)
    shaped = graphs._filled(arranged, 64, model.ops.scratch_slots)
    assert shaped is not None
    found = []
    for inner in (arranged, shaped):
        words = in_words(inner, DEVICE).to(DEVICE)
        found.append(_read(model, out_of_words(words, inner), 64))
    plain, filled = found
    assert len(filled) == 64 > len(plain) == len(plan.columns)
    assert torch.equal(filled[: len(plain)], plain)
    assert plain.isfinite().all()


def test_a_filled_pass_keeps_and_continues_what_the_pass_does(model):
    """Both lay their keys into rooms of their own, in pools with other rooms taken."""
    shapes = model.shapes
    model.ops.keep_up_to(2 * 1024 * sum(8 * x.kv_heads * x.head_dim for x in shapes), shapes)
    scratch = model.ops.scratch_slots
    assert None not in scratch
    capacity = model.ops.kept_capacity
    found = []
    for key, fill in ((-1, False), (-2, True)):
        assert model.ops.reserve(key, 4)
        part = Part([5, 7, 9, 11], [[1, 2, 3], [1, 2, 4, 5]], key=key, keep=True)
        other = Part([], [[8, 9]], key=3)
        later = dataclasses.replace(part, trunk_start=4, paths=[[6], [7, 8]])
        for plan in (make_pass(part, other, columns=COLUMNS), make_pass(later, columns=COLUMNS)):
            inner = model.ops.arranged(plan, shapes)
            shaped = graphs._filled(inner, 64, scratch) if fill else inner
            assert shaped is not None
            words = in_words(shaped, DEVICE).to(DEVICE)
            read = _read(model, out_of_words(words, shaped), 64)
            found.append(read[: len(plan.columns)])
    assert torch.equal(found[0], found[2])
    assert torch.equal(found[1], found[3])
    assert all(read.isfinite().all() for read in found)
    assert model.ops.kept_capacity == capacity
    for pool in model.ops._pools:
        plain, filled = (pool.taken[key].start for key in (-1, -2))
        for kept in pool._kept:
            for tensor in (kept.keys, kept.values):
                assert torch.equal(tensor[plain : plain + 64], tensor[filled : filled + 64])
                assert tensor[plain : plain + 4].any()


def test_a_pass_that_keeps_something_is_recorded_only_where_trunks_may_stay(model):
    ops = model.ops
    plan = make_pass(Part([5, 7], [[1]], key=1, keep=True), columns=COLUMNS)
    recorded = graphs.Graphs.__new__(graphs.Graphs)
    recorded._model, recorded._ops = model, ops
    assert recorded.fitted(make_pass(Part([5, 7], [[1]], key=1), columns=COLUMNS)) is not None
    assert recorded.fitted(plan) is None
    ops.release(1)
    ops.keep_up_to(1024 * sum(8 * x.kv_heads * x.head_dim for x in model.shapes), model.shapes)
    assert recorded.fitted(plan) is not None


def test_a_pass_fits_the_shapes_that_hold_its_rows_reads_and_columns(model):
    def fits(plan, rows):
        arranged = model.ops.arranged(plan, model.shapes)
        return graphs._filled(arranged, rows, model.ops.scratch_slots) is not None

    questions = [[n, 3] for n in range(16)]
    assert fits(make_pass(Part([1] * 32, questions), columns=range(4)), 64)
    assert not fits(make_pass(Part([1] * 33, questions), columns=range(4)), 64)
    assert not fits(make_pass(Part([1] * 32, questions), columns=range(5)), 64)
    assert not fits(make_pass(Part([1], [[n] for n in range(17)]), columns=(1,)), 64)
    assert not fits(make_pass(*(Part([1], [[2]], key=n) for n in range(17))), 64)


@pytest.mark.parametrize("rows", graphs.SHAPES)
def test_every_shape_holds_a_trunk_of_its_length(model, rows):
    plan = graphs._trivial(rows)
    arranged = model.ops.arranged(plan, model.shapes)
    filled = graphs._filled(arranged, rows, model.ops.scratch_slots)
    assert filled is not None
    assert len(filled.tokens) == rows
