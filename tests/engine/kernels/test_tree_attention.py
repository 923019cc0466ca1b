"""Tree attention on the CPU against its dense definition. That a row's bits are its own is shown on
whole models, in tests/engine/models/test_invariance.py."""

import random

import pytest
import torch

from spinf_serve.engine.kernels.cpu import CpuOps
from spinf_serve.engine.kernels.ops import LayerShape
from spinf_serve.engine.kernels.tree_attention import reference
from tests.support.oracles import assert_no_worse, nan_memory
from tests.support.passes import Part, make_pass, random_paths

HEADS = ((9, 3, 64), (4, 1, 24), (5, 5, 12))
TRUNKS = ((0,), (1, 63, 64), (65, 0, 16), (129, 17, 130))


def _parts(trunks, seed=0, paths=5):
    draw = random.Random(seed)
    return [
        Part([1] * length, random_paths(draw, paths, longest=40), key=key, reads="all")
        for key, length in enumerate(trunks)
    ]


def _rows(ops, plan, heads, seed=1):
    """q, k, v of a pass's rows, and its layout; padding rows hold NaN."""
    query_heads, kv_heads, size = heads
    layout = ops.layout(plan, [LayerShape(query_heads, kv_heads, size, None)])
    generator = torch.Generator().manual_seed(seed)
    found = []
    for count in (query_heads, kv_heads, kv_heads):
        rows = torch.full((len(layout.tokens), count, size), torch.nan)
        rows[: len(plan.tokens)] = torch.randn(len(plan.tokens), count, size, generator=generator)
        found.append(rows.to(ops.dtype))
    return layout, *found


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("window", (None, 1, 8, 70, 1000))
@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("trunks", TRUNKS)
def test_it_is_what_the_mask_says(trunks, heads, window, dtype):
    plan = make_pass(*_parts(trunks))
    scale = heads[2] ** -0.5
    with nan_memory():
        ops = CpuOps(dtype)
        layout, q, k, v = _rows(ops, plan, heads)
        found = ops.attention(layout, 0, q, k, v, scale=scale, window=window)
    used = [x[: len(plan.tokens)] for x in (q, k, v)]
    plain, exact = (
        reference.attention(plan, *(x.to(wide) for x in used), scale=scale, window=window)
        for wide in (torch.float32, torch.float64)
    )
    assert found.dtype == dtype
    assert_no_worse(found[: len(plan.tokens)], plain.to(dtype), exact)


@pytest.mark.parametrize("window", (None, 8, 70))
def test_long_paths_are_what_the_mask_says(window):
    draw = random.Random(4)
    plan = make_pass(*(Part([1] * n, random_paths(draw, 9, longest=200)) for n in (0, 20, 80)))
    ops = CpuOps(torch.float32)
    layout, *rows = _rows(ops, plan, HEADS[0])
    found = ops.attention(layout, 0, *rows, scale=0.125, window=window)[: len(plan.tokens)]
    used = [x[: len(plan.tokens)] for x in rows]
    exact = reference.attention(plan, *(x.double() for x in used), scale=0.125, window=window)
    plain = reference.attention(plan, *used, scale=0.125, window=window)
    assert_no_worse(found, plain, exact)


@pytest.mark.parametrize("window", (None, 8))
def test_reads_alone_are_the_same_rows(window):
    parts = [Part(p.trunk, p.paths, key=p.key) for p in _parts((129, 17, 0, 70))]
    plan = make_pass(*parts)
    ops = CpuOps(torch.float32)
    layout, q, k, v = _rows(ops, plan, HEADS[0])
    every = ops.attention(layout, 0, q, k, v, scale=0.125, window=window)
    some = q[layout.read_rows]
    found = ops.attention(layout, 0, some, k, v, scale=0.125, window=window, reads_only=True)
    assert torch.equal(found, every[layout.read_rows])


@pytest.mark.parametrize("window", (None, 8, 70))
@pytest.mark.parametrize("sick", range(4))
def test_a_nan_stays_in_its_tree(sick, window):
    plan = make_pass(*_parts((65, 16, 0, 130)))
    ops = CpuOps(torch.float32)
    layout, *rows = _rows(ops, plan, HEADS[0])
    clean = ops.attention(layout, 0, *rows, scale=0.125, window=window)
    part = plan.slices[sick]
    own = slice(part.row_start, part.branch_start + part.branch_rows)
    for x in rows:
        x[own] = torch.nan
    found = ops.attention(layout, 0, *rows, scale=0.125, window=window)
    assert found[own].isnan().all()
    found[own] = clean[own]
    assert torch.equal(found[: len(plan.tokens)], clean[: len(plan.tokens)])


@pytest.mark.parametrize("trunk", (0, 7, 70))
@pytest.mark.parametrize("which", ("q", "k", "v"))
def test_a_nan_reaches_the_rows_behind_it_alone(which, trunk):
    plan = make_pass(Part([1] * trunk, [[1, 2, 3], [1, 2, 4, 5, 6], [1, 9]]))
    ops = CpuOps(torch.float32)
    layout, *rows = _rows(ops, plan, HEADS[0])
    clean = ops.attention(layout, 0, *rows, scale=0.125, window=None)
    rows["qkv".index(which)][trunk + 4, 1, 5] = torch.nan
    found = ops.attention(layout, 0, *rows, scale=0.125, window=None)
    # Token 5 is row trunk + 4: token 6 is behind it, and it looks at itself.
    seen = [trunk + 4] if which == "q" else [trunk + 4, trunk + 5]
    assert [row for row in range(trunk + 7) if found[row].isnan().any()] == seen
    found[seen] = clean[seen]
    assert torch.equal(found[: trunk + 7], clean[: trunk + 7])


def test_a_nan_in_the_trunk_reaches_what_is_behind_it():
    plan = make_pass(Part([1] * 130, [[1, 2], [3]]))
    ops = CpuOps(torch.float32)
    layout, *rows = _rows(ops, plan, HEADS[0])
    clean = ops.attention(layout, 0, *rows, scale=0.125, window=None)
    for x in rows:
        x[100] = torch.nan
    found = ops.attention(layout, 0, *rows, scale=0.125, window=None)
    assert torch.equal(found[:100], clean[:100])
    assert found[100:133].isnan().all()


def test_trunk_rows_that_were_not_kept_are_missed():
    ops = CpuOps(torch.float32)
    plan = make_pass(Part([1] * 128, [[1]], trunk_start=128, key=7))
    with pytest.raises(AssertionError, match="tree 7 were not kept"):
        ops.layout(plan, [LayerShape(9, 3, 64, None)])


def test_release_forgets_a_tree_once():
    ops = CpuOps(torch.float32)
    ops.layout(
        make_pass(Part([1] * 64, trunk_end=64, key=7, keep=True)), [LayerShape(9, 3, 64, None)]
    )
    later = make_pass(Part([1] * 64, [[1]], trunk_start=64, key=7))
    ops.layout(later, [LayerShape(9, 3, 64, None)])
    ops.release(7)
    ops.release(7)
    with pytest.raises(AssertionError, match="not kept"):
        ops.layout(later, [LayerShape(9, 3, 64, None)])


def test_layers_whose_heads_differ_do_not_disturb_one_another():
    """Each layer's rows and kept keys, over two passes, are those of a layout of its own."""
    ops, shapes = CpuOps(torch.float32), [HEADS[1], HEADS[0], HEADS[1]]
    first = make_pass(
        Part([1] * 130, trunk_end=64, key=1, keep=True), Part([1] * 9, [[1, 2]], key=2)
    )
    second = make_pass(Part([1] * 130, [[1, 2], [3]], trunk_start=64, key=1))

    def run(chosen, keep):
        layouts = [
            ops.layout(plan, [LayerShape(h, g, d, None) for h, g, d in chosen])
            for plan in (first, second)
        ]
        found = []
        for layout in layouts:
            for layer, (heads, seed) in enumerate(zip(chosen, keep, strict=True)):
                rows = _random_rows(len(layout.tokens), heads, seed)
                found.append(ops.attention(layout, layer, *rows, scale=0.2, window=70))
        ops.release(1)
        return found

    with nan_memory():
        together = run(shapes, (5, 6, 7))
        for place, heads in enumerate(shapes):
            alone = run([heads], [5 + place])
            assert torch.equal(together[place], alone[0])
            assert torch.equal(together[3 + place], alone[1])


def _random_rows(count, heads, seed):
    """q, k, v of finite rows."""
    generator = torch.Generator().manual_seed(seed)
    query_heads, kv_heads, size = heads
    return [
        torch.randn(count, number, size, generator=generator)
        for number in (query_heads, kv_heads, kv_heads)
    ]
