"""From the largest magnitude of a weight to its scale and codes; the same for every 8-bit kind.

All arithmetic is float32: one division for the scale, one a weight, each rounded to nearest even.
Elements see only their own row, so that a matrix may be quantised in pieces of rows.
"""

from collections.abc import Callable
from typing import Final

import torch

from spinf_serve.engine.quantization.tensor import QuantizedTensor

# The smallest normal float32: cards may take subnormal numbers for zero, and division by zero would
# turn a row of zeros into NaN.
SMALLEST_SCALE: Final = 2.0**-126

Encode = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def largest_magnitude(weight: torch.Tensor, *, by_row: bool) -> torch.Tensor:
    """Of a weight [M, K] of any float dtype: [M, 1] or [] float32. NaN where there is one."""
    magnitudes = weight.float().abs()
    return magnitudes.amax(dim=1, keepdim=True) if by_row else magnitudes.amax()


def scale_of(magnitude: torch.Tensor, largest_code: float) -> torch.Tensor:
    """The scale that maps `magnitude` (float32, any shape) to the largest code; same shape.

    Raises ValueError when a magnitude is not finite.
    """
    if not bool(torch.isfinite(magnitude).all()):
        raise ValueError("holds values that are not finite")
    # By a tensor: a card divides by a plain number as it multiplies by its rounded inverse.
    return (magnitude / torch.full_like(magnitude, largest_code)).clamp_min_(SMALLEST_SCALE)


def quantize(
    weight: torch.Tensor, *, by_row: bool, largest_code: float, encode: Encode
) -> QuantizedTensor:
    """Codes and scales of a weight [M, K] of any float dtype. Raises as `scale_of`."""
    scale = scale_of(largest_magnitude(weight, by_row=by_row), largest_code)
    return QuantizedTensor(encode(weight, scale), scale)
