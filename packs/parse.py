"""A file's bytes, JSON or YAML, to a pack's plain object and the places of its fields.

Brings pydantic and ruamel.yaml: imported where a file is parsed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spinf_serve.packs.author import expand
from spinf_serve.packs.json_text import parse_json, place_in
from spinf_serve.packs.notes import Note, Notes, Path
from spinf_serve.packs.schema import AuthorPack, PlainPack
from spinf_serve.packs.shape import shaped
from spinf_serve.packs.yaml_nodes import (
    Mapping,
    Node,
    Scalar,
    node_at,
    parse_yaml,
    source_text,
    values,
)

_QUOTED_CHARS = 80

Place = tuple[int, int]
"""Line and column, from 1."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A file read as far as its fields' types.

    Attributes:
        file: the plain object without what was wrong; None when nothing is left to check.
        notes: the faults so far, by path in the file.
        written: path in `file` -> path in the file.
        place: where a path of the file stands, or its key.
    """

    file: dict[str, Any] | None
    notes: Notes
    written: Callable[[Path], Path]
    place: Callable[[Note], Place]


def read_json(data: bytes, name: str) -> Parsed:
    """A file in the plain form.

    Raises:
        InvalidPack: when the text cannot be read.
    """
    text = source_text(data, name)
    value = parse_json(text, name)
    notes = Notes()
    left = shaped(PlainPack, value, notes, tolerant=True, quoted=lambda path: None)
    return Parsed(
        None if left is None else left.file,
        notes,
        (lambda path: path) if left is None else left.written,
        lambda note: place_in(text, note.path, at_key=note.at_key),
    )


def read_yaml(data: bytes, name: str) -> Parsed:
    """A file in the author's form, its short forms written out.

    Raises:
        InvalidPack: when the text cannot be read.
    """
    text = source_text(data, name)
    root = parse_yaml(text, name)
    notes = Notes()

    def place(note: Note) -> Place:
        return _place(root, note)

    left = shaped(
        AuthorPack,
        values(root),
        notes,
        tolerant=False,
        quoted=lambda path: _quoted(text, root, path),
    )
    if left is None:
        return Parsed(None, notes, lambda path: path, place)
    short = Notes(notes.broken)
    expanded = expand(left.pack.model_dump(exclude_unset=True, by_alias=True), short)
    for note in short.found:
        notes(left.written(note.path), note.message)
    return Parsed(expanded.file, notes, lambda path: left.written(expanded.written(path)), place)


def _place(root: Node, note: Note) -> Place:
    node = node_at(root, note.path[:-1] if note.at_key else note.path)
    if note.at_key and isinstance(node, Mapping):
        pair = node.pair(str(note.path[-1]))
        node = node if pair is None else pair[0]
    return node.start.line, node.start.column


def _quoted(text: str, root: Node, path: Path) -> str | None:
    """A value in brackets or braces as a text in double quotes, if it is short."""
    node = node_at(root, path)
    if isinstance(node, Scalar) or not node.flow:
        return None
    written = text[node.start.index : node.end.index]
    if "\n" in written or len(written) > _QUOTED_CHARS:
        return None
    escaped = written.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
