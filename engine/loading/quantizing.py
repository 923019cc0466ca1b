"""A checkpoint in 16 or 32 bits whose linear layers are put into 8 bits while they are read.

Rows are read, rounded and forgotten in pieces, so that a weight is never held in 16 bits.
"""

from collections.abc import Callable
from typing import Final

import torch

from spinf_serve.engine.loading.checkpoint import (
    CheckpointAround,
    FileCheckpoint,
    opened,
    read_values,
)
from spinf_serve.engine.quantization import fp8, int8
from spinf_serve.engine.quantization.symmetric import largest_magnitude, scale_of
from spinf_serve.engine.quantization.tensor import Kind, QuantizedTensor
from spinf_serve.packs.errors import Unusable

_KINDS: Final = {"fp8": fp8, "int8": int8}
# Weights rounded at a time, 2 MB of float32: fewer, and starting operations takes longer than they do.
_PIECE: Final = 1 << 19
_Use = Callable[[int, torch.Tensor], None]


def is_linear(name: str, shape: tuple[int, ...]) -> bool:
    """Whether a tensor is the weight of a linear layer inside the decoder: not embedding or head."""
    return ".layers." in name and name.endswith("_proj.weight") and len(shape) == 2


class QuantizingCheckpoint(CheckpointAround):
    """Implements `engine.models.spec.Checkpoint` and `engine.quantization.tensor.QuantizedSource`.

    `read_into` gives the values as they are stored; `read_quantized` rounds the weights of the
    linear layers inside the decoder, with the largest magnitude of a row, or of the tensor, as the
    largest code.
    """

    def __init__(self, checkpoint: FileCheckpoint, kind: Kind, *, by_row: bool) -> None:
        """Args:
        checkpoint: in 16 or 32 bits.
        kind: what the weights of linear layers become.
        by_row: one scale a row, not one a tensor. A tensor's needs two readings of the file.
        """
        super().__init__(checkpoint)
        self._kind = kind
        self._by_row = by_row

    def read_into(self, name: str, out: torch.Tensor) -> None:
        """Fill `out` as the checkpoint in 16 or 32 bits does, unrounded."""
        self._checkpoint.read_into(name, out)

    def read_quantized(self, name: str) -> QuantizedTensor | None:
        """A weight of a linear layer in 8 bits, or None for another tensor.

        Raises `Unusable` naming file and tensor, also for a weight that is not finite.
        """
        shape = self.shape(name)
        if not is_linear(name, shape):
            return None
        coder = _KINDS[self._kind]
        rows = shape[0]
        values = torch.empty(shape, dtype=coder.DTYPE)
        scale = torch.empty((rows, 1) if self._by_row else ())

        def encode(start: int, piece: torch.Tensor) -> None:
            end = start + len(piece)
            if self._by_row:
                largest = largest_magnitude(piece, by_row=True)
                scale[start:end] = scale_of(largest, coder.LARGEST)
            values[start:end] = coder.encode(piece, scale[start:end] if self._by_row else scale)

        try:
            if not self._by_row:
                largest = torch.zeros(())

                def look(start: int, piece: torch.Tensor) -> None:
                    # Unlike Python's max, this one keeps NaN.
                    torch.maximum(largest, largest_magnitude(piece, by_row=False), out=largest)

                self._pieces(name, look)
                scale.copy_(scale_of(largest, coder.LARGEST))
            self._pieces(name, encode)
        except ValueError as error:
            raise Unusable(f"{self.stored(name).path}: the tensor {name} {error}") from None
        return QuantizedTensor(values, scale)

    def _pieces(self, name: str, use: _Use) -> None:
        """Hand out a weight [M, K] in pieces of rows, float32, each with the number of its first."""
        stored = self.stored(name)
        rows, columns = stored.entry.shape
        if stored.heads or stored.shift:
            # Rows that lie elsewhere in the file: small models only.
            whole = torch.empty(stored.entry.shape)
            self._checkpoint.read_into(name, whole)
            use(0, whole)
            return
        step = max(1, _PIECE // columns)
        buffer = torch.empty((min(step, rows), columns))
        with opened(stored.path) as file:
            for start in range(0, rows, step):
                piece = buffer[: min(step, rows - start)]
                read_values(file, stored.entry, start * columns, piece)
                use(start, piece)
