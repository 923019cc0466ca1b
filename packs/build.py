"""From a file's plain object to a `Pack`: what the fields mean together, every fault noted.

The object's fields have their types already (`spinf_serve.packs.schema`). Knows neither YAML nor
where in a file a field stands: faults carry the path of the field in the plain object.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spinf_serve.packs.ask import MAX_NAME_CHARS, scored_question
from spinf_serve.packs.build_fitted import read_bands, read_constants
from spinf_serve.packs.build_reads import read_reads
from spinf_serve.packs.errors import Refused
from spinf_serve.packs.notes import Notes, Path, cut, quoted
from spinf_serve.packs.pack import Category, Context, Decision, Mode, Pack, Parameter, Route
from spinf_serve.packs.plain import split
from spinf_serve.packs.question import Question

MAX_PROMPTS = 10_000
"""Most filled templates of a pack: no server reads more on one content."""

_ID = re.compile(r"[a-z0-9][a-z0-9._-]*/[a-z0-9][a-z0-9._-]*")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SLOT_FIELDS = ("max_tokens", "top_k", "calibration", "generate")
_MORE_MODES: tuple[Mode, ...] = ("max", "micro_layer")
_SCORING_FIELDS = ("queries", "empty_floor", "case_insensitive")


def build(file: Mapping[str, Any], digest: str, notes: Notes) -> Pack | None:
    """The pack of a plain object, constants of any number of models included.

    Args:
        file: a plain object whose fields have the types of `PlainPack`; it is not changed.
        digest: sha256 of the file's bytes, 64 hex digits.
        notes: takes every fault.

    Returns:
        None when anything was noted.
    """
    _check_names(file, notes)
    parameters = _parameters(file, notes)
    contexts = _contexts(file, parameters, notes)
    questions = _questions(file, notes)
    categories = _categories(file, notes)
    reads = read_reads(file["reads"], questions, categories, notes)
    _check_media(file, notes)
    decision = _decision(file, categories, notes)
    bands = read_bands(file.get("bands"), ("bands",), categories, notes)
    route = _route(file.get("route"), categories, notes)
    modes = _modes(file)
    fitted = read_constants(file, questions, reads, categories, modes, bands, notes)
    if notes.found or notes.broken:
        return None
    scoring = file["scoring"]
    on_long: Any = file.get("on_long", "refuse")
    return Pack(
        id=file["pack"],
        version=file["version"],
        name=_for_people(file, "name"),
        description=_for_people(file, "description"),
        tags=tuple(file.get("tags") or ()),
        license=_for_people(file, "license"),
        media=tuple(file.get("media", ("text",))),
        answers=file.get("answers", "p"),
        parameters=parameters,
        contexts=contexts,
        questions=tuple(questions.values()),
        empty_floor=scoring.get("empty_floor", True),
        case_insensitive=bool(scoring.get("case_insensitive")),
        reads=reads,
        categories=categories,
        decision=decision,
        modes=modes,
        route=route,
        on_long=on_long["chunk"] if isinstance(on_long, Mapping) else on_long,
        fitted=fitted,
        body=split(file)[0],
        digest=digest,
    )


def _for_people(file: Mapping[str, Any], key: str) -> str:
    text = file.get(key)
    return text if isinstance(text, str) else ""


def _check_names(file: Mapping[str, Any], notes: Notes) -> None:
    name, version = file["pack"], file["version"]
    if not _ID.fullmatch(name):
        notes(
            ("pack",),
            f"{quoted(name)} is no pack id; write `namespace/name`, each part in lower-case letters, "
            "digits, `.`, `_` and `-`, a letter or digit first",
        )
    if not _VERSION.fullmatch(version):
        notes(
            ("version",),
            f"{quoted(version)} is no version; write letters, digits, `.`, `+` and `-`, a letter or "
            "digit first, for instance 1.0.0",
        )
    chars = len(name) + 1 + len(version)
    if chars > MAX_NAME_CHARS:
        notes(
            ("pack",),
            f"`<id>@<version>` has {chars} characters, more than the {MAX_NAME_CHARS} allowed; "
            "shorten the id",
        )
    for key in file["scoring"]:
        if key not in _SCORING_FIELDS:
            notes(
                ("scoring", key),
                f"`{cut(key)}` is not a field of a pack's scoring{notes.near(key, _SCORING_FIELDS)}",
            )


def _check_media(file: Mapping[str, Any], notes: Notes) -> None:
    media = file.get("media", ("text",))
    if "text" not in media:
        notes(("media",), "`text` is not among them; every pack reads text")
    for kind, count in Counter(media).items():
        if count > 1:
            notes(("media",), f"`{cut(kind)}` is listed {count} times; list it once")


def _parameters(file: Mapping[str, Any], notes: Notes) -> dict[str, Parameter]:
    found = {}
    for name, given in file.get("parameters", {}).items():
        if name == "X" or not _NAME.fullmatch(name):
            notes(
                ("parameters", name),
                f"{quoted(name)} cannot be a parameter; take letters, digits and `_`, no digit first"
                + (" (`{X}` is the content)" if name == "X" else ""),
            )
        default = given.get("default")
        found[name] = Parameter(
            name,
            given.get("label"),
            given.get("description"),
            given.get("required", True),
            None if default is None else str(default),
        )
    return found


def _contexts(
    file: Mapping[str, Any], parameters: Mapping[str, Parameter], notes: Notes
) -> dict[str, Context]:
    found = {}
    if not file["contexts"]:
        notes.missing(
            ("contexts",), 'there is none; write for instance `default: "{X}\\n"`', "contexts"
        )
    for name, template in file["contexts"].items():
        path = ("contexts", name)
        count = template.count("{X}")
        if count != 1:
            notes(
                path,
                f"`{{X}}` stands in it {count} times; write it once, where the content goes"
                if count
                else "`{X}` is not in it; write it where the content goes",
            )
            continue
        for used in dict.fromkeys(_PLACEHOLDER.findall(template)):
            if used != "X" and used not in parameters:
                notes.missing(
                    path,
                    f"`{{{cut(used)}}}` is not declared; add it to `parameters`"
                    + (notes.near(used, parameters) if parameters else ""),
                    "parameters",
                )
        before, after = template.split("{X}")
        found[name] = Context(name, template, before, after)
    return found


def _questions(file: Mapping[str, Any], notes: Notes) -> dict[str, Question]:
    """The questions by id; of two with one id the first."""
    scoring = file["scoring"]
    if not scoring["queries"]:
        notes.missing(
            ("scoring", "queries"), "there is none; a pack asks at least one question", "scoring"
        )
        notes.broken.add("scoring")
    found: dict[str, Question] = {}
    prompts = 0
    for index, query in enumerate(scoring["queries"]):
        path: Path = ("scoring", "queries", index)
        question = _question(query, file, path, notes)
        if question is None:
            # What refers to it must not be called unknown.
            notes.broken.add("scoring")
            continue
        prompts += len(question.prompts)
        if prompts > MAX_PROMPTS:
            notes(
                path,
                f"the questions up to here have {prompts:,} filled templates; a pack may have "
                f"{MAX_PROMPTS:,}",
            )
            break
        if question.id in found:
            first = next(i for i, q in enumerate(scoring["queries"]) if q["id"] == question.id)
            notes(
                (*path, "id"),
                f"two questions have the id {quoted(question.id)}; give one another id",
                ("scoring", "queries", first, "id"),
            )
            notes.broken.add("scoring")
        found.setdefault(question.id, question)
    return found


def _question(
    query: Mapping[str, Any], file: Mapping[str, Any], path: Path, notes: Notes
) -> Question | None:
    if query.get("group") is not None:
        notes(
            (*path, "group"),
            "a pack's questions have no group of their own; remove it",
        )
    floor = query.get("empty_floor")
    options = query["options"]
    try:
        question = scored_question(
            query["id"],
            query["template"],
            options,
            query.get("combinations"),
            query.get("values"),
            case_insensitive=bool(file["scoring"].get("case_insensitive")),
            empty_floor=file["scoring"].get("empty_floor", True) if floor is None else floor,
            group=f"{file['pack']}@{file['version']}"[:MAX_NAME_CHARS],
            slot_fields=[name for name in _SLOT_FIELDS if query.get(name) is not None],
        )
    except Refused as refused:
        steps = refused.param.split(".") if refused.param else []
        notes((*path, *(int(s) if s.isdecimal() else s for s in steps)), refused.message)
        return None
    if len(options) < 2:
        notes((*path, "options"), "there is one option; a pack's question has at least two")
        return None
    return replace(question, any_length=True)


def _categories(file: Mapping[str, Any], notes: Notes) -> dict[str, Category]:
    given = file["categories"]
    if not given:
        notes.missing(
            ("categories",), "there is none; a pack scores at least one category", "categories"
        )
        notes.broken.add("categories")
    found = {}
    for name, category in given.items():
        requires = tuple(category.get("requires") or ())
        for index, other in enumerate(requires):
            path: Path = ("categories", name, "requires", index)
            if other == name:
                notes(path, f"{quoted(name)} cannot require itself; remove it")
            elif other not in given:
                notes.missing(
                    path,
                    f"there is no category {quoted(other)}{notes.near(other, given)}",
                    "categories",
                )
        found[name] = Category(
            name,
            category.get("label"),
            category.get("aggregate") == "views",
            requires,
            category.get("decides", True),
        )
    return found


def _decision(
    file: Mapping[str, Any], categories: Mapping[str, Category], notes: Notes
) -> Decision:
    decision = file["decision"]
    critical = tuple(decision.get("critical") or ())
    for index, name in enumerate(critical):
        if name not in categories:
            notes.missing(
                ("decision", "critical", index),
                f"there is no category {quoted(name)}{notes.near(name, categories)}",
                "categories",
            )
    return Decision(decision["mode"], decision.get("fallback", "per_category"), critical)


def _modes(file: Mapping[str, Any]) -> tuple[Mode, ...]:
    decision = file["decision"]
    used = {decision["mode"], decision.get("fallback")}
    modes: list[Mode] = ["per_category"]
    blocks = [decision, *(fit.get("decision") or {} for fit in file.get("fitted", {}).values())]
    for mode in _MORE_MODES:
        if mode in used or any(block.get(mode) is not None for block in blocks):
            modes.append(mode)
    return tuple(modes)


def _route(
    given: Mapping[str, Any] | None, categories: Mapping[str, Category], notes: Notes
) -> Route | None:
    if given is None:
        return None
    names = tuple(given["categories"])
    for index, name in enumerate(names):
        path: Path = ("route", "categories", index)
        if name not in categories:
            notes.missing(
                path,
                f"there is no category {quoted(name)}{notes.near(name, categories)}",
                "categories",
            )
        elif name in names[:index]:
            notes(path, f"{quoted(name)} is listed twice; remove one")
    if len(names) < 2:
        notes(("route", "categories"), "at least two categories must compete")
    margin, minimum = given.get("margin", 0), given.get("minimum", 0)
    for key, value in (("margin", margin), ("minimum", minimum)):
        if not 0 <= value <= 1:
            notes(("route", key), f"is {value}; write a number between 0 and 1")
    abstain = given.get("abstain", "unsure")
    if abstain in names or not abstain:
        notes(
            ("route", "abstain"),
            f"{quoted(abstain)} must be a name that is none of the categories, for instance `unsure`",
        )
    return Route(names, margin, minimum, abstain)
