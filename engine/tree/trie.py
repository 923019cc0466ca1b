"""Token sequences that share their stems, as flat arrays in pre-order. Knows no text and no model."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spinf_serve.engine.tree.plan import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Trie:
    """A forest of shared-prefix token sequences: M nodes, P leaf paths, S sequences, longest L.

    Nodes are numbered in the pre-order of the sorted sequences, so the order in which sequences
    were given leaves no trace. Each node is *owned* by the first leaf path that goes through it;
    the nodes that path i owns are `own_start[i] .. own_start[i + 1]`.

    Attributes:
        tokens: [M] token of each node.
        depth: [M] depth of each node, 0 for roots.
        path_nodes: [P, L] node at each depth of a leaf path, -1 behind its end.
        path_len: [P] nodes on each path.
        path_own: [P] depth from which a path owns its nodes; behind it they are shared with the
            path before.
        own_start: [P + 1] first owned node of each path, then M.
        end: [S] node at which each sequence ends, in the order the sequences were given.
    """

    tokens: IntArray
    depth: IntArray
    path_nodes: IntArray
    path_len: IntArray
    path_own: IntArray
    own_start: IntArray
    end: IntArray

    @property
    def nodes(self) -> int:
        """Number of nodes, M."""
        return len(self.tokens)

    @property
    def paths(self) -> int:
        """Number of leaf paths, P."""
        return len(self.path_len)


def build_trie(sequences: Sequence[tuple[int, ...]]) -> Trie:
    """The trie of non-empty token sequences; equal sequences and prefixes share nodes."""
    if not sequences or not all(sequences):
        raise AssertionError("a trie needs sequences of at least one token")
    ordered = sorted(set(sequences))
    lengths = np.fromiter((len(s) for s in ordered), np.int32, len(ordered))
    grid = _padded(ordered, lengths)
    shared = _shared_with_previous(grid, lengths)

    new_nodes = lengths - shared
    start = np.zeros(len(ordered) + 1, np.int32)
    np.cumsum(new_nodes, out=start[1:])
    columns = np.arange(grid.shape[1], dtype=np.int32)
    is_new = (columns >= shared[:, None]) & (columns < lengths[:, None])
    # Node numbers grow with the row, so the running maximum of a column is the newest node at that
    # depth: for a depth shared with the row before, the very node that is shared.
    nodes = np.where(is_new, start[:-1, None] + columns - shared[:, None], -1)
    nodes = np.maximum.accumulate(nodes, axis=0)
    nodes = np.where(columns < lengths[:, None], nodes, -1).astype(np.int32)

    row = {s: i for i, s in enumerate(ordered)}
    given = np.fromiter((row[s] for s in sequences), np.int64, len(sequences))
    end = nodes[given, lengths[given] - 1]

    # A sequence that the next one continues is no leaf; what it owns goes to the leaf behind it.
    leaf = np.ones(len(ordered), bool)
    leaf[:-1] = shared[1:] < lengths[:-1]
    leaf_rows = np.flatnonzero(leaf)
    first_of_leaf = np.concatenate(([0], leaf_rows[:-1] + 1))
    path_own = np.minimum.reduceat(shared, first_of_leaf)
    return Trie(
        tokens=grid[is_new],
        depth=np.broadcast_to(columns, grid.shape)[is_new].astype(np.int32),
        path_nodes=nodes[leaf_rows],
        path_len=lengths[leaf_rows],
        path_own=path_own,
        own_start=np.append(start[first_of_leaf], start[-1]).astype(np.int32),
        end=end,
    )


def _padded(ordered: list[tuple[int, ...]], lengths: IntArray) -> IntArray:
    grid = np.full((len(ordered), int(lengths.max())), -1, np.int32)
    inside = np.arange(grid.shape[1]) < lengths[:, None]
    grid[inside] = np.fromiter((t for s in ordered for t in s), np.int32, int(lengths.sum()))
    return grid


def _shared_with_previous(grid: IntArray, lengths: IntArray) -> IntArray:
    """[S] tokens that each sorted row has in common with the row before."""
    shared = np.zeros(len(grid), np.int32)
    same = grid[1:] == grid[:-1]
    common = np.logical_and.accumulate(same, axis=1).sum(axis=1)
    shared[1:] = np.minimum(common, np.minimum(lengths[1:], lengths[:-1]))
    return shared
