"""The weights of a GGUF file as a `Checkpoint`: Hugging Face names and conventions.

Undoes what the format changed: the architecture llama stores the rows of q and k in the
interleaved rotary order, gemma3 has the +1 of its norms folded in.
"""

import io
from dataclasses import dataclass
from math import prod
from typing import Final

import torch

from spinf_serve.engine.loading.dequantize import PIECE, unpack
from spinf_serve.engine.loading.gguf import GgufFile, TensorEntry
from spinf_serve.engine.loading.gguf_names import ROPE_FACTORS, hugging_face_name
from spinf_serve.packs.errors import Unusable

# Weights read from the file at a time.
_READ: Final = 32 * PIECE


@dataclass(frozen=True, slots=True)
class _Source:
    """A tensor of the file and what must be undone.

    `heads` is 0, or the number of heads whose rows are interleaved. `shift` is added to the values.
    """

    entry: TensorEntry
    heads: int
    shift: float


class GgufCheckpoint:
    """Implements `spinf_serve.engine.models.spec.Checkpoint` over a GGUF file.

    Reads with ordinary reads, not through a mapping, so that no page of the file counts as memory
    of the process. Holds nothing open between calls; calls may come from several threads.
    """

    def __init__(self, file: GgufFile) -> None:
        """Raises `Unusable` for a tensor that the architecture does not have."""
        architecture = file.text("general.architecture")
        self._path = file.path
        self._sources: dict[str, _Source] = {}
        for name, entry in file.tensors.items():
            if name == ROPE_FACTORS:
                continue
            found = hugging_face_name(architecture, name)
            if found is None:
                raise Unusable(
                    f"{file.path}: the tensor {name} is not part of the architecture {architecture}"
                )
            heads = _interleaved_heads(file, architecture, found)
            shift = -1.0 if architecture == "gemma3" and _is_norm(found) else 0.0
            self._sources[found] = _Source(entry, heads, shift)

    def names(self) -> frozenset[str]:
        """Every tensor name in the checkpoint."""
        return frozenset(self._sources)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor. Raises `Unusable` when the checkpoint lacks it."""
        return self._source(name).entry.shape

    def read_into(self, name: str, out: torch.Tensor) -> None:
        """Fill `out` (any float dtype, the tensor's shape) with the tensor's values.

        Raises `Unusable` naming the tensor, what was found and what was expected.
        """
        source = self._source(name)
        if tuple(out.shape) != source.entry.shape:
            raise Unusable(
                f"{self._path}: the tensor {name} has the shape {source.entry.shape}, "
                f"expected {tuple(out.shape)}"
            )
        plain = out.is_contiguous() and out.device.type == "cpu"
        target = out if plain else torch.empty(out.shape, dtype=out.dtype)
        with open(self._path, "rb", buffering=0) as file:
            self._fill(source, file, target)
        if not plain:
            out.copy_(target)

    def _source(self, name: str) -> _Source:
        try:
            return self._sources[name]
        except KeyError:
            raise Unusable(f"{self._path}: the tensor {name} is missing") from None

    def _fill(self, source: _Source, file: io.FileIO, target: torch.Tensor) -> None:
        """Fill a contiguous tensor of the CPU."""
        entry = source.entry
        if source.heads:
            self._fill_heads(source, file, target)
        elif source.shift:
            values = torch.empty(entry.shape)
            read_weights(file, entry, 0, values)
            target.copy_(values.add_(source.shift))
        else:
            read_weights(file, entry, 0, target)

    def _fill_heads(self, source: _Source, file: io.FileIO, target: torch.Tensor) -> None:
        """Row 2i + j of a head in the file is row j d/2 + i in the Hugging Face order."""
        width = prod(source.entry.shape[1:])
        heads = target.view(source.heads, 2, -1, width)  # [H, 2, D / 2, C]
        stored = torch.empty(heads.shape[2], 2, width)
        for number, head in enumerate(heads):
            read_weights(file, source.entry, number * stored.numel(), stored)
            for half in (0, 1):
                head[half].copy_(stored[:, half])


def read_weights(file: io.FileIO, entry: TensorEntry, first: int, out: torch.Tensor) -> None:
    """Fill the contiguous `out` with the weights of a tensor from weight `first` on.

    Raises `Unusable` when the file has become shorter than its table says, or when the tensor's
    type is not supported.
    """
    kind, flat = entry.type, out.view(-1)
    file.seek(entry.start + first // kind.block * kind.size)
    packed = torch.empty(min(_READ, len(flat)) // kind.block * kind.size, dtype=torch.uint8)
    for start in range(0, len(flat), _READ):
        piece = flat[start : start + _READ]
        size = len(piece) // kind.block * kind.size
        if file.readinto(packed.numpy().data[:size]) != size:
            raise Unusable(f"{file.name!s}: the file was cut short while {entry.name} was read")
        unpack(kind, entry.name, packed[:size], piece)


def _is_norm(name: str) -> bool:
    return name.endswith("norm.weight")


def _interleaved_heads(file: GgufFile, architecture: str, name: str) -> int:
    if architecture == "llama" and ".self_attn.q_proj." in name:
        return file.integer("llama.attention.head_count")
    if architecture == "llama" and ".self_attn.k_proj." in name:
        return file.integer(
            "llama.attention.head_count_kv", file.integer("llama.attention.head_count")
        )
    return 0
