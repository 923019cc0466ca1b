"""Shapes of recorded passes, and passes filled up to one: rows that nobody reads, tiles without queries.

A recorded pass does the same launches on arrays of the same sizes each time. What fills a pass up to
them moves no score of it. Knows no device.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from spinf_serve.engine.kernels.option_read.top import MOST_TOP
from spinf_serve.engine.kernels.tree_attention.device_layout import (
    DeviceLayout,
    Kind,
    KindLayout,
    Queries,
    Tiles,
)
from spinf_serve.engine.tree.plan import IntArray, Pass, TreeSlice

SIZES: Final = (64, 128, 192, 256, 384, 512, 768, 1024)
"""Rows that a recorded pass may have: above, the device takes longer than the host's launches."""

POSITIONS: Final = 8192
"""Positions that a recorded pass may have, all below it: its rotary tables are as long as this."""

NOBODYS_PLACE: Final = 0
"""Where what fills a pass up saves its rows, and reads saved ones: nobody else does."""

# A pass of n rows may have one read in so many rows, as many columns as rows, and one tree in so many.
_ROWS_A_READ = 4
_ROWS_A_TREE = 16
# With steps: each row is read, for as many columns, may be a tree, and continues so many saved rows.
_STEP_COLUMNS = 512
_STEP_GHOSTS = 16


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a recorded pass.

    Attributes:
        rows: its rows.
        steps: whether rows are saved and continued, and the most probable tokens are read.
    """

    rows: int
    steps: bool

    @property
    def reads(self) -> int:
        """Rows that may be read."""
        return self.rows if self.steps else self.rows // _ROWS_A_READ

    @property
    def columns(self) -> int:
        """Columns that may be wanted of them in all."""
        return self.rows * (_STEP_COLUMNS if self.steps else 1)

    @property
    def ghosts(self) -> int:
        """Saved rows that are continued."""
        return self.rows * _STEP_GHOSTS if self.steps else 0

    @property
    def top(self) -> int:
        """How many of the most probable tokens each read is told."""
        return MOST_TOP if self.steps else 0

    def tiles(self, queries: int, kind: Kind) -> tuple[int, int]:
        """Tiles of so many queries, and folds."""
        if self.steps:
            # Each query may be a tree of its own, whose path is a few stretches.
            return queries, 2 * self.rows
        # The trunk and the branches of a tree begin tiles of their own.
        most = -(-queries // kind.tiling.tokens(kind.group)) + 2 * (self.rows // _ROWS_A_TREE)
        return most, 2 * most


def shapes_for(plan: Pass) -> Iterator[Shape]:
    """Those that may hold a pass, small ones first; its numbers of tiles are yet to be seen."""
    steps = not plan.is_plain
    if plan.top > MOST_TOP or int(plan.positions.max(initial=0)) >= POSITIONS:
        return
    for rows in SIZES:
        shape = Shape(rows, steps)
        if (
            len(plan.tokens) <= rows
            and len(plan.read_rows) <= shape.reads
            and len(plan.columns) <= shape.columns
            and len(plan.ghosts) <= shape.ghosts
        ):
            yield shape


def trivial(rows: int) -> Pass:
    """A pass of one trunk, of which nothing is read."""
    none = np.zeros(0, np.int32)
    row = np.arange(rows, dtype=np.int32)
    return Pass(
        tokens=np.zeros(rows, np.int32),
        positions=row,
        slices=(TreeSlice(0, 0, 0, rows, rows, 0, keep=False),),
        path_rows=np.zeros((0, 0), np.int32),
        path_len=none,
        path_own=none,
        path_slice=none,
        read_rows=none,
        column_start=np.zeros(1, np.int32),
        columns=none,
    )


def filled(
    inner: DeviceLayout[IntArray], shape: Shape, scratch: Sequence[int | None]
) -> DeviceLayout[IntArray] | None:
    """The layout with what fills it up to a shape; None when its tiles do not fit.

    Args:
        scratch: for each kind of layers the slot of keys that are not to stay, or None where no
            trunk may stay.
    """
    rows = shape.rows
    kinds = []
    for kind, slot in zip(inner.kinds, scratch, strict=True):
        every = _filled_tiles(kind.every, *shape.tiles(rows, kind.kind))
        if every is not None and len(inner.ghosts):
            every = _moved(every, len(inner.tokens), rows - len(inner.tokens))
        asked = every
        # Of steps every row is read.
        if kind.reads is not kind.every or shape.reads != rows:
            asked = _filled_tiles(kind.reads, *shape.tiles(shape.reads, kind.kind))
            if asked is not None and len(inner.ghosts):
                asked = _moved(asked, len(inner.tokens), rows - len(inner.tokens))
        if every is None or asked is None:
            return None
        kinds.append(_keeping(replace(kind, every=every, reads=asked), rows, slot))
    found = replace(
        inner,
        tokens=_longer(inner.tokens, rows),
        positions=_longer(inner.positions, rows),
        read_rows=_longer(inner.read_rows, shape.reads),
        # Columns behind the last are of no read.
        column_start=_longer(inner.column_start, shape.reads + 1, int(inner.column_start[-1])),
        columns=_longer(inner.columns, shape.columns),
        every=_filled_queries(inner.every, rows),
        reads=_filled_queries(inner.reads, shape.reads),
        kinds=tuple(kinds),
    )
    if not shape.steps:
        return found
    return replace(
        found,
        ghosts=_longer(inner.ghosts, shape.ghosts, NOBODYS_PLACE),
        save_rows=_longer(inner.save_rows, rows),
        save_places=_longer(inner.save_places, rows, NOBODYS_PLACE),
        # The best tokens of every read, which costs less than to read some of them a second time.
        top_reads=np.arange(shape.reads, dtype=np.int32),
    )


def _keeping(kind: KindLayout[IntArray], rows: int, slot: int | None) -> KindLayout[IntArray]:
    """With as many kept keys as rows, where trunks may stay."""
    if slot is None:
        return kind
    return replace(
        kind,
        keep_rows=_longer(kind.keep_rows, rows),
        keep_slots=_longer(kind.keep_slots, rows, slot),
        borrows=True,
    )


def _filled_queries(queries: Queries[IntArray], count: int) -> Queries[IntArray]:
    return Queries(_longer(queries.query, count), _longer(queries.position, count))


def _filled_tiles(tiles: Tiles[IntArray], most: int, folds: int) -> Tiles[IntArray] | None:
    """Tiles without queries, and folds without stretches, behind those that there are."""
    if len(tiles.tile) > most or len(tiles.stretch) > folds:
        return None
    return Tiles(
        tile=_longer(tiles.tile, most),
        stretch=_longer(tiles.stretch, folds),
        path_key=_longer(tiles.path_key, folds),
    )


def _moved(tiles: Tiles[IntArray], rows: int, added: int) -> Tiles[IntArray]:
    """Ghosts come behind all rows, so behind those that were added."""
    keys = tiles.path_key
    return replace(tiles, path_key=np.where(keys >= rows, keys + np.int32(added), keys))


def _longer(array: IntArray, length: int, value: int = 0) -> IntArray:
    """The array with `value` behind it, up to a length of its first axis."""
    found = np.empty((length, *array.shape[1:]), array.dtype)
    found[: len(array)] = array
    found[len(array) :] = value
    return found
