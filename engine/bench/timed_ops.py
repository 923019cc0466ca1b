"""A backend that notes how long each of its operations takes, by class."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from spinf_serve.engine.bench.marks import Mark, mark, seconds_between
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


class TimedOps:
    """Stands for an `Ops` and hands everything on to it, between two marks on its device.

    Attributes:
        inner: the backend.
    """

    def __init__(self, inner: Ops) -> None:
        self.inner = inner
        self._marks: list[tuple[str, Mark, Mark]] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        title = _CLASS_OF.get(name)
        return found if title is None else self._timed(title, found)

    def milliseconds(self) -> dict[str, float]:
        """By class, once the device has done everything."""
        total: dict[str, float] = {}
        for title, begin, end in self._marks:
            total[title] = total.get(title, 0.0) + 1000 * seconds_between(begin, end)
        return total

    def _timed(self, title: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(operation)
        def run(*given: Any, **named: Any) -> Any:
            begin = mark(self.inner.device)
            out = operation(*given, **named)
            self._marks.append((title, begin, mark(self.inner.device)))
            return out

        return run
