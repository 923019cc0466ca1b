"""A weight matrix in 8 bits with its scales, and how several of them lie in one.

Symmetric throughout: a value is `code * scale`, there are no zero points. Knows no file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import torch

Kind = Literal["fp8", "int8"]


@dataclass(frozen=True, slots=True, eq=False)
class QuantizedTensor:
    """A weight [M, K] of a linear layer: row m is `values[m] * scale[m]`.

    Attributes:
        values: [M, K] float8_e4m3fn or int8, contiguous.
        scale: float32; [] for one scale of the whole matrix, [M, 1] for one a row. Positive.
        input_scale: [] float32, the static scale of the layer's input, if the checkpoint has one.
    """

    values: torch.Tensor
    scale: torch.Tensor
    input_scale: torch.Tensor | None = None

    def row_scales(self) -> torch.Tensor:
        """The scale of each row, [M, 1] float32."""
        return self.scale.expand(len(self.values), 1)


@runtime_checkable
class QuantizedSource(Protocol):
    """What a checkpoint offers besides plain reading to a device that computes in 8 bits."""

    def read_quantized(self, name: str) -> QuantizedTensor | None:
        """A weight in 8 bits, on the host, or None for a tensor that is not quantised.

        Raises `Unusable` naming file and tensor.
        """
        ...


def stack(parts: Sequence[QuantizedTensor]) -> QuantizedTensor:
    """Several weights of equal columns under one another, as a fused projection keeps them.

    q, k and v (or gate and up) of a checkpoint have a scale each. Their stack carries one a row,
    [M, 1]: each row keeps the scale of its part, so that no code and no value changes. One scale for
    the whole stack would mean to round all codes anew. All parts read one input, which is rounded
    once: the stack has the largest of their static input scales, with which nothing that fitted
    into any of them saturates.

    Raises ValueError for no parts, for codes of two types, and when only some have an input scale.
    """
    if not parts:
        raise ValueError("a stack needs at least one part")
    if len({part.values.dtype for part in parts}) > 1:
        raise ValueError("a stack of float8 and int8 has no type")
    inputs = [part.input_scale for part in parts if part.input_scale is not None]
    if inputs and len(inputs) < len(parts):
        raise ValueError("some parts of a stack have a static input scale and others have none")
    if len(parts) == 1:
        return parts[0]
    return QuantizedTensor(
        values=torch.cat([part.values for part in parts]),
        scale=torch.cat([part.row_scales() for part in parts]),
        input_scale=torch.stack(inputs).amax() if inputs else None,
    )


def dequantize(weight: QuantizedTensor, dtype: torch.dtype) -> torch.Tensor:
    """The values, [M, K]: `code * scale` as a float32 product, then rounded to `dtype`."""
    return (weight.values.float() * weight.scale).to(dtype)
