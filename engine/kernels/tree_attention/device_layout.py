"""A pass laid out for the attention kernel: tiles of queries and what they meet, as int32 arrays.

A tile is a run of queries of one tree. It meets a range of the tree's trunk, in tiles of keys
counted from the trunk's start, and then *stretches* of `STRETCH` tokens of its paths, counted from
a path's start; one that many paths begin with is met by all of their queries at once. Stretches of
equal depth are met side by side, in a *fold* of several slots: of these a query sees one at most, so
it meets its own from the path's start on. Which queries share a tile, and which stretches a fold,
follows from the pass and moves no sum: keys that a query does not see leave its sums as they are,
and a stretch is as long as the step in which a card's matrix units add up.

Knows no tensors and no device. A pass of 16k rows takes a few milliseconds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from spinf_serve.engine.kernels.tree_attention.folds import Folds, Stretches, cut
from spinf_serve.engine.kernels.tree_attention.kept import Room
from spinf_serve.engine.kernels.tree_attention.tiling import Tiling
from spinf_serve.engine.tree.plan import IntArray, Pass

Array = TypeVar("Array")
Other = TypeVar("Other")

TILE_FIELDS = 11
"""Fields of a tile: first entry and number of entries; tokens of the trunk; least and greatest
position of the queries; pass row of the first trunk token in this pass; trunk offset of that token;
first slot and slots of the kept trunk before it; first fold and the end of the folds."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Layers that tile a pass alike.

    Attributes:
        group: query heads that share a key/value head.
        window: positions that a row sees, itself among them; None for all.
        tiling: the tile sizes.
    """

    group: int
    window: int | None
    tiling: Tiling


@dataclass(frozen=True, slots=True, eq=False)
class Queries(Generic[Array]):
    """A set of Q queries: every row of the pass, or the read rows. Tiles are runs of entries.

    Attributes:
        query: [Q] the query of each entry: trunk rows, then branch rows by path and depth.
        position: [Q] its position.
    """

    query: Array
    position: Array


@dataclass(frozen=True, slots=True, eq=False)
class Tiles(Generic[Array]):
    """The tiles of one set of queries.

    Attributes:
        tile: [tiles, TILE_FIELDS], those with the most keys first.
        stretch: [folds, slots, STRETCH_FIELDS]; a slot without a stretch has no entries.
        path_key: [folds, slots * STRETCH] pass row of each key, N + i for ghost i; behind a path's
            end, and in a slot without a stretch, some key of the tree.
    """

    tile: Array
    stretch: Array
    path_key: Array


@dataclass(frozen=True, slots=True, eq=False)
class KindLayout(Generic[Array]):
    """What one kind of layers needs.

    Attributes:
        every, reads: tiles over every row and over the read rows.
        keep_rows, keep_slots: [kept] trunk rows to keep, and the slots they go to.
        borrows: whether a tile meets keys that were kept in an earlier pass.
    """

    kind: Kind
    every: Tiles[Array]
    reads: Tiles[Array]
    keep_rows: Array
    keep_slots: Array
    borrows: bool


@dataclass(frozen=True, slots=True, eq=False)
class DeviceLayout(Generic[Array]):
    """Layout of one pass of N rows; `Array` is an int32 array or tensor.

    Attributes:
        tokens, positions: [N] as in `Pass`.
        read_rows, column_start, columns: as in `Pass`.
        ghosts, save_rows, save_places, top_reads: as in `Pass`.
        every, reads: the queries.
        kinds: by kind of layers, in the order given.
    """

    tokens: Array
    positions: Array
    read_rows: Array
    column_start: Array
    columns: Array
    ghosts: Array
    save_rows: Array
    save_places: Array
    top_reads: Array
    every: Queries[Array]
    reads: Queries[Array]
    kinds: tuple[KindLayout[Array], ...]


def lay_out(
    plan: Pass, kinds: Sequence[Kind], rooms: Sequence[Mapping[int, Room]]
) -> DeviceLayout[IntArray]:
    """Tiles of a pass for each kind of layers; `rooms` has each kind's rooms by tree key.

    Raises:
        AssertionError: a tree needs trunk keys from before this pass, or is to keep some, and has
            no room.
    """
    parts = _Parts.of(plan)
    rows = np.arange(len(plan.tokens))
    depths = np.arange(plan.path_rows.shape[1])
    inside = depths < plan.path_len[:, None]
    own = np.nonzero(inside & (depths >= plan.path_own[:, None]))
    every = reads = _Asked.of(plan, parts, rows, *own)
    # Of steps every row is read.
    if len(plan.read_rows) < len(rows):
        reads = _Asked.of(plan, parts, plan.read_rows, *own)
    return DeviceLayout(
        tokens=plan.tokens,
        positions=plan.positions,
        read_rows=plan.read_rows,
        column_start=plan.column_start,
        columns=plan.columns,
        ghosts=plan.ghosts,
        save_rows=plan.save_rows,
        save_places=plan.save_places,
        top_reads=plan.top_reads,
        every=Queries(_int32(every.query), every.position),
        reads=Queries(_int32(reads.query), reads.position),
        kinds=tuple(
            _kind(plan, kind, parts, every, reads, found)
            for kind, found in zip(kinds, rooms, strict=True)
        ),
    )


def mapped(layout: DeviceLayout[Array], change: Callable[[Array], Other]) -> DeviceLayout[Other]:
    """The layout with each array changed, in one fixed order."""

    def queries(old: Queries[Array]) -> Queries[Other]:
        return Queries(change(old.query), change(old.position))

    def tiles(old: Tiles[Array]) -> Tiles[Other]:
        return Tiles(change(old.tile), change(old.stretch), change(old.path_key))

    return DeviceLayout(
        tokens=change(layout.tokens),
        positions=change(layout.positions),
        read_rows=change(layout.read_rows),
        column_start=change(layout.column_start),
        columns=change(layout.columns),
        ghosts=change(layout.ghosts),
        save_rows=change(layout.save_rows),
        save_places=change(layout.save_places),
        top_reads=change(layout.top_reads),
        every=queries(layout.every),
        reads=queries(layout.reads),
        kinds=tuple(
            KindLayout(
                kind=old.kind,
                every=tiles(old.every),
                reads=tiles(old.reads),
                keep_rows=change(old.keep_rows),
                keep_slots=change(old.keep_slots),
                borrows=old.borrows,
            )
            for old in layout.kinds
        ),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """The slices of a pass as columns, S of them.

    Attributes:
        row: [S] first row.
        cut: [S] trunk offset of the first trunk row; with no trunk rows, the trunk's end.
        trunk_rows, trunk_len, branch_rows: [S] as in `TreeSlice`.
    """

    row: NDArray[np.int64]
    cut: NDArray[np.int64]
    trunk_rows: NDArray[np.int64]
    trunk_len: NDArray[np.int64]
    branch_rows: NDArray[np.int64]

    @classmethod
    def of(cls, plan: Pass) -> "_Parts":
        table = np.array(
            [
                (s.row_start, s.trunk_start, s.trunk_rows, s.trunk_len, s.branch_rows)
                for s in plan.slices
            ],
            np.int64,
        ).reshape(-1, 5)
        row, trunk_start, trunk_rows, trunk_len, branch_rows = np.ascontiguousarray(table.T)
        cut = np.where(trunk_rows > 0, trunk_start, trunk_len)
        return cls(row, cut, trunk_rows, trunk_len, branch_rows)


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """Q queries as entries: those of trunk rows by row, then B of branch rows by path and depth.

    Attributes:
        query, position: [Q] of each entry.
        counts: [2, S] trunk entries, then branch entries, of each slice.
        path, depth: [B] path that owns each branch entry, and its depth there.
        runs: by the most entries of a run, what `cut_into` gave.
    """

    query: NDArray[np.int64]
    position: IntArray
    counts: NDArray[np.int64]
    path: NDArray[np.int64]
    depth: NDArray[np.int64]
    runs: "dict[int, _Runs]" = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        plan: Pass,
        parts: _Parts,
        asked: NDArray[np.int64] | IntArray,
        path: NDArray[np.int64],
        depth: NDArray[np.int64],
    ) -> "_Asked":
        """`asked`: pass rows of the queries, ascending; `path`, `depth`: of all branch rows."""
        branch = plan.path_rows[path, depth]
        if len(asked) < len(plan.tokens):
            rank = np.full(len(plan.tokens), -1)
            rank[asked] = np.arange(len(asked))
            is_asked = rank[branch] >= 0
            path, depth, branch = path[is_asked], depth[is_asked], rank[branch[is_asked]]
        first = np.searchsorted(asked, parts.row)
        trunk_counts = np.searchsorted(asked, parts.row + parts.trunk_rows) - first
        part, start, _ = cut(trunk_counts, 1)
        query = np.concatenate((first[part] + start, branch))
        branch_counts = np.bincount(plan.path_slice[path], minlength=len(parts.row))
        return cls(
            query=query,
            position=plan.positions[asked[query]],
            counts=np.stack((trunk_counts, branch_counts)),
            path=path,
            depth=depth,
        )

    def cut_into(self, plan: Pass, parts: _Parts, most: int) -> "_Runs":
        """Runs of at most so many entries; kinds of layers that cut alike share them."""
        most = max(1, min(most, int(self.counts.max(initial=0))))
        if most not in self.runs:
            self.runs[most] = _Runs.of(plan, parts, self, most)
        return self.runs[most]


_RUN_FIELDS = 7
"""The first fields of a tile, which follow from its run of entries."""


@dataclass(frozen=True, slots=True, eq=False)
class _Runs:
    """Runs of entries, trunk rows and branch rows of each slice apart; each is to be a tile.

    Attributes:
        part: [T] the slice of each.
        fields: [T, _RUN_FIELDS] what a tile has of its run.
        stretches: what they meet of their paths.
    """

    part: NDArray[np.int64]
    fields: NDArray[np.int64]
    stretches: Stretches

    @classmethod
    def of(cls, plan: Pass, parts: _Parts, asked: _Asked, most: int) -> "_Runs":
        """Of at most so many entries."""
        counts = asked.counts.ravel()
        run, start, count = cut(counts, most)
        start += (np.cumsum(counts) - counts)[run]
        part = run % len(parts.row) if len(run) else run
        low, high = _extremes(asked.position, start, count)
        columns = (start, count, parts.trunk_len[part], low, high, parts.row[part], parts.cut[part])
        trunk_entries = len(asked.query) - len(asked.path)
        return cls(
            part=part,
            fields=np.stack(columns, axis=1),
            stretches=Stretches.of(plan, asked.path, asked.depth, start - trunk_entries),
        )


def _kind(
    plan: Pass,
    kind: Kind,
    parts: _Parts,
    every: _Asked,
    reads: _Asked,
    rooms: Mapping[int, Room],
) -> KindLayout[IntArray]:
    room = []
    rows, slots = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    borrows = (parts.cut > 0).tolist()
    for part, is_borrower in zip(plan.slices, borrows, strict=True):
        if not (is_borrower or part.keep):
            room.append((0, 1))
            continue
        if part.key not in rooms:
            raise AssertionError(f"the trunk of tree {part.key} has no room")
        found = rooms[part.key]
        room.append((found.start, found.slots))
        if part.keep and part.trunk_rows:
            # A ring holds the last offsets; what they would write over is not written first.
            end = part.trunk_start + part.trunk_rows
            kept = np.arange(max(part.trunk_start, end - found.slots), end)
            rows.append(part.row_start + kept - part.trunk_start)
            slots.append(found.start + kept % found.slots)
    places = np.array(room, np.int64).reshape(-1, 2)
    tiles = _tiles(plan, kind, parts, every, places)
    return KindLayout(
        kind=kind,
        every=tiles,
        reads=tiles if reads is every else _tiles(plan, kind, parts, reads, places),
        keep_rows=_int32(np.concatenate(rows)),
        keep_slots=_int32(np.concatenate(slots)),
        borrows=any(borrows),
    )


def _tiles(
    plan: Pass, kind: Kind, parts: _Parts, asked: _Asked, room: NDArray[np.int64]
) -> Tiles[IntArray]:
    """Runs of at most a tile's tokens, and the folds of what they meet."""
    runs = asked.cut_into(plan, parts, kind.tiling.tokens(kind.group))
    folds = Folds.of(runs.stretches, kind.tiling.path_slots, len(runs.part))
    end = np.cumsum(folds.per_tile)
    tile = np.empty((len(runs.part), TILE_FIELDS), np.int32)
    tile[:, :_RUN_FIELDS] = runs.fields
    tile[:, _RUN_FIELDS:-2] = room[runs.part]
    tile[:, -2] = end - folds.per_tile
    tile[:, -1] = end
    # The longest first, so that a card has only short ones to end with.
    _, _, trunk_len, low, high, _, _ = runs.fields.T
    met = np.minimum(high + 1, trunk_len)
    if kind.window is not None:
        met = met - np.maximum(low - kind.window + 1, 0)
    order = np.argsort(-(met + kind.tiling.path_keys * folds.per_tile), kind="stable")
    stretch = folds.stretch
    stretch[..., 1:] += np.int32(len(asked.query) - len(asked.path))
    return Tiles(tile[order], stretch, folds.path_key)


def _extremes(
    values: IntArray, start: NDArray[np.int64], count: NDArray[np.int64]
) -> tuple[IntArray, IntArray]:
    """Least and greatest of each run of values; no run is empty."""
    if not len(start):
        return values[:0], values[:0]
    padded = np.append(values, np.int32(0))
    ends = np.stack((start, start + count), axis=1).ravel()
    return np.minimum.reduceat(padded, ends)[::2], np.maximum.reduceat(padded, ends)[::2]


def _int32(values: NDArray[np.generic]) -> IntArray:
    return values.astype(np.int32)
