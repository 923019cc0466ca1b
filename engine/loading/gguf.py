"""Reads the GGUF container: header, key-values and the table of tensors.

Knows the layout of the file only; what the keys mean, which tensors a model needs and how packed
weights are unpacked lies elsewhere.
"""

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from spinf_serve.packs.errors import Unusable

Value: TypeAlias = "int | float | bool | str | list[Value] | npt.NDArray[np.generic]"

_MAGIC: Final = b"GGUF"
_DEFAULT_ALIGNMENT: Final = 32
_MAX_DIMENSIONS: Final = 4
# An array inside an array inside ... is legal; a file that nests deeper than this is broken.
_MAX_DEPTH: Final = 4

_STRING: Final = 8
_ARRAY: Final = 9
_BOOL: Final = 7
_NUMBERS: Final[dict[int, np.dtype[np.generic]]] = {
    0: np.dtype("<u1"),
    1: np.dtype("<i1"),
    2: np.dtype("<u2"),
    3: np.dtype("<i2"),
    4: np.dtype("<u4"),
    5: np.dtype("<i4"),
    6: np.dtype("<f4"),
    _BOOL: np.dtype("?"),
    10: np.dtype("<u8"),
    11: np.dtype("<i8"),
    12: np.dtype("<f8"),
}
_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class TensorType:
    """How a kind of tensor is stored: `block` weights in `size` bytes."""

    name: str
    block: int
    size: int


# Every type that the format has assigned a number to, so that a refusal can name it.
TENSOR_TYPES: Final = MappingProxyType(
    {
        0: TensorType("F32", 1, 4),
        1: TensorType("F16", 1, 2),
        2: TensorType("Q4_0", 32, 18),
        3: TensorType("Q4_1", 32, 20),
        6: TensorType("Q5_0", 32, 22),
        7: TensorType("Q5_1", 32, 24),
        8: TensorType("Q8_0", 32, 34),
        9: TensorType("Q8_1", 32, 40),
        10: TensorType("Q2_K", 256, 84),
        11: TensorType("Q3_K", 256, 110),
        12: TensorType("Q4_K", 256, 144),
        13: TensorType("Q5_K", 256, 176),
        14: TensorType("Q6_K", 256, 210),
        15: TensorType("Q8_K", 256, 292),
        16: TensorType("IQ2_XXS", 256, 66),
        17: TensorType("IQ2_XS", 256, 74),
        18: TensorType("IQ3_XXS", 256, 98),
        19: TensorType("IQ1_S", 256, 50),
        20: TensorType("IQ4_NL", 32, 18),
        21: TensorType("IQ3_S", 256, 110),
        22: TensorType("IQ2_S", 256, 82),
        23: TensorType("IQ4_XS", 256, 136),
        24: TensorType("I8", 1, 1),
        25: TensorType("I16", 1, 2),
        26: TensorType("I32", 1, 4),
        27: TensorType("I64", 1, 8),
        28: TensorType("F64", 1, 8),
        29: TensorType("IQ1_M", 256, 56),
        30: TensorType("BF16", 1, 2),
        34: TensorType("TQ1_0", 256, 54),
        35: TensorType("TQ2_0", 256, 66),
        39: TensorType("MXFP4", 32, 17),
    }
)


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One row of the tensor table.

    Attributes:
        name: as in the file.
        type: how the weights are packed.
        shape: in the order of PyTorch (the file stores it reversed).
        start: byte of the file where the tensor begins.
        size: bytes it takes.
    """

    name: str
    type: TensorType
    shape: tuple[int, ...]
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class GgufFile:
    """The table of contents of a GGUF file. The file itself is not held open.

    Attributes:
        path: where it lies.
        values: the key-values. Arrays of text are lists, arrays of numbers are numpy arrays.
        tensors: the tensor table by name.
    """

    path: Path
    values: MappingProxyType[str, Value]
    tensors: MappingProxyType[str, TensorEntry]

    def text(self, key: str) -> str:
        """A text value. Raises `Unusable` when the key is missing or holds something else."""
        value = self._required(key)
        if not isinstance(value, str):
            raise self._wrong(key, "a text")
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        """A whole number; `default` (when given) stands in for a missing key."""
        value = self.values.get(key) if default is not None else self._required(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(key, "a whole number")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A number; `default` (when given) stands in for a missing key."""
        value = self.values.get(key) if default is not None else self._required(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(key, "a number")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """A yes or no value; `default` stands in for a missing key."""
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def texts(self, key: str) -> list[str]:
        """An array of texts. Raises `Unusable` when the key is missing or holds something else."""
        value = self._required(key)
        if not isinstance(value, list):
            raise self._wrong(key, "an array of texts")
        texts = [item for item in value if isinstance(item, str)]
        if len(texts) != len(value):
            raise self._wrong(key, "an array of texts")
        return texts

    def numbers(self, key: str) -> npt.NDArray[np.generic]:
        """An array of numbers. Raises `Unusable` when the key is missing or holds something else."""
        value = self._required(key)
        if not isinstance(value, np.ndarray):
            raise self._wrong(key, "an array of numbers")
        return value

    def _required(self, key: str) -> Value:
        if key not in self.values:
            raise Unusable(f"{self.path}: the metadata key {key} is missing")
        return self.values[key]

    def _wrong(self, key: str, expected: str) -> Unusable:
        found = type(self.values[key]).__name__
        return Unusable(f"{self.path}: the metadata key {key} should be {expected}, found {found}")


def read_gguf(path: Path) -> GgufFile:
    """Read the table of contents of a GGUF file of version 2 or 3, little-endian.

    Raises `Unusable` for a file that is missing, no GGUF file, cut short, or holds a tensor whose
    type has no known size.
    """
    try:
        with (
            open(path, "rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            return _Parser(path, data).parse()
    except OSError as error:
        raise Unusable(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        # mmap refuses an empty file with a ValueError.
        raise Unusable(f"{path}: the file is empty") from error


class _Parser:
    """Walks once through the head of a file. `_at` is the next byte to read."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path = path
        self._data = data
        self._end = len(data)
        self._at = 0

    def parse(self) -> GgufFile:
        try:
            self._check_version()
            tensor_count, value_count = self._u64(), self._u64()
            values = dict(self._key_values(value_count))
            rows = list(self._tensor_rows(tensor_count))
        except (struct.error, OverflowError, _PastEnd) as error:
            raise Unusable(
                f"{self._path}: the file is cut short, its head ends after {self._end} bytes"
            ) from error
        except UnicodeDecodeError as error:
            raise Unusable(f"{self._path}: broken file, a name is not valid UTF-8") from error
        alignment = values.get("general.alignment", _DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 1:
            raise Unusable(f"{self._path}: general.alignment is {alignment}, not a byte count")
        base = -(-self._at // alignment) * alignment
        tensors = {row[0]: self._entry(*row, base=base) for row in rows}
        return GgufFile(self._path, MappingProxyType(values), MappingProxyType(tensors))

    def _check_version(self) -> None:
        magic = self._data[:4]
        if magic != _MAGIC:
            raise Unusable(f"{self._path}: not a GGUF file (it starts with {magic!r})")
        self._at = 4
        version = self._u32()
        if version not in (2, 3):
            raise Unusable(
                f"{self._path}: GGUF version {version} is not supported (2 and 3 are, little-endian)"
            )

    def _key_values(self, count: int) -> Iterator[tuple[str, Value]]:
        for _ in range(count):
            key = self._string()
            yield key, self._value(key, self._u32(), 0)

    def _tensor_rows(self, count: int) -> Iterator[tuple[str, tuple[int, ...], int, int]]:
        for _ in range(count):
            name = self._string()
            dimensions = self._u32()
            if dimensions > _MAX_DIMENSIONS:
                raise Unusable(
                    f"{self._path}: tensor {name} has {dimensions} dimensions, at most 4"
                )
            reversed_shape = [self._u64() for _ in range(dimensions)]
            yield name, tuple(reversed(reversed_shape)), self._u32(), self._u64()

    def _entry(
        self, name: str, shape: tuple[int, ...], type_number: int, offset: int, *, base: int
    ) -> TensorEntry:
        kind = TENSOR_TYPES.get(type_number)
        if kind is None:
            raise Unusable(f"{self._path}: tensor {name} has the unknown type {type_number}")
        row = shape[-1] if shape else 1
        if row % kind.block:
            raise Unusable(
                f"{self._path}: tensor {name} has rows of {row} weights, "
                f"which {kind.name} cannot store (blocks of {kind.block})"
            )
        size = prod(shape) // kind.block * kind.size
        start = base + offset
        if start + size > self._end:
            raise Unusable(
                f"{self._path}: the file is cut short, tensor {name} ends at byte {start + size} "
                f"of {self._end}; fetch it again"
            )
        return TensorEntry(name, kind, shape, start, size)

    def _value(self, key: str, kind: int, depth: int) -> Value:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            return self._array(key, depth)
        scalar: int | float | bool = self._numbers(key, kind, 1).item()
        return scalar

    def _array(self, key: str, depth: int) -> Value:
        if depth == _MAX_DEPTH:
            raise Unusable(f"{self._path}: the metadata key {key} nests arrays too deeply")
        kind, count = self._u32(), self._u64()
        if kind == _STRING:
            return self._strings(count)
        if kind == _ARRAY:
            return [self._array(key, depth + 1) for _ in range(count)]
        return self._numbers(key, kind, count)

    def _numbers(self, key: str, kind: int, count: int) -> npt.NDArray[np.generic]:
        dtype = _NUMBERS.get(kind)
        if dtype is None:
            raise Unusable(f"{self._path}: the metadata key {key} has the unknown type {kind}")
        return np.frombuffer(self._bytes(count * dtype.itemsize), dtype)

    def _strings(self, count: int) -> list[Value]:
        # A vocabulary has hundreds of thousands of entries: the loop keeps to local names.
        data, at, length_at = self._data, self._at, _U64.unpack_from
        found: list[Value] = []
        append = found.append
        for _ in range(count):
            start = at + 8
            at = start + length_at(data, at)[0]
            append(data[start:at].decode())
        # A text that runs past the end is cut by the slice above, which shows here.
        if at > self._end:
            raise _PastEnd
        self._at = at
        return found

    def _string(self) -> str:
        return str(self._bytes(self._u64()), "utf-8")

    def _bytes(self, size: int) -> bytes:
        start, self._at = self._at, self._at + size
        if self._at > self._end:
            raise _PastEnd
        return self._data[start : self._at]

    def _u32(self) -> int:
        number: int = _U32.unpack_from(self._data, self._at)[0]
        self._at += 4
        return number

    def _u64(self) -> int:
        number: int = _U64.unpack_from(self._data, self._at)[0]
        self._at += 8
        return number


class _PastEnd(Exception):
    """The head of the file goes on behind its last byte."""
