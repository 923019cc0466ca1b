"""8-bit floats, e4m3 without infinities: 4 bits of exponent, 3 of mantissa, largest value 448.

With s the scale, the value of a code is within `max(|w| / 16, s / 1024)` of the weight w: half a
step of the mantissa, or of the subnormal codes below s / 64; the float32 arithmetic adds a few
2^-24 of |w|.
"""

from typing import Final

import torch

from spinf_serve.engine.quantization import symmetric
from spinf_serve.engine.quantization.tensor import QuantizedTensor

DTYPE: Final = torch.float8_e4m3fn
LARGEST: Final = 448.0


def quantize(weight: torch.Tensor, *, by_row: bool) -> QuantizedTensor:
    """A weight [M, K] of any float dtype, with amax / 448 as scale.

    Args:
        by_row: one scale a row, not one for all.

    Raises ValueError when the weight holds NaN or infinities.
    """
    return symmetric.quantize(weight, by_row=by_row, largest_code=LARGEST, encode=encode)


def encode(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """`x / scale` rounded to nearest even; what is out of range becomes +-448. NaN stays NaN.

    Args:
        x: any float dtype and shape.
        scale: float32, broadcast against x.
    """
    # What the cast alone makes of what is out of range, this or NaN, differs by version and device.
    return (x.float() / scale).clamp_(-LARGEST, LARGEST).to(DTYPE)


def holds_nan(codes: torch.Tensor) -> bool:
    """Whether one of the codes (contiguous) stands for NaN."""
    # A maximum of bytes is many times as fast as comparing each.
    return codes.numel() > 0 and int((codes.view(torch.uint8) & 0x7F).max()) == 0x7F
