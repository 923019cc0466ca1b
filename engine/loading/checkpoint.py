"""A checkpoint whose tensors lie in files: where each one lies, and how its values are read.

Does not know file formats; `gguf_checkpoint` and `weights` say where tensors lie.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Final

import torch

from spinf_serve.engine.loading.dequantize import PIECE, unpack
from spinf_serve.engine.loading.gguf import TensorEntry
from spinf_serve.packs.errors import Unusable

# Weights read from a file at a time.
_READ: Final = 32 * PIECE


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor in a file, and what must be undone to give it the Hugging Face convention.

    Attributes:
        path: the file.
        entry: where in it, how packed.
        heads: 0, or the number of heads whose rows are in the interleaved rotary order.
        shift: added to the values, in float32.
    """

    path: Path
    entry: TensorEntry
    heads: int = 0
    shift: float = 0.0


class FileCheckpoint:
    """Implements `spinf_serve.engine.models.spec.Checkpoint` over files.

    Reads with ordinary reads, not through a mapping, so that no page of a file counts as memory of
    the process. Holds nothing open between calls; calls may come from several threads.
    """

    def __init__(self, where: Path, tensors: Mapping[str, StoredTensor]) -> None:
        """Args:
        where: file or folder, for errors.
        tensors: by Hugging Face name.
        """
        self._where = where
        self._tensors = dict(tensors)

    def names(self) -> frozenset[str]:
        """Every tensor name in the checkpoint."""
        return frozenset(self._tensors)

    def order(self) -> tuple[str, ...]:
        """Every tensor name, file by file, in the order in which their bytes lie there."""
        return tuple(
            sorted(
                self._tensors,
                key=lambda name: (self._tensors[name].path, self._tensors[name].entry.start, name),
            )
        )

    def stored(self, name: str) -> StoredTensor:
        """Where a tensor lies. Raises `Unusable` when the checkpoint lacks it."""
        try:
            return self._tensors[name]
        except KeyError:
            raise Unusable(f"{self._where}: the tensor {name} is missing") from None

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor. Raises `Unusable` when the checkpoint lacks it."""
        return self.stored(name).entry.shape

    def read_into(self, name: str, out: torch.Tensor) -> None:
        """Fill `out` (any float dtype, the tensor's shape) with the tensor's values.

        Raises `Unusable` naming the tensor, what was found and what was expected.
        """
        stored = self.stored(name)
        check_shape(stored, name, out)
        plain = out.is_contiguous() and out.device.type == "cpu"
        target = out if plain else torch.empty(out.shape, dtype=out.dtype)
        with opened(stored.path) as file:
            _fill(stored, file, target)
        if not plain:
            out.copy_(target)


class CheckpointAround:
    """A checkpoint that gives another one's tensors in another form, under the same names."""

    def __init__(self, checkpoint: FileCheckpoint) -> None:
        self._checkpoint = checkpoint

    def names(self) -> frozenset[str]:
        """Every tensor name in the checkpoint."""
        return self._checkpoint.names()

    def order(self) -> tuple[str, ...]:
        """Every tensor name, file by file, in the order in which their bytes lie there."""
        return self._checkpoint.order()

    def stored(self, name: str) -> StoredTensor:
        """Where a tensor lies. Raises `Unusable` when the checkpoint lacks it."""
        return self._checkpoint.stored(name)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor. Raises `Unusable` when the checkpoint lacks it."""
        return self._checkpoint.shape(name)


def check_shape(stored: StoredTensor, name: str, out: torch.Tensor) -> None:
    """Raises `Unusable` unless `out` has the shape of the tensor that is to be read into it."""
    if tuple(out.shape) != stored.entry.shape:
        raise Unusable(
            f"{stored.path}: the tensor {name} has the shape {stored.entry.shape}, "
            f"expected {tuple(out.shape)}"
        )


def read_tensor(path: Path, entry: TensorEntry, out: torch.Tensor) -> None:
    """Fill the contiguous `out` with a tensor's values as they are stored.

    Raises `Unusable` when the file has become shorter than its table says, or when the tensor's
    type is not supported.
    """
    with opened(path) as file:
        read_values(file, entry, 0, out)


def opened(path: Path) -> io.FileIO:
    """A file to read weights from. Raises `Unusable` when it cannot be opened."""
    try:
        return open(path, "rb", buffering=0)
    except OSError as error:
        raise Unusable(f"{path}: cannot be read ({error.strerror})") from error


def _fill(stored: StoredTensor, file: io.FileIO, target: torch.Tensor) -> None:
    """Fill a contiguous tensor of the CPU."""
    if stored.heads:
        _fill_heads(stored, file, target)
    elif stored.shift:
        values = torch.empty(stored.entry.shape)
        read_values(file, stored.entry, 0, values)
        target.copy_(values.add_(stored.shift))
    else:
        read_values(file, stored.entry, 0, target)


def _fill_heads(stored: StoredTensor, file: io.FileIO, target: torch.Tensor) -> None:
    """Row 2i + j of a head in the file is row j d/2 + i in the Hugging Face order."""
    width = prod(stored.entry.shape[1:])
    heads = target.view(stored.heads, 2, -1, width)  # [H, 2, D / 2, C]
    rows = torch.empty(heads.shape[2], 2, width)
    for number, head in enumerate(heads):
        read_values(file, stored.entry, number * rows.numel(), rows)
        for half in (0, 1):
            head[half].copy_(rows[:, half])


def read_values(file: io.FileIO, entry: TensorEntry, first: int, out: torch.Tensor) -> None:
    """Fill the contiguous `out` (any float dtype) with a tensor's weights from weight `first` on.

    `first` is the start of a block of the tensor's type. Raises as `read_tensor`.
    """
    kind, flat = entry.type, out.view(-1)
    file.seek(entry.start + first // kind.block * kind.size)
    packed = torch.empty(min(_READ, len(flat)) // kind.block * kind.size, dtype=torch.uint8)
    for start in range(0, len(flat), _READ):
        piece = flat[start : start + _READ]
        size = len(piece) // kind.block * kind.size
        _read_bytes(file, entry, packed[:size])
        unpack(kind, entry.name, packed[:size], piece)


def read_bytes(file: io.FileIO, entry: TensorEntry, first: int, out: torch.Tensor) -> None:
    """Fill `out` [n] uint8 with the bytes of a tensor from byte `first` on. Raises `Unusable`."""
    file.seek(entry.start + first)
    for start in range(0, len(out), _READ):
        _read_bytes(file, entry, out[start : start + _READ])


def _read_bytes(file: io.FileIO, entry: TensorEntry, out: torch.Tensor) -> None:
    if file.readinto(out.numpy().data) != len(out):
        raise Unusable(f"{file.name!s}: the file was cut short while {entry.name} was read")
