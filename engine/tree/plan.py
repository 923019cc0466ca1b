"""What a pass is: the plain arrays that the host hands to a backend. Knows no text and no device.

A *tree* is one content and the questions about it: a trunk (a straight run of tokens) and paths
that continue it. Paths share their stems as a trie. A *pass* holds whole trees and parts of trees
as one flat run of rows; every row is one token.

What is written behind a tree token by token is read in *steps*: the keys and values of branch rows
that are to be continued are saved in places of a store, and a later pass has paths that begin with
saved rows, its *ghosts*, and end in rows of its own.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int32]


def no_ints() -> IntArray:
    """An array of nothing."""
    return np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class TreeSlice:
    """The part of one tree that lies in one pass.

    Trunk rows stand at trunk offsets `trunk_start .. trunk_start + trunk_rows`; keys of offsets
    before `trunk_start` were kept from earlier passes. Branch rows, if any, follow the trunk rows
    and see the whole trunk, so a slice with branch rows holds or follows the end of its trunk.

    Attributes:
        key: names the tree's trunk among those that are kept; the same in every pass that holds a
            part of the tree, and in those of other trees that continue a trunk that was read.
        row_start: first row of the slice in the pass.
        trunk_start: trunk offset of the first trunk row; a multiple of `TRUNK_BLOCK` (64), or where
            no trunk rows are left the trunk's end.
        trunk_rows: number of trunk rows in this pass, 0 when the trunk was read earlier or is empty.
        trunk_len: tokens of the whole trunk (not only of this slice).
        branch_rows: number of branch rows in this pass.
        keep: whether a later pass needs this trunk's keys and values.
    """

    key: int
    row_start: int
    trunk_start: int
    trunk_rows: int
    trunk_len: int
    branch_rows: int
    keep: bool

    @property
    def branch_start(self) -> int:
        """First branch row of the slice in the pass."""
        return self.row_start + self.trunk_rows


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """One forward's worth of rows, and what is read from them.

    N rows, K ghosts, P paths of at most L tokens, R read rows, C wanted columns in all.

    Attributes:
        tokens: [N] token ids.
        positions: [N] position of each row in its own sequence (trunk offset, or trunk_len + depth).
        slices: the trees' parts in row order; together they cover all N rows.
        path_rows: [P, L] row of the token at each depth of a path, -1 behind its end; N + i is ghost
            i. Every branch row is in at least one path; rows of a shared stem are in several.
        path_len: [P] tokens of each path, 1..L.
        path_own: [P] depth from which a path's rows are its own: the rows at depth path_own[i] ..
            path_len[i]-1 belong to path i and to no earlier path. Every branch row is owned once.
        path_slice: [P] index into `slices` of each path's tree, non-decreasing.
        read_rows: [R] rows whose next-token distribution is wanted, ascending.
        column_start: [R + 1] where each read's columns begin in `columns`.
        columns: [C] wanted token ids.
        ghosts: [K] places of the rows that were saved in earlier passes.
        save_rows, save_places: [S] branch rows to save, and where.
        top_reads: [T] which of the reads want the most probable tokens besides, ascending.
        top: how many tokens they want at most.
    """

    tokens: IntArray
    positions: IntArray
    slices: tuple[TreeSlice, ...]
    path_rows: IntArray
    path_len: IntArray
    path_own: IntArray
    path_slice: IntArray
    read_rows: IntArray
    column_start: IntArray
    columns: IntArray
    ghosts: IntArray = field(default_factory=no_ints)
    save_rows: IntArray = field(default_factory=no_ints)
    save_places: IntArray = field(default_factory=no_ints)
    top_reads: IntArray = field(default_factory=no_ints)
    top: int = 0

    @property
    def is_plain(self) -> bool:
        """Whether nothing is continued, saved, or read but columns."""
        return not (len(self.ghosts) or len(self.save_rows) or len(self.top_reads))


TRUNK_BLOCK = 64
"""Rows of a trunk are computed in blocks of this many tokens counted from the trunk's start, and a
trunk that is cut into several passes is cut at a multiple of it. Part of the numerics."""
