"""8-bit whole numbers from -127 to 127; -128 is never written, so that the range is symmetric.

With s the scale, the value of a code is within `s / 2` of the weight; the float32 arithmetic adds a
few 2^-24 of its magnitude.
"""

from typing import Final

import torch

from spinf_serve.engine.quantization import symmetric
from spinf_serve.engine.quantization.tensor import QuantizedTensor

DTYPE: Final = torch.int8
LARGEST: Final = 127.0


def quantize(weight: torch.Tensor, *, by_row: bool) -> QuantizedTensor:
    """A weight [M, K] of any float dtype, with amax / 127 as scale.

    Args:
        by_row: one scale a row, not one for all.

    Raises ValueError when the weight holds NaN or infinities.
    """
    return symmetric.quantize(weight, by_row=by_row, largest_code=LARGEST, encode=encode)


def encode(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """`x / scale` rounded to nearest even; what is out of range becomes +-127.

    Whole numbers have no NaN: one in x becomes an arbitrary code. With a scale made from x itself
    the scale is NaN as well; with a static scale, look for NaN before.

    Args:
        x: any float dtype and shape.
        scale: float32, broadcast against x.
    """
    return (x.float() / scale).round_().clamp_(-LARGEST, LARGEST).to(DTYPE)
