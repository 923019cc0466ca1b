"""The attention kernels against the dense definition, and that a row's bits are its own.

In the interpreter everything is float32 and small. On a card what its matrix units multiply is
tested as a model uses it: in bfloat16, and bits with heads of 256.
"""

import functools
import itertools
import random
import zlib
from dataclasses import replace

import numpy as np
import pytest
import torch

from spinf_serve.engine.kernels.device import capability_of
from spinf_serve.engine.kernels.elementwise.quant import Quant
from spinf_serve.engine.kernels.tree_attention import reference
from spinf_serve.engine.kernels.tree_attention.device_layout import Kind, lay_out
from spinf_serve.engine.kernels.tree_attention.kept import Rooms, slots_needed
from spinf_serve.engine.kernels.tree_attention.tiling import few_tiling, tiling
from tests.support.oracles import assert_no_worse, nan_memory
from tests.support.passes import Part, make_pass, random_paths

pytest.importorskip("triton", reason="triton is not installed")

from spinf_serve.engine.kernels.elementwise.kernel import quantize
from spinf_serve.engine.kernels.tree_attention import kernel
from spinf_serve.engine.kernels.tree_attention.words import upload

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ON_CARD = DEVICE.type == "cuda"
TILES = tiling(capability_of(DEVICE), 32)
SCALE = 0.2
WIDE_HEAD = 64
"""Heads from this size on are bfloat16 on a card: in float32 their products take minutes to compile."""


def _parts(trunks, paths=4, longest=40, seed=0):
    draw = random.Random(seed)
    return [
        Part([1] * length, random_paths(draw, paths, longest=longest), key=key, reads="all")
        for key, length in enumerate(trunks)
    ]


def _noise(*shape, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(DEVICE)


def _rows(plan, heads):
    query_heads, kv_heads, size = heads
    counts = (query_heads, kv_heads, kv_heads)
    return [_noise(len(plan.tokens), n, size, seed=i) for i, n in enumerate(counts)]


def _attend(
    plan, rows, window, tiles=TILES, scale=SCALE, rooms=None, pool=None, reads=False, out_scale=None
):
    q, k, v = rows
    kind = Kind(q.shape[1] // k.shape[1], window, tiles)
    layout = upload(lay_out(plan, [kind], [rooms or {}]), DEVICE)
    with nan_memory():
        return kernel.attention(
            layout, 0, q, k, v, scale=scale, kept=pool, reads_only=reads, out_scale=out_scale
        )


def _assert_definition(plan, rows, window, tiles, scale):
    if ON_CARD and rows[0].shape[2] >= WIDE_HEAD:
        rows = [x.bfloat16() for x in rows]
    found = _attend(plan, rows, window, tiles=tiles, scale=scale)
    assert found.dtype == rows[0].dtype
    exact = _definition(plan, rows, window, scale, torch.float64)
    plain = _definition(plan, rows, window, scale, torch.float32).to(found.dtype)
    assert_no_worse(found.cpu(), plain, exact)


def _definition(plan, rows, window, scale, wide):
    """In float32 the weights meet the values as the kernel has them, in the dtype of the values."""
    q, k, v = (x.cpu().to(wide) for x in rows)
    if wide == torch.float64 or rows[2].dtype == torch.float32:
        return reference.attention(plan, q, k, v, scale=scale, window=window)
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    scores = torch.einsum("nhd,mhd->hnm", q, k) * scale
    scores = scores.masked_fill(~reference.visible(plan, window), -torch.inf)
    weights = torch.exp(scores - scores.amax(-1, keepdim=True))
    sums = torch.einsum("hnm,mhd->nhd", weights.to(rows[2].dtype).to(wide), v)
    return (sums / weights.sum(-1).T[..., None]).flatten(1)


@pytest.mark.parametrize("window", (None, 1, 8, 70, 1000))
def test_it_is_what_the_mask_says(window):
    plan = make_pass(*_parts((0, 1, 63, 64, 65, 129), paths=3))
    _assert_definition(plan, _rows(plan, (2, 1, 32)), window, TILES, SCALE)


@pytest.mark.parametrize("heads", ((4, 2, 16), (3, 1, 64), (2, 2, 24), (16, 1, 16)))
def test_groups_and_sizes_of_heads_are_what_the_mask_says(heads):
    plan = make_pass(*_parts((65, 0), paths=3, longest=20))
    _assert_definition(plan, _rows(plan, heads), 33, TILES, SCALE)


@pytest.mark.parametrize("heads", ((3, 1, 64), (2, 1, 128), (2, 1, 256), (2, 1, 512)))
def test_the_tiles_in_use_are_what_the_mask_says(heads):
    plan = make_pass(*_parts((70, 20), paths=3, longest=20))
    size = heads[2]
    _assert_definition(plan, _rows(plan, heads), 50, tiling((9, 0), size), size**-0.5)


def test_unscaled_scores_of_normed_heads_are_what_the_mask_says():
    plan = make_pass(*_parts((129, 20), paths=3))
    q, k, v = _rows(plan, (2, 1, 64))
    q, k = (8 * x / x.norm(dim=-1, keepdim=True) for x in (q, k))
    _assert_definition(plan, (q, k, v), None, TILES, 1.0)


@pytest.mark.parametrize("window", (None, 8))
def test_long_paths_are_what_the_mask_says(window):
    stem = list(range(90))
    paths = [[*stem, 200, 201], [*stem, 300], [*stem[:50], *range(400, 450)], [500]]
    plan = make_pass(*(Part([1] * length, paths, key=length) for length in (0, 70)))
    _assert_definition(plan, _rows(plan, (2, 1, 32)), window, TILES, SCALE)


def test_a_pass_of_trunk_rows_alone_and_one_of_a_single_token():
    for plan in (make_pass(Part([1] * 33)), make_pass(Part([], [[5]]))):
        _assert_definition(plan, _rows(plan, (2, 1, 32)), None, TILES, SCALE)


@pytest.mark.parametrize("scale", (0.001, 0.02))
def test_results_are_rounded_to_float8_as_rows_are_on_their_way_into_a_product(scale):
    """Straight from float32; what is too large is clamped, and a NaN stays one."""
    plan = make_pass(*_parts((65, 0), paths=3, longest=20))
    rows = _rows(plan, (2, 1, 32))
    rows[0][3] = torch.nan
    scale = torch.tensor(scale, device=DEVICE)
    plain = _attend(plan, rows, 33)
    expected, _ = quantize(plain, Quant(torch.float8_e4m3fn, scale))
    found = _attend(plan, rows, 33, out_scale=scale)
    assert found.dtype == torch.float8_e4m3fn
    sick = found.float().isnan()
    assert sick[3].all() and not sick[4:].any()
    assert ((plain / scale).nan_to_num().abs().amax() > 448) == (scale < 0.01)
    assert torch.equal(found.view(torch.uint8), expected.view(torch.uint8))


# Bits. Each row has a name, which is what its result may depend on: its tree, and its trunk offset
# or its path. The q, k and v of a row follow from its name.


@pytest.fixture
def rows_apart(monkeypatch):
    """A product whose rows do not depend on one another, as on the card, in the interpreter.

    The library that the interpreter multiplies with gives a row other bits at other places.
    """

    def matmul(a, b, dtype):
        out = np.zeros((len(a), b.shape[1]), dtype)
        for column, row in zip(a.T, b, strict=True):
            out += column[:, None] * row
        return out

    if DEVICE.type == "cpu":
        monkeypatch.setattr(np, "matmul", matmul)


def _names(plan, parts):
    names: list[object] = [None] * len(plan.tokens)
    for part, piece in zip(parts, plan.slices, strict=True):
        for i in range(piece.trunk_rows):
            names[piece.row_start + i] = (part.key, piece.trunk_start + i)
    paths = [(part.key, tuple(path)) for part in parts for path in part.paths]
    for (key, path), rows in zip(paths, plan.path_rows, strict=True):
        for depth in range(len(path)):
            names[rows[depth]] = (key, path[: depth + 1])
    return names


BITS_SIZE, BITS_DTYPE = (256, torch.bfloat16) if ON_CARD else (32, torch.float32)
BITS_TILES = tiling(capability_of(DEVICE), BITS_SIZE)


@functools.cache
def _named(name):
    generator = torch.Generator().manual_seed(zlib.crc32(repr(name).encode()))
    return torch.randn(4, BITS_SIZE, generator=generator).to(BITS_DTYPE)


def _run(parts, window, *, tiles=BITS_TILES, rooms=None, pool=None, reads=0):
    """Results of a pass by the rows' names; two query heads share one of keys and values.

    With `reads` every so many rows are read, and these alone are computed.
    """
    plan = make_pass(*parts)
    if reads:
        plan = replace(plan, read_rows=np.arange(0, len(plan.tokens), reads, dtype=np.int32))
    names = _names(plan, parts)
    rows = torch.stack([_named(name) for name in names]).to(DEVICE)
    q, k, v = (x.contiguous() for x in (rows[:, :2], rows[:, 2:3], rows[:, 3:]))
    if reads:
        q, names = q[plan.read_rows], [names[row] for row in plan.read_rows]
    found = _attend(plan, (q, k, v), window, tiles=tiles, rooms=rooms, pool=pool, reads=reads > 0)
    return dict(zip(names, found, strict=True))


def _assert_same(found, crowd):
    assert found
    moved = [name for name in found if not torch.equal(found[name], crowd[name])]
    assert not moved


def bits(test):
    """A test of equal bits, at each of some windows."""
    test = pytest.mark.usefixtures("rows_apart")(test)
    return pytest.mark.parametrize("window", (None, 8, 70))(test)


TRUNKS = (0, 1, 63, 64, 65, 129, 200)


@functools.cache
def _crowd(window):
    return _run(_parts(TRUNKS), window)


@bits
def test_a_question_alone_has_the_same_bits(window):
    for part in _parts(TRUNKS):
        alone = Part(part.trunk, [part.paths[part.key % 4]], key=part.key)
        _assert_same(_run([alone], window), _crowd(window))


@bits
def test_order_and_neighbours_move_no_bits(window):
    parts = _parts(TRUNKS)[::-1]
    fewer = [Part(p.trunk, p.paths[1:], key=p.key) for p in parts if p.key != 3]
    more = Part([1] * 40, [[7, 8, 9], [7, 9]], key=99)
    found = _run([more, *fewer], window)
    _assert_same({n: x for n, x in found.items() if n[0] != 99}, _crowd(window))


@bits
def test_read_rows_alone_have_the_same_bits(window):
    found = _run(_parts(TRUNKS), window, reads=5)
    _assert_same(found, _crowd(window))


@bits
def test_what_is_speed_alone_moves_no_bits(window):
    """Stretches met at a time, rows of a tile, loops; paths longer than a stretch, and many short."""
    short = Part([1] * 20, [[i, *range(i % 9)] for i in range(24)], key=50)
    parts = [short, *_parts(TRUNKS[3:5])]
    whole = _run(parts, window)
    for rows, path_keys, one_loop in ((64, 16, True), (128, 32, True), (128, 64, False)):
        warps = rows // 16 if ON_CARD else 4
        tiles = replace(BITS_TILES, rows=rows, warps=warps, path_keys=path_keys, one_loop=one_loop)
        _assert_same(_run(parts, window, tiles=tiles), whole)
    few = few_tiling(capability_of(DEVICE), BITS_SIZE)
    assert few.rows < BITS_TILES.rows
    _assert_same(_run(parts, window, tiles=few), whole)


def _pool(slots):
    """Keys that were never kept are NaN; values may not be."""
    keys = torch.full((slots, 1, BITS_SIZE), torch.nan, dtype=BITS_DTYPE, device=DEVICE)
    return kernel.Kept(keys, torch.zeros_like(keys))


@bits
@pytest.mark.parametrize("cuts", ((0, 64, 200), (0, 128, 192, 200), (0, 200)))
def test_a_trunk_over_several_passes_has_the_same_bits(cuts, window):
    """The last of its questions are asked in passes of their own, beside another tree."""
    part, other = _parts(TRUNKS)[-1], _parts(TRUNKS)[2]
    rooms = Rooms(512)
    assert rooms.take(50, 64)
    assert rooms.take(part.key, slots_needed(200, window))
    pool = _pool(512)
    run = functools.partial(_run, window=window, rooms=rooms.taken, pool=pool)
    for start, end in itertools.pairwise(cuts):
        paths = part.paths[:1] if end == 200 else ()
        found = run([Part(part.trunk, paths, start, end, key=part.key, keep=True)])
        _assert_same(found, _crowd(window))
    for paths in (part.paths[1:3], part.paths[3:]):
        later = Part(part.trunk, paths, 200, 200, key=part.key)
        _assert_same(run([other, later]), _crowd(window))


@pytest.mark.usefixtures("rows_apart")
def test_a_ring_wraps_without_moving_a_bit():
    window = 70
    part = Part([1] * 450, [[3, 4, 5], [6]], key=9)
    whole = _run([part], window)
    rooms = Rooms(320)
    assert rooms.take(5, 128)
    assert slots_needed(450, window) == 192
    assert rooms.take(9, 192)
    pool = _pool(320)
    for start, end in ((0, 64), (64, 320), (320, 384), (384, 450)):
        piece = Part(part.trunk, (), start, end, key=9, keep=True)
        _assert_same(_run([piece], window, rooms=rooms.taken, pool=pool), whole)
    later = Part(part.trunk, part.paths, 450, 450, key=9)
    _assert_same(_run([later], window, rooms=rooms.taken, pool=pool), whole)


def _confine(k, v):
    """What `heads` does to keys and values on their way here."""
    k[~v.isfinite().all(-1)] = torch.nan
    v[~v.isfinite()] = 0.0


# The interpreter's arithmetic warns of what is not a number.
@pytest.mark.filterwarnings("ignore:(invalid value|All-NaN):RuntimeWarning")
@pytest.mark.usefixtures("rows_apart")
@pytest.mark.parametrize("window", (None, 8))
@pytest.mark.parametrize("which", ("q", "k", "v"))
def test_a_nan_reaches_the_rows_that_see_it_alone(which, window):
    plan = make_pass(
        Part([1] * 40, [[1, 2, 3], [1, 2, 4, 5, 6], [1, 9]]), Part([], [[1, 2], [3]], key=1)
    )
    sees = reference.visible(plan, window)
    rows = _rows(plan, (2, 1, 32))
    clean = _attend(plan, rows, window)
    for sick in (3, 39, 41, len(plan.tokens) - 3):
        q, k, v = (x.clone() for x in rows)
        (q, k, v)["qkv".index(which)][sick, 0, 5] = torch.nan
        _confine(k, v)
        found = _attend(plan, (q, k, v), window)
        reached = sees[:, sick] if which != "q" else torch.eye(len(sees), dtype=torch.bool)[sick]
        reached = reached.to(DEVICE)
        assert torch.equal(found.isnan().any(dim=1), reached)
        assert torch.equal(found[~reached], clean[~reached])


def test_what_does_not_fit_the_layout_is_refused():
    plan = make_pass(Part([1] * 20, [[1, 2]]))
    q, k, v = _rows(plan, (2, 1, 32))
    with pytest.raises(AssertionError, match="in groups 2"):
        _attend_with_group_two(plan, q[:, :1].contiguous(), k, v)
    with pytest.raises(AssertionError, match="21 rows of q for 22 queries"):
        _attend(plan, (q[1:], k, v), None)
    with pytest.raises(AssertionError, match="contiguous"):
        _attend(plan, (q.transpose(0, 1).contiguous().transpose(0, 1), k, v), None)
    with pytest.raises(AssertionError, match="16-bit floats wrongly"):
        _attend(plan, [x.cpu().bfloat16() for x in (q, k, v)], None)
    with pytest.raises(AssertionError, match="above 0"):
        _attend(plan, (q, k, v), None, scale=0.0)
    for wrong in (torch.ones(2, device=DEVICE), torch.ones((), device=DEVICE).double()):
        with pytest.raises(AssertionError, match="one float32"):
            _attend(plan, (q, k, v), None, out_scale=wrong)
    later = make_pass(Part([1] * 64, [[1, 2]], trunk_start=64, key=3))
    rooms = Rooms(64)
    rooms.take(3, 64)
    with pytest.raises(AssertionError, match="was given none"):
        _attend(later, (q[:2], k[:2], v[:2]), None, rooms=rooms.taken)


def _attend_with_group_two(plan, q, k, v):
    layout = upload(lay_out(plan, [Kind(2, None, TILES)], [{}]), DEVICE)
    return kernel.attention(layout, 0, q, k, v, scale=SCALE)
