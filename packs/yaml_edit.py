"""Edits of a YAML or JSON text that leave every other byte as it is.

A value is put at a path by splicing its span. Comments, order, blank lines, quoting and line ends
stay. The edited text is read again and has to hold what was meant. Does not know what a pack is.
"""

import re
from collections.abc import Sequence as Series
from dataclasses import dataclass, field
from typing import Any

from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.json_nodes import parse_json
from spinf_serve.packs.yaml_nodes import Mapping, Node, Plain, Scalar, Sequence, parse_yaml, values
from spinf_serve.packs.yaml_text import (
    LINE_END,
    Block,
    Writer,
    behind_comments,
    end_of_block,
    end_of_line,
    equal,
    indent_of_line,
    is_flow,
    is_null,
    leaf,
    start_of_line,
    style,
    unfit,
)

__all__ = ["Block", "Path", "set_value"]

Path = Series[str | int]


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
    editor = _Editor(text, name, exact, Writer(is_json, *style(text, root)))
    editor.put_at(root, list(path), value)
    edited = editor.result()
    if edited != text:
        try:
            after = values(parse(edited, name))
        except InvalidPack as unread:
            raise unfit(name, root, f"the edited file would not read back: {unread}") from None
        if not _holds(after, values(root), list(path), value):
            raise unfit(name, root, "the edited file would not read back as meant")
    return edited


@dataclass(slots=True)
class _Editor:
    """Collects splices of one text."""

    text: str
    name: str
    exact: bool
    write: Writer
    splices: list[tuple[int, int, str]] = field(default_factory=list)

    def put_at(self, node: Node, path: list[str | int], value: Any) -> None:
        """Walk to the path; what is missing of it becomes part of the value."""
        in_block = not self.write.is_json
        for depth, step in enumerate(path):
            below = _child(node, step)
            if below is None:
                for missing in reversed(path[depth + 1 :]):
                    value = Block({str(missing): value})
                value = Block({str(step): value})
                if isinstance(node, Mapping) and node.pairs:
                    self._add(node, value, node.pairs)
                elif isinstance(node, Mapping) or is_null(node):
                    self._replace(node, value, in_block)
                else:
                    raise unfit(self.name, node, f"here is no mapping to hold {step!r}")
                return
            in_block = in_block and not is_flow(node)
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
        if (
            self.write.is_json
            and node.plain
            and isinstance(value, str)
            and not isinstance(value, Plain)
        ):
            return False
        return equal(Plain(node.text) if node.plain else node.text, value, self.exact)

    def _replace(self, node: Node, value: Any, in_block: bool) -> None:
        start = node.start.index
        # A block of text ends at the next line: its last line end stays.
        end = start + len(self.text[start : node.end.index].rstrip())
        indent = indent_of_line(self.text, start)
        if in_block and isinstance(value, Block) and value:
            if isinstance(node, Mapping) and not node.flow:
                lines = self.write.block_lines(value, " " * (node.start.column - 1))
                self.splices.append((start, end, self.write.newline.join(lines).lstrip(" ")))
                return
            if indent is not None and (is_null(node) or not values(node)):
                # Below the key: a comment at the end of its line stays there.
                before = len(self.text[:start].rstrip(" "))
                self.splices.append((before, end, ""))
                lines = self.write.block_lines(value, indent + self.write.unit)
                at = end_of_line(self.text, end)
                self.splices.append((at, at, "".join(self.write.newline + line for line in lines)))
                return
        space = " " if start == end and self.text[start - 1 : start] in (":", "-") else ""
        if isinstance(node, Sequence) and not node.flow:
            # Its entries may stand as far left as their key; what replaces them may not.
            space = self.write.unit
        many_lines = self.write.newline in self.text.strip()
        self.splices.append(
            (start, end, space + self.write.inline(value, indent if many_lines else None))
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
                raise unfit(self.name, key, f"{key.text} begins on a line with something else")
            if value.end.column == 1:
                end = end_of_block(self.text, value)
            else:
                end = end_of_line(self.text, end)
                ending = LINE_END.match(self.text, end)
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
            at = end_of_block(self.text, last)
            at -= 2 if self.text[at - 2 : at] == "\r\n" else 1
        elif self.text.startswith(("|", ">"), leaf(last).start.index):
            raise unfit(self.name, leaf(last), "no line end stands behind this text; add one")
        at = behind_comments(self.text, end_of_line(self.text, at), column - 1)
        lines = self.write.block_lines(Block(new), " " * (column - 1))
        self.splices.append((at, at, "".join(self.write.newline + line for line in lines)))

    def _add_flow(
        self, node: Mapping, new: dict[str, Any], kept: Series[tuple[Scalar, Node]]
    ) -> None:
        key = node.pairs[-1][0].start.index
        before = self.text[start_of_line(self.text, key) : key]
        indent, lead = None, " "
        if not before.strip():
            indent, lead = before, self.write.newline + before
        elif len(node.pairs) > 1:
            gap = re.fullmatch(" *,( *)", self.text[node.pairs[-2][1].end.index : key])
            lead = gap[1] if gap else lead
        entries = [lead + self.write.pair(key, value, indent) for key, value in new.items()]
        at = kept[-1][1].end.index
        rest = self.text[at : end_of_line(self.text, at)]
        if not re.match(r"\s*,?\s+#", rest):
            self.splices.append((at, at, "".join(f",{entry}" for entry in entries)))
            return
        # The comment belongs to the entry before it.
        if not rest.lstrip().startswith(","):
            self.splices.append((at, at, ","))
        below = self.write.newline + " " * (node.pairs[0][0].start.column - 1)
        entries[0] = entries[0] if indent is not None else below + entries[0].lstrip()
        self.splices.append((at + len(rest), at + len(rest), ",".join(entries)))


def _child(node: Node, step: str | int) -> Node | None:
    if isinstance(node, Mapping):
        pair = node.pair(str(step))
        return pair and pair[1]
    if isinstance(node, Sequence) and isinstance(step, int) and step < len(node.items):
        return node.items[step]
    return None


def _holds(after: Any, before: Any, path: list[str | int], value: Any) -> bool:
    """Whether `after` is `before` with the value at the path and nothing else changed."""
    if not path:
        return equal(after, value, exact=False)
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
