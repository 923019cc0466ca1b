"""A pack's file as fields to fill in: each edit is a function from text to text.

An edit touches only the lines of what it changes, and names questions and categories rather than
places, so that it can be made on the newest text. Knows no screen; questions are in `form_questions`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.yaml_edit import set_value
from spinf_serve.packs.yaml_lists import change, insert, move, parsed, remove, set_texts
from spinf_serve.packs.yaml_nodes import node_at, values
from spinf_serve.packs.yaml_text import Block, is_null
from spinf_serve.workbench.actions import drafts
from spinf_serve.workbench.desk import Desk

Edit = Callable[[str], str]
"""From a file's text to the edited one. Raises `InvalidPack`, `Unusable`."""

NAME: Final = "pack.yaml"
TRIES: Final = 5

__all__ = ["NAME", "Block", "Edit", "insert", "move", "remove", "set_texts", "set_value"]


class Gone(Unusable):
    """What was to be edited is no longer there."""

    def __init__(self, what: str, name: str) -> None:
        super().__init__(f"the {what} {name!r} is not there any more; it was changed meanwhile")


@dataclass(frozen=True, slots=True)
class Form:
    """A text, as its fields.

    Attributes:
        file: the values: mappings, lists and texts; unquoted texts are `Plain`.
        text: what they were read from.
    """

    file: Mapping[str, Any]
    text: str

    @property
    def questions(self) -> list[Mapping[str, Any]]:
        """Those that are laid out as mappings."""
        return [one for one in _list(_map(self.file.get("scoring")).get("queries")) if _map(one)]

    @property
    def categories(self) -> dict[str, Mapping[str, Any]]:
        """By id, whether the file lists them or the questions name them."""
        listed = self.file.get("categories")
        if isinstance(listed, Mapping):
            return {name: _map(one) for name, one in listed.items()}
        return {name: {} for name in self.named}

    @property
    def named(self) -> list[str]:
        """Categories that questions and reads speak for, in order of first use."""
        found: list[str] = []
        for question in self.questions:
            for field in ("category", "categories"):
                spoken = question.get(field)
                found += (
                    [spoken]
                    if isinstance(spoken, str)
                    else [one for one in _map(spoken).values() if isinstance(one, str)]
                )
        found += [str(_map(one).get("category", "")) for one in _list(self.file.get("reads"))]
        return [str(name) for name in dict.fromkeys(found) if name]

    @property
    def lists_categories(self) -> bool:
        """Whether the file has `categories` of its own."""
        return isinstance(self.file.get("categories"), Mapping)

    def place(self, path: Sequence[str | int]) -> tuple[int, int]:
        """Line and column of a field, or of the nearest one above it that is there."""
        at = node_at(parsed(self.text, NAME), path).start
        return at.line, at.column

    def index(self, question: str) -> int:
        """Where a question stands in the list. Raises `Gone`."""
        queries = _list(_map(self.file.get("scoring")).get("queries"))
        for index, one in enumerate(queries):
            if _map(one).get("id") == question:
                return index
        raise Gone("question", question)


@lru_cache(maxsize=8)
def form_of(text: str) -> Form:
    """The fields of a text. Raises `InvalidPack` when it is no YAML that packs may have."""
    file = values(parsed(text, NAME))
    if not isinstance(file, dict):
        raise Unusable("the file is no mapping of fields; begin it with `pack: you/name`")
    return Form(file, text)


def apply(desk: Desk, user: str, file: Any, edit: Edit) -> drafts.Draft:
    """Make an edit on the newest text of a file's draft, whoever changed it last.

    Raises:
        InvalidPack, Unusable: the edit cannot be made; the draft stays as it was.
    """
    for _ in range(TRIES):
        draft = drafts.draft_of(desk, file)
        edited = edit(draft.text)
        try:
            return drafts.keep(desk, file, edited, draft.revision, user=user, what="form")
        except drafts.Moved:
            continue
    raise Unusable("others change this pack without a pause; try again in a moment")


def put(text: str, path: Sequence[str | int], value: Any) -> str:
    """The text with a value at a path; None and "" take the field out."""
    if value is None or value == "":
        return drop(text, path)
    if isinstance(value, (list, tuple)):
        return set_texts(text, NAME, path, list(value))
    return set_value(text, NAME, path, value)


def drop(text: str, path: Sequence[str | int]) -> str:
    """The text without a field, and without what held only that field, as far as it is optional."""
    if at(form_of(text).file, path, _MISSING) is _MISSING:
        return text
    while (
        len(path) > 1
        and path[0] in ("bands", "route")
        and len(at(form_of(text).file, path[:-1])) == 1
    ):
        path = path[:-1]
    return remove(text, NAME, path)


_MISSING: Final = object()


def at(value: Any, path: Sequence[str | int], default: Any = None) -> Any:
    """What stands at a path of read values."""
    for step in path:
        if isinstance(value, Mapping) and step in value:
            value = value[str(step)]
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return default
    return value


# Names of mappings: contexts, parameters, categories.


def add_key(text: str, section: str, name: str, value: Any) -> str:
    """The text with a further context, parameter or category. Raises `Unusable` for a name taken."""
    name = name.strip()
    if not name:
        raise Unusable("give it a name first")
    if name in _map(form_of(text).file.get(section)):
        raise Unusable(f"there is {name!r} already; take another name")
    if section == "categories":
        text = list_categories(text)
    return set_value(text, NAME, [section, name], value)


def rename_key(text: str, section: str, old: str, new: str) -> str:
    """The text with a context or parameter under another name."""
    held = _map(form_of(text).file.get(section))
    if old not in held:
        raise Gone(section.rstrip("s"), old)
    if new in held and new != old:
        raise Unusable(f"there is {new!r} already; take another name")
    if not new.strip():
        raise Unusable("it needs a name")
    text = change(text, NAME, rename={(section, old): new})
    if section == "parameters":
        texts = _map(form_of(text).file.get("contexts"))
        puts: dict[tuple[str | int, ...], str] = {
            ("contexts", name): str(one).replace(f"{{{old}}}", f"{{{new}}}")
            for name, one in texts.items()
        }
        text = change(text, NAME, put=puts)
    return text


def move_key(text: str, section: str, name: str, by: int) -> str:
    """The text with a context or category so many places further down, or up when negative."""
    names = list(_map(form_of(text).file.get(section)))
    if name not in names:
        raise Gone(section.rstrip("s"), name)
    return move(text, NAME, [section, name], max(0, names.index(name) + by))


def remove_key(text: str, section: str, name: str) -> str:
    """The text without a context or parameter; there is always one context."""
    held = _map(form_of(text).file.get(section))
    if name not in held:
        raise Gone(section.rstrip("s"), name)
    if len(held) == 1 and section == "parameters":
        return remove(text, NAME, [section])
    if len(held) == 1:
        raise Unusable("a pack has at least one; add another one first")
    return remove(text, NAME, [section, name])


# Categories


def list_categories(text: str) -> str:
    """The text with `categories` written out, where it leaves them to the questions."""
    form = form_of(text)
    if form.lists_categories:
        return text
    made = Block({name: {} for name in form.named})
    return set_value(text, NAME, ["categories"], made) if made else text


def set_category(text: str, name: str, field: str, value: Any) -> str:
    """The text with a category's label, requires or decides.

    Defaults are left out: None, an empty list, and `decides: true`.
    """
    text = list_categories(text)
    form = form_of(text)
    if name not in form.categories:
        raise Gone("category", name)
    path = ["categories", name, field]
    if value in (None, "", []) or (field == "decides" and value is True):
        if at(form.file, path) is None:
            return text
        if len(at(form.file, path[:2])) == 1:
            return set_value(text, NAME, path[:2], {})
        return remove(text, NAME, path)
    if at(form.file, path[:2]) is not None and not is_null(node_at(parsed(text, NAME), path[:2])):
        return put(text, path, value)
    return set_value(text, NAME, path[:2], {field: value})


def rename_category(text: str, old: str, new: str) -> str:
    """The text with a category under another name, everywhere."""
    new = new.strip()
    form = form_of(text)
    if old not in form.categories:
        raise Gone("category", old)
    if not new:
        raise Unusable("a category needs a name")
    if new in form.categories and new != old:
        raise Unusable(f"there is a category {new!r} already; take another name")
    puts = dict.fromkeys(_uses(form.file, old), new)
    keys = [
        ("categories",),
        ("bands", "categories"),
        *(
            ("fitted", model, part)
            for model in _map(form.file.get("fitted"))
            for part in ("categories",)
        ),
        *(("fitted", model, "bands", "categories") for model in _map(form.file.get("fitted"))),
    ]
    renames: dict[tuple[str | int, ...], str] = {
        (*path, old): new for path in keys if old in _map(at(form.file, path))
    }
    return change(text, NAME, put=puts, rename=renames)


def _uses(file: Mapping[str, Any], name: str) -> Iterator[tuple[str | int, ...]]:
    """Paths of texts that name a category."""
    for index, query in enumerate(_list(at(file, ["scoring", "queries"]))):
        for field in ("category", "categories"):
            spoken = _map(query).get(field)
            if spoken == name:
                yield ("scoring", "queries", index, field)
            for key, value in _map(spoken).items():
                if value == name:
                    yield ("scoring", "queries", index, field, key)
    for index, read in enumerate(_list(file.get("reads"))):
        if _map(read).get("category") == name:
            yield ("reads", index, "category")
    lists: list[tuple[str | int, ...]] = [("decision", "critical"), ("route", "categories")]
    lists += [("categories", one, "requires") for one in _map(file.get("categories"))]
    for path in lists:
        for index, value in enumerate(_list(at(file, path))):
            if value == name:
                yield (*path, index)


def speakers(form: Form, name: str) -> list[str]:
    """Questions that speak for a category."""
    return [
        str(one.get("id"))
        for one in form.questions
        if name in (one.get("category"), *_map(one.get("category")).values())
        or name in _map(one.get("categories")).values()
    ]


def remove_category(text: str, name: str) -> str:
    """The text without a category. Raises `Unusable` while anything speaks for it or names it."""
    form = form_of(text)
    if name not in form.categories:
        raise Gone("category", name)
    asked = speakers(form, name)
    if asked or any(path[0] == "reads" for path in _uses(form.file, name)):
        told = ", ".join(asked[:5]) or "reads"
        raise Unusable(
            f"{told} still speak for {name!r}; let them speak for another category first"
        )
    for path in reversed(list(_uses(form.file, name))):
        text = remove(text, NAME, path)
    text = drop(text, ["bands", "categories", name])
    return remove(text, NAME, ["categories", name])


# Decision, bands, route, long contents


def set_decision(text: str, field: str, value: Any) -> str:
    """The text with the decision's mode, fallback or critical categories."""
    if form_of(text).file.get("decision") is None:
        text = set_value(text, NAME, ["decision"], {"mode": "per_category"})
    if field == "fallback" and value == "per_category":
        value = None
    if field == "critical" and not value:
        value = None
    return put(text, ["decision", field], value)


def set_band(text: str, category: str | None, bounds: tuple[float, float] | None) -> str:
    """The text with bounds for `act` and `review`, of a category or (None) of the decision."""
    path = ["bands", "decision"] if category is None else ["bands", "categories", category]
    if bounds is None:
        return drop(text, path)
    act, review = bounds
    if at(form_of(text).file, path) is not None:
        return set_value(text, NAME, path, {"act": act, "review": review})
    return set_value(text, NAME, path, {"act": act, "review": review})


def set_route(text: str, field: str, value: Any) -> str:
    """The text with a field of the route; None for `categories` takes the route out."""
    if field == "categories" and not value:
        return drop(text, ["route"])
    if form_of(text).file.get("route") is None:
        return set_value(text, NAME, ["route"], Block(categories=list(value)))
    return put(text, ["route", field], value)


def set_on_long(text: str, value: str) -> str:
    """The text with what happens to long contents: `refuse`, `max` or `mean`."""
    if value == "refuse":
        return drop(text, ["on_long"])
    return set_value(text, NAME, ["on_long"], {"chunk": value})


def drop_fitted(text: str) -> str:
    """The text without numbers of an earlier wording: a draft again."""
    return drop(drop(text, ["fitted"]), ["proof"])


# Reads


def add_read(text: str) -> str:
    """The text with a further read, of the first question and category."""
    form = form_of(text)
    if not form.questions or not form.categories:
        raise Unusable("write a question and a category first")
    reads = _list(form.file.get("reads"))
    taken = {str(_map(one).get("id")) for one in reads}
    question = str(form.questions[0].get("id"))
    made = Block(
        id=free_name("read", taken),
        query=question,
        kind="pair",
        category=next(iter(form.categories)),
    )
    return insert(text, NAME, ["reads"], len(reads), [made])


def free_name(stem: str, taken: set[str] | Mapping[str, Any]) -> str:
    """A name that is not taken: `stem`, `stem_2` and so on."""
    number, name = 1, stem
    while name in taken:
        number += 1
        name = f"{stem}_{number}"
    return name


def set_read(text: str, read: str, field: str, value: Any) -> str:
    """The text with a field of a read."""
    return put(text, ["reads", _read_index(text, read), field], value)


def remove_read(text: str, read: str) -> str:
    """The text without a read."""
    if len(_list(form_of(text).file.get("reads"))) == 1:
        return remove(text, NAME, ["reads"])
    return remove(text, NAME, ["reads", _read_index(text, read)])


def move_read(text: str, read: str, by: int) -> str:
    """The text with a read further down, or up when `by` is negative."""
    index = _read_index(text, read)
    return move(text, NAME, ["reads", index], max(0, index + by))


def _read_index(text: str, read: str) -> int:
    for index, one in enumerate(_list(form_of(text).file.get("reads"))):
        if _map(one).get("id") == read:
            return index
    raise Gone("read", read)


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def set_numbers(text: str, read: str, options: Sequence[int]) -> str:
    """The text with the places of the options that speak in a read of the kind `set`."""
    path: list[str | int] = ["reads", _read_index(text, read), "unsafe"]
    return set_value(text, NAME, path, list(options)) if options else drop(text, path)
