"""Edits of a pack's questions in its text: wording, options, values, and what they speak for.

Options and values that are renamed keep what they speak for. Knows no screen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, Final

from spinf_serve.packs.errors import Refused, Unusable
from spinf_serve.packs.template import parse
from spinf_serve.packs.yaml_edit import set_value
from spinf_serve.packs.yaml_lists import change, insert, move, remove, set_texts
from spinf_serve.packs.yaml_nodes import Plain
from spinf_serve.packs.yaml_text import Block
from spinf_serve.workbench.actions.forms import NAME, Form, at, form_of, free_name, put

SHORT: Final = ("true/false", "yes/no")
"""Short forms of two options."""

_QUERIES: Final = ("scoring", "queries")


@dataclass(frozen=True, slots=True)
class Speaks:
    """Which categories a question speaks for.

    Attributes:
        category: one for the whole question; "" for none.
        second: whether the second of two options speaks for it, in place of the first.
        listed: of three or more options those that speak for `category`.
        by_option: option -> category; each option speaks for its own.
        by_value: value of `F` -> category; each value speaks for its own.
    """

    category: str = ""
    second: bool = False
    listed: tuple[str, ...] = ()
    by_option: Mapping[str, str] = field(default_factory=dict)
    by_value: Mapping[str, str] = field(default_factory=dict)


def options_of(question: Mapping[str, Any]) -> list[str]:
    """The options as written, short forms written out, without outer spaces."""
    given = question.get("options")
    if isinstance(given, str):
        return given.split("/")
    return [str(one).strip() for one in given] if isinstance(given, list) else []


def names_of(template: str) -> list[str]:
    """Placeholders of a wording; none of one that cannot be read."""
    try:
        return list(parse(template.rstrip("\r\n")).names)
    except Refused:
        return []


def grid_field(question: Mapping[str, Any]) -> str | None:
    """Under which field the values of placeholders stand; None when they are laid out one by one."""
    if isinstance(question.get("combinations"), list):
        return None
    return "values" if question.get("values") is not None else "for"


def values_of(question: Mapping[str, Any]) -> dict[str, list[str]]:
    """Placeholder -> its values."""
    grid = question.get(grid_field(question) or "")
    if not isinstance(grid, Mapping):
        return {}
    return {
        name: [str(one) for one in listed] if isinstance(listed, list) else []
        for name, listed in grid.items()
    }


def speaks_of(question: Mapping[str, Any]) -> Speaks:
    """What a question speaks for, as the file says."""
    category, by_option = question.get("category"), question.get("categories")
    return Speaks(
        str(category) if isinstance(category, str) else "",
        str(question.get("sign", "")) == "-1",
        tuple(str(one).strip() for one in question.get("unsafe") or ()),
        {str(key).strip(): str(value) for key, value in (by_option or {}).items()}
        if isinstance(by_option, Mapping)
        else {},
        {str(key): str(value) for key, value in category.items()}
        if isinstance(category, Mapping)
        else {},
    )


def add_question(
    text: str, name: str = "question", behind: str | None = None, **fields: Any
) -> str:
    """The text with a further question, behind another one or at the end.

    Args:
        fields: of the question; without any, those of one to begin with.
    """
    form = form_of(text)
    made = {
        "template": "\nThe writer is{?}",
        "options": ["angry", "calm"],
        "category": next(iter(form.categories), "angry"),
    }
    made = fields or made
    index = len(_queries(form)) if behind is None else form.index(behind) + 1
    question = Block(id=free_id(form, name), **made)
    return insert(text, NAME, _QUERIES, index, [question])


def free_id(form: Form, name: str) -> str:
    """An id for a further question."""
    return free_name(name, {str(one.get("id")) for one in form.questions})


def copy_question(text: str, question: str) -> tuple[str, str]:
    """The text with a copy of a question behind it, and the copy's id."""
    form = form_of(text)
    held = _queries(form)[form.index(question)]
    name = free_id(form, f"{question}_copy")
    fields = {key: value for key, value in held.items() if key != "id"}
    made = Block(id=name, **{key: _written(value) for key, value in fields.items()})
    return insert(text, NAME, _QUERIES, form.index(question) + 1, [made]), name


def _written(value: Any) -> Any:
    """Read values as they are to be written: numbers and words stay unquoted."""
    if isinstance(value, Mapping):
        return {key: _written(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_written(one) for one in value]
    if isinstance(value, Plain):
        if value in ("true", "false"):
            return value == "true"
        if value.lstrip("+-").isdecimal() and str(int(value)) == value:
            return int(value)
    return str(value)


def remove_question(text: str, question: str) -> str:
    """The text without a question. Raises `Unusable` for the last one, and one that reads name."""
    form = form_of(text)
    index = form.index(question)
    if len(_queries(form)) == 1:
        raise Unusable("a pack asks at least one question; add another one first")
    used = [
        str(one.get("id")) for one in form.file.get("reads") or () if one.get("query") == question
    ]
    if used:
        raise Unusable(f"the read {used[0]!r} is made of it; remove that one first, in Reads")
    return remove(text, NAME, [*_QUERIES, index])


def move_question(text: str, question: str, by: int) -> str:
    """The text with a question so many places further down, or up when negative."""
    index = form_of(text).index(question)
    return move(text, NAME, [*_QUERIES, index], max(0, index + by))


def rename_question(text: str, old: str, new: str) -> str:
    """The text with a question under another name, also where reads, denials and waivers name it."""
    new = new.strip()
    form = form_of(text)
    index = form.index(old)
    if not new:
        raise Unusable("a question needs a name")
    if new != old and any(one.get("id") == new for one in form.questions):
        raise Unusable(f"there is a question {new!r} already; take another name")
    puts: dict[tuple[str | int, ...], str] = {(*_QUERIES, index, "id"): new}
    for place, one in enumerate(_queries(form)):
        if isinstance(one, Mapping) and one.get("negates") == old:
            puts[*_QUERIES, place, "negates"] = new
    for place, read in enumerate(form.file.get("reads") or ()):
        if isinstance(read, Mapping) and read.get("query") == old:
            puts["reads", place, "query"] = new
    for place, waiver in enumerate(at(form.file, ["lint", "waive"]) or ()):
        if isinstance(waiver, Mapping) and waiver.get("on") == old:
            puts["lint", "waive", place, "on"] = new
    return change(text, NAME, put=puts)


def set_field(text: str, question: str, name: str, value: Any) -> str:
    """The text with a field of a question; None and "" take it out."""
    return put(text, [*_QUERIES, form_of(text).index(question), name], value)


def set_options(text: str, question: str, options: Sequence[str] | str) -> str:
    """The text with other options; those that were reworded keep what they speak for.

    Args:
        options: a list, or one of `SHORT`.
    """
    form = form_of(text)
    index = form.index(question)
    path: list[str | int] = [*_QUERIES, index, "options"]
    held = _queries(form)[index]
    old = options_of(held)
    if isinstance(options, str):
        new = options.split("/")
        text = set_value(text, NAME, path, options)
    else:
        new = [one.strip() for one in options]
        exact = str(held.get("exact_options", "")) == "true"
        if isinstance(held.get("options"), list):
            written = [one if exact else one.strip() for one in options]
            kept = {str(one).strip(): str(one) for one in held["options"]}
            text = set_texts(text, NAME, path, [kept.get(one.strip(), one) for one in written])
        else:
            text = set_value(text, NAME, path, list(new))
    renamed, gone = reworded(old, new)
    for name in ("categories", "unsafe"):
        text = _follow(text, [*_QUERIES, index, name], renamed, gone)
    return text


def set_values(text: str, question: str, name: str, values: Sequence[str]) -> str:
    """The text with other values of a placeholder; none takes the placeholder out.

    Raises `Unusable` where combinations are laid out one by one.
    """
    form = form_of(text)
    index = form.index(question)
    held = _queries(form)[index]
    where = grid_field(held)
    if where is None:
        line, _ = form.place([*_QUERIES, index, "combinations"])
        raise Unusable(
            f"the combinations of {question!r} are laid out one by one; edit them in the text,"
            f" line {line}"
        )
    old = values_of(held).get(name, [])
    path: list[str | int] = [*_QUERIES, index, where, name]
    if values:
        if name in values_of(held):
            text = set_texts(text, NAME, path, list(values))
        elif where in held:
            text = set_value(text, NAME, path, list(values))
        else:
            text = set_value(text, NAME, path[:-1], {name: list(values)})
    elif name in values_of(held):
        whole = len(values_of(held)) == 1
        text = remove(text, NAME, path[:-1] if whole else path)
    if name == "F":
        renamed, gone = reworded(old, list(values))
        if isinstance(held.get("category"), Mapping):
            text = _follow(text, [*_QUERIES, index, "category"], renamed, gone)
    return text


def set_speaks(text: str, question: str, speaks: Speaks) -> str:
    """The text with what a question speaks for."""
    form = form_of(text)
    index = form.index(question)
    home: list[str | int] = [*_QUERIES, index]
    wanted: dict[str, Any] = {
        "category": dict(speaks.by_value) or speaks.category or None,
        "categories": dict(speaks.by_option) or None,
        "sign": -1 if speaks.second and (speaks.category or speaks.by_value) else None,
        "unsafe": list(speaks.listed) if speaks.category and speaks.listed else None,
    }
    for name, value in wanted.items():
        held = at(form_of(text).file, [*home, name])
        if isinstance(value, dict) and isinstance(held, Mapping):
            text = _set_mapping(text, [*home, name], held, value)
        elif name == "sign" and str(held) == "1" and value is None:
            continue
        elif name == "unsafe" and isinstance(held, list) and value is not None:
            if {str(one).strip() for one in held} != set(value):
                kept = {str(one).strip(): str(one) for one in held}
                text = put(text, [*home, name], [kept.get(one, one) for one in value])
        elif value is None and held is not None:
            text = remove(text, NAME, [*home, name])
        elif value is not None:
            text = set_value(text, NAME, [*home, name], value)
    return text


def _set_mapping(
    text: str, path: list[str | int], held: Mapping[str, Any], value: Mapping[str, str]
) -> str:
    """A mapping brought to a value; keys are the same when outer spaces are all that differs."""
    written = {str(key).strip(): key for key in held}
    for key in held:
        if str(key).strip() not in value:
            text = remove(text, NAME, [*path, key])
    for key, one in value.items():
        if key not in written:
            text = set_value(text, NAME, [*path, key], one)
        elif held[written[key]] != one:
            text = change(text, NAME, put={(*path, written[key]): one})
    return text


def _queries(form: Form) -> list[Any]:
    found = at(form.file, _QUERIES)
    return found if isinstance(found, list) else []


def reworded(old: Sequence[str], new: Sequence[str]) -> tuple[dict[str, str], set[str]]:
    """Which texts became which others, and which are gone: one that only moved is neither."""
    renamed: dict[str, str] = {}
    steps = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for step, start, end, begin, until in steps:
        if step == "replace" and end - start == until - begin:
            renamed |= dict(zip(old[start:end], new[begin:until], strict=True))
    # One that only moved is no other one.
    renamed = {one: other for one, other in renamed.items() if one not in new and other not in old}
    return renamed, {one for one in old if one not in new and one not in renamed}


def _follow(text: str, path: list[str | int], renamed: Mapping[str, str], gone: set[str]) -> str:
    """The text with options or values of a mapping or list under their new names."""
    held = at(form_of(text).file, path)
    if isinstance(held, Mapping):
        keys = {str(key).strip(): key for key in held}
        renames = {(*path, keys[one]): other for one, other in renamed.items() if one in keys}
        text = change(text, NAME, rename=renames)
        lost = [keys[one] for one in gone if one in keys]
        if lost and len(lost) == len(held):
            return remove(text, NAME, path)
        for key in lost:
            text = remove(text, NAME, [*path, key])
    elif isinstance(held, list):
        new = [renamed.get(str(one).strip(), str(one)) for one in held]
        new = [one for one in new if one.strip() not in gone]
        text = set_texts(text, NAME, path, new) if new else remove(text, NAME, path)
    return text
