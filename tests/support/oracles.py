"""How exact a fast kernel must be, and the surroundings that must not move a bit of it."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def assert_no_worse(found: torch.Tensor, plain: torch.Tensor, exact: torch.Tensor) -> None:
    """The largest error of `found` is at most twice that of `plain`, the definition's own.

    `plain` is the definition run in the kernel's dtype, `exact` the same in float64. Half a unit in
    the last place of the largest value is granted besides: a definition can be exact by luck.
    """
    assert found.shape == exact.shape
    if not exact.numel():
        return
    step = torch.finfo(found.dtype).eps / 2 * float(exact.abs().amax())
    budget = 2 * _largest(plain, exact) + step
    error = _largest(found, exact)
    assert error <= budget, f"error {error:.2e} is over the budget {budget:.2e}"


def _largest(found: torch.Tensor, exact: torch.Tensor) -> float:
    return float((found.double() - exact).abs().amax())


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Runs with `count` intra-op threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def nan_memory() -> Iterator[None]:
    """Fresh tensors hold NaN, so that reading what was never written shows."""
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(3).isnan().all()
        yield
    finally:
        torch.use_deterministic_algorithms(False)
