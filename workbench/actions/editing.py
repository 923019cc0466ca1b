"""What the editor is told about a text: its faults with a fix where one is sure, fields and names.

Fields come from the pack's schema, faults from reading the text as a pack. Knows no screen.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spinf_serve.packs.errors import Refused
from spinf_serve.packs.faults import InvalidPack, PackFault
from spinf_serve.packs.lint_rules import RULES
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.schema import json_schema
from spinf_serve.packs.template import parse
from spinf_serve.packs.yaml_nodes import Mapping as Keys
from spinf_serve.packs.yaml_nodes import Node, Scalar, node_at, parse_yaml
from spinf_serve.packs.yaml_nodes import Sequence as Items

_MEANT: Final = re.compile(r"; did you mean `([^`…]+)`\?|: did you mean `([^`…]+)`\?")
_QUOTES_MEANT: Final = re.compile(r'put it in double quotes: ("(?:[^"\\]|\\.)*")')
_WRITE: Final = re.compile(r"; write (true|false)$")
_PLAIN: Final = re.compile(r"[^\s,\[\]{}:#](?:[^,\[\]{}:#]|:(?=\S)|(?<=\S)#)*")
_SAFE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_/ -]*")

_ID_LINE: Final = re.compile(r"^\s*-\s+(?:\{\s*)?id:\s*([\"']?)([^\"',}#\n]+)\1", re.MULTILINE)
_CATEGORY_LINE: Final = re.compile(r"\bcategory:\s*([A-Za-z0-9_][\w-]*)")

KINDS: Final[Mapping[str, tuple[str, str]]] = {
    # Place -> whose names are its values, whose its keys.
    "scoring.queries.-.template": ("template", ""),
    "scoring.queries.-.category": ("category", ""),
    "scoring.queries.-.category.*": ("category", ""),
    "scoring.queries.-.categories": ("", "option"),
    "scoring.queries.-.categories.*": ("category", ""),
    "scoring.queries.-.unsafe.-": ("option", ""),
    "scoring.queries.-.negates": ("question", ""),
    "scoring.queries.-.for": ("", "placeholder"),
    "scoring.queries.-.values": ("", "placeholder"),
    "reads.-.query": ("question", ""),
    "reads.-.category": ("category", ""),
    "categories": ("", "category"),
    "categories.*.requires.-": ("category", ""),
    "contexts.*": ("context", ""),
    "decision.critical.-": ("category", ""),
    "route.categories.-": ("category", ""),
    "bands.categories": ("", "category"),
    "lint.waive.-.on": ("question", ""),
}
"""Places that take names which the text itself gives."""


@dataclass(frozen=True, slots=True)
class Fix:
    """What to write instead, in one line.

    Attributes:
        line, column, end: from 1; `end` is behind the last character.
        instead_of: what stands there.
        insert: what is to stand there.
        label: for a button.
    """

    line: int
    column: int
    end: int
    instead_of: str
    insert: str
    label: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A fault with its place in the text.

    Attributes:
        line, column, end: from 1; `end` is behind the last character at fault.
        severity: `error`; `warning` where only fitted numbers are of another wording.
        message: what is wrong and what to write instead.
        param: dotted path of the field.
        fix: None where what is meant is not sure.
    """

    line: int
    column: int
    end: int
    severity: str
    message: str
    param: str
    fix: Fix | None


@dataclass(frozen=True, slots=True)
class Checked:
    """A text, read as a pack.

    Attributes:
        pack: None when it has errors; without fitted numbers when only these have faults.
        marks: all faults in the order of the text.
    """

    pack: Pack | None
    marks: tuple[Mark, ...]

    @property
    def errors(self) -> int:
        """How many faults keep the text from being a pack."""
        return sum(mark.severity == "error" for mark in self.marks)


def check(text: str, name: str) -> Checked:
    """Read a text as the pack's file of a name."""
    data = text.encode()
    try:
        return Checked(read_pack(data, name), ())
    except InvalidPack as invalid:
        faults = invalid.faults
    try:
        pack = read_pack(data, name, fitted=False)
        left: set[PackFault] = set()
    except InvalidPack as invalid:
        pack, left = None, set(invalid.faults)
    lines = text.split("\n")
    marks = []
    for fault in faults:
        severity = "error" if pack is None and (fault in left or not _fitted(fault)) else "warning"
        marks.append(_mark(fault, lines, severity))
    return Checked(pack, tuple(marks))


def applied(text: str, fix: Fix) -> str:
    """The text with a fix; as it is when something else stands there by now."""
    lines = text.split("\n")
    if not 1 <= fix.line <= len(lines):
        return text
    line = lines[fix.line - 1]
    if line[fix.column - 1 : fix.end - 1] != fix.instead_of:
        return text
    lines[fix.line - 1] = line[: fix.column - 1] + fix.insert + line[fix.end - 1 :]
    return "\n".join(lines)


def _fitted(fault: PackFault) -> bool:
    return fault.param.split(".")[0] in ("fitted", "proof")


def _mark(fault: PackFault, lines: Sequence[str], severity: str) -> Mark:
    line = min(max(fault.line, 1), len(lines))
    column = max(fault.column, 1)
    word = _word_at(lines[line - 1], column)
    end = column + max(1, len(word))
    fix = _fix(fault.message, line, column, word) if fault.line else None
    return Mark(line, column, end, severity, fault.message, fault.param, fix)


def _word_at(line: str, column: int) -> str:
    """The scalar that begins at a column, quotes included; empty when none does."""
    rest = line[column - 1 :]
    if rest[:1] in ("'", '"'):
        found = re.match(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'", rest)
        return found.group() if found else rest
    plain = _PLAIN.match(rest)
    return plain.group().rstrip() if plain else ""


def _fix(message: str, line: int, column: int, word: str) -> Fix | None:
    if not word:
        return None
    meant = _MEANT.search(message)
    quotes = _QUOTES_MEANT.search(message)
    flag = _WRITE.search(message)
    if meant is not None:
        name = meant.group(1) or meant.group(2)
        insert = name if _SAFE.fullmatch(name) and word[0] not in "'\"" else _quoted(name)
        told = name
    elif quotes is not None:
        insert = told = quotes.group(1)
    elif flag is not None:
        insert = told = flag.group(1)
    else:
        return None
    return Fix(line, column, column + len(word), word, insert, f"Write {told}")


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def table() -> dict[str, Any]:
    """What may stand where, for completion: a tree of fields.

    A part has `f` (fields: name -> part), `i` (an entry of its list), `a` (the value of any key),
    `v` (values with a meaning), `k` and `ak` (whose names its values and its keys are), `h` (what
    it means) and `r` (whether it must be there); what is empty is left out.
    """
    schema = json_schema()
    made: dict[str, Any] = _part(schema, schema["$defs"], ())
    rules = [[name, rule.finds] for name, rule in RULES.items()]
    made["f"]["lint"]["f"]["waive"]["i"]["f"]["rule"]["v"] = rules
    return made


def _part(schema: Mapping[str, Any], known: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    made: dict[str, Any] = {}
    if schema.get("description"):
        made["h"] = schema["description"]
    values: list[list[str]] = []
    for one in _alternatives(schema, known):
        required = one.get("required", ())
        for name, field in one.get("properties", {}).items():
            part = _part(field, known, (*path, name))
            if name in required:
                part["r"] = 1
            made.setdefault("f", {})[name] = part
        if isinstance(one.get("items"), dict):
            made["i"] = _part(one["items"], known, (*path, "-"))
        if isinstance(one.get("additionalProperties"), dict):
            made["a"] = _part(one["additionalProperties"], known, (*path, "*"))
        words = [one["const"]] if "const" in one else one.get("enum", [])
        if one.get("type") == "boolean":
            words = ["true", "false"]
        values += [[str(word), ""] for word in words]
    if values:
        made["v"] = values
    own, keys = KINDS.get(".".join(path), ("", ""))
    made |= {"k": own} if own else {}
    made |= {"ak": keys} if keys else {}
    return made


def _alternatives(
    schema: Mapping[str, Any], known: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    """The plain schemas that a schema is one of."""
    if "$ref" in schema:
        yield from _alternatives(known[schema["$ref"].rpartition("/")[2]], known)
        return
    inner = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    for one in inner:
        yield from _alternatives(one, known)
    if not inner:
        yield schema


def words_of(text: str, pack: Pack | None = None) -> dict[str, Any]:
    """Names that a text gives: categories, parameters, and questions with line and options.

    Of a text that cannot be parsed as it stands, what is found line by line.

    Args:
        pack: what the text was read as, which saves reading it again.
    """
    if pack is not None:
        return _of_pack(text, pack)
    try:
        root = parse_yaml(text, "text.yaml")
    except InvalidPack:
        return _by_line(text)
    questions: list[dict[str, Any]] = []
    categories: dict[str, None] = dict.fromkeys(_keys(node_at(root, ["categories"]), root))
    queries = node_at(root, ["scoring", "queries"])
    for query in queries.items if isinstance(queries, Items) else ():
        if not isinstance(query, Keys):
            continue
        template = _text(query, "template")
        options = query.pair("options")
        questions.append(
            {
                "id": _text(query, "id"),
                "line": query.start.line,
                "options": _texts(options[1]) if options else [],
                "placeholders": _placeholders(template),
            }
        )
        for key in ("category", "categories"):
            pair = query.pair(key)
            if pair is not None:
                values = [pair[1]] if isinstance(pair[1], Scalar) else _values(pair[1])
                categories |= dict.fromkeys(one.text for one in values if isinstance(one, Scalar))
    parameters = _keys(node_at(root, ["parameters"]), root)
    named = [name for name in categories if name]
    return {"categories": named, "questions": questions, "parameters": list(parameters)}


def _of_pack(text: str, pack: Pack) -> dict[str, Any]:
    lines = {one["id"]: one["line"] for one in _by_line(text)["questions"]}
    questions: list[dict[str, Any]] = [
        {
            "id": question.id,
            "line": lines.get(question.id, 1),
            "options": [option.strip() for option in question.options],
            "placeholders": list(question.prompts[0].values),
        }
        for question in pack.questions
    ]
    parameters = list(pack.parameters)
    return {"categories": list(pack.categories), "questions": questions, "parameters": parameters}


def _by_line(text: str) -> dict[str, Any]:
    questions: list[dict[str, Any]] = [
        {
            "id": found.group(2).strip(),
            "line": text.count("\n", 0, found.start(2)) + 1,
            "options": [],
            "placeholders": [],
        }
        for found in _ID_LINE.finditer(text, *_queries(text))
    ]
    categories = list(dict.fromkeys(_CATEGORY_LINE.findall(text)))
    return {"categories": categories, "questions": questions, "parameters": []}


def _queries(text: str) -> tuple[int, int]:
    """Where the questions stand: from `scoring` to the next field at the left."""
    begin = re.search(r"^scoring:", text, re.MULTILINE)
    if begin is None:
        return 0, len(text)
    end = re.compile(r"^[A-Za-z]", re.MULTILINE).search(text, begin.end())
    return begin.end(), len(text) if end is None else end.start()


def _keys(node: Node, root: Node) -> list[str]:
    # The nearest node above is what there is when the field itself is not.
    return (
        [key.text for key, _ in node.pairs] if isinstance(node, Keys) and node is not root else []
    )


def _values(node: Node) -> list[Node]:
    return [value for _, value in node.pairs] if isinstance(node, Keys) else []


def _text(query: Keys, key: str) -> str:
    pair = query.pair(key)
    return pair[1].text if pair is not None and isinstance(pair[1], Scalar) else ""


def _texts(node: Node) -> list[str]:
    if isinstance(node, Items):
        return [item.text for item in node.items if isinstance(item, Scalar)]
    return node.text.split("/") if isinstance(node, Scalar) else []


def _placeholders(template: str) -> list[str]:
    try:
        return list(parse(template).names)
    except Refused:
        return []
