"""Tree attention on the CPU: batched products over the tiles of a layout, float32 inside.

The library's own attention changes a row's bits with the number of queries, and takes a mask for
something else than fewer keys. Here each product's inner length follows from the row's own content
and question. A branch row's two parts, trunk and path, are merged by their log-sum-exp.
"""

from dataclasses import dataclass

import torch

from spinf_serve.engine.kernels.tree_attention.layout import (
    PATH_TILE,
    CpuLayout,
    Segments,
    padded_trunk,
)
from spinf_serve.engine.tree.plan import TRUNK_BLOCK, TreeSlice

MASKED = -1e30
"""Score of a key that a row does not see: its weight is exactly zero beside any seen key, and a row
that sees no key at all stays finite and gets weight zero in the merge."""

SCORES = 1 << 20
"""Scores held at a time in the trunk step; bounds memory and keeps them in cache."""


@dataclass(frozen=True, slots=True, eq=False)
class _Heads:
    """One layer's rows by key/value head; slack rows behind N may be read, never written.

    Attributes:
        q: [G, N + TRUNK_BLOCK, group, D] queries, then overwritten by nobody.
        k, v: [G, N + TRUNK_BLOCK, D].
        out: [G, N, group, D].
        lse: [G, N, group] log-sum-exp of the path step.
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

    Also stores the trunk keys and values that a later pass needs.
    """
    heads = _by_head(layout, q, k, v, scale, window, reads_only)
    for segments in layout.read_segments if reads_only else layout.segments:
        _path_step(heads, segments)
    for number, part in enumerate(layout.slices):
        end = part.row_start + part.trunk_rows + part.branch_rows
        _keep(heads, layout, layer, number)
        if part.trunk_start + part.trunk_rows and not (
            reads_only and not layout.reads_in(part.row_start, end)
        ):
            keys, values = _trunk(heads, layout, layer, number)
            _trunk_rows(heads, part, keys, values)
            _trunk_step(heads, layout, part, keys, values)
    out = heads.out.transpose(0, 1)
    picked = out[layout.read_rows] if reads_only else out
    return picked.reshape(q.shape[0], -1).to(q.dtype)


def _by_head(
    layout: CpuLayout,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float,
    window: int | None,
    reads_only: bool,
) -> _Heads:
    rows, kv_heads, size = k.shape
    group = q.shape[1] // kv_heads
    wide = rows + TRUNK_BLOCK
    queries = _buffer(layout, "q", kv_heads, wide, group, size)
    keys = _buffer(layout, "k", kv_heads, wide, size)
    values = _buffer(layout, "v", kv_heads, wide, size)
    by_head = q.reshape(q.shape[0], kv_heads, group, size).transpose(0, 1)
    if reads_only:
        queries[:, layout.read_rows] = by_head.float()
    else:
        queries[:, :rows].copy_(by_head)
    keys[:, :rows].copy_(k.transpose(0, 1))
    values[:, :rows].copy_(v.transpose(0, 1))
    out = _buffer(layout, "out", kv_heads, rows, group, size)
    lse = _buffer(layout, "lse", kv_heads, rows, group)
    return _Heads(queries, keys, values, out, lse, scale, window)


def _buffer(layout: CpuLayout, name: str, *shape: int) -> torch.Tensor:
    """A float32 buffer that the layers of a pass share, zero at first."""
    found = layout.buffers.get(name)
    if found is None or found.shape != shape:
        found = layout.buffers[name] = torch.zeros(shape)
    return found


def _path_step(heads: _Heads, segments: Segments) -> None:
    """Rows of the segments against their path; fills `out` and `lse` of the rows they own."""
    kv_heads, _, group, size = heads.q.shape
    seen = segments.depth_start + PATH_TILE
    count = len(segments.query_rows) // PATH_TILE
    q = heads.q.index_select(1, segments.query_rows).view(-1, PATH_TILE * group, size)
    k = heads.k.index_select(1, segments.key_rows).view(-1, seen, size)
    v = heads.v.index_select(1, segments.key_rows).view(-1, seen, size)
    scores = _scores(q, k, heads.scale)
    hidden = _hidden(segments.depth_start, 0, PATH_TILE, seen, heads.window)
    scores.view(-1, PATH_TILE, group, seen).masked_fill_(hidden[:, None], MASKED)
    weights, lse = _softmax(scores)
    out = torch.bmm(weights, v).view(kv_heads, count * PATH_TILE, group, size)
    own, rows = segments.own, segments.own_rows
    heads.out.index_copy_(1, rows, out.index_select(1, own))
    heads.lse.index_copy_(1, rows, lse.view(kv_heads, -1, group).index_select(1, own))


def _hidden(
    first_row: int, first_key: int, rows: int, keys: int, window: int | None
) -> torch.Tensor:
    """[rows, keys] bool: keys behind a row, or out of its window; both counted on one scale."""
    row = first_row + torch.arange(rows)[:, None]
    key = first_key + torch.arange(keys)
    hidden = key > row
    return hidden if window is None else hidden | (key <= row - window)


def _trunk_rows(heads: _Heads, part: TreeSlice, keys: torch.Tensor, values: torch.Tensor) -> None:
    """Causal attention of the slice's trunk rows, block by block."""
    for start in range(0, part.trunk_rows, TRUNK_BLOCK):
        offset = part.trunk_start + start
        first = _first_key(offset, heads.window)
        end = offset + TRUNK_BLOCK
        rows = min(TRUNK_BLOCK, part.trunk_rows - start)
        row = part.row_start + start
        q = heads.q[:, row : row + TRUNK_BLOCK]
        scores = _scores(q.flatten(1, 2), keys[:, first:end], heads.scale)
        hidden = _hidden(offset, first, TRUNK_BLOCK, end - first, heads.window)
        scores.view(*q.shape[:3], -1).masked_fill_(hidden[:, None], MASKED)
        torch.softmax(scores, -1, out=scores)
        out = torch.bmm(scores, values[:, first:end]).view(q.shape)
        heads.out[:, row : row + rows] = out[:, :rows]


def _trunk_step(
    heads: _Heads, layout: CpuLayout, part: TreeSlice, keys: torch.Tensor, values: torch.Tensor
) -> None:
    """Merges what the slice's branch rows see of the trunk into `out`."""
    if part.branch_rows == 0:
        return
    first = _first_key(part.trunk_len, heads.window)
    keys, values = keys[:, first:], values[:, first:]
    kv_heads, _, group, _ = heads.q.shape
    per_row = kv_heads * group * keys.shape[1]
    chunk = max(1, SCORES // (per_row * TRUNK_BLOCK)) * TRUNK_BLOCK
    for start in range(0, part.branch_rows, chunk):
        rows = min(chunk, part.branch_rows - start)
        row = part.branch_start + start
        q = heads.q[:, row : row + -(-rows // TRUNK_BLOCK) * TRUNK_BLOCK]
        scores = _scores(q.flatten(1, 2), keys, heads.scale)
        scores[:, :, part.trunk_len - first :] = MASKED
        if heads.window is not None:
            position = layout.positions[row : row + rows, None]
            passed = first + torch.arange(keys.shape[1]) <= position - heads.window
            scores.view(*q.shape[:3], -1)[:, :rows].masked_fill_(passed[:, None], MASKED)
        weights, lse = _softmax(scores)
        out = torch.bmm(weights, values).view(q.shape)[:, :rows]
        _merge(heads, row, rows, out, lse.view(*q.shape[:3])[:, :rows])


def _merge(heads: _Heads, row: int, rows: int, out: torch.Tensor, lse: torch.Tensor) -> None:
    """out := path part + w (trunk part - path part), w = 1 / (1 + exp(lse_path - lse_trunk))."""
    path = heads.out[:, row : row + rows]
    share = (heads.lse[:, row : row + rows] - lse).exp_().add_(1).reciprocal_()
    path.add_(out.sub_(path).mul_(share[..., None]))


def _scores(q: torch.Tensor, k: torch.Tensor, scale: float) -> torch.Tensor:
    """`scale * q @ k.T`, batched."""
    out = torch.empty(q.shape[0], q.shape[1], k.shape[1])
    return torch.baddbmm(out, q, k.transpose(1, 2), beta=0, alpha=scale, out=out)


def _softmax(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Softmax over the keys, overwriting scores, and the log-sum-exp of each row.

    The log-sum-exp is the largest score minus the log of the largest weight: a plain sum would
    depend on the number of threads.
    """
    top = scores.amax(-1)
    torch.softmax(scores, -1, out=scores)
    return scores, top - scores.amax(-1).log_()


def _first_key(offset: int, window: int | None) -> int:
    """First key, at a block border, that a row at trunk offset `offset` or later may see."""
    if window is None:
        return 0
    return max(0, offset - window + 1) // TRUNK_BLOCK * TRUNK_BLOCK


def _keep(heads: _Heads, layout: CpuLayout, layer: int, number: int) -> None:
    """Stores the slice's own trunk rows when the trunk is kept."""
    part, kept = layout.slices[number], layout.kept.get(number)
    if kept is None or part.trunk_rows == 0:
        return
    rows = slice(part.row_start, part.branch_start)
    places = slice(part.trunk_start, part.trunk_start + part.trunk_rows)
    kept.keys[layer][:, places] = heads.k[:, rows].to(kept.keys.dtype)
    kept.values[layer][:, places] = heads.v[:, rows].to(kept.values.dtype)


def _trunk(
    heads: _Heads, layout: CpuLayout, layer: int, number: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values [G, padded trunk, D] of a slice's trunk so far; values behind it are zero."""
    part, kept = layout.slices[number], layout.kept.get(number)
    end = padded_trunk(part)
    if kept is not None:
        return kept.keys[layer][:, :end].float(), kept.values[layer][:, :end].float()
    values = heads.v.new_zeros(heads.v.shape[0], end, heads.v.shape[2])
    values[:, : part.trunk_rows] = heads.v[:, part.row_start : part.branch_start]
    # Keys behind the trunk are whatever rows follow: their scores are overwritten.
    return heads.k[:, part.row_start : part.row_start + end], values
