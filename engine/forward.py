"""A model family and a backend's operations, together what the engine runs passes on."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

import torch

from spinf_serve.engine.kernels.ops import Layout, Ops
from spinf_serve.engine.models.registry import Model
from spinf_serve.engine.pipeline import OutOfDeviceMemory, ReadBack, Started
from spinf_serve.engine.stats import DeviceMemory
from spinf_serve.engine.tree.packing import PackedPass
from spinf_serve.engine.tree.plan import IntArray

if TYPE_CHECKING:
    from spinf_serve.engine.graphs import Graphs


@dataclass(slots=True, eq=False)
class _Launched:
    """A pass on the device.

    Attributes:
        read_by: the arrays that the device reads until the pass ends.
        found: [C] float32 on the host, then, of passes with top reads, ids and log-probabilities
            [T, top]; on a GPU in pinned memory and there once `end` passed.
        layout_seconds, device_seconds: as in `Started`.
        top_reads: which of the reads found best tokens are wanted of, where they are there of all.
        begin, end: the GPU's marks around the pass; None on the CPU, which is done by now.
    """

    read_by: object
    found: tuple[torch.Tensor, ...]
    layout_seconds: float
    device_seconds: float
    top_reads: IntArray | None = None
    begin: torch.cuda.Event | None = None
    end: torch.cuda.Event | None = None


class ModelForward:
    """Implements the engine's `Forward` with a model on a backend.

    All work goes to the device's current stream: passes run one after another, and memory that one
    gave back is taken by the next without waiting.
    """

    def __init__(self, model: Model, ops: Ops, graphs: "Graphs | None" = None) -> None:
        """`graphs` of the same model and backend run the passes that fit them."""
        self._graphs = graphs
        self._model = model
        self._ops = ops
        self._on_gpu = ops.device.type == "cuda"
        self.ahead = 1 if self._on_gpu else 0

    def start(self, packed: PackedPass) -> Started:
        """Lays a pass out and launches it; on the CPU it is done then.

        Raises:
            OutOfDeviceMemory: see `Forward`.
        """
        try:
            return self._launch(packed)
        except torch.OutOfMemoryError as fault:
            message = str(fault)
        # Outside of the handler, which would hold the tensors of the pass that failed.
        raise self._out_of_memory(message)

    def done(self, started: Started) -> bool:
        """Whether `finish` would not wait."""
        end = cast(_Launched, started).end
        try:
            return end is None or bool(end.query())  # type: ignore[no-untyped-call]
        except RuntimeError:
            # Whatever broke the device, `finish` meets it too, and says so for its pass.
            return True

    def finish(self, started: Started) -> ReadBack:
        """What was read of the pass.

        Raises:
            OutOfDeviceMemory: see `Forward`.
        """
        own = cast(_Launched, started)
        if own.begin is not None and own.end is not None:
            try:
                own.end.synchronize()
                own.device_seconds = own.begin.elapsed_time(own.end) / 1000
            except torch.OutOfMemoryError as fault:
                raise self._out_of_memory(str(fault)) from None
        # Views: the arrays keep their memory from being used for another pass.
        logprobs, *best = (part.numpy() for part in own.found)
        if own.top_reads is not None:
            best = [part[own.top_reads] for part in best]
        return ReadBack(logprobs, *best)

    def memory(self) -> DeviceMemory | None:
        """The card's memory now; None on the CPU."""
        if not self._on_gpu:
            return None
        device = self._ops.device
        free, total = torch.cuda.mem_get_info(device)
        return DeviceMemory(
            used=torch.cuda.memory_allocated(device),
            reserved=torch.cuda.memory_reserved(device),
            free=free,
            total=total,
        )

    def release(self, key: int) -> None:
        """Forgets the keys and values kept under a key."""
        self._ops.release(key)

    def room_bytes(self, tokens: int) -> int | None:
        """Bytes that the keys and values of a trunk take; None where they never fit."""
        return self._ops.room_bytes(tokens)

    def reserve(self, key: int, tokens: int) -> bool:
        """Room for the keys and values of a trunk, if there is some."""
        return self._ops.reserve(key, tokens)

    @torch.inference_mode()
    def _launch(self, packed: PackedPass) -> _Launched:
        start = time.perf_counter()
        read_by: object
        launch: Callable[[], tuple[torch.Tensor, ...]]
        top_reads: IntArray | None = None
        filled = None if self._graphs is None else self._graphs.fitted(packed.plan)
        if filled is not None and self._graphs is not None:
            read_by, launch = filled, partial(self._graphs.replay, filled)
            top_reads = packed.plan.top_reads
        else:
            layout = self._model.layout(packed.plan)
            read_by, launch = layout, partial(self._found, layout)
        laid_out = time.perf_counter()
        if self._on_gpu:
            begin, end = _mark(), _mark()
            begin.record()
            found = tuple(map(_on_host, launch()))
            end.record()
            return _Launched(read_by, found, laid_out - start, 0.0, top_reads, begin, end)
        found = launch()
        seconds = time.perf_counter() - laid_out
        return _Launched(read_by, found, laid_out - start, seconds)

    def _found(self, layout: Layout) -> tuple[torch.Tensor, ...]:
        hidden = self._model.forward(layout)
        if len(layout.top_reads):
            return self._model.read_with_top(layout, hidden)
        return (self._model.read(hidden, layout.column_start, layout.columns),)

    def _out_of_memory(self, message: str) -> OutOfDeviceMemory:
        """The engine's error, once the memory that torch holds in reserve is free."""
        if self._on_gpu:
            torch.cuda.empty_cache()
        return OutOfDeviceMemory(message)


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    """A copy that is on its way; torch hands pinned memory out again when the copies ended."""
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    host.copy_(tensor, non_blocking=True)
    return host


def _mark() -> torch.cuda.Event:
    """A point in the queue of work; whoever waits for it sleeps, so that others have the core."""
    return torch.cuda.Event(enable_timing=True, blocking=True)  # type: ignore[no-untyped-call]
