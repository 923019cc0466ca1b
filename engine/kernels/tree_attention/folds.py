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
    """What the branch entries of each tile meet of their paths, tile by tile and then by depth.

    Attributes:
        tile: the tile of each.
        rank: its number among those of its tile that are as deep.
        fields: [S, STRETCH_FIELDS], entries counted from the first branch entry.
        rows: [S, STRETCH] pass rows of its keys; behind a path's end the last one again.
    """

    tile: NDArray[np.int64]
    rank: NDArray[np.int64]
    fields: IntArray
    rows: IntArray

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
        begins[1:] = (tile[1:] != tile[:-1]) | (own_path[1:] != own_path[:-1])
        visit = np.flatnonzero(begins)
        path, tile = own_path[visit], tile[visit]
        deepest = np.maximum.reduceat(own_depth, visit) if len(visit) else visit
        last = deepest // STRETCH
        ends = plan.path_rows[path, STRETCH - 1 :: STRETCH]
        # Whole stretches in common with the visit before; the same row has the same ancestors.
        common = np.zeros(len(visit), np.int64)
        same = (ends[1:] == ends[:-1]) & (ends[1:] >= 0) & (tile[1:] == tile[:-1])[:, None]
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
        # Those of one step of a tile side by side, each still path by path.
        order = np.lexsort((step, tile[number]))
        number, step = number[order], step[order]
        tile, path = tile[number], path[number]
        depth = STRETCH * step[:, None] + np.arange(STRETCH)
        depth = np.minimum(depth, plan.path_len[path][:, None] - 1)
        fields = np.empty((len(step), STRETCH_FIELDS), np.int32)
        fields[:, 0] = STRETCH * step
        fields[:, 1] = edges[number]
        fields[:, 2] = edges[following[number, step]]
        opens = np.ones(len(step), bool)
        opens[1:] = (tile[1:] != tile[:-1]) | (step[1:] != step[:-1])
        at = np.arange(len(step))
        rank = at - np.maximum.accumulate(np.where(opens, at, 0))
        return cls(tile=tile, rank=rank, fields=fields, rows=plan.path_rows[path[:, None], depth])


@dataclass(frozen=True, slots=True, eq=False)
class Folds:
    """Stretches in folds of several slots: those of one step of a tile fill folds, step after step.

    Attributes:
        per_tile: [tiles] how many are of each tile.
        stretch: [folds, slots, STRETCH_FIELDS], entries counted from the first branch entry.
        path_key: [folds, slots * STRETCH] rows of their keys.
    """

    per_tile: NDArray[np.int64]
    stretch: IntArray
    path_key: IntArray

    @classmethod
    def of(cls, stretches: Stretches, slots: int, tiles: int) -> "Folds":
        """A slot without a stretch has no entries; in it are the keys of one that has some."""
        slot = stretches.rank % slots
        opens = slot == 0
        fold = np.cumsum(opens) - 1
        rows = stretches.rows
        folds = int(np.count_nonzero(opens))
        stretch = np.zeros((folds, slots, STRETCH_FIELDS), np.int32)
        stretch[fold, slot] = stretches.fields
        keys = np.empty((folds, slots, STRETCH), np.int32)
        keys[:] = rows[opens, None]
        keys[fold, slot] = rows
        return cls(
            per_tile=np.bincount(stretches.tile[opens], minlength=tiles),
            stretch=stretch,
            path_key=keys.reshape(folds, slots * STRETCH),
        )


def cut(
    lengths: NDArray[np.int64], step: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Runs cut into pieces of `step`: each piece's run, its start in the run, its length."""
    pieces = -(-lengths // step)
    run = np.repeat(np.arange(len(lengths)), pieces)
    start = (np.arange(len(run)) - (np.cumsum(pieces) - pieces)[run]) * step
    return run, start, np.minimum(step, lengths[run] - start)
