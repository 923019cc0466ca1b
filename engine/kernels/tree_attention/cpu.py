"""Tree attention on the CPU: batched products over the tiles of a layout, float32 inside.

The library's own attention changes a row's bits with the number of queries, and takes a mask for
something else than fewer keys. Here each product's inner length follows from the row's own content
and question. What a row gets from its trunk and from parts of its path is merged by log-sum-exp.
"""

from dataclasses import dataclass

import torch

from spinf_serve.engine.kernels.tree_attention.layout import CpuLayout, Tiles, padded_head
from spinf_serve.engine.tree.plan import TRUNK_BLOCK, TreeSlice

MASKED = -1e30
"""Score of a key that a row does not see: its weight is exactly zero beside any seen key, and a row
that sees no key at all stays finite and gets weight zero in the merge."""

SCORES = 1 << 20
"""Scores held at a time in the trunk step; bounds memory and keeps them in cache."""


@dataclass(frozen=True, slots=True, eq=False)
class _Heads:
    """One layer's rows by key/value head, float32.

    Behind the N rows lie `TRUNK_BLOCK` slack rows, which a run of rows may reach into; behind these
    the keys and values of short kept trunks, then of ghosts. D is padded with zeros to a multiple of
    `HEAD_TILE`.

    Attributes:
        q: [G, N + slack, group, D].
        k, v: [G, N + slack + kept + ghosts, D].
        out: [G, N, group, D].
        lse: [G, N, group] log-sum-exp over the keys that are in `out` so far.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    out: torch.Tensor
    lse: torch.Tensor
    scale: float
    window: int | None


def attention(
    layout: CpuLayout,
    layer: int,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float,
    window: int | None,
    reads_only: bool,
) -> torch.Tensor:
    """Tree attention; q [N or R, H, D], k and v [N, G, D] -> [N or R, H * D] in q's dtype.

    Also stores the keys and values that a later pass needs.
    """
    if len(layout.save_rows):
        layout.branches.save(layer, k, v, layout.save_rows, layout.save_places)
    heads = _by_head(layout, q, k, v, scale, window, reads_only)
    _appear(heads, layout, layer, k.shape[2])
    _keep(heads, layout, layer)
    _borrow(heads, layout, layer)
    work = layout.reads if reads_only else layout.every
    for tiles in work.indexed:
        _indexed(heads, tiles)
    for number in work.long:
        part = layout.slices[number]
        keys, values = _trunk(heads, layout, layer, number)
        _trunk_rows(heads, part, keys, values)
        if part.branch_rows:
            _trunk_step(heads, layout, part, keys, values)
    out = heads.out.transpose(0, 1)[..., : q.shape[2]]
    picked = out[layout.read_rows] if reads_only else out
    return picked.reshape(q.shape[0], q.shape[1] * q.shape[2]).to(q.dtype)


def _by_head(
    layout: CpuLayout,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float,
    window: int | None,
    reads_only: bool,
) -> _Heads:
    rows, kv_heads, used = k.shape
    group, size = q.shape[1] // kv_heads, padded_head(used)
    wide = rows + TRUNK_BLOCK
    all_keys = wide + TRUNK_BLOCK * len(layout.borrowed) + len(layout.ghosts)
    queries = _buffer(layout, "q", kv_heads, wide, group, size)
    keys = _buffer(layout, "k", kv_heads, all_keys, size)
    values = _buffer(layout, "v", kv_heads, all_keys, size)
    by_head = q.reshape(q.shape[0], kv_heads, group, used).transpose(0, 1)
    if reads_only:
        queries[:, layout.read_rows, :, :used] = by_head.float()
    else:
        queries[:, :rows, :, :used].copy_(by_head)
    keys[:, :rows, :used].copy_(k.transpose(0, 1))
    values[:, :rows, :used].copy_(v.transpose(0, 1))
    _confine_nan(keys[:, :rows], values[:, :rows])
    out = _buffer(layout, "out", kv_heads, rows, group, size)
    lse = _buffer(layout, "lse", kv_heads, rows, group)
    return _Heads(queries, keys, values, out, lse, scale, window)


def _confine_nan(keys: torch.Tensor, values: torch.Tensor) -> None:
    """Lets a row's NaN reach the rows that see it and no others of its tile.

    A weight of zero does not silence a NaN value, an overwritten score does silence a NaN key: so
    the key takes over whatever is not finite in the value.
    """
    keys.add_((values * 0).sum(-1, keepdim=True))
    values.nan_to_num_(0.0, 0.0, 0.0)


def _buffer(layout: CpuLayout, name: str, *shape: int) -> torch.Tensor:
    """A float32 buffer that layers of a pass with the same heads share, zero at first."""
    found = layout.buffers.get((name, shape))
    if found is None:
        found = layout.buffers[name, shape] = torch.zeros(shape)
    return found


def _keep(heads: _Heads, layout: CpuLayout, layer: int) -> None:
    """Stores the trunk rows of this pass whose trunks are kept."""
    for number, kept in layout.kept.items():
        part = layout.slices[number]
        rows = slice(part.row_start, part.branch_start)
        places = slice(part.trunk_start, part.trunk_start + part.trunk_rows)
        kept.keys[layer][:, places].copy_(heads.k[:, rows])
        kept.values[layer][:, places].copy_(heads.v[:, rows])


def _borrow(heads: _Heads, layout: CpuLayout, layer: int) -> None:
    """Lays short kept trunks where tiles can index them."""
    start = heads.q.shape[1]
    for number in layout.borrowed:
        kept = layout.kept[number]
        heads.k[:, start : start + TRUNK_BLOCK].copy_(kept.keys[layer])
        heads.v[:, start : start + TRUNK_BLOCK].copy_(kept.values[layer])
        start += TRUNK_BLOCK


def _appear(heads: _Heads, layout: CpuLayout, layer: int, used: int) -> None:
    """Lays the ghosts of a pass where tiles can index them; heads have `used` values."""
    if len(layout.ghosts):
        start = heads.k.shape[1] - len(layout.ghosts)
        keys, values = heads.k[:, start:], heads.v[:, start:]
        keys[..., :used].copy_(layout.branches.keys(layer, layout.ghosts).transpose(0, 1))
        values[..., :used].copy_(layout.branches.values(layer, layout.ghosts).transpose(0, 1))
        _confine_nan(keys, values)


def _indexed(heads: _Heads, tiles: Tiles) -> None:
    """Rows of the tiles against their gathered keys: `out` and `lse` of the rows that they own."""
    kv_heads, _, group, size = heads.q.shape
    q = heads.q.index_select(1, tiles.query_rows).view(-1, tiles.rows * group, size)
    k = heads.k.index_select(1, tiles.key_rows).view(-1, tiles.keys, size)
    v = heads.v.index_select(1, tiles.key_rows).view(-1, tiles.keys, size)
    scores = _scores(q, k, heads.scale)
    by_row = scores.view(kv_heads, -1, tiles.rows, group, tiles.keys)
    by_row.masked_fill_(tiles.hidden(heads.window)[:, :, None], MASKED)
    lse = _softmax(scores).view(kv_heads, -1, group).index_select(1, tiles.own)
    out = torch.bmm(scores, v).view(kv_heads, -1, group, size).index_select(1, tiles.own)
    if tiles.merge:
        before = heads.out.index_select(1, tiles.own_rows)
        before_lse = heads.lse.index_select(1, tiles.own_rows)
        _merge(before, before_lse, out, lse)
        out, lse = before, _added(before_lse, lse)
    heads.out.index_copy_(1, tiles.own_rows, out)
    heads.lse.index_copy_(1, tiles.own_rows, lse)


def _trunk_rows(heads: _Heads, part: TreeSlice, keys: torch.Tensor, values: torch.Tensor) -> None:
    """Causal attention of a long trunk's rows in this pass, block by block."""
    place = torch.arange(TRUNK_BLOCK)[:, None]
    for start in range(0, part.trunk_rows, TRUNK_BLOCK):
        offset = part.trunk_start + start
        first, end = _first_key(offset, heads.window), offset + TRUNK_BLOCK
        rows = min(TRUNK_BLOCK, part.trunk_rows - start)
        row = part.row_start + start
        q = heads.q[:, row : row + TRUNK_BLOCK]
        scores = _scores(q.flatten(1, 2), keys[:, first:end], heads.scale)
        by_row = scores.view(*q.shape[:3], end - first)
        by_row[..., -TRUNK_BLOCK:].masked_fill_((place.T > place)[:, None], MASKED)
        if heads.window is not None:
            passed = torch.arange(first, end) <= offset + place - heads.window
            by_row.masked_fill_(passed[:, None], MASKED)
        torch.softmax(scores, -1, out=scores)
        out = torch.bmm(scores, values[:, first:end]).view(q.shape)
        heads.out[:, row : row + rows] = out[:, :rows]


def _trunk_step(
    heads: _Heads, layout: CpuLayout, part: TreeSlice, keys: torch.Tensor, values: torch.Tensor
) -> None:
    """Merges what the slice's branch rows see of a long trunk into `out`."""
    first = _first_key(part.trunk_len, heads.window)
    count = keys.shape[1] - first
    kv_heads, _, group, _ = heads.q.shape
    chunk = max(1, SCORES // (kv_heads * group * count * TRUNK_BLOCK)) * TRUNK_BLOCK
    for start in range(0, part.branch_rows, chunk):
        rows = min(chunk, part.branch_rows - start)
        row = part.branch_start + start
        q = heads.q[:, row : row + -(-rows // TRUNK_BLOCK) * TRUNK_BLOCK]
        scores = _scores(q.flatten(1, 2), keys[:, first:], heads.scale)
        scores[..., part.trunk_len - first :] = MASKED
        if heads.window is not None:
            position = layout.positions[row : row + rows, None]
            passed = torch.arange(first, first + count) <= position - heads.window
            by_row = scores.view(*q.shape[:3], count)[:, :rows]
            by_row.masked_fill_(passed[:, None], MASKED)
        lse = _softmax(scores).view(*q.shape[:3])[:, :rows]
        out = torch.bmm(scores, values[:, first:]).view(q.shape)[:, :rows]
        here = slice(row, row + rows)
        _merge(heads.out[:, here], heads.lse[:, here], out, lse)


def _merge(
    near: torch.Tensor, near_lse: torch.Tensor, far: torch.Tensor, far_lse: torch.Tensor
) -> None:
    """near := near + w (far - near), w = 1 / (1 + exp(near_lse - far_lse)). Spoils far."""
    share = (near_lse - far_lse).exp_().add_(1).reciprocal_()
    near.add_(far.sub_(near).mul_(share[..., None]))


def _added(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """log(exp(a) + exp(b))."""
    return torch.maximum(a, b).add_((a - b).abs_().neg_().exp_().log1p_())


def _scores(q: torch.Tensor, k: torch.Tensor, scale: float) -> torch.Tensor:
    """`scale * q @ k.T`, batched."""
    out = torch.empty(q.shape[0], q.shape[1], k.shape[1])
    return torch.baddbmm(out, q, k.transpose(1, 2), beta=0, alpha=scale, out=out)


def _softmax(scores: torch.Tensor) -> torch.Tensor:
    """Softmax over the keys, in place; returns the log-sum-exp of each row.

    The log-sum-exp is the largest score minus the log of the largest weight: a plain sum would
    depend on the number of threads.
    """
    top = scores.amax(-1)
    torch.softmax(scores, -1, out=scores)
    return top.sub_(scores.amax(-1).log_())


def _first_key(offset: int, window: int | None) -> int:
    """First key, at a block border, that a row at trunk offset `offset` or later may see."""
    if window is None:
        return 0
    return max(0, offset - window + 1) // TRUNK_BLOCK * TRUNK_BLOCK


def _trunk(
    heads: _Heads, layout: CpuLayout, layer: int, number: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values [G, padded, D] of a long trunk up to here; behind its end anything."""
    part, kept = layout.slices[number], layout.kept.get(number)
    end = -(-(part.trunk_start + part.trunk_rows) // TRUNK_BLOCK) * TRUNK_BLOCK
    if kept is not None:
        return kept.keys[layer][:, :end].float(), kept.values[layer][:, :end].float()
    rows = slice(part.row_start, part.row_start + end)
    return heads.k[:, rows], heads.v[:, rows]
