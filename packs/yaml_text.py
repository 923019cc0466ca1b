"""How values are written into a YAML or JSON text, and places in such a text.

Used by edits that leave the rest of a text as it is. Does not know what a pack is.
"""

import re
from dataclasses import dataclass
from typing import Any

from spinf_serve.packs.faults import InvalidPack, PackFault
from spinf_serve.packs.yaml_nodes import Mapping, Node, Plain, Scalar
from spinf_serve.packs.yaml_sentences import quoted

NULLS = ("null", "~", "")
LINE_END = re.compile(r"\r\n|\r|\n")
COMMENT_LINE = re.compile(r"(?:\r\n|\r|\n)(?:( *)(#[^\r\n]*)|[ \t]*(?=[\r\n]))")
"""A line's end and a line of nothing or a comment below it."""

_NUMBER = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
# Texts that no reader of YAML takes for anything else, in a line or within brackets.
_SAFE = re.compile(r"[A-Za-z_](?:[A-Za-z0-9_./@+-]|[ ](?=[A-Za-z0-9_(./]))*")
_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}


class Block(dict[str, Any]):
    """A mapping to be written one key a line; other mappings are written in braces."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes values.

    Attributes:
        newline: the text's line end.
        unit: spaces that a level is indented by.
    """

    is_json: bool
    newline: str
    unit: str

    def block_lines(self, value: Block, indent: str) -> list[str]:
        """The mapping, a key a line."""
        lines = []
        for key, item in value.items():
            if isinstance(item, Block) and item:
                lines.append(f"{indent}{self.text(key)}:")
                lines += self.block_lines(item, indent + self.unit)
            else:
                lines.append(f"{indent}{self.text(key)}: {self.inline(item, None)}")
        return lines

    def pair(self, key: str, value: Any, indent: str | None) -> str:
        """A key with its value, as `inline` writes it."""
        return f"{self.text(key)}: {self.inline(value, indent)}"

    def inline(self, value: Any, indent: str | None) -> str:
        """The value in one line, but a JSON `Block` over lines where `indent` is known."""
        if isinstance(value, dict):
            if self.is_json and isinstance(value, Block) and value and indent is not None:
                inner = indent + self.unit
                pairs = [inner + self.pair(key, item, inner) for key, item in value.items()]
                body = f",{self.newline}".join(pairs)
                return f"{{{self.newline}{body}{self.newline}{indent}}}"
            return "{" + ", ".join(self.pair(key, item, None) for key, item in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(self.inline(item, None) for item in value) + "]"
        if isinstance(value, str):
            return self.text(value)
        return word(value)

    def text(self, text: str) -> str:
        """A text, in quotes where it would be read as something else without."""
        plain = _SAFE.fullmatch(text) and text.lower() not in _WORDS and not self.is_json
        return text if plain else quoted(text)


def word(value: Any) -> str:
    """A number, bool or None. A float is written so that it reads back as the same bits."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    written = repr(value)
    if not isinstance(value, int | float) or not _NUMBER.fullmatch(written):
        raise ValueError(f"{value!r} is no finite number")
    # Readers of YAML 1.1 take `1e-05` for a text, but `1.0e-05` for the number.
    return written if "." in written or "e" not in written else written.replace("e", ".0e")


def equal(known: Any, value: Any, exact: bool) -> bool:
    """Whether what was read from a text is the value: words by what they stand for."""
    if isinstance(value, dict):
        return (
            isinstance(known, dict)
            and known.keys() == value.keys()
            and all(equal(known[key], value[key], exact) for key in value)
        )
    if isinstance(value, list):
        return (
            isinstance(known, list)
            and len(known) == len(value)
            and all(equal(one, other, exact) for one, other in zip(known, value, strict=True))
        )
    if isinstance(value, Plain):
        return isinstance(known, Plain) and known == value
    if isinstance(value, str):
        return isinstance(known, str) and known == value
    if not isinstance(known, Plain):
        return False
    if value is None:
        return known in NULLS
    if isinstance(value, bool):
        return known == str(value).lower()
    if not _NUMBER.fullmatch(known):
        return False
    is_int = bool(re.fullmatch(r"[-+]?[0-9]+", known))
    return float(known) == value and not (exact and is_int != isinstance(value, int))


def style(text: str, root: Node) -> tuple[str, str]:
    """The text's line end, and the spaces that it indents by."""
    ending = LINE_END.search(text)
    newline = ending.group() if ending else "\n"
    if isinstance(root, Mapping):
        for _, value in root.pairs:
            if isinstance(value, Mapping) and not value.flow:
                return newline, " " * (value.start.column - root.start.column)
        if root.flow:
            found = re.match(r"\{[ ]*(?:\r\n|\r|\n)([ \t]+)", text[root.start.index :])
            return newline, found[1] if found else "  "
    return newline, "  "


def end_of_line(text: str, index: int) -> int:
    """Where the line of a place ends, its line end left out."""
    found = LINE_END.search(text, index)
    return found.start() if found else len(text)


def start_of_line(text: str, index: int) -> int:
    """Where the line of a place begins."""
    return max(text.rfind("\n", 0, index), text.rfind("\r", 0, index)) + 1


def indent_of_line(text: str, index: int) -> str | None:
    """White space at the beginning of the line; None when a list entry begins on it."""
    start = start_of_line(text, index)
    found = re.compile(r"[ \t]*(- )?").match(text, start)
    return None if found is None or found[1] else found[0]


def leaf(node: Node) -> Node:
    """The last scalar, or list or mapping in brackets, of a node."""
    while not isinstance(node, Scalar) and not node.flow:
        node = node.pairs[-1][1] if isinstance(node, Mapping) else node.items[-1]
    return node


def is_flow(node: Node) -> bool:
    """Whether a list or mapping stands in brackets."""
    return not isinstance(node, Scalar) and node.flow


def is_null(node: Node) -> bool:
    """Whether nothing, or `null`, was written."""
    return isinstance(node, Scalar) and node.plain and node.text in NULLS


def end_of_block(text: str, node: Node) -> int:
    """Where the line below a text that stands in lines begins, blank lines left out."""
    start, end = leaf(node).start.index, node.end.index
    if "+" in text[start : end_of_line(text, start)]:
        return end
    ending = LINE_END.search(text, start + len(text[start:end].rstrip()))
    return ending.end() if ending else end


def behind_comments(text: str, at: int, indent: int) -> int:
    """The end of the last comment below `at` that is indented by `indent` or more."""
    end = at
    while (line := COMMENT_LINE.match(text, end)) and not (line[2] and len(line[1]) < indent):
        end = line.end()
        at = end if line[2] else at
    return at


def unfit(name: str, node: Node, reason: str) -> InvalidPack:
    """The error for a layout that cannot take an edit."""
    message = f"cannot be edited here: {reason}; write this part one key a line, then try again"
    return InvalidPack([PackFault(message, name, node.start.line, node.start.column)])
