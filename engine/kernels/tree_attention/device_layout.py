"""A pass laid out for the attention kernels: tiles of queries and what they meet, as int32 arrays.

*Trunk tiles* are runs of queries of one tree against a range of its trunk's keys; *path tiles* are
the queries that one path owns against the keys of that path, found by their depth. Which queries
share a tile follows from the pass and moves no sum: a tile's keys are counted from the trunk's or
the path's start, and keys that a query does not see leave its sums as they are.

Knows no tensors and no device. A pass of 16k rows takes a few milliseconds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from spinf_serve.engine.kernels.tree_attention.kept import Room
from spinf_serve.engine.kernels.tree_attention.tiling import Tiling
from spinf_serve.engine.tree.plan import IntArray, Pass

Array = TypeVar("Array")
Other = TypeVar("Other")

TRUNK_FIELDS = 10
"""Fields of a trunk tile: first query; queries; tokens of the trunk; least and greatest position of
the queries; 1 for trunk rows, whose result is final, 0 for branch rows; pass row of the first trunk
token in this pass; trunk offset of that token; first slot and slots of the kept trunk before it."""

PATH_FIELDS = 6
"""Fields of a path tile: first entry in `path_query` and number of these; first entry in
`path_keys`; least and greatest depth of the queries; 1 when the path continues a trunk."""


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
    """A set of Q queries: every row of the pass, or the read rows. B of them are branch rows.

    Attributes:
        position: [Q] positions.
        path_query: [B] branch queries, by the path that owns them and by depth.
        path_depth: [B] depth of each in its path.
    """

    position: Array
    path_query: Array
    path_depth: Array


@dataclass(frozen=True, slots=True, eq=False)
class Tiles(Generic[Array]):
    """The tiles of one set of queries.

    Attributes:
        trunk: [tiles, TRUNK_FIELDS].
        path: [tiles, PATH_FIELDS].
    """

    trunk: Array
    path: Array


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
        tokens: [N] token ids.
        read_rows, column_start, columns: as in `Pass`.
        path_keys: [sum of path lengths] pass rows of the paths' tokens, path by path.
        every, reads: the queries; positions of the pass are those of `every`.
        kinds: by kind of layers, in the order given.
    """

    tokens: Array
    read_rows: Array
    column_start: Array
    columns: Array
    path_keys: Array
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
    paths = _Paths.of(plan)
    rows = np.arange(len(plan.tokens))
    rank = np.full(len(rows), -1)
    rank[plan.read_rows] = np.arange(len(plan.read_rows))
    is_read = rank[paths.own_row] >= 0
    every = _Asked(rows, plan.positions, paths.own_row, paths.own_path, paths.own_depth)
    reads = _Asked(
        plan.read_rows,
        plan.positions[plan.read_rows],
        rank[paths.own_row[is_read]],
        paths.own_path[is_read],
        paths.own_depth[is_read],
    )
    return DeviceLayout(
        tokens=plan.tokens,
        read_rows=plan.read_rows,
        column_start=plan.column_start,
        columns=plan.columns,
        path_keys=plan.path_rows[paths.inside],
        every=every.queries(),
        reads=reads.queries(),
        kinds=tuple(
            _kind(plan, kind, parts, paths, every, reads, found)
            for kind, found in zip(kinds, rooms, strict=True)
        ),
    )


def mapped(layout: DeviceLayout[Array], change: Callable[[Array], Other]) -> DeviceLayout[Other]:
    """The layout with each array changed, in one fixed order."""

    def queries(old: Queries[Array]) -> Queries[Other]:
        return Queries(change(old.position), change(old.path_query), change(old.path_depth))

    def tiles(old: Tiles[Array]) -> Tiles[Other]:
        return Tiles(change(old.trunk), change(old.path))

    return DeviceLayout(
        tokens=change(layout.tokens),
        read_rows=change(layout.read_rows),
        column_start=change(layout.column_start),
        columns=change(layout.columns),
        path_keys=change(layout.path_keys),
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
class _Paths:
    """The paths of a pass, P of at most L tokens, that own B rows.

    Attributes:
        inside: [P, L] bool, depths before a path's end.
        key_start: [P] where a path's rows begin when all are laid one after another.
        has_trunk: [P] whether it continues a trunk.
        own_row, own_path, own_depth: [B] rows by the path that owns them, and by depth.
    """

    inside: NDArray[np.bool_]
    key_start: NDArray[np.int64]
    has_trunk: NDArray[np.bool_]
    own_row: IntArray
    own_path: NDArray[np.int64]
    own_depth: NDArray[np.int64]

    @classmethod
    def of(cls, plan: Pass) -> "_Paths":
        depth = np.arange(plan.path_rows.shape[1])
        inside = depth < plan.path_len[:, None]
        own_path, own_depth = np.nonzero(inside & (depth >= plan.path_own[:, None]))
        trunk_len = np.array([part.trunk_len for part in plan.slices], np.int64)
        return cls(
            inside=inside,
            key_start=np.cumsum(plan.path_len, dtype=np.int64) - plan.path_len,
            has_trunk=trunk_len[plan.path_slice] > 0,
            own_row=plan.path_rows[own_path, own_depth],
            own_path=own_path,
            own_depth=own_depth,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """Q queries by their pass rows, ascending, and the branch rows among them by path."""

    row: NDArray[np.int64] | IntArray
    position: IntArray
    path_query: NDArray[np.int64] | IntArray
    path: NDArray[np.int64]
    depth: NDArray[np.int64]

    def queries(self) -> Queries[IntArray]:
        return Queries(_int32(self.position), _int32(self.path_query), _int32(self.depth))


def _kind(
    plan: Pass,
    kind: Kind,
    parts: _Parts,
    paths: _Paths,
    every: _Asked,
    reads: _Asked,
    rooms: Mapping[int, Room],
) -> KindLayout[IntArray]:
    room = np.zeros((len(plan.slices), 2), np.int64)
    room[:, 1] = 1
    rows, slots = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    borrows = parts.cut > 0
    for number in np.flatnonzero(borrows | [part.keep for part in plan.slices]):
        part = plan.slices[number]
        if part.key not in rooms:
            raise AssertionError(f"the trunk of tree {part.key} has no room")
        found = rooms[part.key]
        room[number] = found.start, found.slots
        if part.keep:
            # A ring holds the last offsets; what they would write over is not written first.
            end = part.trunk_start + part.trunk_rows
            kept = np.arange(max(part.trunk_start, end - found.slots), end)
            rows.append(part.row_start + kept - part.trunk_start)
            slots.append(found.start + kept % found.slots)
    return KindLayout(
        kind=kind,
        every=_tiles(kind, parts, paths, every, room),
        reads=_tiles(kind, parts, paths, reads, room),
        keep_rows=_int32(np.concatenate(rows)),
        keep_slots=_int32(np.concatenate(slots)),
        borrows=bool(borrows.any()),
    )


def _tiles(
    kind: Kind, parts: _Parts, paths: _Paths, asked: _Asked, room: NDArray[np.int64]
) -> Tiles[IntArray]:
    return Tiles(
        trunk=_trunk_tiles(parts, asked, room, kind.tiling.tokens(kind.group)),
        path=_path_tiles(paths, asked, kind.tiling.path_tokens(kind.group)),
    )


def _trunk_tiles(parts: _Parts, asked: _Asked, room: NDArray[np.int64], tokens: int) -> IntArray:
    """Runs of at most `tokens` queries, trunk rows and branch rows of each slice apart."""
    number = np.arange(len(parts.row))
    has_trunk = parts.trunk_len > 0
    branch = parts.row + parts.trunk_rows
    part = np.concatenate((number, number[has_trunk]))
    is_final = np.arange(len(part)) < len(number)
    begin = np.concatenate((parts.row, branch[has_trunk]))
    end = begin + np.where(is_final, parts.trunk_rows[part], parts.branch_rows[part])
    first = np.searchsorted(asked.row, begin)
    run, start, count = _cut(np.searchsorted(asked.row, end) - first, tokens)
    start += first[run]
    part = part[run]
    low, high = _extremes(asked.position, start, count)
    columns = (
        start,
        count,
        parts.trunk_len[part],
        low,
        high,
        is_final[run],
        parts.row[part],
        parts.cut[part],
        room[part, 0],
        room[part, 1],
    )
    return _int32(np.stack(columns, axis=1))


def _path_tiles(paths: _Paths, asked: _Asked, tokens: int) -> IntArray:
    """Runs of at most `tokens` queries that one path owns."""
    owned = np.bincount(asked.path, minlength=len(paths.key_start))
    path, start, count = _cut(owned, tokens)
    start += (np.cumsum(owned) - owned)[path]
    columns = (
        start,
        count,
        paths.key_start[path],
        asked.depth[start],
        asked.depth[start + count - 1],
        paths.has_trunk[path],
    )
    return _int32(np.stack(columns, axis=1))


def _cut(
    lengths: NDArray[np.int64], step: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Runs cut into pieces of `step`: each piece's run, its start in the run, its length."""
    pieces = -(-lengths // step)
    run = np.repeat(np.arange(len(lengths)), pieces)
    start = (np.arange(len(run)) - (np.cumsum(pieces) - pieces)[run]) * step
    return run, start, np.minimum(step, lengths[run] - start)


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
