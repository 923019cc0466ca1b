"""A backend that notes how long each of its operations takes, by class."""

import time
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, cast

import torch

from spinf_serve.engine.kernels.ops import Ops

_CLASS_OF: Final = {
    "linear": "linears",
    "gated_linear": "linears",
    "attend": "attention",
    "embed": "element-wise",
    "norm": "element-wise",
    "add_norm": "element-wise",
    "heads": "element-wise",
    "read_options": "head",
}

_Mark = float | torch.cuda.Event


class TimedOps:
    """Stands for an `Ops` and hands everything on to it, between two marks on its device.

    Attributes:
        inner: the backend.
    """

    def __init__(self, inner: Ops) -> None:
        self.inner = inner
        self._marks: list[tuple[str, _Mark, _Mark]] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        title = _CLASS_OF.get(name)
        return found if title is None else self._timed(title, found)

    def milliseconds(self) -> dict[str, float]:
        """By class, once the device has done everything."""
        total: dict[str, float] = {}
        for title, begin, end in self._marks:
            total[title] = total.get(title, 0.0) + _between(begin, end)
        return total

    def _timed(self, title: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(operation)
        def run(*given: Any, **named: Any) -> Any:
            begin = self._mark()
            out = operation(*given, **named)
            self._marks.append((title, begin, self._mark()))
            return out

        return run

    def _mark(self) -> _Mark:
        if self.inner.device.type == "cpu":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event


def _between(begin: _Mark, end: _Mark) -> float:
    """Milliseconds."""
    if isinstance(begin, float):
        return 1000 * (cast(float, end) - begin)
    last = cast(torch.cuda.Event, end)
    last.synchronize()
    return begin.elapsed_time(last)
