"""Types of a file's fields, checked against the schema; what is wrong is noted and taken out.

With the wrong parts out, what the rest means together can still be checked, so that an author sees
all faults at once. Does not know where in a file a field stands.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from spinf_serve.packs.notes import Note, Notes, Path, closest, cut, listed
from spinf_serve.packs.schema import PackFields
from spinf_serve.packs.schema_types import FAULT, MEMBERS, NOT_TEXT, kind_of

# What stands in for a part that is wrong or missing, so that the rest can be looked at.
_STAND_INS: Mapping[Path, Any] = {
    ("pack",): "a/a",
    ("version",): "0",
    ("contexts",): {},
    ("scoring",): {"queries": []},
    ("scoring", "queries"): [],
    ("reads",): [],
    ("categories",): {},
    ("decision",): {"mode": "per_category"},
}
_ENTRIES: Mapping[Path, Any] = {("categories",): {}, ("parameters",): {}, ("contexts",): "{X}"}
"""What stands in for an entry, so that its name stays known."""

_SECTIONS: tuple[Path, ...] = (
    ("scoring", "queries"),
    ("scoring",),
    ("reads",),
    ("categories",),
    ("parameters",),
    ("contexts",),
    ("fitted",),
)
"""Parts whose entries are taken out one by one; a longer path before a shorter one."""

_FOR_PEOPLE = ("name", "description", "tags", "license")
"""Other writers of JSON packs may use these names in their own way."""

MAX_ERRORS = 20_000
"""Most fields with a wrong type that are looked at; each takes about a kilobyte."""

_ROUNDS = 4

_Pack = TypeVar("_Pack", bound=PackFields)


@dataclass(slots=True)
class Shaped(Generic[_Pack]):
    """What is left of a file.

    Attributes:
        pack: the fields, typed.
        file: the values they were made from, unknown ones included where they are tolerated.
        kept: path of a list -> the indexes in the file of the entries that are left.
    """

    pack: _Pack
    file: dict[str, Any]
    kept: dict[Path, list[int]] = field(default_factory=dict)

    def written(self, path: Path) -> Path:
        """The path in the file of a path in what is left."""
        for section, indexes in self.kept.items():
            size = len(section)
            if path[:size] == section and len(path) > size:
                return (*section, indexes[int(path[size])], *path[size + 1 :])
        return path


def shaped(
    model: type[_Pack],
    value: Any,
    notes: Notes,
    *,
    tolerant: bool,
    quoted: Callable[[Path], str | None],
) -> Shaped[_Pack] | None:
    """Check the types of a file's fields.

    Args:
        model: the form of the file.
        value: what stands in it; not changed.
        notes: takes the faults, and the sections where a part had to be left out.
        tolerant: whether unknown fields are no faults.
        quoted: the text at a path in double quotes, when the author may have meant a text there.

    Returns:
        What is left; None when nothing can be said about it.
    """
    if not isinstance(value, dict):
        notes((), f"the file is {kind_of(value)}; a pack is a mapping that begins with `pack`")
        return None
    file, typed = value, value
    kept: dict[Path, list[int]] = {}
    for _ in range(_ROUNDS):
        try:
            return Shaped(model.model_validate(typed), file, kept)
        except ValidationError as error:
            if error.error_count() > MAX_ERRORS:
                notes((), f"{error.error_count():,} fields are unknown, missing or of a wrong kind")
                return None
            errors = error.errors(include_url=False)
        if typed is value:
            file, typed = deepcopy(value), deepcopy(value)
        unknown = [_path(one) for one in errors if one["type"] == "extra_forbidden"]
        cuts: dict[Path, None] = {}
        for one in errors:
            path = _path(one)
            if path in unknown:
                _remove(typed, path)
                if not tolerant:
                    _remove(file, path)
                    # It may be what makes the question's reads.
                    notes.broken.update(["reads"] if path[:2] == ("scoring", "queries") else [])
                    notes.found.append(Note(path, _unknown(model, path), at_key=True))
                continue
            if not (tolerant and path[0] in _FOR_PEOPLE):
                if path[:1] not in _ENTRIES or len(path) == 1:
                    notes.broken.add(str(path[0]))
                elif path[0] == "categories":
                    # The name stays known, the numbers in it do not.
                    notes.broken.add("fitted")
                meant = _misspelt(path, unknown) if one["type"] == "missing" else None
                if meant is None:
                    notes(*_note(one, path, quoted))
                elif tolerant:
                    # In YAML the misspelt field is a fault itself, and one is enough.
                    notes(path[:-1], f"`{path[-1]}` is missing; `{cut(meant)}` is not a field")
            cuts[_cut(path)] = None
        for section in (("scoring", "queries"), ("reads",)):
            indexes = {int(gone[-1]) for gone in cuts if gone[:-1] == section}
            if indexes:
                left = [i for i in range(len(_at(typed, section))) if i not in indexes]
                kept[section] = [kept[section][i] if section in kept else i for i in left]
                for tree in (file, typed):
                    entries = _at(tree, section)
                    entries[:] = [entries[i] for i in left]
        for gone in cuts:
            if not isinstance(gone[-1], int):
                _replace(file, gone)
                _replace(typed, gone)
    return None


def _path(error: ErrorDetails) -> Path:
    return tuple(step for step in error["loc"] if step not in MEMBERS)


def _cut(path: Path) -> Path:
    """The part that goes when the field at `path` is wrong."""
    for section in _SECTIONS:
        if path[: len(section)] == section and len(path) > len(section):
            return path[: len(section) + 1]
    return path[:1]


def _at(tree: Any, path: Path) -> Any:
    for step in path:
        tree = tree[step]
    return tree


def _remove(tree: Any, path: Path) -> None:
    del _at(tree, path[:-1])[path[-1]]


def _replace(tree: Any, path: Path) -> None:
    parent = _at(tree, path[:-1])
    stand_in = _STAND_INS.get(path, _ENTRIES.get(path[:-1]))
    if stand_in is not None:
        parent[path[-1]] = deepcopy(stand_in)
    else:
        parent.pop(path[-1], None)


def _note(
    error: ErrorDetails, path: Path, quoted: Callable[[Path], str | None]
) -> tuple[Path, str]:
    kind, value = error["type"], error["input"]
    context = error.get("ctx", {})
    if kind == "missing":
        return path[:-1], f"`{path[-1]}` is missing"
    if kind == NOT_TEXT:
        text = quoted(path)
        remedy = f"; if a text is meant, put it in double quotes: {text}" if text else ""
        return path, f"{context['message']}{remedy}"
    if kind == FAULT:
        return path, context["message"]
    if kind == "literal_error":
        others = ", or a list" if MEMBERS.keys() & set(error["loc"]) else ""
        return path, f"is {kind_of(value)}; write {context['expected']}{others}"
    if kind == "union_tag_invalid":
        members = [MEMBERS[tag.strip("' ")] for tag in context["expected_tags"].split(",")]
        return path, f"is {kind_of(value)}; write {' or '.join(members)}"
    wanted = {
        "list_type": "a list",
        "dict_type": "a mapping of keys to values",
        "model_type": "a mapping of keys to values",
    }[kind]
    form = ", placeholder and values: `for: {F: [first, second]}`" if path[-1] == "for" else ""
    return path, f"is {kind_of(value)}; write {wanted}{form}"


def _misspelt(path: Path, unknown: list[Path]) -> str | None:
    """The field that nothing recognised and that was meant for the missing one."""
    beside = [str(one[-1]) for one in unknown if one[:-1] == path[:-1]]
    return closest(str(path[-1]), beside)


def _unknown(model: type[BaseModel], path: Path) -> str:
    names = list(_fields(model, path[:-1]))
    name = str(path[-1])
    close = closest(name, names, cutoff=0.7)
    remedy = f"did you mean `{close}`?" if close else f"there is {listed(names)}"
    place = None if close else _home(model, name)
    if place is not None:
        remedy = f"it belongs into `{place}`"
    return f"`{cut(name)}` is not a field here; {remedy}"


def _home(model: type[BaseModel], name: str) -> str | None:
    """The first mapping, from the top of the file, that has a field of a name."""
    waiting = [("", model)]
    for place, part in waiting:
        for field_name, info in part.model_fields.items():
            if (info.alias or field_name) == name:
                return place or None
            inner = [one for one in _parts(info.annotation) if _is_model(one)]
            waiting += [(f"{place}.{field_name}".lstrip("."), one) for one in inner]
    return None


def _fields(model: type[BaseModel], path: Path) -> Iterator[str]:
    """Names of the fields that the mapping at a path may have."""
    inside_container = False
    for step in path:
        if inside_container:
            inside_container = False
            continue
        annotation = next(
            info.annotation
            for name, info in model.model_fields.items()
            if (info.alias or name) == step
        )
        parts = list(_parts(annotation))
        inside_container = any(get_origin(part) in (list, dict) for part in parts)
        model = next(part for part in parts if _is_model(part))
    for name, info in model.model_fields.items():
        yield info.alias or name


def _parts(annotation: Any) -> Iterator[Any]:
    """An annotation and all that it is made of."""
    yield annotation
    for inner in get_args(annotation):
        yield from _parts(inner)


def _is_model(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, BaseModel)
