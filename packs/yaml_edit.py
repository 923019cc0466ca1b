"""Edits of a YAML or JSON text that leave every other byte as it is.

A value is put at a path by splicing its span. Comments, order, blank lines, quoting and line ends
stay. The edited text is read again and has to hold what was meant. Does not know what a pack is.
"""

import re
from collections.abc import Sequence as Series
from dataclasses import dataclass, field
from typing import Any

from spinf_serve.packs.faults import InvalidPack, PackFault
from spinf_serve.packs.json_nodes import parse_json
from spinf_serve.packs.yaml_nodes import Mapping, Node, Plain, Scalar, Sequence, parse_yaml, values
from spinf_serve.packs.yaml_sentences import quoted

Path = Series[str | int]

_NUMBER = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
# Texts that no reader of YAML takes for anything else, in a line or within brackets.
_SAFE = re.compile(r"[A-Za-z_](?:[A-Za-z0-9_./@+-]|[ ](?=[A-Za-z0-9_(./]))*")
_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}
_NULLS = ("null", "~", "")
# A line's end and a line of nothing or a comment below it.
_COMMENT_LINE = re.compile(r"(?:\r\n|\r|\n)(?:( *)(#[^\r\n]*)|[ \t]*(?=[\r\n]))")
_LINE_END = re.compile(r"\r\n|\r|\n")


class Block(dict[str, Any]):
    """A mapping to be written one key a line; other mappings are written in braces."""


def set_value(text: str, name: str, path: Path, value: Any, *, exact: bool = False) -> str:
    """The text with a value at a path, changed where it differs and nowhere else.

    A mapping is brought to the value key by key: numbers that are equal stay as they are written,
    missing keys are added at the end, keys that the value lacks are removed. Missing parents of
    the path are made. `text` comes without a byte order mark.

    Args:
        name: the file's name; `.json` at its end makes it JSON.
        value: dicts, `Block`s, lists, texts, finite numbers, bools and None.
        exact: also rewrite `1` as `1.0` where a float is meant.

    Raises:
        InvalidPack: when the text cannot be read, or its layout cannot take the value.
    """
    is_json = name.lower().endswith(".json")
    parse = parse_json if is_json else parse_yaml
    root = parse(text, name)
    editor = _Editor(text, name, is_json, exact, *_style(text, root))
    editor.put_at(root, list(path), value)
    edited = editor.result()
    if edited != text:
        try:
            after = values(parse(edited, name))
        except InvalidPack as unread:
            raise _unfit(name, root, f"the edited file would not read back: {unread}") from None
        if not _holds(after, values(root), list(path), value):
            raise _unfit(name, root, "the edited file would not read back as meant")
    return edited


@dataclass(slots=True)
class _Editor:
    """Collects splices of one text.

    Attributes:
        newline: the text's line end.
        unit: spaces that a level is indented by.
    """

    text: str
    name: str
    is_json: bool
    exact: bool
    newline: str
    unit: str
    splices: list[tuple[int, int, str]] = field(default_factory=list)

    def put_at(self, node: Node, path: list[str | int], value: Any) -> None:
        """Walk to the path; what is missing of it becomes part of the value."""
        in_block = not self.is_json
        for depth, step in enumerate(path):
            below = _child(node, step)
            if below is None:
                for missing in reversed(path[depth + 1 :]):
                    value = Block({str(missing): value})
                value = Block({str(step): value})
                if isinstance(node, Mapping) and node.pairs:
                    self._add(node, value, node.pairs)
                elif isinstance(node, Mapping) or _is_null(node):
                    self._replace(node, value, in_block)
                else:
                    raise _unfit(self.name, node, f"here is no mapping to hold {step!r}")
                return
            in_block = in_block and not _is_flow(node)
            node = below
        self._put(node, value, in_block)

    def result(self) -> str:
        """The text with all splices made."""
        parts = []
        read = 0
        for start, end, replacement in sorted(self.splices, key=lambda splice: splice[:2]):
            parts += [self.text[read:start], replacement]
            read = max(read, end)
        return "".join([*parts, self.text[read:]])

    def _put(self, node: Node, value: Any, in_block: bool) -> None:
        if isinstance(node, Mapping) and isinstance(value, dict):
            kept = [pair for pair in node.pairs if pair[0].text in value]
            if kept or (not value and not node.pairs):
                inner = in_block and not node.flow
                for key, old in kept:
                    self._put(old, value[key.text], inner)
                self._drop(node, {key.text for key, _ in node.pairs} - value.keys())
                known = {key.text for key, _ in kept}
                new = {key: item for key, item in value.items() if key not in known}
                if new:
                    self._add(node, new, tuple(kept))
                return
        elif isinstance(node, Sequence) and isinstance(value, list):
            if len(node.items) == len(value):
                for old, item in zip(node.items, value, strict=True):
                    self._put(old, item, in_block and not node.flow)
                return
        elif isinstance(node, Scalar) and self._same(node, value):
            return
        self._replace(node, value, in_block)

    def _same(self, node: Scalar, value: Any) -> bool:
        if self.is_json and node.plain and isinstance(value, str) and not isinstance(value, Plain):
            return False
        return _equal(Plain(node.text) if node.plain else node.text, value, self.exact)

    def _replace(self, node: Node, value: Any, in_block: bool) -> None:
        start = node.start.index
        # A block of text ends at the next line: its last line end stays.
        end = start + len(self.text[start : node.end.index].rstrip())
        indent = _indent_of_line(self.text, start)
        if in_block and isinstance(value, Block) and value:
            if isinstance(node, Mapping) and not node.flow:
                lines = self._block_lines(value, " " * (node.start.column - 1))
                self.splices.append((start, end, self.newline.join(lines).lstrip(" ")))
                return
            if indent is not None and (_is_null(node) or not values(node)):
                # Below the key: a comment at the end of its line stays there.
                before = len(self.text[:start].rstrip(" "))
                self.splices.append((before, end, ""))
                lines = self._block_lines(value, indent + self.unit)
                at = _end_of_line(self.text, end)
                self.splices.append((at, at, "".join(self.newline + line for line in lines)))
                return
        space = " " if start == end and self.text[start - 1 : start] in (":", "-") else ""
        if isinstance(node, Sequence) and not node.flow:
            # Its entries may stand as far left as their key; what replaces them may not.
            space = self.unit
        many_lines = self.newline in self.text.strip()
        self.splices.append(
            (start, end, space + self._inline(value, indent if many_lines else None))
        )

    def _drop(self, node: Mapping, names: set[str]) -> None:
        for index, (key, value) in enumerate(node.pairs):
            if key.text not in names:
                continue
            start, end = key.start.index, value.end.index
            if node.flow:
                if any(before.text not in names for before, _ in node.pairs[:index]):
                    start = node.pairs[index - 1][1].end.index
                elif index + 1 < len(node.pairs):
                    end = node.pairs[index + 1][0].start.index
                self.splices.append((start, end, ""))
                continue
            start -= key.start.column - 1
            if self.text[start : key.start.index].strip(" "):
                raise _unfit(self.name, key, f"{key.text} begins on a line with something else")
            if value.end.column == 1:
                end = self._end_of_block(value)
            else:
                end = _end_of_line(self.text, end)
                ending = _LINE_END.match(self.text, end)
                end = ending.end() if ending else end
            self.splices.append((start, end, ""))

    def _add(self, node: Mapping, new: dict[str, Any], kept: Series[tuple[Scalar, Node]]) -> None:
        if node.flow:
            self._add_flow(node, new, kept)
            return
        last = kept[-1][1]
        column = node.pairs[0][0].start.column
        at = last.end.index
        if last.end.column == 1:
            # A text in lines ends where the next line begins; what is added begins on its own.
            at = self._end_of_block(last)
            at -= 2 if self.text[at - 2 : at] == "\r\n" else 1
        elif self.text.startswith(("|", ">"), _leaf(last).start.index):
            raise _unfit(self.name, _leaf(last), "no line end stands behind this text; add one")
        at = self._behind_comments(_end_of_line(self.text, at), column - 1)
        lines = self._block_lines(Block(new), " " * (column - 1))
        self.splices.append((at, at, "".join(self.newline + line for line in lines)))

    def _behind_comments(self, at: int, indent: int) -> int:
        """The end of the last comment below `at` that is indented like the mapping's keys."""
        end = at
        while (line := _COMMENT_LINE.match(self.text, end)) and not _is_shallow(line, indent):
            end = line.end()
            at = end if line[2] else at
        return at

    def _add_flow(
        self, node: Mapping, new: dict[str, Any], kept: Series[tuple[Scalar, Node]]
    ) -> None:
        key = node.pairs[-1][0].start.index
        before = self.text[_start_of_line(self.text, key) : key]
        indent, lead = None, " "
        if not before.strip():
            indent, lead = before, self.newline + before
        elif len(node.pairs) > 1:
            gap = re.fullmatch(" *,( *)", self.text[node.pairs[-2][1].end.index : key])
            lead = gap[1] if gap else lead
        entries = [lead + self._pair(key, value, indent) for key, value in new.items()]
        at = kept[-1][1].end.index
        rest = self.text[at : _end_of_line(self.text, at)]
        if not re.match(r"\s*,?\s+#", rest):
            self.splices.append((at, at, "".join(f",{entry}" for entry in entries)))
            return
        # The comment belongs to the entry before it.
        if not rest.lstrip().startswith(","):
            self.splices.append((at, at, ","))
        below = self.newline + " " * (node.pairs[0][0].start.column - 1)
        entries[0] = entries[0] if indent is not None else below + entries[0].lstrip()
        self.splices.append((at + len(rest), at + len(rest), ",".join(entries)))

    def _end_of_block(self, node: Node) -> int:
        """Where the line below a text that stands in lines begins, blank lines left out."""
        start, end = _leaf(node).start.index, node.end.index
        if "+" in self.text[start : _end_of_line(self.text, start)]:
            return end
        ending = _LINE_END.search(self.text, start + len(self.text[start:end].rstrip()))
        return ending.end() if ending else end

    def _block_lines(self, value: Block, indent: str) -> list[str]:
        lines = []
        for key, item in value.items():
            if isinstance(item, Block) and item:
                lines.append(f"{indent}{self._text(key)}:")
                lines += self._block_lines(item, indent + self.unit)
            else:
                lines.append(f"{indent}{self._text(key)}: {self._inline(item, None)}")
        return lines

    def _pair(self, key: str, value: Any, indent: str | None) -> str:
        return f"{self._text(key)}: {self._inline(value, indent)}"

    def _inline(self, value: Any, indent: str | None) -> str:
        """The value in one line, but a JSON `Block` over lines where `indent` is known."""
        if isinstance(value, dict):
            if self.is_json and isinstance(value, Block) and value and indent is not None:
                inner = indent + self.unit
                pairs = [inner + self._pair(key, item, inner) for key, item in value.items()]
                body = f",{self.newline}".join(pairs)
                return f"{{{self.newline}{body}{self.newline}{indent}}}"
            return "{" + ", ".join(self._pair(key, item, None) for key, item in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(self._inline(item, None) for item in value) + "]"
        if isinstance(value, str):
            return self._text(value)
        return _word(value)

    def _text(self, text: str) -> str:
        plain = _SAFE.fullmatch(text) and text.lower() not in _WORDS and not self.is_json
        return text if plain else quoted(text)


def _is_shallow(line: re.Match[str], indent: int) -> bool:
    return bool(line[2]) and len(line[1]) < indent


def _child(node: Node, step: str | int) -> Node | None:
    if isinstance(node, Mapping):
        pair = node.pair(str(step))
        return pair and pair[1]
    if isinstance(node, Sequence) and isinstance(step, int) and step < len(node.items):
        return node.items[step]
    return None


def _leaf(node: Node) -> Node:
    """The last scalar, or list or mapping in brackets, of a node."""
    while not isinstance(node, Scalar) and not node.flow:
        node = node.pairs[-1][1] if isinstance(node, Mapping) else node.items[-1]
    return node


def _is_flow(node: Node) -> bool:
    return not isinstance(node, Scalar) and node.flow


def _is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.plain and node.text in _NULLS


def _word(value: Any) -> str:
    """A number, bool or None. A float is written so that it reads back as the same bits."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    word = repr(value)
    if not isinstance(value, int | float) or not _NUMBER.fullmatch(word):
        raise ValueError(f"{value!r} is no finite number")
    # Readers of YAML 1.1 take `1e-05` for a text, but `1.0e-05` for the number.
    return word if "." in word or "e" not in word else word.replace("e", ".0e")


def _equal(known: Any, value: Any, exact: bool) -> bool:
    """Whether what was read from a text is the value: words by what they stand for."""
    if isinstance(value, dict):
        return (
            isinstance(known, dict)
            and known.keys() == value.keys()
            and all(_equal(known[key], value[key], exact) for key in value)
        )
    if isinstance(value, list):
        return (
            isinstance(known, list)
            and len(known) == len(value)
            and all(_equal(one, other, exact) for one, other in zip(known, value, strict=True))
        )
    if isinstance(value, Plain):
        return isinstance(known, Plain) and known == value
    if isinstance(value, str):
        return isinstance(known, str) and known == value
    if not isinstance(known, Plain):
        return False
    if value is None:
        return known in _NULLS
    if isinstance(value, bool):
        return known == str(value).lower()
    if not _NUMBER.fullmatch(known):
        return False
    is_int = bool(re.fullmatch(r"[-+]?[0-9]+", known))
    return float(known) == value and not (exact and is_int != isinstance(value, int))


def _holds(after: Any, before: Any, path: list[str | int], value: Any) -> bool:
    """Whether `after` is `before` with the value at the path and nothing else changed."""
    if not path:
        return _equal(after, value, exact=False)
    step = path[0]
    if isinstance(before, list) and isinstance(step, int):
        if not isinstance(after, list) or len(after) != len(before):
            return False
        same = [a == b for a, b in zip(after, before, strict=True)]
        return all(same[:step] + same[step + 1 :]) and _holds(
            after[step], before[step], path[1:], value
        )
    old = before if isinstance(before, dict) else {}
    if not isinstance(after, dict) or after.keys() != old.keys() | {step}:
        return False
    same_rest = all(after[key] == old[key] for key in old if key != step)
    return same_rest and _holds(after[step], old.get(str(step)), path[1:], value)


def _style(text: str, root: Node) -> tuple[str, str]:
    """The text's line end, and the spaces that it indents by."""
    ending = _LINE_END.search(text)
    newline = ending.group() if ending else "\n"
    if isinstance(root, Mapping):
        for _, value in root.pairs:
            if isinstance(value, Mapping) and not value.flow:
                return newline, " " * (value.start.column - root.start.column)
        if root.flow:
            found = re.match(r"\{[ ]*(?:\r\n|\r|\n)([ \t]+)", text[root.start.index :])
            return newline, found[1] if found else "  "
    return newline, "  "


def _end_of_line(text: str, index: int) -> int:
    found = _LINE_END.search(text, index)
    return found.start() if found else len(text)


def _start_of_line(text: str, index: int) -> int:
    return max(text.rfind("\n", 0, index), text.rfind("\r", 0, index)) + 1


def _indent_of_line(text: str, index: int) -> str | None:
    """White space at the beginning of the line; None when a list entry begins on it."""
    start = _start_of_line(text, index)
    found = re.compile(r"[ \t]*(- )?").match(text, start)
    return None if found is None or found[1] else found[0]


def _unfit(name: str, node: Node, reason: str) -> InvalidPack:
    message = f"cannot be edited here: {reason}; write this part one key a line, then try again"
    return InvalidPack([PackFault(message, name, node.start.line, node.start.column)])
