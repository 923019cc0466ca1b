"""Trees to passes: whole trees and parts of trees laid one after another within a token budget.

Knows no text and no device. What a tree's rows compute does not depend on how it is laid out here;
this file decides about speed and memory only.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from spinf_serve.engine.tree.plan import TRUNK_BLOCK, IntArray, Pass, TreeSlice
from spinf_serve.engine.tree.rows import GHOST, Rows
from spinf_serve.engine.tree.trie import Trie

_NEARLY: Final = (3, 4)
"""Share of the budget, as a fraction, from which a pass may end before a tree that it has no room for."""

_BESIDE: Final = 4
"""A pass of a tree whose stem nearly fills the budget has room for this fraction of it besides: a few
more rows cost less than the stem once more for each few paths."""

_MOST_LOOKED_AT: Final = 32
"""Trees that do not fit which a pass is offered before it stays as full as it is."""


@dataclass(frozen=True, slots=True, eq=False)
class Reads:
    """What is wanted from a trie: R read nodes in ascending order, C columns in all.

    Attributes:
        nodes: [R] nodes whose next-token distribution is wanted.
        column_start: [R + 1] where each read's columns begin.
        columns: [C] wanted token ids.
        tops: [R] how many of the most probable tokens are wanted besides; None for none at all.
    """

    nodes: IntArray
    column_start: IntArray
    columns: IntArray
    tops: IntArray | None = None

    @property
    def with_tops(self) -> int:
        """How many reads want the most probable tokens."""
        return 0 if self.tops is None else int(np.count_nonzero(self.tops))


@dataclass(frozen=True, slots=True, eq=False)
class Behind:
    """What the P paths of a step continue: rows that were saved in earlier passes.

    Attributes:
        places: [P, L] where the rows between the trunk and each path are, -1 behind the last.
        length: [P] how many they are.
    """

    places: IntArray
    length: IntArray


@dataclass(slots=True, eq=False)
class Tree:
    """One content and the questions about it, or a step behind them, on its way through passes.

    Attributes:
        key: unique while the tree is alive.
        trunk: [T] tokens of the trunk, may be empty.
        chain: [c] tokens between the trunk and the trie, common to all its paths.
        trie: the questions.
        reads: what is wanted from the trie.
        logprobs: [C] float32, filled as passes return.
        kept_key: names the keys and values of its trunk where they are kept.
        is_cached: whether those stay after the tree, for others with the same trunk.
        is_begun: whether a pass holds a part of it.
        trunk_done: trunk tokens already read.
        trunk_found: of those, tokens that were read for another tree.
        paths_done: leaf paths already read.
        columns_done: columns already filled.
        is_spoiled: whether something that was read of it is no number.
        is_held: whether its trunk is needed after all of it is planned.
        saves: [c + M] where the rows of chain and nodes are saved, -1 for those that are not.
        behind: of a step: what its paths continue. It has no chain, each of its paths is one node,
            which is read, and its trunk was read.
        top_ids, top_logprobs: [T, top] of its reads that want them, pass by pass.
    """

    key: int
    trunk: IntArray
    chain: IntArray
    trie: Trie
    reads: Reads
    logprobs: np.ndarray
    kept_key: int
    is_cached: bool = False
    is_begun: bool = False
    trunk_done: int = 0
    trunk_found: int = 0
    paths_done: int = 0
    columns_done: int = 0
    is_spoiled: bool = False
    cancelled: bool = False
    is_held: bool = False
    saves: IntArray | None = None
    behind: Behind | None = None
    top_ids: list[IntArray] = field(default_factory=list)
    top_logprobs: list[np.ndarray] = field(default_factory=list)

    @property
    def packed_tokens(self) -> int:
        """Rows the tree takes when nothing is read twice."""
        return len(self.trunk) + len(self.chain) + self.trie.nodes

    @property
    def rows_left(self) -> int:
        """Rows that the unplanned part of it takes, in one piece."""
        first, paths = self.paths_done, self.trie.paths
        # A step has one row a path, and its trunk was read.
        if first == paths or self.behind is not None:
            return paths - first
        own = self.trie.nodes - int(self.trie.own_start[first]) + int(self.trie.path_own[first])
        return len(self.trunk) - self.trunk_done + len(self.chain) + own

    @property
    def is_planned(self) -> bool:
        """Whether every path is in some pass."""
        return self.paths_done == self.trie.paths

    @property
    def finished(self) -> bool:
        """Whether everything that was wanted is there."""
        tops_done = sum(map(len, self.top_ids))
        return self.columns_done == len(self.reads.columns) and tops_done == self.reads.with_tops


class Trunks(Protocol):
    """Trunks whose keys and values stay on the device after the tree that read them."""

    def find(self, tree: Tree) -> bool:
        """Looks for the trunk of a tree that is not begun, and sets what of it is done.

        False: it is being read in the pass under construction and can be had from the next on.
        """
        ...

    def claim(self, tree: Tree) -> None:
        """The tree begins: what was found stays for it, or room is made for what it will read."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class PackedPass:
    """A pass and where its results go.

    Attributes:
        plan: the pass.
        parts: the tree of each slice.
        trees, take: `take[i]` columns belong to `trees[i]`, in order.
        take_tops: so many of the reads that want the most probable tokens belong to it too.
    """

    plan: Pass
    parts: tuple[Tree, ...]
    trees: tuple[Tree, ...]
    take: tuple[int, ...]
    take_tops: tuple[int, ...]


@dataclass(slots=True, eq=False)
class _Building:
    """A pass under construction.

    Attributes:
        made: its rows so far.
        parts, trees, take: as in `PackedPass`.
    """

    budget: int
    trunks: Trunks | None
    made: Rows = field(default_factory=Rows)
    parts: list[Tree] = field(default_factory=list)
    trees: list[Tree] = field(default_factory=list)
    take: list[int] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return self.made.count

    @property
    def room(self) -> int:
        return max(0, self.budget - self.rows)


def new_tree(key: int, trunk: IntArray, chain: IntArray, trie: Trie, reads: Reads) -> Tree:
    """A tree of which nothing is read yet; its results are NaN until passes fill them."""
    empty = np.full(len(reads.columns), np.nan, np.float32)
    return Tree(
        key=key, trunk=trunk, chain=chain, trie=trie, reads=reads, logprobs=empty, kept_key=key
    )


def next_pass(
    waiting: Iterable[Tree],
    budget: int,
    trunks: Trunks | None = None,
    room_for: Callable[[Tree, int], int] = lambda tree, room: room,
) -> PackedPass | None:
    """Takes the next pass of at most `budget` rows from waiting trees, in the order they come in.

    Advances the trees it takes from; those that are cancelled or wholly planned it passes over. A
    tree whose paths share a stem of over three quarters of the budget makes passes of its own, of its
    stem and up to a quarter of the budget (one path at least): it alone may go over it. Behind the first tree that the pass
    has no room for, small ones that fit whole fill what is left. Returns None when nothing waits.

    Args:
        waiting: is asked for the next tree when the one before was dealt with.
        trunks: what is kept of trunks after their trees. A tree whose trunk is read in this pass
            for another one waits for the next.
        room_for: of so many rows that are left and that a tree does not fit in whole, how many it
            may have; 0 leaves it to a later pass. The first tree of those that wait that is not
            left must be given what it needs.
    """
    building = _Building(budget, trunks)
    is_full, looked = False, 0
    for tree in waiting:
        if tree.cancelled or tree.is_planned:
            continue
        if not (tree.is_begun or trunks is None or trunks.find(tree)):
            continue
        room = left = building.room
        if tree.rows_left > left:
            room = 0 if is_full else room_for(tree, room)
        if not room:
            looked += 1
        elif not _take_from(tree, building, room):
            # One that may have a part only leaves the rest to others.
            is_full = is_full or room >= left
        if building.rows and (not building.room or looked == _MOST_LOOKED_AT):
            break
    return _finish(building) if building.rows else None


def _take_from(tree: Tree, building: _Building, most_rows: int) -> bool:
    """Plans as much of a tree as goes into some rows; False when that is not all of it."""
    if _waits_for_the_next(tree, building):
        return False
    left = len(tree.trunk) - tree.trunk_done
    trunk_rows = min(left, most_rows)
    if trunk_rows < left:
        trunk_rows -= trunk_rows % TRUNK_BLOCK
        if trunk_rows == 0 and building.rows == 0:
            trunk_rows = min(left, TRUNK_BLOCK)
    room = most_rows - trunk_rows
    is_alone = building.rows + trunk_rows == 0
    paths = _paths_that_fit(tree, room, building.budget // _BESIDE if is_alone else None)
    if tree.trunk_done + trunk_rows < len(tree.trunk):
        paths = 0
    if trunk_rows == 0 and paths == 0:
        return False
    _lay(tree, trunk_rows, paths, building)
    return tree.is_planned


def _waits_for_the_next(tree: Tree, building: _Building) -> bool:
    """Whether a tree that would have to be cut fits whole in a pass of its own, and this one is
    nearly full: a few rows fewer cost less than keys that are kept between two passes.
    """
    is_whole = not tree.is_begun
    fits = building.room < tree.packed_tokens - tree.trunk_done <= building.budget
    return is_whole and fits and building.rows * _NEARLY[1] >= building.budget * _NEARLY[0]


def _paths_that_fit(tree: Tree, room: int, beside: int | None) -> int:
    """How many leaf paths from `paths_done` on fit in `room` rows.

    Args:
        beside: rows that are there beside the stem even where the room is used up, and then for one
            path at least; None for none.
    """
    trie, first = tree.trie, tree.paths_done
    stem = len(tree.chain) + int(trie.path_own[first])
    left = room - stem if beside is None else max(room - stem, beside)
    own_first = int(trie.own_start[first])
    if trie.nodes - own_first <= left:
        return trie.paths - first
    end = np.searchsorted(trie.own_start, own_first + left, side="right")
    return max(int(end) - 1 - first, 0 if beside is None else 1)


def _lay(tree: Tree, trunk_rows: int, paths: int, building: _Building) -> None:
    if not tree.is_begun and building.trunks is not None:
        building.trunks.claim(tree)
    tree.is_begun = True
    trunk_start, trunk_len = tree.trunk_done, len(tree.trunk)
    tree.trunk_done += trunk_rows
    building.parts.append(tree)
    made = building.made
    row_start = made.count
    if trunk_rows:
        made.tokens.append(tree.trunk[trunk_start : tree.trunk_done])
        made.positions.append(np.arange(trunk_start, tree.trunk_done, dtype=np.int32))
    branch_rows = 0
    if paths:
        lay = _lay_paths if tree.behind is None else _lay_step
        branch_rows = lay(tree, paths, row_start + trunk_rows, building)
        made.path_slice.append(len(made.slices))
    made.slices.append(
        TreeSlice(
            key=tree.kept_key,
            row_start=row_start,
            trunk_start=trunk_start,
            trunk_rows=trunk_rows,
            trunk_len=trunk_len,
            branch_rows=branch_rows,
            keep=trunk_len > 0 and (tree.is_cached or tree.is_held or not tree.is_planned),
        )
    )
    made.count += trunk_rows + branch_rows


def _lay_paths(tree: Tree, paths: int, base: int, building: _Building) -> int:
    """Rows of leaf paths `paths_done .. paths_done + paths`, with the stems of the first one."""
    trie, first, last = tree.trie, tree.paths_done, tree.paths_done + paths
    chain, made = len(tree.chain), building.made
    stem = int(trie.path_own[first])
    own_first, own_last = int(trie.own_start[first]), int(trie.own_start[last])
    nodes = np.concatenate(
        (trie.path_nodes[first, :stem], np.arange(own_first, own_last, dtype=np.int32))
    )
    made.tokens += [tree.chain, trie.tokens[nodes]]
    made.positions += [
        np.arange(len(tree.trunk), len(tree.trunk) + chain, dtype=np.int32),
        trie.depth[nodes] + np.int32(len(tree.trunk) + chain),
    ]
    lengths = trie.path_len[first:last]
    grid = trie.path_nodes[first:last, : int(lengths.max())]
    # Nodes before the first own node are stems of the first path, which lie at its depth.
    local = np.where(grid >= own_first, grid - own_first + stem, np.arange(grid.shape[1]))
    rows = np.where(grid < 0, -1, local + base + chain)
    head = np.broadcast_to(np.arange(base, base + chain), (paths, chain))
    own = trie.path_own[first:last] + np.int32(chain)
    own[0] = 0
    made.path_rows.append(np.concatenate((head, rows), axis=1).astype(np.int32))
    made.path_len.append(lengths + np.int32(chain))
    made.path_own.append(own)
    # A read at a shared stem went with its owner.
    read, end = tree.reads.nodes.searchsorted((own_first, own_last)).tolist()
    shift = base + chain + stem - own_first
    _lay_reads(tree, read, end, tree.reads.nodes[read:end] + shift, building)
    if tree.saves is not None:
        places = np.concatenate((tree.saves[:chain], tree.saves[chain + nodes]))
        saved = np.flatnonzero(places >= 0)
        made.save_rows.append((saved + base).astype(np.int32))
        made.save_places.append(places[saved])
    tree.paths_done = last
    return chain + len(nodes)


def _lay_step(tree: Tree, paths: int, base: int, building: _Building) -> int:
    """Rows of a step, one a path; each is read, and saved where the step says so."""
    if tree.behind is None:
        raise AssertionError("only a step continues saved rows")
    first, last, made = tree.paths_done, tree.paths_done + paths, building.made
    length = tree.behind.length[first:last]
    rows = np.arange(base, base + paths, dtype=np.int32)
    made.tokens.append(tree.trie.tokens[first:last])
    made.positions.append(length + len(tree.trunk))
    made.path_rows.append(GHOST - tree.behind.places[first:last])
    made.step_rows.append(rows)
    made.path_len.append(length + 1)
    made.path_own.append(length)
    if tree.saves is not None:
        made.save_rows.append(rows)
        made.save_places.append(tree.saves[first:last])
    _lay_reads(tree, first, last, rows, building)
    tree.paths_done = last
    return paths


def _lay_reads(tree: Tree, first: int, last: int, rows: IntArray, building: _Building) -> None:
    """Reads `first .. last` of a tree, of these rows."""
    reads, made = tree.reads, building.made
    start = reads.column_start[first : last + 1]
    column, end = start[0].item(), start[-1].item()
    made.read_rows.append(rows)
    made.column_count.append(start[1:] - start[:-1])
    made.columns.append(reads.columns[column:end])
    made.tops.append(
        np.zeros(last - first, np.int32) if reads.tops is None else reads.tops[first:last]
    )
    building.trees.append(tree)
    building.take.append(end - column)


def _finish(building: _Building) -> PackedPass:
    return PackedPass(
        plan=building.made.to_pass(),
        parts=tuple(building.parts),
        trees=tuple(building.trees),
        take=tuple(building.take),
        take_tops=tuple(int(np.count_nonzero(part)) for part in building.made.tops),
    )
