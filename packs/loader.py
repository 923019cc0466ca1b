"""A pack's file, JSON or YAML, to a `Pack`: every fault of the file at once, each with its place.

The suffix decides: `.json` is the plain form, in which unknown fields are tolerated; `.yaml` and
`.yml` are the author's form, in which they are refused. Does not know folders and sources.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path as FilePath
from typing import Any, Protocol

from spinf_serve.packs.build import build
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.faults import InvalidPack, PackFault
from spinf_serve.packs.notes import Note, Notes, Path
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.plain import whole

SUFFIXES = (".json", ".yaml", ".yml")
"""How the names of packs' files end."""

MAX_FAULTS = 100
"""Most faults told of one file."""


class Cache(Protocol):
    """Keeps plain objects by digest of the file they were read from."""

    def get(self, key: str) -> Mapping[str, Any] | None:
        """The object stored under a key; None when there is none that can be read."""
        ...

    def put(self, key: str, file: Mapping[str, Any]) -> None:
        """Store an object; it is not changed afterwards."""
        ...


def load_pack(path: FilePath, *, cache: Cache | None = None) -> Pack:
    """The pack of a file.

    Args:
        path: ends in one of `SUFFIXES`.
        cache: spares parsing a file that was read before.

    Raises:
        InvalidPack: with all faults of the file.
        Unusable: when the file cannot be opened.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Unusable(f"{path} cannot be read: {error.strerror}") from None
    if cache is None:
        return read_pack(data, str(path))
    digest = sha256(data).hexdigest()
    # One text means different things in the two forms.
    key = f"{digest}-{'json' if _is_json(str(path)) else 'yaml'}"
    stored = cache.get(key)
    if stored is not None:
        pack = build(stored, digest, Notes())
        if pack is not None:
            return pack
    pack = read_pack(data, str(path))
    cache.put(key, whole(pack))
    return pack


def read_pack(data: bytes, name: str, *, fitted: bool = True) -> Pack:
    """The pack of a file's bytes.

    Args:
        data: UTF-8, with or without a byte order mark.
        name: the file's name, for messages; its suffix decides the form.
        fitted: False leaves the constants under `fitted` out unchecked, for a pack that changed
            since and is about to be fitted again.

    Raises:
        InvalidPack: with all faults of the file.
    """
    # Brings heavy packages, which a pack from a cache does without.
    from spinf_serve.packs.parse import read_json, read_yaml

    if not name.lower().endswith(SUFFIXES):
        raise InvalidPack(
            [PackFault(f"the name of a pack's file ends in {', '.join(SUFFIXES)}", name)]
        )
    parsed = (read_json if _is_json(name) else read_yaml)(data, name)
    notes = parsed.notes
    checked = Notes(notes.partial)
    pack = None
    if parsed.file is not None:
        file = parsed.file if fitted else {**parsed.file, "fitted": {}}
        pack = build(file, sha256(data).hexdigest(), checked)
    found = [*notes.found, *(_written(note, parsed.written) for note in checked.found)]
    if pack is None or found:
        raise InvalidPack(_faults(found, name, parsed.place))
    return pack


def _is_json(name: str) -> bool:
    return name.lower().endswith(".json")


def _written(note: Note, written: Callable[[Path], Path]) -> Note:
    first = None if note.first is None else written(note.first)
    return replace(note, path=written(note.path), first=first)


def _faults(
    found: Sequence[Note], name: str, place: Callable[[Note], tuple[int, int]]
) -> Iterator[PackFault]:
    """Each fault once, a long list cut short with its length."""
    once = list(dict.fromkeys(found))
    for note in once[:MAX_FAULTS]:
        message = note.message
        if note.first is not None:
            message += f" (the first stands in line {place(Note(note.first, ''))[0]})"
        yield PackFault(message, name, *place(note), ".".join(map(str, note.path)))
    if len(once) > MAX_FAULTS:
        last = place(once[MAX_FAULTS])
        yield PackFault(f"and {len(once) - MAX_FAULTS} more faults", name, *last)
