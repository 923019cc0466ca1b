"""Safetensors folders: one file, or several with an index.

Reads the tables of contents; values are read later, through `FileCheckpoint`. Knows how published
checkpoints prefix the names of a text model, and which of their tensors it has no use for.
"""

import json
import re
import struct
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Final

from spinf_serve.engine.loading.checkpoint import FileCheckpoint, StoredTensor
from spinf_serve.engine.loading.gguf import TensorEntry, TensorType
from spinf_serve.engine.loading.json_files import read_json
from spinf_serve.engine.loading.quantized import FLOATS, QuantizedCheckpoint, quantized_checkpoint
from spinf_serve.engine.quantization.formats import StoredFormat
from spinf_serve.packs.errors import Unusable

SINGLE: Final = "model.safetensors"
INDEX: Final = "model.safetensors.index.json"

# Bytes of each type of the format; which are read depends on what a tensor is for.
_TYPES: Final = {
    name: TensorType(name, 1, size)
    for size, names in (
        (1, ("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0")),
        (2, ("U16", "I16", "F16", "BF16")),
        (4, ("U32", "I32", "F32")),
        (8, ("U64", "I64", "F64")),
    )
    for name in names
}
# A header is JSON; one longer than this is a broken file.
_LONGEST_HEADER: Final = 100_000_000

# A model that also reads images keeps its text model under one of these, longest first.
_TEXT_PREFIXES: Final = ("language_model.model.", "model.language_model.")
_TEXT_HEADS: Final = ("language_model.lm_head.",)
# Parts of such a checkpoint that a text model does not have.
_OTHER_PART: Final = re.compile(
    r"(?:model\.)?(?:vision_tower|audio_tower|multi_modal_projector|vision_embedder|embed_vision"
    r"|embed_audio)(?=\.)"
)


def weight_names(folder: Path) -> tuple[str, ...]:
    """Names of the files that should hold the weights, sorted; they need not be there.

    Raises `Unusable` for a broken index.
    """
    if (folder / INDEX).is_file():
        return tuple(sorted(set(_weight_map(folder).values())))
    return (SINGLE,)


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The files that hold the weights, sorted by name.

    Raises `Unusable` when there are none, or the index names one that is missing.
    """
    names = weight_names(folder)
    if not any((folder / name).is_file() for name in (INDEX, SINGLE)):
        raise Unusable(f"{folder}: no weights, neither {SINGLE} nor {INDEX}")
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise Unusable(f"{folder}: {INDEX} names {missing[0]}, which is missing; fetch it again")
    return tuple(folder / name for name in names)


def checkpoint_from_folder(
    folder: Path, *, tied: bool, say: Callable[[str], None] | None = None
) -> FileCheckpoint:
    """The weights in a folder of safetensors, in 16 or 32 bits.

    Args:
        folder: with `model.safetensors`, or an index and its files.
        tied: the head is the embedding table; a copy of it in the file is not offered.
        say: gets a line when the files hold parts that a text model does not have.

    Raises `Unusable` for files that are missing, broken, contradict the index, or hold types that
    are not supported.
    """
    tensors = _text_tensors(folder, tied, say)
    for stored in tensors.values():
        _check_float(stored)
    return FileCheckpoint(folder, tensors)


def quantized_from_folder(
    folder: Path,
    stored_as: StoredFormat,
    *,
    tied: bool,
    say: Callable[[str], None] | None = None,
) -> QuantizedCheckpoint:
    """The weights in a folder of safetensors whose linear layers are in 8 bits.

    Args:
        folder, tied, say: as for `checkpoint_from_folder`.
        stored_as: how the linear layers are stored.

    Raises `Unusable` as `checkpoint_from_folder`, and as `quantized_checkpoint`.
    """
    return quantized_checkpoint(folder, _text_tensors(folder, tied, say), stored_as)


def _text_tensors(
    folder: Path, tied: bool, say: Callable[[str], None] | None
) -> dict[str, StoredTensor]:
    """The tensors that a text model has a use for, by the names of a text-only checkpoint."""
    found: dict[str, StoredTensor] = {}
    for path in weight_files(folder):
        for entry in _entries(path):
            if entry.name in found:
                files = f"{found[entry.name].path.name} and {path.name}"
                raise Unusable(
                    f"{folder}: two files hold the tensor {entry.name}, {files}; fetch them again"
                )
            found[entry.name] = StoredTensor(path, entry)
    if (folder / INDEX).is_file():
        _compare(folder, found)
    tensors: dict[str, StoredTensor] = {}
    for name, stored in found.items():
        text_name = _text_name(name)
        if text_name is None or (tied and text_name == "lm_head.weight"):
            continue
        if text_name in tensors:
            raise Unusable(f"{folder}: two tensors both stand for {text_name}")
        tensors[text_name] = stored
    parts = [part[0] for part in map(_OTHER_PART.match, found) if part]
    if parts and say is not None:
        names = ", ".join(sorted(set(parts)))
        say(f"only text is read: left out {len(parts)} tensors ({names})")
    return tensors


def _check_float(stored: StoredTensor) -> None:
    kind = stored.entry.type.name
    if kind not in FLOATS:
        raise Unusable(
            f"{stored.path}: the tensor {stored.entry.name} has the type {kind}, and config.json has "
            f"no quantization_config that explains it (without one {', '.join(FLOATS)} are read)"
        )


def _text_name(name: str) -> str | None:
    """The name in a text-only checkpoint, or None for what a text model has no use for."""
    if _OTHER_PART.match(name) or name.endswith(".rotary_emb.inv_freq"):
        return None
    for prefix in _TEXT_PREFIXES:
        if name.startswith(prefix):
            return "model." + name.removeprefix(prefix)
    for prefix in _TEXT_HEADS:
        if name.startswith(prefix):
            return "lm_head." + name.removeprefix(prefix)
    return name


def _weight_map(folder: Path) -> Mapping[str, str]:
    index = read_json(folder / INDEX).get("weight_map")
    if not isinstance(index, dict) or not index:
        raise Unusable(f"{folder / INDEX}: weight_map is missing or empty")
    for tensor, name in index.items():
        # A name with a folder in it could point anywhere.
        if not isinstance(name, str) or Path(name).name != name:
            raise Unusable(
                f"{folder / INDEX}: {tensor} is said to lie in {name!r}, not a file name"
            )
    return index


def _compare(folder: Path, found: Mapping[str, StoredTensor]) -> None:
    index = _weight_map(folder)
    for tensor, name in index.items():
        if tensor not in found or found[tensor].path.name != name:
            raise Unusable(f"{folder}: {name} should hold the tensor {tensor} and does not")
    extra = sorted(found.keys() - index.keys())
    if extra:
        raise Unusable(
            f"{folder}: {INDEX} does not list {extra[0]} of {found[extra[0]].path.name} "
            f"({len(extra)} such tensors)"
        )


def _entries(path: Path) -> list[TensorEntry]:
    """The tensors of one file."""
    try:
        with open(path, "rb") as file:
            size = path.stat().st_size
            head = file.read(8)
            length = struct.unpack("<Q", head)[0] if len(head) == 8 else 0
            if not 0 < length <= min(size - 8, _LONGEST_HEADER):
                raise Unusable(f"{path}: not a safetensors file, or cut short; fetch it again")
            header = json.loads(file.read(length), object_pairs_hook=lambda x: _once(path, x))
    except OSError as error:
        raise Unusable(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise Unusable(f"{path}: not a safetensors file (its header is not JSON)") from error
    if not isinstance(header, dict):
        raise Unusable(f"{path}: not a safetensors file (its header is not an object)")
    header.pop("__metadata__", None)
    entries = [_entry(path, name, row, 8 + length, size) for name, row in header.items()]
    _check_gapless(path, entries, 8 + length, size)
    return entries


def _once(path: Path, pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object of a header; a name in it twice would hide a tensor."""
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise Unusable(f"{path}: its table lists {name} twice")
        found[name] = value
    return found


def _check_gapless(path: Path, entries: list[TensorEntry], base: int, file_size: int) -> None:
    """Tensors follow one another to the end of the file; else two share bytes, or bytes are lost."""
    at = base
    for entry in sorted(entries, key=lambda entry: (entry.start, entry.size)):
        if entry.start != at:
            what = "overlaps the one before it" if entry.start < at else "comes after a gap"
            raise Unusable(f"{path}: the tensor {entry.name} {what}; fetch the file again")
        at += entry.size
    if at != file_size:
        raise Unusable(
            f"{path}: {file_size - at} bytes behind its last tensor; fetch the file again"
        )


def _entry(path: Path, name: str, row: object, base: int, file_size: int) -> TensorEntry:
    match row:
        case {"dtype": str(dtype), "shape": [*dims], "data_offsets": [int(start), int(end)]} if all(
            isinstance(size, int) for size in dims
        ):
            shape = tuple(dims)
        case _:
            raise Unusable(f"{path}: the table's row of the tensor {name} is broken")
    kind = _TYPES.get(dtype)
    if kind is None:
        raise Unusable(
            f"{path}: the tensor {name} has the type {dtype}, which is not supported "
            f"(supported are {', '.join(FLOATS)})"
        )
    size = prod(shape) * kind.size
    if start < 0 or end - start != size:
        raise Unusable(f"{path}: the tensor {name} takes {end - start} bytes, expected {size}")
    if base + end > file_size:
        raise Unusable(f"{path}: cut short, the tensor {name} ends behind the file; fetch it again")
    return TensorEntry(name, kind, shape, base + start, size)
