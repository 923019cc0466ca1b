"""Passes filled up to the shape of a recorded one: what fills them up moves no bit of what was asked.

Recording itself needs a card: tests/engine/test_opening_gpu.py.
"""

import dataclasses
from collections import deque
from itertools import count

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="triton is not installed")

from spinf_serve.engine import graph_shapes, graphs
from spinf_serve.engine.graph_shapes import Shape
from spinf_serve.engine.kernels.gpu import GpuOps
from spinf_serve.engine.kernels.ops import WeightScheme
from spinf_serve.engine.kernels.tree_attention.words import in_words, out_of_words
from spinf_serve.engine.models import registry
from spinf_serve.engine.tree.packing import Behind, Reads, new_tree, next_pass
from spinf_serve.engine.tree.plan import IntArray, no_ints
from spinf_serve.engine.tree.trie import build_trie
from tests.engine.kernels.test_gpu_models import COLUMNS, DEVICE, _spec
from tests.support.oracles import nan_memory
from tests.support.passes import Part, make_pass
from tests.support.tiny_models import random_checkpoint

PLAIN = Shape(64, steps=False)
SMALL = Shape(16, steps=True)


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
    shaped = graph_shapes.filled(arranged, PLAIN, model.ops.scratch_slots)
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
            shaped = graph_shapes.filled(inner, PLAIN, scratch) if fill else inner
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
    recorded = _recorder(model)
    assert recorded.fitted(make_pass(Part([5, 7], [[1]], key=1), columns=COLUMNS)) is not None
    assert recorded.fitted(plan) is None
    ops.release(1)
    ops.keep_up_to(1024 * sum(8 * x.kv_heads * x.head_dim for x in model.shapes), model.shapes)
    assert recorded.fitted(plan) is not None


def test_a_pass_fits_the_shapes_that_hold_its_rows_reads_and_columns(model):
    def fits(plan, rows):
        found = _recorder(model).fitted(plan)
        return found is not None and found.shape.rows == rows

    questions = [[n, 3] for n in range(16)]
    assert fits(make_pass(Part([1] * 32, questions), columns=range(4)), 64)
    assert not fits(make_pass(Part([1] * 33, questions), columns=range(4)), 64)
    assert not fits(make_pass(Part([1] * 32, questions), columns=range(5)), 64)
    assert not fits(make_pass(Part([1], [[n] for n in range(17)]), columns=(1,)), 64)
    assert not fits(make_pass(*(Part([1], [[2]], key=n) for n in range(17))), 64)


@pytest.mark.parametrize("steps", (False, True))
@pytest.mark.parametrize("rows", graph_shapes.SIZES)
def test_every_shape_holds_a_trunk_of_its_length(model, rows, steps):
    plan = graph_shapes.trivial(rows)
    arranged = model.ops.arranged(plan, model.shapes)
    filled = graph_shapes.filled(arranged, Shape(rows, steps), model.ops.scratch_slots)
    assert filled is not None
    assert len(filled.tokens) == rows


def test_positions_behind_the_recorded_tables_are_not_replayed(model):
    """A few rows behind a long trunk that is kept have far positions."""
    part = Part([5] * 4, [[6], [7, 8]], key=-1)
    near = make_pass(part, columns=COLUMNS)
    assert _recorder(model).fitted(near) is not None
    far = dataclasses.replace(near, positions=near.positions + graph_shapes.POSITIONS - 5)
    assert _recorder(model).fitted(far) is None
    last = dataclasses.replace(near, positions=near.positions + graph_shapes.POSITIONS - 6)
    assert int(last.positions.max()) == graph_shapes.POSITIONS - 1
    assert _recorder(model).fitted(last) is not None


@pytest.mark.slow
@pytest.mark.parametrize("stays", (False, True))
def test_a_filled_step_saves_continues_and_reads_what_the_step_does(model, stays):
    """Two trees with a step each; rows lie in places of their own, filled and not."""
    ops, shapes = model.ops, model.shapes
    if stays:
        ops.keep_up_to(2 * 1024 * sum(8 * x.kv_heads * x.head_dim for x in shapes), shapes)
    columns = np.arange(0, 320, 40, dtype=np.int32)
    found: dict[bool, list[tuple[torch.Tensor, ...]]] = {False: [], True: []}
    for fill, first_place in ((False, 1), (True, 40)):
        ops.make_places(80, shapes)
        trees = [
            new_tree(
                key,
                np.array(trunk, np.int32),
                no_ints(),
                build_trie([path]),
                _reads(columns, len(path) - 1),
            )
            for key, trunk, path in (
                (21 + 10 * fill, (5, 7, 9, 11), (1, 2, 3)),
                (22 + 10 * fill, (4,) * 6, (8, 9)),
            )
        ]
        place = count(first_place)
        for tree in trees:
            tree.saves = np.array([next(place) for _ in range(tree.trie.nodes)], np.int32)
            tree.is_held = True
        steps = []
        for tree in trees:
            assert tree.saves is not None
            behind = Behind(np.tile(tree.saves, (2, 1)), np.full(2, tree.trie.nodes, np.int32))
            trie = build_trie([(3,), (6,)])
            step = new_tree(tree.key + 5, tree.trunk, no_ints(), trie, _reads(columns, 0, 1))
            steps.append(
                dataclasses.replace(
                    step,
                    kept_key=tree.key,
                    is_begun=True,
                    trunk_done=len(tree.trunk),
                    is_held=True,
                    saves=np.array([next(place), next(place)], np.int32),
                    behind=behind,
                )
            )
        for waiting in (trees, steps):
            packed = next_pass(deque(waiting), 512)
            assert packed is not None
            plan = packed.plan
            assert plan.top == 5
            assert len(plan.save_rows)
            inner = ops.arranged(plan, shapes)
            keeps = any(len(kind.keep_rows) for kind in inner.kinds)
            fitted = _recorder(model).fitted(plan)
            assert (fitted is None) == (keeps and not stays)
            assert fitted is None or fitted.shape == Shape(64, steps=True)
            picked: IntArray = np.arange(len(plan.top_reads), dtype=np.int32)
            # Smaller than any that is recorded: the interpreter takes its time for empty tiles.
            shaped = graph_shapes.filled(inner, SMALL, ops.scratch_slots)
            if not fill or fitted is None:
                layout = ops.layout(plan, shapes)
                assert layout.top == 5
                with torch.inference_mode(), nan_memory():
                    read = model.read_with_top(layout, model.forward(layout))
            else:
                assert shaped is not None
                words = in_words(shaped, DEVICE).to(DEVICE)
                layout = ops.placed(out_of_words(words, shaped), 128, SMALL.top)
                with torch.inference_mode(), nan_memory():
                    logprobs, *best = model.read_with_top(layout, model.forward(layout))
                read = logprobs[: len(plan.columns)], *(x[:, : plan.top] for x in best)
                picked = plan.top_reads
            found[fill].append((read[0].cpu(), read[1].cpu()[picked], read[2].cpu()[picked]))
    for plain, filled in zip(found[False], found[True], strict=True):
        assert all(torch.equal(one, other) for one, other in zip(plain, filled, strict=True))
        assert all(len(one) and one.isfinite().all() for one in plain)
    assert not torch.equal(found[False][0][1], found[False][1][1][:2])


def _reads(columns, *nodes):
    """Columns of some nodes, and the five best tokens of the first."""
    starts = np.arange(len(nodes) + 1, dtype=np.int32) * len(columns)
    tops = np.array([5] + [0] * (len(nodes) - 1), np.int32)
    return Reads(np.array(nodes, np.int32), starts, np.tile(columns, len(nodes)), tops)


def _recorder(model):
    """What fits passes to shapes; replaying them needs a card."""
    recorded = graphs.Graphs.__new__(graphs.Graphs)
    recorded._model, recorded._ops = model, model.ops
    return recorded
