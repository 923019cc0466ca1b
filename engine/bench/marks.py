"""Points of time on a device: the clock on the CPU, a mark in the queue of work on a GPU."""

import time
from typing import cast

import torch

Mark = float | torch.cuda.Event


def mark(device: torch.device) -> Mark:
    """Now, or where the current stream will be when it has done what it was given so far."""
    if device.type == "cpu":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event


def seconds_between(begin: Mark, end: Mark) -> float:
    """Waits for `end`; both are of one device."""
    if isinstance(begin, float):
        return cast(float, end) - begin
    last = cast(torch.cuda.Event, end)
    last.synchronize()
    return cast(float, begin.elapsed_time(last)) / 1000
