"""The author's short forms, written out: what YAML says in few words as the plain object.

Takes and gives plain Python values, and remembers for each made field which written one it comes
from. What the plain fields mean together is checked afterwards, in `spinf_serve.packs.build`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spinf_serve.packs.errors import Refused
from spinf_serve.packs.notes import Notes, Path, quoted
from spinf_serve.packs.template import Template, parse

_BY_NAME = {"true/false": ("true", "false"), "yes/no": ("yes", "no")}
_OPENING = "([{“‘«„‹「『（"
_SHORT = ("exact_options", "for", "category", "categories", "sign", "unsafe", "view", "negates")
_SLOT = "{?}"


@dataclass(slots=True)
class Expanded:
    """What comes out.

    Attributes:
        file: the plain object; numbers and unknown things are as they were.
        origins: path in `file` -> path of the field that was written, of the same form below.
        made: path in `file` -> path of the field that it was made from, whatever is below.
    """

    file: dict[str, Any]
    origins: dict[Path, Path] = field(default_factory=dict)
    made: dict[Path, Path] = field(default_factory=dict)

    def written(self, path: Path) -> Path:
        """The written field behind a path of `file`."""
        if path[:2] in self.made:
            return self.made[path[:2]]
        for length in range(len(path), 0, -1):
            origin = self.origins.get(path[:length])
            if origin is not None:
                return (*origin, *path[length:])
        return path


def expand(authored: Mapping[str, Any], notes: Notes) -> Expanded:
    """Write the short forms out.

    Args:
        authored: the fields of an `AuthorPack` that were written, under their written names.
        notes: takes faults in the short forms, by written path.
    """
    done = Expanded({key: value for key, value in authored.items() if key != "lint"})
    scoring = dict(authored["scoring"])
    reads = list(authored.get("reads") or ())
    queries = []
    seen: set[str] = set()
    for index, question in enumerate(scoring["queries"]):
        path: Path = ("scoring", "queries", index)
        query = _query(question, path, done, notes)
        unfilled = _mend_values(query, question, path, notes)
        queries.append(query)
        if query["id"] in seen:
            # The second of two ids is reported where questions are checked; so would its reads be.
            notes.broken.add("reads")
            continue
        seen.add(query["id"])
        if unfilled:
            notes.broken.add("reads")
            continue
        before = len(notes.found)
        for origin, read in _reads(_Asked(question, query, path, notes)):
            done.made[("reads", len(reads))] = origin
            reads.append(read)
        if len(notes.found) > before:
            notes.broken.add("reads")
    scoring["queries"] = queries
    for name, context in authored["contexts"].items():
        _check_line_breaks(context, ("contexts", name), notes)
    _check_negates(authored["scoring"]["queries"], notes)
    if scoring.get("case_insensitive") is None:
        scoring["case_insensitive"] = not any(_differ_by_case(q["options"]) for q in queries)
    done.file |= {
        "scoring": scoring,
        "reads": reads,
        "categories": _categories(authored.get("categories"), reads, done, notes),
        "decision": authored.get("decision") or {"mode": "per_category"},
    }
    return done


def _check_negates(questions: Sequence[Mapping[str, Any]], notes: Notes) -> None:
    ids = [question["id"] for question in questions]
    for index, question in enumerate(questions):
        denied = question.get("negates")
        path: Path = ("scoring", "queries", index, "negates")
        if denied == question["id"]:
            notes(path, "a question cannot deny itself; name the other one")
        elif denied is not None and denied not in ids:
            hint = notes.near(denied, ids)
            notes.missing(path, f"there is no question {quoted(denied)}{hint}", "scoring")


def _differ_by_case(options: Sequence[str]) -> bool:
    """Whether two texts are one when case and outer spaces do not count, and are not the same."""
    return len({option.strip().casefold() for option in options}) < len(set(options))


def _categories(
    given: Mapping[str, Any] | None,
    reads: Sequence[Mapping[str, Any]],
    done: Expanded,
    notes: Notes,
) -> dict[str, Any]:
    if given is not None:
        return {name: {} if category is None else category for name, category in given.items()}
    if notes.broken & {"scoring", "reads"}:
        notes.broken.add("categories")
    made: dict[str, Any] = {}
    for index, read in enumerate(reads):
        if read["category"] not in made:
            made[read["category"]] = {}
            done.made["categories", read["category"]] = done.written(("reads", index))
    return made


def _query(question: Mapping[str, Any], path: Path, done: Expanded, notes: Notes) -> dict[str, Any]:
    query = {key: value for key, value in question.items() if key not in _SHORT}
    template = query["template"]
    if template.rstrip("\r\n").endswith(_SLOT):
        query["template"] = template = template.rstrip("\r\n")
    _check_line_breaks(template, (*path, "template"), notes)
    grid = question.get("for")
    if grid is not None:
        if query.get("combinations") is not None or query.get("values") is not None:
            notes((*path, "for"), "stands beside `combinations` or `values`; keep one of them")
        query |= {"combinations": "all", "values": grid}
        done.origins[*path, "combinations"] = done.origins[*path, "values"] = (*path, "for")
    given = question["options"]
    options = list(_BY_NAME[given]) if isinstance(given, str) else given
    if not question.get("exact_options"):
        options = _spaced(options, query, path, notes)
    query["options"] = options
    return query


def _check_line_breaks(text: str, path: Path, notes: Notes) -> None:
    """Notes a line break that was meant and is two characters, as in `'\\n…'`."""
    for place, found in (("begins", text.startswith("\\n")), ("ends", text.endswith("\\n"))):
        if found:
            notes(
                path,
                f"{place} with a backslash and an n, which is a line break in double quotes only: "
                "put the text in double quotes",
            )
            return


def _mend_values(
    query: dict[str, Any], question: Mapping[str, Any], path: Path, notes: Notes
) -> bool:
    """Notes what `for` lacks or has too much, and makes up for it, so that it is told once."""
    try:
        names = parse(query["template"]).names
    except Refused:
        # Reported where questions are checked.
        return False
    form = f"`for: {{{names[0] if names else 'F'}: [first, second]}}`"
    grid = question.get("for")
    if grid is None:
        if not names or query.get("combinations") is not None or query.get("values") is not None:
            return False
        notes((*path, "template"), f"has {_braced(names)} and no values for it; write {form} below")
        query["combinations"] = [{name: name for name in names}]
        return True
    missing = [name for name in names if name not in grid]
    extra = [name for name in grid if name not in names]
    if missing:
        form = form.replace(names[0], missing[0], 1)
        has = f" (it has {_braced(extra)}, which the template lacks)" if extra else ""
        notes((*path, "for"), f"has no values for {_braced(missing)}{has}; write {form}")
    elif extra:
        notes(
            (*path, "for", extra[0]),
            f"the template has no {_braced(extra[:1])}; write it there, or remove these values",
        )
    else:
        return False
    query["values"] = {name: grid.get(name) or [name] for name in names}
    if not names:
        del query["combinations"], query["values"]
    return True


def _braced(names: Sequence[str]) -> str:
    return ", ".join(f"`{{{name}}}`" for name in names)


def _spaced(
    options: Sequence[str], query: Mapping[str, Any], path: Path, notes: Notes
) -> list[str]:
    """The options with the leading space that a word has behind other text."""
    try:
        parsed = parse(query["template"])
    except Refused:
        # Reported where questions are checked.
        return list(options)
    joined = {_takes_no_space(text) for text in _endings(parsed, query)}
    if len(joined) > 1:
        notes(
            (*path, "template"),
            "some filled templates end in a space or an opening quote and others do not, so no one "
            "spelling of the options fits; write `exact_options: true` and the options as they are "
            "to be read, or end the template in fixed text",
        )
    if True in joined:
        return list(options)
    return [option if option[:1].isspace() or not option else f" {option}" for option in options]


def _endings(template: Template, query: Mapping[str, Any]) -> list[str]:
    """What stands before the slot: the fixed text, or what the values there can be."""
    last = template.literals[-1]
    if last or not template.fields:
        return [last]
    name = template.fields[-1]
    combinations = query.get("combinations")
    if isinstance(combinations, list):
        return [one[name] for one in combinations if name in one] or [""]
    return list((query.get("values") or {}).get(name, ())) or [""]


def _takes_no_space(text: str) -> bool:
    line = text.rsplit("\n", 1)[-1]
    end = text[-1:]
    if not end or end.isspace() or end in _OPENING:
        return bool(end)
    if end == '"':
        return line.count('"') % 2 == 1
    # An apostrophe ends a word; an opening quote begins one.
    return end == "'" and (line[-2:-1] == "" or line[-2].isspace() or line[-2] in _OPENING)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question whose reads are made: as written, as expanded, where it stands."""

    written: Mapping[str, Any]
    query: Mapping[str, Any]
    path: Path
    notes: Notes

    @property
    def id(self) -> str:
        return str(self.query["id"])

    def read(self, name: str, category: str, **fields: Any) -> dict[str, Any]:
        """A read of the question; fields that are None are left out."""
        made = {"id": f"{self.id}/{name}" if name else self.id, "query": self.id}
        made |= fields | {"category": category, "view": self.written.get("view")}
        return {key: value for key, value in made.items() if value is not None}


def _reads(asked: _Asked) -> list[tuple[Path, dict[str, Any]]]:
    """The reads that a question's short forms make, each with the path of what made it."""
    question, path, notes = asked.written, asked.path, asked.notes
    category, by_option = question.get("category"), question.get("categories")
    needs = ("sign", "unsafe") if by_option is not None else ("sign", "unsafe", "view")
    if category is None:
        for key in needs:
            if question.get(key) is not None:
                notes((*path, key), f"makes no read without `category`; add that or remove `{key}`")
        return [] if by_option is None else _reads_by_option(asked, by_option)
    if by_option is not None:
        notes((*path, "categories"), "stands beside `category`; keep one of them")
        return []
    shape = _shape(asked)
    if shape is None:
        return []
    values = _values_of_f(asked.query)
    if values == []:
        notes(
            (*path, "category"),
            "the question has combinations but no placeholder `F`; a read is addressed by the value "
            "of `F`: rename the placeholder",
        )
        return []
    if isinstance(category, str):
        origin = (*path, "category")
        if values is None:
            return [(origin, asked.read("", category, **shape))]
        return [(origin, asked.read(value, category, F=value, **shape)) for value in values]
    if values is None:
        notes(
            (*path, "category"),
            "is a mapping from values of `F` to categories, and the question has no values of `F`; "
            "write one category, or `categories` for a mapping from options",
        )
        return []
    made = []
    for value, name in category.items():
        origin = (*path, "category", value)
        if value in values:
            made.append((origin, asked.read(value, name, F=value, **shape)))
        else:
            notes(origin, f"`F` has no value {quoted(value)}{notes.near(value, values)}")
    return made


def _shape(asked: _Asked) -> dict[str, Any] | None:
    """Kind, sign and options of the question's reads; None when they are not clear."""
    question, path, notes = asked.written, asked.path, asked.notes
    options, unsafe, sign = asked.query["options"], question.get("unsafe"), question.get("sign")
    if len(options) == 2:
        if unsafe is not None:
            notes(
                (*path, "unsafe"),
                "is for three or more options; of two the first speaks for the category, or with "
                "`sign: -1` the second",
            )
            return None
        if sign not in (None, 1, -1):
            notes((*path, "sign"), f"is {sign}; write 1 or -1")
            return None
        return {"kind": "pair", "sign": sign}
    if sign is not None:
        notes((*path, "sign"), f"is for two options and the question has {len(options)}; remove it")
    if unsafe is None:
        notes(
            (*path, "category"),
            f"the question has {len(options)} options; list those that speak for the category under "
            "`unsafe`, or write `categories`, a mapping from option to category",
        )
        return None
    indexes = []
    for index, option in enumerate(unsafe):
        found = _index_of(option, options)
        if found is None:
            notes((*path, "unsafe", index), _no_option(option, options, notes))
        else:
            indexes.append(found)
    if len(indexes) < len(unsafe):
        return None
    if len(set(indexes)) < len(indexes) or not 0 < len(indexes) < len(options):
        notes(
            (*path, "unsafe"),
            f"lists {len(indexes)} of {len(options)} options; name at least one, none twice and "
            "not all",
        )
        return None
    return {"kind": "set", "unsafe": indexes}


def _reads_by_option(
    asked: _Asked, categories: Mapping[str, str]
) -> list[tuple[Path, dict[str, Any]]]:
    if _values_of_f(asked.query) is not None:
        asked.notes(
            (*asked.path, "categories"),
            "is for a question without values of `F`; write `reads` for each value and option",
        )
        return []
    made = []
    options = asked.query["options"]
    for option, name in categories.items():
        origin = (*asked.path, "categories", option)
        index = _index_of(option, options)
        if index is None:
            asked.notes(origin, _no_option(option, options, asked.notes))
        else:
            shown = options[index].strip()
            made.append((origin, asked.read(shown, name, kind="set", unsafe=[index])))
    return made


def _index_of(option: str, options: Sequence[str]) -> int | None:
    """Which option is meant: the very text, else the one that is the same without outer spaces."""
    if option in options:
        return options.index(option)
    stripped = [one.strip() for one in options]
    return stripped.index(option.strip()) if option.strip() in stripped else None


def _no_option(option: str, options: Sequence[str], notes: Notes) -> str:
    hint = notes.near(option.strip(), [one.strip() for one in options])
    return f"there is no option {quoted(option)}{hint}"


def _values_of_f(query: Mapping[str, Any]) -> list[str] | None:
    """The values of `F` in order; None when the question has no combinations."""
    combinations = query.get("combinations")
    if combinations is None:
        return None
    if isinstance(combinations, list):
        return list(dict.fromkeys(one["F"] for one in combinations if "F" in one))
    return list((query.get("values") or {}).get("F", ()))
