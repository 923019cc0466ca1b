"""Tree attention on the device: one kernel over the tiles of a device layout.

A row's result is one running softmax: over the keys of its trunk that it sees, in tiles counted
from the trunk's start, then over those of its path, in stretches counted from the path's. Several
paths' stretches are the keys of one product, in which a row sees those of its own alone. The query
heads that share a key/value head are rows of one tile.

What is masked changes no sum: a weight of zero is added, and what was summed before is multiplied
by exactly one. Tiles in which every row sees every key go through the same arithmetic without the
mask. So a row's bits depend on its trunk and its path alone, as long as the rows of a product do
not depend on one another, and zeros before and behind the keys of a stretch leave their sum as it
is; that is for a check on the card at hand to confirm.

Weights are `2 ** (scale * log2(e) * (score - largest score))` in float32; they meet the values, and
are added up, in the model's dtype. Sums are float32.
"""

import math
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from spinf_serve.engine.kernels.device import room, rounded
from spinf_serve.engine.kernels.linear.kernel import for_float8
from spinf_serve.engine.kernels.tree_attention.device_layout import (
    TILE_FIELDS,
    DeviceLayout,
    KindLayout,
    Queries,
    Tiles,
)
from spinf_serve.engine.kernels.tree_attention.folds import STRETCH_FIELDS
from spinf_serve.engine.kernels.tree_attention.saved import save
from spinf_serve.engine.kernels.tree_attention.tiling import STRETCH

_LEAST = tl.constexpr(-float("inf"))
_TILE_FIELDS = tl.constexpr(TILE_FIELDS)
_STRETCH_FIELDS = tl.constexpr(STRETCH_FIELDS)
_STRETCH = tl.constexpr(STRETCH)
_TOTALS = tl.constexpr(8)
_NEVER, _SOMETIMES, _ALWAYS = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)

FP_FUSION = False
"""The compiler fuses no product with a sum on its own. It compiles one fold several times over, with
the mask and without, and might fuse in one copy what it leaves apart in another; then a row's bits
would depend on which tiles it shares. What is fused is written as `tl.fma`, and stays fused."""


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """The pool of one layer: [slots, G, D] keys and values of trunks, in the model's dtype.

    Values are finite also where nothing was kept yet.
    """

    keys: torch.Tensor
    values: torch.Tensor


def attention(
    layout: DeviceLayout[torch.Tensor],
    kind: int,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float,
    kept: Kept | None = None,
    reads_only: bool = False,
    out_scale: torch.Tensor | None = None,
) -> torch.Tensor:
    """Tree attention of one layer; q [N, H, D], k and v [N, G, D] -> [N, H * D] in q's dtype.

    A row sees the trunk keys at its own position and before, its ancestors and itself; in a kind
    with a window W only those whose position is greater than its own minus W. Values must be
    finite: `elementwise.kernel.heads` sees to it.

    Args:
        layout: the pass, on the device of the tensors.
        kind: which of the layout's kinds the layer is of.
        q: [N, H, D], or with `reads_only` the R read rows [R, H, D], and so the result.
        scale: factor of the scores, above 0.
        kept: the layer's pool: keys from before this pass are read from it and those that a later
            pass needs are written to it. May be None when the pass does neither.
        out_scale: one float32 that results are divided by, then clamped and rounded from float32 to
            float8_e4m3fn as `Quant` says; None for q's dtype.
    """
    work = layout.kinds[kind]
    tiles, queries = (work.reads, layout.reads) if reads_only else (work.every, layout.every)
    _check(work, queries, q, k, v, scale, kept, out_scale)
    dtype = q.dtype if out_scale is None else torch.float8_e4m3fn
    out = room(tuple(q.shape), dtype, q.device)
    if len(tiles.tile):
        factor = scale * math.log2(math.e)
        _launch(work, tiles, queries, (q, k, v, out), out_scale, factor, kept)
    if kept is not None and len(work.keep_rows):
        # Afterwards: a ring's new keys take the place of some that these rows still saw.
        save(k, v, (kept.keys, kept.values), work.keep_rows, work.keep_slots)
    return rounded(out, dtype).flatten(1)


def _check(
    work: KindLayout[torch.Tensor],
    queries: Queries[torch.Tensor],
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float,
    kept: Kept | None,
    out_scale: torch.Tensor | None,
) -> None:
    group = work.kind.group
    if q.shape[1] != k.shape[1] * group or k.shape != v.shape or q.shape[2] != k.shape[2]:
        raise AssertionError(f"q {q.shape}, k {k.shape}, v {v.shape}: not heads in groups {group}")
    if len(q) != len(queries.query):
        raise AssertionError(f"{len(q)} rows of q for {len(queries.query)} queries")
    if not (q.is_contiguous() and k.is_contiguous() and v.is_contiguous()):
        raise AssertionError("q, k and v must be contiguous")
    if q.numel() >= 1 << 31:
        raise AssertionError(f"q has {q.numel()} values, and offsets are 32 bit")
    if q.device.type == "cpu" and q.dtype != torch.float32:
        raise AssertionError("the interpreter multiplies and rounds 16-bit floats wrongly")
    if not scale > 0:
        raise AssertionError(f"the scale must be above 0, not {scale}")
    if out_scale is not None and (out_scale.numel() != 1 or out_scale.dtype != torch.float32):
        raise AssertionError(f"the result's scale is one float32, not {list(out_scale.shape)}")
    if kept is None and (work.borrows or len(work.keep_rows)):
        raise AssertionError("the pass reads or writes kept keys and was given none")


def _launch(
    work: KindLayout[torch.Tensor],
    tiles: Tiles[torch.Tensor],
    queries: Queries[torch.Tensor],
    heads: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor],
    out_scale: torch.Tensor | None,
    factor: float,
    kept: Kept | None,
) -> None:
    q, k, v, out = heads
    kind, size = work.kind, q.shape[2]
    borrowed = kept if work.borrows and kept is not None else Kept(k, v)
    wide = _wide(size)
    descriptors = kind.tiling.descriptors and wide == size

    def address(tensor: torch.Tensor) -> torch.Tensor | TensorDescriptor:
        if not descriptors:
            return tensor
        return TensorDescriptor.from_tensor(tensor.flatten(1), [kind.tiling.keys, size])

    tree_kernel[(len(tiles.tile), k.shape[1])](
        q,
        k,
        v,
        address(k),
        address(v),
        address(borrowed.keys),
        address(borrowed.values),
        out,
        out_scale,
        tiles.tile,
        tiles.stretch,
        tiles.path_key,
        queries.query,
        queries.position,
        factor,
        kind.window or 0,
        HEADS=q.shape[1],
        KV_HEADS=k.shape[1],
        SIZE=size,
        WIDE=wide,
        ROWS=kind.tiling.rows,
        KEYS=kind.tiling.keys,
        PATH_KEYS=kind.tiling.path_keys,
        PATH_STAGES=kind.tiling.path_stages,
        WINDOWED=kind.window is not None,
        BORROWS=work.borrows,
        ONE_LOOP=kind.tiling.one_loop,
        DESCRIPTORS=descriptors,
        num_warps=kind.tiling.warps,
        num_stages=kind.tiling.stages,
        enable_fp_fusion=FP_FUSION,
    )


def _wide(size: int) -> int:
    """A head with its padding: a tile's sides are powers of two, at least 16 in a product."""
    return max(16, 1 << (size - 1).bit_length())


@triton.jit
def _fold(top, total, values, scores, v, factor):
    """The running softmax of a tile's rows with one more tile of scores and values in it."""
    new = tl.maximum(top, tl.max(scores, 1))
    # A row that has seen nothing so far: its weights are 2 ** -inf, not 2 ** (inf - inf).
    base = tl.where(new == _LEAST, 0.0, new)
    # Exactly 1 when the largest score stays.
    keep = tl.exp2((top - base) * factor)
    # Fused by hand, lest the compiler fuses it with the mask and not without.
    weights = tl.exp2(tl.fma(scores, factor, (-base * factor)[:, None]))
    # The matrix units add the weights up too, in columns that are all the same: a sum across lanes
    # would follow from how many warps share a tile, and takes longer.
    weights = weights.to(v.dtype)
    ones = tl.full((v.shape[0], _TOTALS), 1.0, v.dtype)
    total = tl.dot(weights, ones, total * keep[:, None], input_precision="ieee")
    values = tl.dot(weights, v, values * keep[:, None], input_precision="ieee")
    return new, total, values


@triton.jit
def _meet(
    top, total, values, q, k, v, begin, full, part, end, row, shift, ring, kv_head, position,
    trunk_len, factor, window,
    STRIDE: tl.constexpr,
    SIZE: tl.constexpr,
    WIDE: tl.constexpr,
    KEYS: tl.constexpr,
    MASK: tl.constexpr,
    WINDOWED: tl.constexpr,
    RING: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """Rows of a tile against the trunk's keys from `begin`, a tile's border, up to `end`.

    The key at offset j lies in row `row + j - shift`, or in a ring at `row + j % ring`. With MASK
    sometimes, those before `full` and from `part` on are masked.
    """
    lane = tl.arange(0, KEYS)
    d = tl.arange(0, WIDE)
    if not DESCRIPTORS:
        k_start = k + row.to(tl.int64) * STRIDE + kv_head * SIZE
        v_start = v + row.to(tl.int64) * STRIDE + kv_head * SIZE
    for first in range(begin, end, KEYS):
        key = first + lane
        place = first % ring if RING else first - shift
        if DESCRIPTORS:
            # Rows behind the end are there, finite and masked, or zeros.
            tile_k = k.load([row + place, kv_head * SIZE])
            tile_v = v.load([row + place, kv_head * SIZE])
        else:
            at = (place + lane)[:, None] * STRIDE
            if MASK != _NEVER or SIZE < WIDE:
                inside = (key < end)[:, None]
                k_inside = inside & (d[None, :] < SIZE)
                tile_k = tl.load(k_start + at + d[None, :], mask=k_inside, other=0.0)
                v_inside = inside & (d[None, :] < SIZE)
                tile_v = tl.load(v_start + at + d[None, :], mask=v_inside, other=0.0)
            else:
                tile_k = tl.load(k_start + at + d[None, :])
                tile_v = tl.load(v_start + at + d[None, :])
        scores = tl.dot(q, tl.trans(tile_k), input_precision="ieee")
        if MASK == _SOMETIMES:
            if (first < full) | (first >= part):
                scores = _masked(scores, key, position, trunk_len, window, WINDOWED)
        elif MASK == _ALWAYS:
            scores = _masked(scores, key, position, trunk_len, window, WINDOWED)
        top, total, values = _fold(top, total, values, scores, tile_v, factor)
    return top, total, values


@triton.jit
def _masked(scores, key, position, trunk_len, window, WINDOWED: tl.constexpr):
    """Scores [rows, keys] with those of trunk keys that a row does not see made the least."""
    seen = (key[None, :] <= position[:, None]) & (key[None, :] < trunk_len)
    if WINDOWED:
        seen = seen & (key[None, :] > position[:, None] - window)
    return tl.where(seen, scores, _LEAST)


@triton.jit
def _meet_all(
    top, total, values, q, k, v, begin, full, part, end, row, shift, ring, kv_head, position,
    trunk_len, factor, window,
    STRIDE: tl.constexpr,
    SIZE: tl.constexpr,
    WIDE: tl.constexpr,
    KEYS: tl.constexpr,
    WINDOWED: tl.constexpr,
    RING: tl.constexpr,
    ONE_LOOP: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """As `_meet` from `begin` to `end`; every row of the tile sees the keys from `full` to `part`."""
    if ONE_LOOP:
        top, total, values = _meet(
            top, total, values, q, k, v, begin, full, part, end, row, shift, ring, kv_head,
            position, trunk_len, factor, window,
            STRIDE, SIZE, WIDE, KEYS, _SOMETIMES, WINDOWED, RING, DESCRIPTORS,
        )  # fmt: skip
    else:
        if WINDOWED:
            top, total, values = _meet(
                top, total, values, q, k, v, begin, full, part, full, row, shift, ring, kv_head,
                position, trunk_len, factor, window,
                STRIDE, SIZE, WIDE, KEYS, _ALWAYS, WINDOWED, RING, DESCRIPTORS,
            )  # fmt: skip
        top, total, values = _meet(
            top, total, values, q, k, v, full, full, part, part, row, shift, ring, kv_head,
            position, trunk_len, factor, window,
            STRIDE, SIZE, WIDE, KEYS, _NEVER, WINDOWED, RING, DESCRIPTORS,
        )  # fmt: skip
        top, total, values = _meet(
            top, total, values, q, k, v, part, full, part, end, row, shift, ring, kv_head,
            position, trunk_len, factor, window,
            STRIDE, SIZE, WIDE, KEYS, _ALWAYS, WINDOWED, RING, DESCRIPTORS,
        )  # fmt: skip
    return top, total, values


@triton.jit(do_not_specialize=["factor", "window"])
def tree_kernel(
    q,
    k,
    v,
    trunk_k,
    trunk_v,
    kept_k,
    kept_v,
    out,
    out_scale,
    tiles,
    stretches,
    path_keys,
    queries,
    positions,
    factor,
    window,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    WIDE: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    PATH_KEYS: tl.constexpr,
    PATH_STAGES: tl.constexpr,
    WINDOWED: tl.constexpr,
    BORROWS: tl.constexpr,
    ONE_LOOP: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
):
    """One tile and one key/value head; `trunk_k` and `trunk_v` are `k` and `v`, as descriptors."""
    GROUP: tl.constexpr = HEADS // KV_HEADS
    STRIDE: tl.constexpr = KV_HEADS * SIZE
    kv_head = tl.program_id(1)
    fields = tiles + tl.program_id(0) * _TILE_FIELDS
    first_entry = tl.load(fields)
    count = tl.load(fields + 1)
    trunk_len = tl.load(fields + 2)
    low = tl.load(fields + 3)
    high = tl.load(fields + 4)
    row = tl.load(fields + 5)
    cut = tl.load(fields + 6)
    slot = tl.load(fields + 7)
    ring = tl.load(fields + 8)
    fold_begin = tl.load(fields + 9)
    fold_end = tl.load(fields + 10)

    r = tl.arange(0, ROWS)
    d = tl.arange(0, WIDE)
    # Rows behind the last repeat its token, and a tile of none has the first: all that is loaded is
    # there.
    entry = first_entry + tl.maximum(tl.minimum(r // GROUP, count - 1), 0)
    query = tl.load(queries + entry)
    position = tl.load(positions + entry)
    at = ((query * HEADS + kv_head * GROUP + r % GROUP) * SIZE)[:, None] + d[None, :]
    tile_q = tl.load(q + at, mask=d[None, :] < SIZE, other=0.0)
    top = tl.full((ROWS,), _LEAST, tl.float32)
    total = tl.zeros((ROWS, _TOTALS), tl.float32)
    values = tl.zeros((ROWS, WIDE), tl.float32)

    # Keys from `begin` to `end` are seen by some row; from `full` to `part` by all, in whole tiles.
    end = tl.minimum(high + 1, trunk_len)
    begin = 0
    full = 0
    if WINDOWED:
        begin = tl.minimum(tl.maximum(low - window + 1, 0) // KEYS * KEYS, end)
        full = (tl.maximum(high - window + 1, 0) + KEYS - 1) // KEYS * KEYS
        full = tl.minimum(full, end)
    part = tl.maximum(tl.minimum(low + 1, trunk_len) // KEYS * KEYS, full)
    if BORROWS:
        top, total, values = _meet_all(
            top, total, values, tile_q, kept_k, kept_v, tl.minimum(begin, cut),
            tl.minimum(full, cut), tl.minimum(part, cut), tl.minimum(end, cut), slot, 0, ring,
            kv_head, position, trunk_len, factor, window,
            STRIDE, SIZE, WIDE, KEYS, WINDOWED, True, ONE_LOOP, DESCRIPTORS,
        )  # fmt: skip
        begin = tl.maximum(begin, cut)
        full = tl.maximum(full, cut)
        part = tl.maximum(part, cut)
        end = tl.maximum(end, cut)
    top, total, values = _meet_all(
        top, total, values, tile_q, trunk_k, trunk_v, begin, full, part, end, row, cut, ring,
        kv_head, position, trunk_len, factor, window,
        STRIDE, SIZE, WIDE, KEYS, WINDOWED, False, ONE_LOOP, DESCRIPTORS,
    )  # fmt: skip

    lane = tl.arange(0, PATH_KEYS)
    seat = lane // _STRETCH
    for fold in tl.range(fold_begin, fold_end, num_stages=PATH_STAGES):
        key_row = tl.load(path_keys + fold * PATH_KEYS + lane)
        key_at = (key_row * STRIDE + kv_head * SIZE)[:, None]
        tile_k = tl.load(k + key_at + d[None, :], mask=d[None, :] < SIZE, other=0.0)
        scores = tl.dot(tile_q, tl.trans(tile_k), input_precision="ieee")
        stretch = stretches + (fold * (PATH_KEYS // _STRETCH) + seat) * _STRETCH_FIELDS
        place = trunk_len + tl.load(stretch) + lane % _STRETCH
        first, last = tl.load(stretch + 1), tl.load(stretch + 2)
        seen = (entry[:, None] >= first[None, :]) & (entry[:, None] < last[None, :])
        seen = seen & (place[None, :] <= position[:, None])
        if WINDOWED:
            seen = seen & (place[None, :] > position[:, None] - window)
        scores = tl.where(seen, scores, _LEAST)
        tile_v = tl.load(v + key_at + d[None, :], mask=d[None, :] < SIZE, other=0.0)
        top, total, values = _fold(top, total, values, scores, tile_v, factor)

    # Loaded again, so that a tile of addresses does not take registers all along.
    query = tl.load(queries + entry, volatile=True)
    at = ((query * HEADS + kv_head * GROUP + r % GROUP) * SIZE)[:, None] + d[None, :]
    stored = (r < count * GROUP)[:, None] & (d[None, :] < SIZE)
    values = values / tl.max(total, 1)[:, None]
    if out_scale is not None:
        values = for_float8(values * tl.div_rn(1.0, tl.load(out_scale)))
    tl.store(out + at, values.to(out.dtype.element_ty), mask=stored)
