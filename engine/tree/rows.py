"""The rows of a pass under construction, and the plain arrays that they become. Knows no trees."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from spinf_serve.engine.tree.plan import IntArray, Pass, TreeSlice, no_ints

GHOST: Final = -2
"""Place 0 among the rows of a path while a pass is made; further places are below. A place that is
none, -1, stays itself as `GHOST - place`."""


@dataclass(slots=True, eq=False)
class Rows:
    """A pass under construction: what parts of trees have laid into it, part by part.

    Attributes:
        count: rows so far.
        path_rows: [P, any L] of each part, as in `Pass` but for ghosts, which are told from rows by
            their sign; of steps, ghosts alone.
        step_rows: [P] of each step the row that ends each path.
        column_count: [R] columns of each read.
        tops: [R] how many of the most probable tokens each read wants.
    """

    count: int = 0
    tokens: list[IntArray] = field(default_factory=list)
    positions: list[IntArray] = field(default_factory=list)
    slices: list[TreeSlice] = field(default_factory=list)
    path_rows: list[IntArray] = field(default_factory=list)
    step_rows: list[IntArray] = field(default_factory=list)
    path_len: list[IntArray] = field(default_factory=list)
    path_own: list[IntArray] = field(default_factory=list)
    path_slice: list[int] = field(default_factory=list)
    read_rows: list[IntArray] = field(default_factory=list)
    column_count: list[IntArray] = field(default_factory=list)
    columns: list[IntArray] = field(default_factory=list)
    tops: list[IntArray] = field(default_factory=list)
    save_rows: list[IntArray] = field(default_factory=list)
    save_places: list[IntArray] = field(default_factory=list)

    def to_pass(self) -> Pass:
        """The pass that they are."""
        path_len = _joined(self.path_len)
        path_rows, ghosts = self._paths(path_len)
        counts = _joined(self.column_count)
        column_start = np.zeros(len(counts) + 1, np.int32)
        np.cumsum(counts, dtype=np.int32, out=column_start[1:])
        tops = _joined(self.tops)
        return Pass(
            tokens=_joined(self.tokens),
            positions=_joined(self.positions),
            slices=tuple(self.slices),
            path_rows=path_rows,
            path_len=path_len,
            path_own=_joined(self.path_own),
            path_slice=self._path_slice(),
            read_rows=_joined(self.read_rows),
            column_start=column_start,
            columns=_joined(self.columns),
            ghosts=ghosts,
            save_rows=_joined(self.save_rows),
            save_places=_joined(self.save_places),
            top_reads=np.flatnonzero(tops).astype(np.int32),
            top=int(tops.max(initial=0)),
        )

    def _path_slice(self) -> IntArray:
        """[P] the slice of each path: parts with paths name theirs once."""
        paths = np.array([len(grid) for grid in self.path_rows], np.int64)
        return np.repeat(np.array(self.path_slice, np.int32), paths)

    def _paths(self, path_len: IntArray) -> tuple[IntArray, IntArray]:
        """[P, L] rows and numbered ghosts of all paths, and [K] the places of the ghosts."""
        width = int(path_len.max(initial=0))
        grid = np.full((len(path_len), width), -1, np.int32)
        start = 0
        for part in self.path_rows:
            end = start + len(part)
            grid[start:end, : part.shape[1]] = part[:, :width]
            start = end
        is_ghost = grid <= GHOST
        ghosts, number = np.unique(GHOST - grid[is_ghost], return_inverse=True)
        grid[is_ghost] = self.count + number
        if self.step_rows:
            # Only steps have no row yet at the end of a path.
            last = path_len - 1
            steps = np.flatnonzero(grid[np.arange(len(grid)), last] < 0)
            grid[steps, last[steps]] = np.concatenate(self.step_rows)
        return grid, ghosts


def _joined(parts: list[IntArray]) -> IntArray:
    # Sums with indices have 64 bits.
    return np.concatenate(parts, dtype=np.int32, casting="same_kind") if parts else no_ints()
