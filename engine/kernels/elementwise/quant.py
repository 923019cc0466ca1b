"""How a row is rounded to eight bits on its way into a product."""

from dataclasses import dataclass

import torch

LIMITS: dict[torch.dtype, float] = {torch.float8_e4m3fn: 448.0, torch.int8: 127.0}
"""The largest magnitude of each dtype that rows are rounded to."""

SMALLEST_AMAX = 1e-30
"""Rows whose largest magnitude is below this are scaled as if it were this: zeros stay zeros."""


@dataclass(frozen=True, slots=True, eq=False)
class Quant:
    """Rounding to `dtype` after division by a scale.

    Attributes:
        dtype: float8_e4m3fn or int8.
        scale: one float32 for every row, and what is larger is clamped; or None for a scale per
            row, its largest magnitude over the dtype's. int8 has none but the latter: a NaN would
            become a number, and only a row's scale can carry it.
    """

    dtype: torch.dtype
    scale: torch.Tensor | None

    def __post_init__(self) -> None:
        if self.dtype not in LIMITS:
            raise AssertionError(f"rows are rounded to float8_e4m3fn or int8, not {self.dtype}")
        scale = self.scale
        if scale is not None and (scale.numel() != 1 or scale.dtype != torch.float32):
            raise AssertionError(f"a static scale is one float32, not {list(scale.shape)}")
        if scale is not None and self.dtype == torch.int8:
            raise AssertionError(
                "rows are rounded to int8 with a scale per row, not with one scale"
            )
