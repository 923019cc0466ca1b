"""Small passes as recorded graphs: one launch where the host would make hundreds.

A pass of few rows takes the device less time than the host needs to launch its kernels one by one.
Such passes are filled up to one of a few shapes, whose launches are recorded once and then replayed.
What fills a pass up is rows that nobody reads and tiles without queries: no score sees it. Where
trunks may stay on the card, every recorded pass writes as many keys and values as it has rows, those
that are not to stay to a slot that nobody reads, and may read what stayed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from spinf_serve.engine.kernels.gpu import GpuOps
from spinf_serve.engine.kernels.tree_attention.device_layout import (
    DeviceLayout,
    Kind,
    Queries,
    Tiles,
)
from spinf_serve.engine.kernels.tree_attention.words import in_words, out_of_words
from spinf_serve.engine.models.registry import Model
from spinf_serve.engine.tree.plan import IntArray, Pass, TreeSlice

SHAPES = (64, 128, 192, 256, 384, 512, 768, 1024)
"""Rows that a recorded pass may have: above, the device takes longer than the host's launches."""

# A pass of n rows may have one read in so many rows, as many columns as rows, and one tree in so many.
_ROWS_A_READ = 4
_ROWS_A_TREE = 16


@dataclass(frozen=True, slots=True, eq=False)
class Filled:
    """A pass filled up to one of `SHAPES`, on the host.

    Attributes:
        rows: of the shape.
        columns: C of the pass itself.
        inner: its layout, filled.
        words: the same as one run of words.
    """

    rows: int
    columns: int
    inner: DeviceLayout[IntArray]
    words: torch.Tensor


@dataclass(frozen=True, slots=True, eq=False)
class _Recorded:
    """A pass of one shape.

    Attributes:
        words: the layout's arrays on the device, written before each replay.
        graph: the launches.
        logprobs: what they leave.
        held: tensors that the launches read and that nothing else may hold any more.
    """

    words: torch.Tensor
    graph: torch.cuda.CUDAGraph
    logprobs: torch.Tensor
    held: list[torch.Tensor]


class Graphs:
    """The recorded passes of one model on one card."""

    def __init__(self, model: Model, ops: GpuOps) -> None:
        self._model = model
        self._ops = ops
        self._recorded: dict[int, _Recorded] = {}
        self._kept_capacity = ops.kept_capacity
        self._pool = torch.cuda.graph_pool_handle()

    def record(self) -> None:
        """Records every shape, so that no request waits for it."""
        for rows in SHAPES:
            filled = self.fitted(_trivial(rows))
            if filled is None:
                raise AssertionError(f"a trunk of {rows} tokens does not fit the shape of {rows}")
            self.replay(filled)

    def fitted(self, plan: Pass) -> Filled | None:
        """A pass filled up to the smallest shape that holds it.

        None for one that is larger than every shape, that saves, continues or reads more than was
        recorded, or that reads or leaves keys of other passes where no trunk may stay.
        """
        if len(plan.tokens) > SHAPES[-1] or not plan.is_plain:
            return None
        apart = all(not part.keep and not part.trunk_start for part in plan.slices)
        if not apart and None in self._ops.scratch_slots:
            return None
        inner = self._ops.arranged(plan, self._model.shapes)
        scratch = self._ops.scratch_slots
        for kind, slot in zip(inner.kinds, scratch, strict=True):
            if slot is None and (kind.borrows or len(kind.keep_rows)):
                return None
        for rows in SHAPES:
            filled = _filled(inner, rows, scratch)
            if filled is not None:
                words = in_words(filled, self._ops.device)
                return Filled(rows, len(plan.columns), filled, words)
        return None

    @torch.inference_mode()
    def replay(self, filled: Filled) -> tuple[torch.Tensor]:
        """[C] float32 log-probabilities on the device, to be read before the next replay."""
        if self._kept_capacity != self._ops.kept_capacity:
            # What was recorded reads and writes memory that kept keys have left.
            torch.cuda.synchronize(self._ops.device)
            self._recorded.clear()
            self._kept_capacity = self._ops.kept_capacity
        if filled.rows not in self._recorded:
            self._recorded[filled.rows] = self._record(filled)
        recorded = self._recorded[filled.rows]
        recorded.words.copy_(filled.words, non_blocking=True)
        recorded.graph.replay()
        return (recorded.logprobs[: filled.columns],)

    def _record(self, filled: Filled) -> _Recorded:
        own = filled.words.to(self._ops.device)
        inner = out_of_words(own, filled.inner)

        def launch() -> torch.Tensor:
            layout = self._ops.placed(inner, filled.rows)
            hidden = self._model.forward(layout)
            return self._model.read(hidden, layout.column_start, layout.columns)

        # Once before: kernels are compiled and tables made, which cannot be recorded.
        launch()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            logprobs = launch()
        return _Recorded(own, graph, logprobs, self._model.tables)


def _trivial(rows: int) -> Pass:
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


def _filled(
    inner: DeviceLayout[IntArray], rows: int, scratch: Sequence[int | None]
) -> DeviceLayout[IntArray] | None:
    """The layout with what fills it up to the shape of `rows`; None when something does not fit.

    Args:
        scratch: for each kind of layers the slot of keys that are not to stay, or None.
    """
    reads, columns = rows // _ROWS_A_READ, rows
    if len(inner.tokens) > rows or len(inner.read_rows) > reads or len(inner.columns) > columns:
        return None
    kinds = []
    for kind, slot in zip(inner.kinds, scratch, strict=True):
        every = _filled_tiles(kind.every, kind.kind, rows, rows)
        asked = _filled_tiles(kind.reads, kind.kind, reads, rows)
        if every is None or asked is None:
            return None
        kind = replace(kind, every=every, reads=asked)
        if slot is not None:
            kind = replace(
                kind,
                keep_rows=_longer(kind.keep_rows, rows),
                keep_slots=_longer(kind.keep_slots, rows, slot),
                borrows=True,
            )
        kinds.append(kind)
    return DeviceLayout(
        tokens=_longer(inner.tokens, rows),
        positions=_longer(inner.positions, rows),
        read_rows=_longer(inner.read_rows, reads),
        # Columns behind the last are of no read.
        column_start=_longer(inner.column_start, reads + 1, int(inner.column_start[-1])),
        columns=_longer(inner.columns, columns),
        ghosts=inner.ghosts,
        save_rows=inner.save_rows,
        save_places=inner.save_places,
        top_reads=inner.top_reads,
        every=_filled_queries(inner.every, rows),
        reads=_filled_queries(inner.reads, reads),
        kinds=tuple(kinds),
    )


def _filled_queries(queries: Queries[IntArray], count: int) -> Queries[IntArray]:
    return Queries(_longer(queries.query, count), _longer(queries.position, count))


def _filled_tiles(
    tiles: Tiles[IntArray], kind: Kind, queries: int, rows: int
) -> Tiles[IntArray] | None:
    """Tiles without queries, and folds without stretches, behind those that there are."""
    # The trunk and the branches of a tree begin tiles of their own.
    most = -(-queries // kind.tiling.tokens(kind.group)) + 2 * (rows // _ROWS_A_TREE)
    folds = 2 * most
    if len(tiles.tile) > most or len(tiles.stretch) > folds:
        return None
    return Tiles(
        tile=_longer(tiles.tile, most),
        stretch=_longer(tiles.stretch, folds),
        path_key=_longer(tiles.path_key, folds),
    )


def _longer(array: IntArray, length: int, value: int = 0) -> IntArray:
    """The array with `value` behind it, up to a length of its first axis."""
    filler = np.full((length - len(array), *array.shape[1:]), value, array.dtype)
    return np.concatenate((array, filler))
