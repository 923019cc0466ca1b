"""What tiles of branch rows meet of their paths: stretches, and folds of stretches of equal depth.

See `device_layout`, for which this is. Knows no trunks.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spinf_serve.engine.kernels.tree_attention.tiling import STRETCH
from spinf_serve.engine.tree.plan import IntArray, Pass

STRETCH_FIELDS = 3
"""Fields of a stretch: depth of its first key; first entry that has these ancestors and the end of
these entries."""


@dataclass(frozen=True, slots=True, eq=False)
class Stretches:
    """What the branch entries of each tile meet of their paths, tile by tile and path by path.

    Attributes:
        tile: the tile of each.
        path: a path that it is of.
        step: its number there, counted from the path's start.
        first, end: the branch entries that have it.
    """

    tile: NDArray[np.int64]
    path: NDArray[np.int64]
    step: NDArray[np.int64]
    first: NDArray[np.int64]
    end: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        plan: Pass,
        own_path: NDArray[np.int64],
        own_depth: NDArray[np.int64],
        start: NDArray[np.int64],
    ) -> "Stretches":
        """Paths that agree in a whole stretch meet it together.

        In pre-order their entries stand in one run.

        Args:
            own_path, own_depth: [B] path that owns each branch entry, and its depth there.
            start: first branch entry of each tile, below 0 for tiles of trunk entries.
        """
        entry = np.arange(len(own_path))
        tile = np.searchsorted(start, entry, side="right") - 1
        # A visit is a run of entries of one path in one tile.
        begins = np.ones(len(entry), bool)
        begins[1:] = (np.diff(tile) != 0) | (np.diff(own_path) != 0)
        visit = np.flatnonzero(begins)
        path, tile = own_path[visit], tile[visit]
        deepest = np.maximum.reduceat(own_depth, visit) if len(visit) else visit
        last = deepest // STRETCH
        ends = plan.path_rows[path, STRETCH - 1 :: STRETCH]
        # Whole stretches in common with the visit before; the same row has the same ancestors.
        common = np.zeros(len(visit), np.int64)
        same = (ends[1:] == ends[:-1]) & (ends[1:] >= 0) & (np.diff(tile) == 0)[:, None]
        common[1:] = np.logical_and.accumulate(same, axis=1).sum(axis=1)
        met = np.append(-1, last[:-1])
        first = np.minimum(common, met + 1)

        number, step, _ = cut(np.maximum(last + 1 - first, 0), 1)
        step += first[number]
        # Entries up to the next visit that has another stretch here.
        depths = np.arange(int(last.max(initial=-1)) + 1)
        changes = common[:, None] <= depths
        following = np.where(changes, np.arange(len(visit))[:, None], len(visit))
        following = np.minimum.accumulate(following[::-1], axis=0)[::-1]
        following = np.concatenate((following[1:], np.full((1, len(depths)), len(visit))))
        edges = np.append(visit, len(entry))
        return cls(
            tile=tile[number],
            path=path[number],
            step=step,
            first=edges[number],
            end=edges[following[number, step]],
        )


def folded(stretches: Stretches, slots: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Fold and slot of each stretch: those of one step of a tile fill folds, step after step."""
    order = np.lexsort((stretches.step, stretches.tile))
    tile, step = stretches.tile[order], stretches.step[order]
    opens = np.ones(len(order), bool)
    opens[1:] = (np.diff(tile) != 0) | (np.diff(step) != 0)
    at = np.arange(len(order))
    rank = at - np.maximum.accumulate(np.where(opens, at, 0))
    fold, slot = np.empty_like(order), np.empty_like(order)
    slot[order] = rank % slots
    fold[order] = np.cumsum(rank % slots == 0) - 1
    return fold, slot


def filled(
    plan: Pass,
    stretches: Stretches,
    fold: NDArray[np.int64],
    slot: NDArray[np.int64],
    slots: int,
) -> tuple[IntArray, IntArray]:
    """[folds, slots, STRETCH_FIELDS] stretches and [folds, slots * STRETCH] rows of their keys.

    A slot without a stretch has no entries; in it and behind a path's end is some key of the tree.
    """
    folds = int(fold.max(initial=-1)) + 1
    table = np.zeros((folds, slots, STRETCH_FIELDS), np.int32)
    table[fold, slot] = np.stack((STRETCH * stretches.step, stretches.first, stretches.end), axis=1)
    depth = STRETCH * stretches.step[:, None] + np.arange(STRETCH)
    depth = np.minimum(depth, plan.path_len[stretches.path][:, None] - 1)
    rows = plan.path_rows[stretches.path[:, None], depth]
    first = slot == 0
    keys = np.empty((folds, slots, STRETCH), np.int32)
    keys[fold[first]] = rows[first, None]
    keys[fold, slot] = rows
    return table, keys.reshape(folds, slots * STRETCH)


def cut(
    lengths: NDArray[np.int64], step: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Runs cut into pieces of `step`: each piece's run, its start in the run, its length."""
    pieces = -(-lengths // step)
    run = np.repeat(np.arange(len(lengths)), pieces)
    start = (np.arange(len(run)) - (np.cumsum(pieces) - pieces)[run]) * step
    return run, start, np.minimum(step, lengths[run] - start)
