"""Edits of lists, of the order of keys, and of keys themselves; every other byte stays as it is.

Comments that stand directly above an entry move with it; none is ever taken away but those inside an
entry that is removed. The edited text is read again and has to hold what was meant. Does not know
what a pack is.
"""

import re
from collections.abc import Callable
from collections.abc import Mapping as MappingOf
from collections.abc import Sequence as Series
from difflib import SequenceMatcher
from functools import lru_cache, partial
from typing import Any

from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.json_nodes import parse_json
from spinf_serve.packs.yaml_edit import set_value
from spinf_serve.packs.yaml_nodes import (
    Mapping,
    Node,
    Scalar,
    Sequence,
    node_at,
    parse_yaml,
    values,
)
from spinf_serve.packs.yaml_text import (
    LINE_END,
    Block,
    Writer,
    end_of_block,
    end_of_line,
    equal,
    is_null,
    start_of_line,
    style,
    unfit,
)

Path = Series[str | int]

_COLON = re.compile(r"[ \t]*:")


def insert(text: str, name: str, path: Path, index: int, new: Series[Any]) -> str:
    """The text with entries put into the list at a path, before the entry that is at `index`.

    A list that is missing, or empty, is made; `Block`s become entries of one key a line.

    Raises:
        InvalidPack: when the text cannot be read, or its layout cannot take the entries.
    """
    edit = _Edit(text, name)
    node = _found(edit.root, path)
    if node is None or is_null(node):
        edit = _Edit(set_value(text, name, path, []), name)
        node = _found(edit.root, path)
    if not isinstance(node, Sequence):
        raise unfit(name, node or edit.root, "here is no list")
    if new:
        edit.insert(node, path, index, new)
        _at(edit.meant, path)[index:index] = new
    return edit.result()


def remove(text: str, name: str, path: Path, count: int = 1) -> str:
    """The text without an entry of a list, or without a key and its value.

    Args:
        path: of the entry; its last step is an index or a key.
        count: entries of a list to remove, from that one on.

    Raises `InvalidPack` as `insert` does; also when nothing is there.
    """
    edit = _Edit(text, name)
    node, place = edit.parent(path)
    if len(_entries(node)) == count:
        edit.clear(node, path[:-1])
    elif node.flow:
        edit.remove_flow(node, place, count)
    else:
        edit.remove_block(node, place, count)
    edit.change(path[:-1], lambda held: held[:place] + held[place + count :])
    return edit.result()


def move(text: str, name: str, path: Path, to: int) -> str:
    """The text with an entry of a list, or a key with its value, at another place among its like.

    Raises `InvalidPack` as `insert` does; also when nothing is there.
    """
    edit = _Edit(text, name)
    node, place = edit.parent(path)
    order = list(range(len(_entries(node))))
    order.insert(max(0, min(to, len(order) - 1)), order.pop(place))
    spans = [edit.span(node, at, comments=True) for at in range(len(order))]
    for slot, at in enumerate(order):
        if slot != at:
            start, end = spans[at]
            edit.splices.append((*spans[slot], text[start:end]))
    edit.change(path[:-1], lambda held: [held[at] for at in order])
    return edit.result()


def change(
    text: str,
    name: str,
    *,
    put: MappingOf[tuple[str | int, ...], str] | None = None,
    rename: MappingOf[tuple[str | int, ...], str] | None = None,
) -> str:
    """The text with other values of scalars, and other names of keys, all at once.

    Args:
        put: path of a scalar -> its new text.
        rename: path of a key -> its new name.

    Raises `InvalidPack` as `insert` does; also when a path leads nowhere, or a key is there already.
    """
    edit = _Edit(text, name)
    for path, value in (put or {}).items():
        node = _found(edit.root, path)
        if not isinstance(node, Scalar):
            raise unfit(name, node or edit.root, f"there is no text at {path[-1]!r}")
        if node.text != value:
            edit.replace(node, value)
            _at(edit.meant, path[:-1])[path[-1]] = value
    # Deepest first, so that the other paths still lead where they did.
    for path, key in sorted((rename or {}).items(), key=lambda one: -len(one[0])):
        node, place = edit.parent(path)
        if not isinstance(node, Mapping):
            raise unfit(name, node, "here are no keys")
        if path[-1] != key:
            edit.replace(node.pairs[place][0], key)
            edit.change(path[:-1], partial(_renamed, place=place, key=key))
    return edit.result()


def set_texts(text: str, name: str, path: Path, new: Series[str]) -> str:
    """The text with other texts in the list at a path; those that stay are not touched.

    Raises `InvalidPack` as `insert` does.
    """
    node = _found(_Edit(text, name).root, path)
    if not isinstance(node, Sequence) or not all(isinstance(one, Scalar) for one in node.items):
        return set_value(text, name, path, list(new))
    old = [one.text for one in node.items if isinstance(one, Scalar)]
    # From the end, so that places before stay where they are.
    steps = SequenceMatcher(None, old, list(new), autojunk=False).get_opcodes()
    for _, start, end, begin, until in reversed([one for one in steps if one[0] != "equal"]):
        same = min(end - start, until - begin)
        more = new[begin + same : until]
        if more:
            text = insert(text, name, path, start + same, more)
        elif end - start > same:
            text = remove(text, name, [*path, start + same], end - start - same)
        puts = {(*path, start + at): new[begin + at] for at in range(same)}
        text = change(text, name, put=puts) if puts else text
    return text


@lru_cache(maxsize=8)
def parsed(text: str, name: str) -> Node:
    """The text's nodes, kept: what one edit reads back is what the next begins with.

    Raises `InvalidPack` when the text cannot be read.
    """
    return (parse_json if _is_json(name) else parse_yaml)(text, name)


def _is_json(name: str) -> bool:
    return name.lower().endswith(".json")


class _Edit:
    """One edit of one text: its splices, and the values that it is meant to have afterwards."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self.root = parsed(text, name)
        self.write = Writer(_is_json(name), *style(text, self.root))
        self.meant: Any = values(self.root)
        self.splices: list[tuple[int, int, str]] = []

    def parent(self, path: Path) -> tuple[Sequence | Mapping, int]:
        """What holds the entry at a path, and the entry's place in it."""
        node = _found(self.root, path[:-1])
        step = path[-1]
        if isinstance(node, Mapping):
            for place, (key, _) in enumerate(node.pairs):
                if key.text == step:
                    return node, place
        elif isinstance(node, Sequence) and isinstance(step, int) and step < len(node.items):
            return node, step
        raise unfit(self.name, node or self.root, f"there is no {step!r}")

    def change(self, path: Path, to: Callable[[list[Any]], list[Any]]) -> None:
        """Note what becomes of the entries of a list, or of the pairs of a mapping."""
        held = _at(self.meant, path)
        if isinstance(held, list):
            held[:] = to(list(held))
        else:
            pairs = to(list(held.items()))
            if len(dict(pairs)) < len(pairs):
                raise unfit(self.name, node_at(self.root, path), "the name stands there already")
            held.clear()
            held.update(pairs)

    def replace(self, node: Scalar, value: str) -> None:
        """Write another text in a scalar's place."""
        start = node.start.index
        # A block of text ends at the next line: its last line end stays.
        end = start + len(self.text[start : node.end.index].rstrip())
        space = " " if start == end and self.text[start - 1 : start] in (":", "-") else ""
        self.splices.append((start, end, space + self.write.text(value)))

    def span(self, node: Sequence | Mapping, place: int, *, comments: bool) -> tuple[int, int]:
        """From where to where an entry stands, without the line end behind it.

        Args:
            comments: whether those directly above belong to it.
        """
        value = _entries(node)[place]
        first = node.pairs[place][0] if isinstance(node, Mapping) else value
        start, end = first.start.index, value.end.index
        if node.flow:
            return start, end
        indent = node.start.column - 1
        start = start_of_line(self.text, start)
        sign = "-" if isinstance(node, Sequence) else ""
        lead = re.compile(rf" {{{indent}}}{sign}")
        if sign:
            # A dash may stand above its entry.
            while not lead.match(self.text, start) and start > node.start.index:
                start = start_of_line(self.text, start - 1)
        opened = lead.match(self.text, start)
        begins = self.text[start : first.start.index].strip(" -\r\n") if opened else "?"
        if begins and not begins.startswith("#"):
            raise unfit(self.name, first, "it begins on a line with something else")
        if not sign and self.text[start : first.start.index].strip(" "):
            raise unfit(self.name, first, "it begins on a line with something else")
        if value.end.column == 1 and end > first.start.index:
            end = end_of_block(self.text, value)
            end -= 2 if self.text[end - 2 : end] == "\r\n" else 1 if end < len(self.text) else 0
        else:
            end = end_of_line(self.text, end)
        if comments:
            above = 0 if not place else self.span(node, place - 1, comments=False)[1]
            mark = re.compile(rf" {{{indent}}}#")
            while start > 0:
                before = start_of_line(self.text, start - (2 if self._is_windows(start) else 1))
                if before <= above or not mark.match(self.text, before):
                    break
                start = before
        return start, end

    def _is_windows(self, start: int) -> bool:
        return self.text[start - 2 : start] == "\r\n"

    def insert(self, node: Sequence, path: Path, index: int, new: Series[Any]) -> None:
        """Put entries into a list that is there."""
        newline = self.write.newline
        if node.flow and not node.items and any(isinstance(one, Block) for one in new):
            key = self._key(path)
            indent = " " * (key.start.column - 1) + self.write.unit
            lines = [line for one in new for line in self._lines(one, indent, 2)]
            start = self.text.rindex(":", 0, node.start.index) + 1
            self.splices.append((start, node.end.index, ""))
            at = end_of_line(self.text, node.end.index)
            self.splices.append((at, at, "".join(newline + line for line in lines)))
        elif node.flow:
            written = [self.write.inline(one, None) for one in new]
            if not node.items:
                self.splices.append((node.start.index, node.end.index, f"[{', '.join(written)}]"))
            elif index:
                at = node.items[index - 1].end.index
                self.splices.append((at, at, "".join(f", {one}" for one in written)))
            else:
                at = node.items[0].start.index
                self.splices.append((at, at, "".join(f"{one}, " for one in written)))
        else:
            indent = " " * (node.start.column - 1)
            start, _ = self.span(node, 0, comments=False)
            dash = start + len(indent)
            offset = 2
            if node.items[0].start.line == node.start.line:
                offset = max(2, node.items[0].start.index - dash)
            lines = [line for one in new for line in self._lines(one, indent, offset)]
            if index:
                _, at = self.span(node, index - 1, comments=False)
                self.splices.append((at, at, "".join(newline + line for line in lines)))
            else:
                at, _ = self.span(node, 0, comments=True)
                self.splices.append((at, at, "".join(line + newline for line in lines)))

    def _lines(self, value: Any, indent: str, offset: int) -> list[str]:
        """An entry of a list in lines, with its dash."""
        if isinstance(value, Block) and value:
            lines = self.write.block_lines(value, indent + " " * offset)
            lines[0] = indent + "-".ljust(offset) + lines[0].lstrip(" ")
            return lines
        return [f"{indent}- {self.write.inline(value, None)}"]

    def _key(self, path: Path) -> Scalar:
        holder = _found(self.root, path[:-1])
        pair = holder.pair(str(path[-1])) if isinstance(holder, Mapping) else None
        if pair is None:
            raise unfit(self.name, self.root, "the list has no key")
        return pair[0]

    def clear(self, node: Sequence | Mapping, path: Path) -> None:
        """Take all entries out of a list or mapping, which stays, empty."""
        empty = "[]" if isinstance(node, Sequence) else "{}"
        if node.flow:
            self.splices.append((node.start.index, node.end.index, empty))
            return
        colon = _COLON.match(self.text, self._key(path).end.index)
        if colon is None:
            raise unfit(self.name, node, "the list has no key")
        self.splices.append((colon.end(), colon.end(), f" {empty}"))
        for place in range(len(_entries(node))):
            self._take_lines(*self.span(node, place, comments=False))

    def remove_block(self, node: Sequence | Mapping, place: int, count: int) -> None:
        """Take entries and their lines away."""
        for at in range(place, place + count):
            self._take_lines(*self.span(node, at, comments=False))

    def _take_lines(self, start: int, end: int) -> None:
        ending = LINE_END.match(self.text, end)
        if ending:
            end = ending.end()
        elif start:
            start -= 2 if self._is_windows(start) else 1
        self.splices.append((start, end, ""))

    def remove_flow(self, node: Sequence | Mapping, place: int, count: int) -> None:
        """Take entries in brackets away; a comment between them stays."""
        spans = [self.span(node, at, comments=False) for at in range(len(_entries(node)))]
        last = place + count == len(spans)
        taken = spans[place : place + count]
        # With the comma that joined the entry to the one behind it, or the last one to one before.
        for at, (start, end) in enumerate(taken, start=place):
            if last:
                gap_start, gap_end = spans[at - 1][1], start
            else:
                gap_start, gap_end = end, spans[at + 1][0]
            gap = self.text[gap_start:gap_end]
            if "#" in gap or LINE_END.search(gap):
                comma = gap_start + _comma(gap)
                self.splices += [(start, end, ""), (comma, comma + 1, "")]
            else:
                self.splices.append((min(start, gap_start), max(end, gap_end), ""))

    def result(self) -> str:
        """The text with all splices made, read again."""
        parts = []
        read = 0
        for start, end, replacement in sorted(self.splices, key=lambda splice: splice[:2]):
            if start < read:
                raise unfit(self.name, self.root, "two edits meet in one place")
            parts += [self.text[read:start], replacement]
            read = end
        edited = "".join([*parts, self.text[read:]])
        if edited == self.text:
            return edited
        try:
            after = values(parsed(edited, self.name))
        except InvalidPack as unread:
            raise unfit(
                self.name, self.root, f"the edited file would not read back: {unread}"
            ) from None
        if not _same(after, self.meant):
            raise unfit(self.name, self.root, "the edited file would not read back as meant")
        return edited


def _comma(gap: str) -> int:
    """Where the comma of a gap between two entries is: not one within a comment."""
    masked = re.sub(r"#[^\r\n]*", lambda found: "#" * len(found[0]), gap)
    return masked.index(",")


def _found(root: Node, path: Path) -> Node | None:
    """The node at a path; None when it is not there."""
    node: Node = root
    for step in path:
        below: Node | None = None
        if isinstance(node, Mapping):
            pair = node.pair(str(step))
            below = pair and pair[1]
        elif isinstance(node, Sequence) and isinstance(step, int) and step < len(node.items):
            below = node.items[step]
        if below is None:
            return None
        node = below
    return node


def _entries(node: Sequence | Mapping) -> list[Node]:
    return list(node.items) if isinstance(node, Sequence) else [value for _, value in node.pairs]


def _at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def _renamed(pairs: list[Any], place: int, key: str) -> list[Any]:
    return [*pairs[:place], (key, pairs[place][1]), *pairs[place + 1 :]]


def _same(known: Any, meant: Any) -> bool:
    """Whether what was read is what was meant, the order of keys included."""
    if isinstance(meant, dict):
        return (
            isinstance(known, dict)
            and list(known) == list(meant)
            and all(_same(known[key], meant[key]) for key in meant)
        )
    if isinstance(meant, list):
        return (
            isinstance(known, list)
            and len(known) == len(meant)
            and all(_same(one, other) for one, other in zip(known, meant, strict=True))
        )
    return equal(known, meant, exact=False)
