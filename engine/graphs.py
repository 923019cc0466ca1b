"""Small passes as recorded graphs: one launch where the host would make hundreds.

A pass of few rows takes the device less time than the host needs to launch its kernels one by one.
Such passes are filled up to one of a few shapes, whose launches are recorded once and then replayed.
Where trunks may stay on the card, every recorded pass writes as many keys and values as it has rows,
those that are not to stay to a slot that nobody reads, and may read what stayed. Passes with steps of
slots have shapes of their own, which save and continue rows too.
"""

from dataclasses import dataclass
from typing import Final

import torch

from spinf_serve.engine.graph_shapes import POSITIONS, SIZES, Shape, filled, shapes_for, trivial
from spinf_serve.engine.kernels.gpu import GpuOps
from spinf_serve.engine.kernels.tree_attention.device_layout import DeviceLayout, Kind
from spinf_serve.engine.kernels.tree_attention.words import in_words, out_of_words
from spinf_serve.engine.models.registry import Model
from spinf_serve.engine.tree.plan import IntArray, Pass

_PLACES: Final = 512
"""Saved rows that there is room for from the beginning: where the room grows, steps are recorded anew."""

Code = tuple[Shape, tuple[tuple[Kind, bool], ...]]
"""What a recording depends on: the shape, and of each kind of layers its tiles and whether it meets
kept keys."""


@dataclass(frozen=True, slots=True, eq=False)
class Filled:
    """A pass filled up to a shape, on the host.

    Attributes:
        shape: which.
        plan: the pass itself.
        inner: its layout, filled.
        words: the same as one run of words.
    """

    shape: Shape
    plan: Pass
    inner: DeviceLayout[IntArray]
    words: torch.Tensor

    @property
    def code(self) -> Code:
        """What its recording depends on."""
        return self.shape, tuple((kind.kind, kind.borrows) for kind in self.inner.kinds)


@dataclass(frozen=True, slots=True, eq=False)
class _Recorded:
    """A pass of one shape.

    Attributes:
        memory: what `GpuOps` says of the memory that the launches read and write.
        words: the layout's arrays on the device, written before each replay.
        graph: the launches.
        found: what they leave.
        held: tensors that the launches read and that nothing else may hold any more.
    """

    memory: tuple[int, ...]
    words: torch.Tensor
    graph: torch.cuda.CUDAGraph
    found: tuple[torch.Tensor, ...]
    held: list[torch.Tensor]


class Graphs:
    """The recorded passes of one model on one card."""

    def __init__(self, model: Model, ops: GpuOps) -> None:
        self._model = model
        self._ops = ops
        self._recorded: dict[Code, _Recorded] = {}
        self._pool = torch.cuda.graph_pool_handle()

    def record(self) -> None:
        """Records every shape, so that no request waits for it.

        Steps where trunks may stay: without that they are recorded when the first ones come.
        """
        self._ops.make_places(_PLACES, self._model.shapes)
        for steps in (False, True):
            for rows in SIZES:
                made = self._made(trivial(rows), Shape(rows, steps))
                if made is None:
                    raise AssertionError(f"a trunk of {rows} tokens does not fit a shape of {rows}")
                if not steps or None not in self._ops.scratch_slots:
                    self.replay(made)

    def fitted(self, plan: Pass) -> Filled | None:
        """A pass filled up to the smallest shape that holds it.

        None for one that no shape holds, or that leaves keys of its trunks, or reads such, where no
        trunk may stay; steps may read what trees have left for them there, too.
        """
        shapes = list(shapes_for(plan))
        if not shapes:
            return None
        may_stay = None not in self._ops.scratch_slots
        apart = all(not part.keep and not part.trunk_start for part in plan.slices)
        if not (apart or may_stay or not plan.is_plain):
            return None
        inner = self._ops.arranged(plan, self._model.shapes)
        for kind in inner.kinds:
            if not may_stay and (len(kind.keep_rows) or (kind.borrows and plan.is_plain)):
                return None
        return next((made for shape in shapes if (made := self._filled(plan, inner, shape))), None)

    def _made(self, plan: Pass, shape: Shape) -> Filled | None:
        return self._filled(plan, self._ops.arranged(plan, self._model.shapes), shape)

    def _filled(self, plan: Pass, inner: DeviceLayout[IntArray], shape: Shape) -> Filled | None:
        found = filled(inner, shape, self._ops.scratch_slots)
        if found is None:
            return None
        return Filled(shape, plan, found, in_words(found, self._ops.device))

    @torch.inference_mode()
    def replay(self, made: Filled) -> tuple[torch.Tensor, ...]:
        """What the pass reads, on the device; to be read before the next replay.

        Returns:
            [C] float32 log-probabilities; with steps also, of every one of the R reads, the `top` most
            probable tokens [R, top] and their log-probabilities.
        """
        plan, code = made.plan, made.code
        self._ops.make_places(int(plan.save_places.max(initial=-1)) + 1, self._model.shapes)
        memory = self._memory(made.shape)
        before = self._recorded.get(code)
        if before is not None and before.memory != memory:
            # What was recorded reads and writes memory that keys have left.
            torch.cuda.synchronize(self._ops.device)
            del self._recorded[code]
        if code not in self._recorded:
            self._recorded[code] = self._record(made, memory)
        recorded = self._recorded[code]
        recorded.words.copy_(made.words, non_blocking=True)
        recorded.graph.replay()
        logprobs, *best = recorded.found
        reads = len(plan.read_rows)
        return logprobs[: len(plan.columns)], *(part[:reads, : plan.top] for part in best)

    def _memory(self, shape: Shape) -> tuple[int, ...]:
        return self._ops.step_capacity if shape.steps else self._ops.kept_capacity

    def _record(self, made: Filled, memory: tuple[int, ...]) -> _Recorded:
        own = made.words.to(self._ops.device)
        inner = out_of_words(own, made.inner)
        top = made.shape.top

        def launch() -> tuple[torch.Tensor, ...]:
            layout = self._ops.placed(inner, POSITIONS, top)
            hidden = self._model.forward(layout)
            if top:
                return self._model.read_with_top(layout, hidden)
            return (self._model.read(hidden, layout.column_start, layout.columns),)

        # Once before: kernels are compiled and tables made, which cannot be recorded.
        launch()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            found = launch()
        return _Recorded(memory, own, graph, found, self._model.tables)
