"""A checkpoint whose linear layers are stored in 8 bits: dequantised for the CPU, raw for a device.

The name of a weight is the one it has in a checkpoint in 16 bits; its scales have no names of their
own here. Scales are read and checked when the checkpoint is opened, codes when they are asked for.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import torch

from spinf_serve.engine.loading.checkpoint import (
    CheckpointAround,
    FileCheckpoint,
    StoredTensor,
    check_shape,
    opened,
    read_bytes,
    read_tensor,
)
from spinf_serve.engine.loading.dequantize import PIECE
from spinf_serve.engine.quantization import fp8, int8
from spinf_serve.engine.quantization.formats import StoredFormat
from spinf_serve.engine.quantization.tensor import Kind, QuantizedTensor
from spinf_serve.packs.errors import Unusable

FLOATS: Final = ("F32", "F16", "BF16")
"""Types of the safetensors format that are read as they are."""

_CODES: Final[Mapping[Kind, tuple[str, torch.dtype]]] = MappingProxyType(
    {"fp8": ("F8_E4M3", fp8.DTYPE), "int8": ("I8", int8.DTYPE)}
)
_WEIGHT: Final = ".weight"
# What compressed-tensors puts beside a weight.
_SCALE: Final = ".weight_scale"
_INPUT_SCALE: Final = ".input_scale"
_ZERO_POINTS: Final = (".weight_zero_point", ".input_zero_point")
_BESIDE: Final = (_SCALE, _INPUT_SCALE, *_ZERO_POINTS)
# Codes read and checked at a time.
_CHECKED: Final = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class _Scales:
    """Of one weight: [] or [M, 1] float32, and [] float32 of its input where it is static."""

    weight: torch.Tensor
    input: torch.Tensor | None


class QuantizedCheckpoint(CheckpointAround):
    """Implements `engine.models.spec.Checkpoint` and `engine.quantization.tensor.QuantizedSource`.

    Made by `quantized_checkpoint`; scales are not among its names. Holds nothing open; calls may come from several threads.
    """

    def __init__(
        self, checkpoint: FileCheckpoint, stored_as: StoredFormat, scales: Mapping[str, _Scales]
    ) -> None:
        super().__init__(checkpoint)
        self._stored_as = stored_as
        self._scales = scales

    @property
    def stored_as(self) -> StoredFormat:
        """How the linear layers are stored."""
        return self._stored_as

    @property
    def files(self) -> FileCheckpoint:
        """Where the tensors lie; of a weight in 8 bits, its codes."""
        return self._checkpoint

    def is_coded(self, name: str) -> bool:
        """Whether a tensor is a weight in 8 bits."""
        return name in self._scales

    def with_scales(self, name: str, codes: torch.Tensor) -> QuantizedTensor:
        """The weight of which somebody else has read the codes, on their device.

        Args:
            name: of a weight in 8 bits.
            codes: [M, K] uint8, the bytes of the file.

        Raises `Unusable` naming file and tensor for NaN among the codes.
        """
        scales = self._scales[name]
        values = codes.view(_CODES[self._stored_as.kind][1])
        self._refuse_nan(self.stored(name), values)
        inputs = None if scales.input is None else scales.input.to(codes.device)
        return QuantizedTensor(values, scales.weight.to(codes.device), inputs)

    def read_into(self, name: str, out: torch.Tensor) -> None:
        """Fill `out` (any float dtype, the tensor's shape) with the tensor's values.

        A weight in 8 bits is `code * scale`, a float32 product, rounded to `out`'s dtype.

        Raises `Unusable` naming file and tensor, what was found and what was expected.
        """
        scales = self._scales.get(name)
        if scales is None:
            self._checkpoint.read_into(name, out)
            return
        stored = self.stored(name)
        check_shape(stored, name, out)
        rows, columns = stored.entry.shape
        step = max(1, PIECE // columns)
        codes = torch.empty((min(step, rows), columns), dtype=_CODES[self._stored_as.kind][1])
        row_scales = scales.weight.expand(rows, 1)
        with opened(stored.path) as file:
            for start in range(0, rows, step):
                piece = codes[: min(step, rows - start)]
                self._read_codes(file, stored, start * columns, piece)
                end = start + len(piece)
                out[start:end].copy_(piece.float().mul_(row_scales[start:end]))

    def read_quantized(self, name: str) -> QuantizedTensor | None:
        """A weight's codes and scales as they are stored; None for a tensor in 16 or 32 bits.

        Raises `Unusable` naming file and tensor.
        """
        scales = self._scales.get(name)
        if scales is None:
            # Also refuses a name that the checkpoint lacks.
            self.stored(name)
            return None
        stored = self.stored(name)
        codes = torch.empty(stored.entry.shape, dtype=_CODES[self._stored_as.kind][1])
        flat = codes.view(-1)
        with opened(stored.path) as file:
            for start in range(0, len(flat), _CHECKED):
                self._read_codes(file, stored, start, flat[start : start + _CHECKED])
        return QuantizedTensor(codes, scales.weight, scales.input)

    def _read_codes(
        self, file: io.FileIO, stored: StoredTensor, first: int, out: torch.Tensor
    ) -> None:
        """Fill the contiguous `out` with codes from code `first` on; NaN among them is refused."""
        read_bytes(file, stored.entry, first, out.view(torch.uint8).view(-1))
        self._refuse_nan(stored, out)

    def _refuse_nan(self, stored: StoredTensor, codes: torch.Tensor) -> None:
        if self._stored_as.kind == "fp8" and fp8.holds_nan(codes):
            raise Unusable(f"{stored.path}: the tensor {stored.entry.name} holds NaN")


def quantized_checkpoint(
    where: Path, tensors: Mapping[str, StoredTensor], stored_as: StoredFormat
) -> QuantizedCheckpoint:
    """The weights of a checkpoint in 8 bits, with their scales read and checked.

    Args:
        where: the folder, for errors.
        tensors: by Hugging Face name, scales among them.
        stored_as: what config.json says.

    Raises `Unusable` naming file and tensor where they contradict config.json or each other: a
    weight in another type, a scale that is missing, extra, of another shape, NaN, or not above zero.
    """
    left = dict(tensors)
    scales: dict[str, _Scales] = {}
    weights: dict[str, StoredTensor] = {}
    for name, stored in tensors.items():
        if name.endswith(_BESIDE):
            continue
        weights[name] = left.pop(name)
        kind = stored.entry.type.name
        expected = _CODES[stored_as.kind][0]
        if _is_covered(name, stored, stored_as):
            if kind != expected:
                raise _wrong(
                    stored,
                    f"has the type {kind}, but config.json says {stored_as.kind}: {expected}",
                )
            scales[name] = _read_scales(name, stored, left, stored_as)
        elif kind == expected and stored.entry.shape[1:]:
            raise _wrong(
                stored, f"has the type {kind}, but config.json leaves it out of quantisation"
            )
        elif kind not in FLOATS:
            raise _wrong(stored, f"has the type {kind}, expected one of {', '.join(FLOATS)}")
    if left:
        first = min(left)
        raise _wrong(left[first], f"belongs to no weight in {stored_as.kind} ({stored_as})")
    return QuantizedCheckpoint(FileCheckpoint(where, weights), stored_as, MappingProxyType(scales))


def _is_covered(name: str, stored: StoredTensor, stored_as: StoredFormat) -> bool:
    """Whether config.json says that a tensor is quantised: the weight of a linear layer."""
    module = name.removesuffix(_WEIGHT)
    if module == name or len(stored.entry.shape) != 2 or ".embed" in f".{module}":
        return False
    return stored_as.covers(stored.entry.name.removesuffix(_WEIGHT), module)


def _read_scales(
    name: str, stored: StoredTensor, left: dict[str, StoredTensor], stored_as: StoredFormat
) -> _Scales:
    """The scales of one weight, taken out of `left`."""
    module = name.removesuffix(_WEIGHT)
    rows = stored.entry.shape[0]
    shapes = ((rows, 1),) if stored_as.by_row else ((), (1,))
    weight = _scale(left.pop(module + _SCALE, None), stored, _SCALE, shapes)
    if not stored_as.by_row:
        weight = weight.view(())
    for ending in _ZERO_POINTS:
        _check_no_zero_point(left.pop(module + ending, None))
    if stored_as.activations != "static":
        return _Scales(weight, None)
    inputs = _scale(left.pop(module + _INPUT_SCALE, None), stored, _INPUT_SCALE, ((), (1,)))
    return _Scales(weight, inputs.view(()))


def _scale(
    found: StoredTensor | None,
    weight: StoredTensor,
    ending: str,
    shapes: tuple[tuple[int, ...], ...],
) -> torch.Tensor:
    if found is None:
        raise Unusable(
            f"{weight.path}: the tensor {weight.entry.name} is in 8 bits and its "
            f"{ending.removeprefix('.')} is missing"
        )
    kind, shape = found.entry.type.name, found.entry.shape
    if kind not in FLOATS:
        raise _wrong(found, f"has the type {kind}, expected one of {', '.join(FLOATS)}")
    if shape not in shapes:
        raise _wrong(found, f"has the shape {shape}, expected {' or '.join(map(str, shapes))}")
    scale = torch.empty(shape)
    read_tensor(found.path, found.entry, scale)
    bad = ~(torch.isfinite(scale) & (scale > 0))
    if bool(bad.any()):
        count = int(bad.sum())
        value = float(scale[bad][0])
        raise _wrong(found, f"holds {count} scales that are no number above zero, such as {value}")
    return scale


def _check_no_zero_point(found: StoredTensor | None) -> None:
    """Zero points of symmetric weights, where a file has them at all, are zero."""
    if found is None:
        return
    entry = found.entry
    raw = torch.empty(entry.size, dtype=torch.uint8)
    with opened(found.path) as file:
        read_bytes(file, entry, 0, raw)
    if bool(raw.any()):
        raise _wrong(found, "is not zero, but config.json says that the weights are symmetric")


def _wrong(stored: StoredTensor, what: str) -> Unusable:
    return Unusable(f"{stored.path}: the tensor {stored.entry.name} {what}")
