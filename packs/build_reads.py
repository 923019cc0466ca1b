"""A file's reads: which answers each takes, checked against questions and categories."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from spinf_serve.packs.notes import Notes, Path, cut, quoted
from spinf_serve.packs.pack import Category, Read
from spinf_serve.packs.question import Question

_SOME = 10


def read_reads(
    given: Sequence[Mapping[str, Any]],
    questions: Mapping[str, Question],
    categories: Mapping[str, Category],
    notes: Notes,
) -> tuple[Read, ...]:
    """The reads of `given`, without those that have faults."""
    if not given:
        notes.missing(
            ("reads",),
            "there is none; every category needs at least one: write `category: <its name>` in a "
            "question (in JSON, add a read)",
            "scoring",
            "reads",
        )
        notes.broken.add("reads")
    values = {name: _values_of_f(question) for name, question in questions.items()}
    found: list[Read] = []
    first: dict[str, int] = {}
    for index, read in enumerate(given):
        path: Path = ("reads", index)
        before = len(notes.found)
        if first.setdefault(read["id"], index) != index:
            notes(
                (*path, "id"),
                f"two reads have the id {quoted(read['id'])}; give one another id",
                ("reads", first[read["id"]], "id"),
            )
        if read["category"] not in categories:
            notes.missing(
                (*path, "category"),
                f"there is no category {quoted(read['category'])}{notes.near(read['category'], categories)}",
                "categories",
            )
        question = questions.get(read["query"])
        if question is None:
            notes.missing(
                (*path, "query"),
                f"there is no question {quoted(read['query'])}{notes.near(read['query'], questions)}",
                "scoring",
            )
            notes.broken.add("reads")
            continue
        _check_value(read, question, values[question.id], path, notes)
        _check_kind(read, len(question.options), path, notes)
        if len(notes.found) == before:
            found.append(_read(read))
        else:
            notes.broken.add("reads")
    _check_categories(given, categories, notes)
    return tuple(found)


def _read(read: Mapping[str, Any]) -> Read:
    kind = read["kind"]
    sign = read.get("sign")
    return Read(
        id=read["id"],
        query=read["query"],
        value=read.get("F"),
        kind=kind,
        category=read["category"],
        sign=sign if kind == "pair" and sign is not None else 1,
        option=read.get("option") if kind == "option" else None,
        unsafe=tuple(read["unsafe"]) if kind == "set" else (),
        view=read.get("view"),
    )


def _values_of_f(question: Question) -> Counter[str | None]:
    """How many filled templates have each value of `F`; None counts those without values."""
    return Counter(
        prompt.values.get("F") if "F" in prompt.values else None for prompt in question.prompts
    )


def _check_value(
    read: Mapping[str, Any],
    question: Question,
    values: Counter[str | None],
    path: Path,
    notes: Notes,
) -> None:
    value = read.get("F")
    if not question.prompts[0].values:
        if value is not None:
            notes((*path, "F"), f"the question {quoted(question.id)} has no combinations; remove F")
        return
    known = [name for name in values if name is not None]
    if not known:
        notes(
            (*path, "query"),
            f"the question {quoted(question.id)} has combinations but no placeholder `F`; a read is "
            "addressed by the value of `F`: rename the placeholder",
        )
    elif value is None:
        shown = ", ".join(quoted(name) for name in known[:_SOME])
        notes(path, f"`F` is missing: the question {quoted(question.id)} has the values {shown}")
    elif value not in known:
        notes(
            (*path, "F"),
            f"the question {quoted(question.id)} has no value {quoted(value)}{notes.near(value, known)}",
        )
    elif values[value] > 1:
        notes(
            (*path, "F"),
            f"{values[value]} filled templates of {quoted(question.id)} have this value and a read is "
            "addressed by `F` alone; make `F` the only placeholder, or split the question",
        )


def _check_kind(read: Mapping[str, Any], options: int, path: Path, notes: Notes) -> None:
    kind = read["kind"]
    if kind == "pair":
        if options != 2:
            notes(
                (*path, "kind"),
                f"`pair` compares two options and the question has {options}; take `set`",
            )
        if read.get("sign") not in (None, 1, -1):
            notes((*path, "sign"), f"is {read['sign']}; write 1 or -1")
    elif kind == "option":
        option = read.get("option")
        if option is None:
            notes(path, "`option` is missing: the index from 0 of the option that is read")
        elif not 0 <= option < options:
            notes((*path, "option"), f"is {option}; the question has options 0 to {options - 1}")
    elif kind == "set":
        unsafe = read.get("unsafe")
        if unsafe is None:
            notes(path, "`unsafe` is missing: the indexes from 0 of the options that speak for it")
        elif not unsafe or len(set(unsafe)) >= options:
            notes(
                (*path, "unsafe"),
                f"lists {len(unsafe)} of {options} options; name at least one and not all",
            )
        elif len(set(unsafe)) < len(unsafe):
            notes((*path, "unsafe"), f"{unsafe} names an option twice; name it once")
        elif not all(0 <= index < options for index in unsafe):
            notes((*path, "unsafe"), f"is {unsafe}; the question has options 0 to {options - 1}")


def _check_categories(
    given: Sequence[Mapping[str, Any]], categories: Mapping[str, Category], notes: Notes
) -> None:
    read = Counter(one["category"] for one in given)
    viewed = Counter(one["category"] for one in given if one.get("view") is not None)
    for name, category in categories.items():
        path: Path = ("categories", name)
        if not read[name]:
            notes.missing(
                path,
                f"no read counts for {quoted(name)}; write `category: {cut(name)}` in a question (in JSON, add a "
                "read), or remove the category",
                "scoring",
                "reads",
            )
        elif category.views and not viewed[name]:
            notes.missing(
                (*path, "aggregate"),
                f"is `views` but no read of {quoted(name)} has a `view`; name the views, or remove it",
                "scoring",
                "reads",
            )
