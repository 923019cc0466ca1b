"""A pack's file, JSON or YAML, to a `Pack`: every fault of the file at once, each with its place.

The suffix decides: `.json` is the plain form, in which unknown fields are tolerated; `.yaml` and
`.yml` are the author's form, in which they are refused. Does not know folders and sources.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path as FilePath

from spinf_serve.packs.build import build
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.faults import InvalidPack, PackFault
from spinf_serve.packs.files import read_regular, shown
from spinf_serve.packs.manifest import SUFFIXES
from spinf_serve.packs.notes import MAX_FAULTS, Note, Notes, Path, cut
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.plain import split


def load_pack(path: FilePath) -> Pack:
    """The pack of a file, whose name ends in one of `SUFFIXES`.

    Raises:
        InvalidPack: with all faults of the file.
        Unusable: when the file cannot be opened.
    """
    try:
        data = read_regular(path)
    except OSError as error:
        raise Unusable(f"{shown(path)} cannot be read: {error.strerror}") from None
    return read_pack(data, str(path))


def read_pack(data: bytes, name: str, *, fitted: bool = True) -> Pack:
    """The pack of a file's bytes.

    Args:
        data: UTF-8, with or without a byte order mark.
        name: the file's name, for messages; its suffix decides the form.
        fitted: False leaves the fitted numbers out unchecked, for a pack that changed since they
            were fitted and is about to be fitted again.

    Raises:
        InvalidPack: with all faults of the file.
    """
    # Brings pydantic and ruamel.yaml, which whoever only names this function does without.
    from spinf_serve.packs.parse import read_json, read_yaml

    if not name.lower().endswith(SUFFIXES):
        raise InvalidPack(
            [PackFault(f"the name of a pack's file ends in {', '.join(SUFFIXES)}", name)]
        )
    parsed = (read_json if _is_json(name) else read_yaml)(data, name)
    notes = parsed.notes
    checked = Notes(set(notes.broken))
    pack = None
    if parsed.file is not None:
        file = parsed.file if fitted else split(parsed.file)[0]
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
        yield PackFault(message, name, *place(note), ".".join(cut(str(step)) for step in note.path))
    if len(once) > MAX_FAULTS:
        last = place(once[MAX_FAULTS])
        yield PackFault(f"and {len(once) - MAX_FAULTS} more faults", name, *last)
