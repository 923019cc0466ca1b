"""A pass laid out for the CPU: which rows meet which keys, as index tensors made once per pass.

Rows are handled in tiles whose shape follows from a row's own content and question:

- *indexed tiles* of `TILE` rows. A row at depth `16 s .. 16 s + 15` of its path meets the path's keys
  of these depths in one tile and those of depth `0 .. 16 s - 1` in another, which it shares with
  the rows of other paths that have these keys in common. A trunk of at most `TRUNK_BLOCK` tokens is
  itself such a path, and its keys, padded to a multiple of `TILE`, stand before those of depth 0;
- rows of a longer trunk in *blocks* of `TRUNK_BLOCK` counted from the trunk's start, against the
  keys up to the block's end; its branch rows against all of its keys, padded to a multiple of
  `TRUNK_BLOCK`. These are runs of rows and need no indexes.

Knows no tensor values: which arithmetic is done in a tile is for `cpu`.
"""

from dataclasses import dataclass, field

import numpy as np
import torch

from spinf_serve.engine.kernels.linear.cpu import ROW_TILE
from spinf_serve.engine.kernels.tree_attention.branches import Branches
from spinf_serve.engine.tree.plan import TRUNK_BLOCK, Pass, TreeSlice

TILE = 16
"""Rows of a tile, and the step in which the keys of a path grow. Part of the numerics."""


TAIL_TILE = 4
"""Rows of a tile against the keys of a path's last 16 depths, where these are not its first: there
a path often has but an option's few tokens. Part of the numerics."""

HEAD_TILE = 16
"""Head sizes are padded to a multiple of this: the library hands narrower strips to threads and
computes them by other code."""

MOST_KEYS = 1 << 15
"""Keys that the tiles of one step gather at most: bounds memory when a thousand paths share a long
stem, whose keys each of them gathers."""

UNSEEN = 1 << 30
"""Place of a key that stands for none."""


@dataclass(frozen=True, slots=True, eq=False)
class Tiles:
    """Tiles of one shape, S of them, over the whole pass.

    Attributes:
        rows, keys: number of queries and of keys of a tile.
        merge: whether the rows have a result already, which this one is merged into.
        query_rows: [S * rows] pass row of each query.
        key_rows: [S * keys] row of each key in the pass, or behind it among the borrowed rows.
        query_place: [S, rows] int32 position of each query in its sequence.
        key_place: [S, keys] int32 position of each key, or `UNSEEN`.
        own: [own] which queries are results; the others fill a tile up.
        own_rows: [own] pass rows of these.
    """

    rows: int
    keys: int
    merge: bool
    query_rows: torch.Tensor
    key_rows: torch.Tensor
    query_place: torch.Tensor
    key_place: torch.Tensor
    own: torch.Tensor
    own_rows: torch.Tensor
    _hidden: dict[int | None, torch.Tensor] = field(default_factory=dict)

    def hidden(self, window: int | None) -> torch.Tensor:
        """[S, rows, keys] bool: keys that a query does not see; made once per window."""
        if window not in self._hidden:
            query, key = self.query_place[..., None], self.key_place[:, None]
            hidden = key > query
            if window is not None:
                hidden |= key <= query - window
            self._hidden[window] = hidden
        return self._hidden[window]


@dataclass(slots=True, eq=False)
class Kept:
    """Keys and values of one tree's trunk, layer by layer, for passes to come.

    Attributes:
        keys, values: for each layer [G, T padded, D padded] in the model's dtype, zeros in the
            padding.
    """

    keys: tuple[torch.Tensor, ...]
    values: tuple[torch.Tensor, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TileSet:
    """The work of one layer.

    Attributes:
        indexed: tiles by shape, at most `MOST_KEYS` keys at a time.
        long: numbers of the slices whose trunk is longer than `TRUNK_BLOCK`.
    """

    indexed: tuple[Tiles, ...]
    long: tuple[int, ...]


@dataclass(slots=True, eq=False)
class CpuLayout:
    """Layout of one pass on the CPU. Rows behind those of the pass pad it to the row tile.

    Attributes:
        slices: the trees' parts.
        kept: by slice number, the trunk keys that are or will be kept.
        borrowed: numbers of the slices whose short trunk was read in an earlier pass; `TRUNK_BLOCK`
            keys of each are laid behind row N + TRUNK_BLOCK, in this order.
        ghosts: [K] places of saved rows, whose keys lie behind the borrowed ones.
        save_rows, save_places: [S] rows to save, and where.
        top_reads, top: as in `Pass`.
        branches: the saved rows.
        every: the tiles of all rows; `reads` of those that hold a read row.
        buffers: scratch memory that layers with the same heads share, by use and shape.
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    read_rows: torch.Tensor
    column_start: torch.Tensor
    columns: torch.Tensor
    longest: int
    slices: tuple[TreeSlice, ...]
    kept: dict[int, Kept]
    borrowed: tuple[int, ...]
    ghosts: torch.Tensor
    save_rows: torch.Tensor
    save_places: torch.Tensor
    top_reads: torch.Tensor
    top: int
    branches: Branches
    every: TileSet
    reads: TileSet
    buffers: dict[tuple[str, tuple[int, ...]], torch.Tensor] = field(default_factory=dict)


def lay_out(plan: Pass, kept: dict[int, Kept], branches: Branches) -> CpuLayout:
    """Index tensors of a pass; `kept` maps slice numbers to stored trunk keys."""
    rows = len(plan.tokens)
    padding = -rows % ROW_TILE
    is_read = np.zeros(rows, bool)
    is_read[plan.read_rows] = True
    borrowed = tuple(
        number
        for number, part in enumerate(plan.slices)
        if part.trunk_rows == 0 and 0 < part.trunk_len <= TRUNK_BLOCK
    )
    runs = _runs(plan, borrowed, rows + padding + TRUNK_BLOCK)
    return CpuLayout(
        tokens=_index(np.pad(plan.tokens, (0, padding))),
        positions=_index(np.pad(plan.positions, (0, padding))),
        read_rows=_index(plan.read_rows),
        column_start=_index(plan.column_start),
        columns=_index(plan.columns),
        longest=int(plan.positions.max()) + 1,
        slices=plan.slices,
        kept=kept,
        borrowed=borrowed,
        ghosts=_index(plan.ghosts),
        save_rows=_index(plan.save_rows),
        save_places=_index(plan.save_places),
        top_reads=_index(plan.top_reads),
        top=plan.top,
        branches=branches,
        every=_tile_set(plan, runs, np.ones(rows, bool)),
        reads=_tile_set(plan, runs, is_read),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Runs:
    """What indexed tiles are cut from: the paths, then the short trunks as paths of their own.

    Attributes:
        rows: [runs, W] row at each depth, of the pass or, for ghosts, behind the borrowed keys; W
            is a multiple of TILE; behind the end stands the first row.
        own: [runs, W] bool, whether the run owns the row.
        base: [runs] position of depth 0.
        trunk_keys: [runs] keys of a short trunk before it, padded to TILE; 0 when there is none.
        trunk_row: [runs] row of the first of these.
        passed: rows of the pass.
    """

    rows: np.ndarray
    own: np.ndarray
    base: np.ndarray
    trunk_keys: np.ndarray
    trunk_row: np.ndarray
    passed: int


def _runs(plan: Pass, borrowed: tuple[int, ...], borrowed_row: int) -> _Runs:
    parts = plan.slices
    trunk_len = np.array([part.trunk_len for part in parts])
    is_short = trunk_len <= TRUNK_BLOCK
    trunk_row = np.array([part.row_start for part in parts])
    trunk_row[list(borrowed)] = borrowed_row + TRUNK_BLOCK * np.arange(len(borrowed))
    trunks = [i for i, part in enumerate(parts) if is_short[i] and part.trunk_rows]
    first, length = trunk_row[trunks], trunk_len[trunks]

    longest = max(plan.path_rows.shape[1], int(length.max(initial=0)))
    depth = np.arange(-(-longest // TILE) * TILE)
    ends = np.concatenate((plan.path_len, length))[:, None]
    owns = np.concatenate((plan.path_own, np.zeros_like(length)))[:, None]
    rows = np.full((len(ends), len(depth)), -1)
    ghost_row = borrowed_row + TRUNK_BLOCK * len(borrowed) - len(plan.tokens)
    path_rows = np.where(plan.path_rows < len(plan.tokens), 0, ghost_row) + plan.path_rows
    rows[: len(plan.path_len), : plan.path_rows.shape[1]] = path_rows
    rows[len(plan.path_len) :] = first[:, None] + depth
    padded = np.where(is_short, -(-trunk_len // TILE) * TILE, 0)
    zeros = np.zeros_like(length)
    return _Runs(
        rows=np.where(depth < ends, rows, rows[:, :1]),
        own=(depth >= owns) & (depth < ends),
        base=np.concatenate((trunk_len[plan.path_slice], zeros)),
        trunk_keys=np.concatenate((padded[plan.path_slice], zeros)),
        trunk_row=np.concatenate((trunk_row[plan.path_slice], zeros)),
        passed=len(plan.tokens),
    )


def _tile_set(plan: Pass, runs: _Runs, wanted: np.ndarray) -> TileSet:
    """The work that has a wanted row in it."""
    # A run owns no ghost.
    in_pass = runs.rows < len(wanted)
    own = runs.own & in_pass & wanted[np.where(in_pass, runs.rows, 0)]
    found: list[Tiles] = []
    for start in range(0, own.shape[1], TILE):
        has_own = own[:, start : start + TILE].any(axis=1)
        if start:
            batch = _by_run(runs, own, start, TAIL_TILE, np.flatnonzero(has_own))
            found += _tiles(runs, batch, 0, (start, start + TILE), merge=False)
        for trunk_keys in np.unique(runs.trunk_keys[has_own]):
            picked = np.flatnonzero(has_own & (runs.trunk_keys == trunk_keys))
            if start:
                batch = _by_parent(runs, own, picked, start)
                found += _tiles(runs, batch, int(trunk_keys), (0, start), merge=True)
            else:
                batch = _by_run(runs, own, start, TILE, picked)
                found += _tiles(runs, batch, int(trunk_keys), (0, TILE), merge=False)
    long = tuple(
        number
        for number, part in enumerate(plan.slices)
        if part.trunk_len > TRUNK_BLOCK
        and wanted[part.row_start : part.branch_start + part.branch_rows].any()
    )
    return TileSet(indexed=tuple(found), long=long)


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    """Rows of S tiles: a run that has each tile's keys, and [S, rows] rows, depths and ownership."""

    run: np.ndarray
    rows: np.ndarray
    depth: np.ndarray
    own: np.ndarray


def _by_run(runs: _Runs, own: np.ndarray, start: int, height: int, picked: np.ndarray) -> _Batch:
    """Tiles of `height` rows of the picked runs, from depth `start` to `start + TILE`."""
    tiled = own[picked, start : start + TILE].reshape(len(picked), TILE // height, height)
    place, step = np.nonzero(tiled.any(axis=-1))
    run, depth = picked[place], start + height * step[:, None] + np.arange(height)
    return _Batch(run, runs.rows[run[:, None], depth], depth, tiled[place, step])


def _by_parent(runs: _Runs, own: np.ndarray, picked: np.ndarray, start: int) -> _Batch:
    """Tiles of the picked runs' rows from depth `start` on, together where the row before is one."""
    place, offset = np.nonzero(own[picked, start : start + TILE])
    run, depth = picked[place], offset + start
    parent = runs.rows[run, start - 1]
    order = np.argsort(parent, kind="stable")
    run, depth, parent = run[order], depth[order], parent[order]
    is_first = np.diff(parent, prepend=-1) != 0
    first = np.maximum.accumulate(np.where(is_first, np.arange(len(parent)), 0))
    seat = (np.arange(len(parent)) - first) % TILE
    tile = np.cumsum(seat == 0) - 1
    leader = np.flatnonzero(seat == 0)
    # A tile that is not full repeats its first row.
    source = np.repeat(leader[:, None], TILE, axis=1)
    source[tile, seat] = np.arange(len(parent))
    filled = np.zeros(source.shape, bool)
    filled[tile, seat] = True
    return _Batch(run[leader], runs.rows[run, depth][source], depth[source], filled)


def _tiles(
    runs: _Runs, batch: _Batch, trunk_keys: int, depths: tuple[int, int], *, merge: bool
) -> list[Tiles]:
    """Tiles of a batch against `trunk_keys` keys of a trunk and those of a range of depths."""
    key, depth = np.arange(trunk_keys), np.arange(*depths)
    base, trunk_row = runs.base[batch.run, None], runs.trunk_row[batch.run, None]
    in_trunk = key < base
    path_rows = runs.rows[batch.run, depths[0] : depths[1]]
    key_rows = np.concatenate((trunk_row + np.where(in_trunk, key, 0), path_rows), axis=1)
    key_place = np.concatenate((np.where(in_trunk, key, UNSEEN), base + depth), axis=1)
    # Ghosts fill tiles up, and are no queries: another row does as well.
    query_rows = np.where(batch.rows < runs.passed, batch.rows, 0)
    step = MOST_KEYS // key_rows.shape[1] or 1
    found = []
    for at in range(0, len(batch.run), step):
        part = slice(at, at + step)
        rows, own = batch.rows[part], batch.own[part]
        found.append(
            Tiles(
                rows=rows.shape[1],
                keys=key_rows.shape[1],
                merge=merge,
                query_rows=_index(query_rows[part].ravel()),
                key_rows=_index(key_rows[part].ravel()),
                query_place=_place((base + batch.depth)[part]),
                key_place=_place(key_place[part]),
                own=_index(np.flatnonzero(own.ravel())),
                own_rows=_index(rows[own]),
            )
        )
    return found


def padded_head(head_dim: int) -> int:
    """Values of a head with its padding."""
    return -(-head_dim // HEAD_TILE) * HEAD_TILE


def _index(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.int64))


def _place(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.int32))
