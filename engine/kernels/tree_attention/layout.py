"""A pass laid out for the CPU: which rows meet which keys, as index tensors made once per pass.

Rows are handled in tiles whose shape follows from a row's own content and question:

- trunk rows in blocks of `TRUNK_BLOCK` counted from the trunk's start, against the keys up to the
  block's end;
- branch rows against all keys of their trunk, padded to a multiple of `TRUNK_BLOCK`;
- branch rows against their path in *segments*: rows at depth `16 s .. 16 s + 15` against the keys
  at depth `0 .. 16 s + 15`.

Knows no tensor values: which arithmetic is done in a tile is for `cpu`.
"""

from dataclasses import dataclass, field

import numpy as np
import torch

from spinf_serve.engine.kernels.linear.cpu import ROW_TILE
from spinf_serve.engine.tree.plan import TRUNK_BLOCK, Pass, TreeSlice

PATH_TILE = 16
"""Depths of a path segment. Part of the numerics."""


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """Segments of equal depth, S of them, over the whole pass.

    Attributes:
        depth_start: depth of the first row; the keys end PATH_TILE behind it.
        query_rows: [S * PATH_TILE] pass row of each query; a row of the path where there is none.
        key_rows: [S * (depth_start + PATH_TILE)] pass row of each key, likewise.
        own: [own] places in `query_rows` of the rows that the segments' paths own.
        own_rows: [own] pass rows of these.
    """

    depth_start: int
    query_rows: torch.Tensor
    key_rows: torch.Tensor
    own: torch.Tensor
    own_rows: torch.Tensor


@dataclass(slots=True, eq=False)
class Kept:
    """Keys and values of one tree's trunk, layer by layer, for passes to come.

    Attributes:
        keys, values: [layers, G, T padded to TRUNK_BLOCK, D] in the model's dtype, zeros behind T.
    """

    keys: torch.Tensor
    values: torch.Tensor


@dataclass(slots=True, eq=False)
class CpuLayout:
    """Layout of one pass on the CPU. `rows` of the N rows are the pass's; the rest is padding.

    Attributes:
        kept: by slice number, the trunk keys that are or will be kept.
        segments: all path segments; `read_segments` those with a read row.
        has_read: [N + 1] number of read rows before each row.
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    read_rows: torch.Tensor
    column_start: torch.Tensor
    columns: torch.Tensor
    longest: int
    rows: int
    slices: tuple[TreeSlice, ...]
    kept: dict[int, Kept]
    segments: tuple[Segments, ...]
    read_segments: tuple[Segments, ...]
    reads_before: np.ndarray
    buffers: dict[str, torch.Tensor] = field(default_factory=dict)

    @property
    def padded(self) -> int:
        """N, a multiple of the row tile."""
        return len(self.tokens)

    def reads_in(self, start: int, end: int) -> bool:
        """Whether any of the rows start .. end - 1 is read."""
        return bool(self.reads_before[end] > self.reads_before[start])


def lay_out(plan: Pass, kept: dict[int, Kept]) -> CpuLayout:
    """Index tensors of a pass; `kept` maps slice numbers to stored trunk keys."""
    rows = len(plan.tokens)
    padding = -rows % ROW_TILE
    is_read = np.zeros(rows, np.int64)
    is_read[plan.read_rows] = 1
    return CpuLayout(
        tokens=_index(np.pad(plan.tokens, (0, padding))),
        positions=_index(np.pad(plan.positions, (0, padding))),
        read_rows=_index(plan.read_rows),
        column_start=_index(plan.column_start),
        columns=_index(plan.columns),
        longest=int(plan.positions.max()) + 1,
        rows=rows,
        slices=plan.slices,
        kept=kept,
        segments=_segments(plan, None),
        read_segments=_segments(plan, is_read.astype(bool)),
        reads_before=np.concatenate(([0], np.cumsum(is_read))),
    )


def _segments(plan: Pass, wanted: np.ndarray | None) -> tuple[Segments, ...]:
    """Segments that own a row, or one of the `wanted` rows when these are given."""
    if len(plan.path_len) == 0:
        return ()
    width = plan.path_rows.shape[1]
    full = -(-width // PATH_TILE) * PATH_TILE
    grid = np.pad(plan.path_rows, ((0, 0), (0, full - width)), constant_values=-1)
    depth = np.arange(full)
    owned = (depth >= plan.path_own[:, None]) & (depth < plan.path_len[:, None])
    if wanted is not None:
        owned &= wanted[grid]
    # A path's first row stands in where it has none: its ancestor, so that nothing foreign, not
    # even a NaN, is ever multiplied into a row.
    grid = np.where(grid < 0, grid[:, :1], grid)
    found = []
    for start in range(0, full, PATH_TILE):
        tile = owned[:, start : start + PATH_TILE]
        paths = np.flatnonzero(tile.any(axis=1))
        if len(paths) == 0:
            continue
        queries = grid[paths, start : start + PATH_TILE].ravel()
        own = np.flatnonzero(tile[paths].ravel())
        found.append(
            Segments(
                depth_start=start,
                query_rows=_index(queries),
                key_rows=_index(grid[paths, : start + PATH_TILE].ravel()),
                own=_index(own),
                own_rows=_index(queries[own]),
            )
        )
    return tuple(found)


def padded_trunk(part: TreeSlice) -> int:
    """Trunk keys that the slice's rows meet once its own trunk rows are in, padded to blocks."""
    return -(-(part.trunk_start + part.trunk_rows) // TRUNK_BLOCK) * TRUNK_BLOCK


def _index(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.int64))
