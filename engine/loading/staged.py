"""A checkpoint that is read straight onto a device, through two page-locked buffers.

While the device takes one buffer, the file fills the other. What is stored as plain floats goes over
as it is and is converted there, so the host neither converts nor holds a tensor. Knows no model.
"""

import io
from collections import deque
from collections.abc import Iterator
from typing import Final

import torch

from spinf_serve.engine.loading.checkpoint import (
    CheckpointAround,
    FileCheckpoint,
    StoredTensor,
    check_shape,
    opened,
    read_bytes,
    read_values,
)
from spinf_serve.engine.loading.quantized import QuantizedCheckpoint
from spinf_serve.engine.quantization.tensor import QuantizedTensor
from spinf_serve.packs.errors import Unusable

PIECE_BYTES: Final = 64 << 20
"""Most bytes of one buffer: so many that starting a copy costs nothing beside it."""

# No block of any type is longer.
_LEAST_BYTES: Final = 4096

_FLOATS: Final = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


class StagedCheckpoint(CheckpointAround):
    """Implements `engine.models.spec.Checkpoint` and `engine.quantization.tensor.QuantizedSource`.

    Not for several threads: its buffers are one pair. Copies are ordered on the current stream, so
    what is started there afterwards sees the values.
    """

    def __init__(
        self,
        checkpoint: FileCheckpoint | QuantizedCheckpoint,
        device: torch.device,
        *,
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        """Args:
        checkpoint: where the tensors lie.
        device: where `read_into` is given its room.
        piece_bytes: most of one of the two buffers, which are kept as long as this. Together they
            are no longer than the longest tensor.
        """
        super().__init__(checkpoint if isinstance(checkpoint, FileCheckpoint) else checkpoint.files)
        self._source = checkpoint
        self._coded = checkpoint if isinstance(checkpoint, QuantizedCheckpoint) else None
        self._device = device
        longest = max((self.stored(name).entry.size for name in self.names()), default=0)
        self._piece_bytes = max(min(piece_bytes, longest // 2), _LEAST_BYTES)
        self._slots: deque[_Slot] = deque()

    def read_into(self, name: str, out: torch.Tensor) -> None:
        """Fill `out` (any float dtype, the tensor's shape) with the tensor's values.

        Raises `Unusable` naming the tensor, what was found and what was expected.
        """
        stored = self.stored(name)
        check_shape(stored, name, out)
        if (self._coded and self._coded.is_coded(name)) or stored.heads or stored.shift:
            # Codes with scales, or rows that lie elsewhere in the file: whole, on the host.
            whole = torch.empty(out.shape, dtype=out.dtype)
            self._source.read_into(name, whole)
            out.copy_(whole)
            return
        target = (
            out
            if out.is_contiguous()
            else torch.empty_like(out, memory_format=torch.contiguous_format)
        )
        with opened(stored.path) as file:
            if stored.entry.type.name in _FLOATS:
                self._fill_raw(file, stored, target.view(-1))
            else:
                self._fill_unpacked(file, stored, target.view(-1))
        if target is not out:
            out.copy_(target)

    def read_quantized(self, name: str) -> QuantizedTensor | None:
        """A weight's codes and scales as the checkpoint stores them, on the device; else None.

        Raises `Unusable` naming file and tensor.
        """
        stored = self.stored(name)
        if self._coded is None or not self._coded.is_coded(name):
            return None
        codes = torch.empty(stored.entry.shape, dtype=torch.uint8, device=self._device)
        with opened(stored.path) as file:
            for slot, start, piece in self._pieces(codes.view(-1), 1, 1):
                raw = slot.host[: len(piece)]
                read_bytes(file, stored.entry, start, raw)
                slot.send(raw, piece)
        return self._coded.with_scales(name, codes)

    def _fill_raw(self, file: io.FileIO, stored: StoredTensor, out: torch.Tensor) -> None:
        """Fill the flat `out` from floats of any kind, which the device converts."""
        kind = _FLOATS[stored.entry.type.name]
        for slot, start, piece in self._pieces(out, stored.entry.type.size, 1):
            raw = slot.host[: len(piece) * kind.itemsize]
            read_bytes(file, stored.entry, start * kind.itemsize, raw)
            slot.send(raw.view(kind), piece)

    def _fill_unpacked(self, file: io.FileIO, stored: StoredTensor, out: torch.Tensor) -> None:
        """Fill the flat `out` from blocks that the host unpacks, rounded once to its dtype."""
        for slot, start, piece in self._pieces(out, out.itemsize, stored.entry.type.block):
            values = slot.host[: len(piece) * out.itemsize].view(out.dtype)
            read_values(file, stored.entry, start, values)
            slot.send(values, piece)

    def _pieces(
        self, out: torch.Tensor, size: int, block: int
    ) -> Iterator[tuple["_Slot", int, torch.Tensor]]:
        """Parts of the flat `out` with a free slot and the number of their first value each.

        `size` bytes a value go through a buffer; parts start at multiples of `block` values.
        """
        if not self._slots:
            self._slots.extend(_Slot(self._piece_bytes, self._device) for _ in range(2))
        step = self._piece_bytes // size // block * block
        for start in range(0, len(out), step):
            slot = self._slots[0]
            self._slots.rotate(1)
            slot.wait()
            yield slot, start, out[start : start + step]


class _Slot:
    """One buffer of the host, and whether the device has taken what lies in it."""

    def __init__(self, size: int, device: torch.device) -> None:
        self._taken = _event() if device.type == "cuda" else None
        try:
            self.host = torch.empty(size, dtype=torch.uint8, pin_memory=device.type == "cuda")
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            raise Unusable(
                f"no {size >> 20} MB of page-locked memory for loading ({reason}): raise the limit "
                "of locked memory (ulimit -l), or free memory of the host"
            ) from error

    def wait(self) -> None:
        """Returns when the buffer may be filled again."""
        if self._taken is not None:
            self._taken.synchronize()

    def send(self, values: torch.Tensor, piece: torch.Tensor) -> None:
        """Starts the copy of the buffer's values to `piece`, in whose dtype they arrive."""
        if self._taken is None:
            piece.copy_(values)
            return
        if values.dtype == piece.dtype:
            piece.copy_(values, non_blocking=True)
        else:
            # Converted on the device: `copy_` would convert on the host, and wait.
            piece.copy_(values.to(piece.device, non_blocking=True))
        self._taken.record()


def _event() -> torch.cuda.Event:
    made: torch.cuda.Event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    return made
