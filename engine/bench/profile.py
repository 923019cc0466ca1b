"""Where a device's time goes: its kernels by name, in classes, and how long it had none.

On a GPU from the driver's own records (torch.profiler). Where there are none, or no GPU, each
operation of the model is timed instead, which says nothing about gaps.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, cast

import torch

from spinf_serve.engine.bench.timed_ops import TimedOps
from spinf_serve.engine.kernels.ops import Ops
from spinf_serve.engine.models.registry import Model

CLASSES: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("linears", ("product_kernel", "gemm", "nvjet", "cutlass", "cublas", "xmma")),
    ("attention", ("tree_kernel",)),
    ("head", ("tile_kernel", "row_kernel")),
    ("element-wise", ("norm_kernel", "heads_kernel", "quantize_kernel", "at::native")),
    ("copies", ("memcpy", "memset", "continue_kernel")),
)
"""Class -> what is in the names of its kernels; the first that fits. at::native are torch's own:
the lookup of the embedding, the choice of read rows, the zeroing of buffers."""

OTHER: Final = "other"
_LONGEST = 16


@dataclass(frozen=True, slots=True)
class Kernel:
    """One launch on the device, microseconds from any start."""

    name: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Profile:
    """What a run did on its device.

    Attributes:
        device_ms: milliseconds by class.
        kernels: name -> (launches, milliseconds), the longest first.
        idle_share: of the time from the first kernel to the last, without any; None where only
            operations were timed.
        busy_seconds: with at least one kernel; None likewise.
    """

    device_ms: dict[str, float]
    kernels: dict[str, tuple[int, float]] = field(default_factory=dict)
    idle_share: float | None = None
    busy_seconds: float | None = None

    @property
    def shares(self) -> dict[str, float]:
        """Each class's share of the milliseconds of all."""
        total = sum(self.device_ms.values()) or 1.0
        return {name: ms / total for name, ms in self.device_ms.items()}


def profiled(run: Callable[[], object], device: torch.device, model: Model | None) -> Profile:
    """Profiles one call of `run`; a profile without figures where nothing can be recorded.

    Args:
        run: runs passes of `model` on `device`.
        model: for the timing of its operations; None for an engine that was opened by name.
    """
    if device.type == "cuda":
        found = recorded(run)
        if found:
            return of_kernels(found)
    if model is None:
        return Profile({})
    timed = TimedOps(model.ops)
    model.ops = cast(Ops, timed)
    try:
        run()
    finally:
        model.ops = timed.inner
    return Profile(timed.milliseconds())


def recorded(run: Callable[[], object]) -> list[Kernel]:
    """The kernels of one call of `run` on a GPU, as the driver records them; empty if it does not."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    # What is recorded first is missing its beginning.
    with torch.profiler.profile(activities=activities):
        torch.zeros(1, device="cuda").add_(1)
        torch.cuda.synchronize()
    with torch.profiler.profile(activities=activities) as records:
        run()
        torch.cuda.synchronize()
    return kernels_of(records.events() or ())


def kernels_of(events: Iterable[Any]) -> list[Kernel]:
    """What ran on the device among the profiler's events, copies included."""
    return [
        Kernel(event.name, event.time_range.start, event.time_range.end)
        for event in events
        if event.device_type.name == "CUDA" and not getattr(event, "is_user_annotation", False)
    ]


def of_kernels(kernels: Sequence[Kernel]) -> Profile:
    """The profile of at least one kernel."""
    device_ms = dict.fromkeys([*(name for name, _ in CLASSES), OTHER], 0.0)
    by_name: dict[str, tuple[int, float]] = {}
    for kernel in kernels:
        ms = (kernel.end - kernel.start) / 1000
        device_ms[class_of(kernel.name)] += ms
        launches, before = by_name.get(kernel.name, (0, 0.0))
        by_name[kernel.name] = (launches + 1, before + ms)
    longest = sorted(by_name.items(), key=lambda item: -item[1][1])[:_LONGEST]
    busy = _covered(kernels)
    span = max(one.end for one in kernels) - min(one.start for one in kernels)
    return Profile(
        device_ms={name: ms for name, ms in device_ms.items() if ms},
        kernels={name[:80]: figures for name, figures in longest},
        idle_share=1 - busy / span,
        busy_seconds=busy / 1e6,
    )


def class_of(name: str) -> str:
    """The class of a kernel."""
    low = name.lower()
    for title, parts in CLASSES:
        if any(part in low for part in parts):
            return title
    return OTHER


def _covered(kernels: Sequence[Kernel]) -> float:
    """Microseconds with at least one kernel."""
    ordered = sorted(kernels, key=lambda one: one.start)
    total = ordered[0].end - ordered[0].start
    reached = ordered[0].end
    for _, after in pairwise(ordered):
        total += max(0.0, after.end - max(reached, after.start))
        reached = max(reached, after.end)
    return total


def table(profile: Profile) -> list[str]:
    """Lines for a person."""
    lines = [
        f"  {name:<14}{ms:10.1f} ms{100 * profile.shares[name]:7.1f} %"
        for name, ms in sorted(profile.device_ms.items(), key=lambda item: -item[1])
    ]
    if profile.idle_share is not None:
        lines.append(f"  idle between kernels {100 * profile.idle_share:.1f} %")
    return lines
