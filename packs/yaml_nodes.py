"""A YAML text as nodes with their places, and everything a pack's file must not contain refused.

Nothing is constructed from a scalar: `yes`, `010`, `1.10` and `12:30` stay the text that was
written, and the field that takes them decides what they mean. Tokens come from ruamel.yaml's pure
parser (YAML 1.2); the nodes are made here, without recursion. Does not know what a pack is.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Sequence as Series
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import (
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    MappingStartEvent,
    ScalarEvent,
    StreamEndEvent,
)
from ruamel.yaml.parser import Parser
from ruamel.yaml.scanner import Scanner

from spinf_serve.packs.faults import InvalidPack, PackFault
from spinf_serve.packs.notes import cut
from spinf_serve.packs.yaml_sentences import (
    LEFT_OUT,
    Complaint,
    Sentence,
    control_character,
    late_quote,
    left_out,
    quoted_rest,
    sentence,
)

YAML_LIMIT_BYTES = 512 << 10
JSON_LIMIT_BYTES = 16 << 20
NESTING_LIMIT = 32
NODE_LIMIT = 20_000
FAULT_LIMIT = 50

# What YAML calls printable, less three that ruamel reads as line breaks and the byte order mark.
_UNREADABLE = re.compile(
    "[^\t\n\r -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
# White space, line ends and comments up to the next token.
_GAP = re.compile(r"(?: *+(?:#[^\r\n\0]*+)?(?:\r\n?|\n))*+ *+(?:#[^\r\n\0]*+)?")
_FLOW_GAP = re.compile(r"(?:[ \t]*+(?:#[^\r\n\0]*+)?(?:\r\n?|\n))*+[ \t]*+(?:#[^\r\n\0]*+)?")
_COLON = re.compile(r"[ \t\r\n]*+:")


@dataclass(frozen=True, slots=True)
class Mark:
    """A place: line and column from 1, and the offset in characters into the text from 0."""

    line: int
    column: int
    index: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """A text.

    Attributes:
        text: of a plain scalar as written, of others with escapes and line folding resolved.
        plain: written without quotes and not as a block; empty when a value is left out.
        start, end: the span of what stands in the text, quotes included; a block scalar's ends
            where the next line that is not blank begins.
    """

    text: str
    plain: bool
    start: Mark
    end: Mark


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list. `flow`: in brackets, which `start` and `end` then include."""

    items: tuple["Node", ...]
    flow: bool
    start: Mark
    end: Mark


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys and values in the order of the file; no key twice. `flow`: in braces."""

    pairs: tuple[tuple[Scalar, "Node"], ...]
    flow: bool
    start: Mark
    end: Mark

    def pair(self, key: str) -> tuple[Scalar, "Node"] | None:
        """The key's scalar and its value."""
        return next((pair for pair in self.pairs if pair[0].text == key), None)


Node: TypeAlias = Scalar | Sequence | Mapping


class Plain(str):
    """An unquoted scalar: tells `null`, `true` and `1.5` from the texts in quotes."""

    __slots__ = ()


Value: TypeAlias = dict[str, "Value"] | list["Value"] | Plain | str


def source_text(data: bytes, name: str) -> str:
    """A file's text without its byte order mark; line ends as they are.

    Raises:
        InvalidPack: over 512 KiB (16 MiB when `name` ends in `.json`), or not UTF-8.
    """
    is_json = name.lower().endswith(".json")
    limit = JSON_LIMIT_BYTES if is_json else YAML_LIMIT_BYTES
    if len(data) > limit:
        raise _invalid(
            f"the file has {len(data):,} bytes, a {'JSON' if is_json else 'YAML'} pack at most "
            f"{limit:,}; split it, or leave out what is not part of the pack",
            name,
        )
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or (b"\x00" in data[:4] and len(data) > 1):
        raise _invalid("the file is UTF-16 or UTF-32; save it as UTF-8", name)
    data = data.removeprefix(BOM_UTF8)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        raise _invalid(
            f"byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8",
            name,
            _mark_of(before, len(before)),
        ) from None


def parse_yaml(text: str, name: str) -> Node:
    """The nodes of the text's one document.

    Raises:
        InvalidPack: with line and column, when the text is not YAML or uses what packs leave out:
            duplicate keys, tabs as indentation, anchors, aliases, merge keys, tags, directives,
            several documents, keys that are no texts, control characters, more than 32 levels.
    """
    unreadable = _UNREADABLE.search(text)
    if unreadable:
        raise _invalid(
            control_character(unreadable.group()), name, _mark_of(text, unreadable.start())
        )
    return _Source(text, name).document()


def values(node: Node) -> Value:
    """The node as dicts, lists and texts; unquoted texts are `Plain`."""
    if isinstance(node, Scalar):
        return Plain(node.text) if node.plain else node.text
    if isinstance(node, Sequence):
        return [values(item) for item in node.items]
    return {key.text: values(value) for key, value in node.pairs}


def node_at(node: Node, path: Series[str | int]) -> Node:
    """The node at the path of keys and indexes, or the nearest one above it that exists."""
    for step in path:
        if isinstance(node, Mapping):
            pair = node.pair(str(step))
            if pair is None:
                return node
            node = pair[1]
        elif isinstance(node, Sequence) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
        else:
            return node
    return node


def _mark_of(text: str, index: int) -> Mark:
    before = text[:index].replace("\r\n", "\n\n").replace("\r", "\n")
    lines = text[:index].count("\n") + text[:index].count("\r") - text[:index].count("\r\n")
    return Mark(lines + 1, index - (before.rfind("\n") + 1) + 1, index)


def _invalid(message: str, name: str, mark: Mark | None = None) -> InvalidPack:
    place = (mark.line, mark.column) if mark else (0, 0)
    return InvalidPack([PackFault(message, name, *place)])


class _Reader:
    """Characters of a text for ruamel's scanner; ends with NUL, which the text cannot hold."""

    encoding = None

    def __init__(self, text: str) -> None:
        self.buffer = text + "\0"
        self.index = 0
        self.line = 0
        self.column = 0

    def peek(self, offset: int = 0) -> str:
        return self.buffer[self.index + offset]

    def prefix(self, length: int = 1) -> str:
        return self.buffer[self.index : self.index + length]

    def forward(self, length: int = 1) -> None:
        passed = self.buffer[self.index : self.index + length]
        if "\n" not in passed and "\r" not in passed:
            self.index += length
            self.column += length
            return
        for position in range(self.index, self.index + length):
            character = self.buffer[position]
            if character == "\n" or (character == "\r" and self.buffer[position + 1] != "\n"):
                self.line += 1
                self.column = 0
            else:
                self.column += 1
        self.index += length

    def get_mark(self) -> Mark:
        return Mark(self.line + 1, self.column + 1, self.index)


class _Scanner(Scanner):
    """ruamel's scanner, which stops at what packs leave out before it is read."""

    def __init__(self, source: "_Source") -> None:
        self.brackets: list[Mark] = []
        self.quoted: tuple[Mark, Mark] | None = None
        super().__init__(source)

    def scan_flow_scalar(self, style: Any) -> Any:
        token = super().scan_flow_scalar(style)
        self.quoted = (token.start_mark, token.end_mark)
        return token

    def fetch_directive(self) -> None:
        self._refuse("%")

    def fetch_anchor(self) -> None:
        self._refuse("&")

    def fetch_alias(self) -> None:
        self._refuse("*")

    def fetch_tag(self) -> None:
        self._refuse("!")

    def fetch_key(self) -> None:
        self._refuse("?")

    def fetch_flow_collection_start(self, TokenClass: Any, to_push: str) -> None:
        if self.flow_level >= NESTING_LIMIT:
            self._stop(f"nested deeper than {NESTING_LIMIT} levels")
        self.brackets.append(self.reader.get_mark())
        super().fetch_flow_collection_start(TokenClass, to_push)

    def fetch_flow_collection_end(self, TokenClass: Any) -> None:
        if self.brackets:
            self.brackets.pop()
        super().fetch_flow_collection_end(TokenClass)

    def need_more_tokens(self) -> bool:
        # Asked several times a token. Without a possible key nothing needs to be looked for.
        if self.done or (self.tokens and not self.possible_simple_keys):
            return False
        return super().need_more_tokens()

    def scan_to_next_token(self) -> None:
        """Passes white space and comments, refusing what an author would not expect."""
        reader = self.reader
        passed = (_FLOW_GAP if self.flow_level else _GAP).match(reader.buffer, reader.index)
        gap = passed.group() if passed else ""
        if gap.startswith("#") and reader.index and reader.peek(-1) not in " \t\r\n":
            self._stop(LEFT_OUT["#"])
        if "\n" in gap or "\r" in gap:
            tab = re.search(r"[\r\n] *\t", gap)
            if tab:
                reader.forward(tab.end() - 1)
                self._stop(LEFT_OUT["\t"])
            if not self.flow_level:
                self.allow_simple_key = True
        reader.forward(len(gap))

    def _refuse(self, character: str) -> NoReturn:
        reader = self.reader
        bracket = self.brackets[-1].index if self.brackets else None
        self._stop(left_out(character, reader.buffer[:-1], reader.index, bracket))

    def _stop(self, message: str) -> NoReturn:
        mark: Mark = self.reader.get_mark()
        raise _invalid(message, self.loader.name, mark)


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not been read. `key` waits for its value."""

    is_mapping: bool
    flow: bool
    start: Mark
    items: list[Node] = field(default_factory=list)
    pairs: list[tuple[Scalar, Node]] = field(default_factory=list)
    key: Scalar | None = None

    @property
    def awaits_key(self) -> bool:
        return self.is_mapping and self.key is None

    def add(self, node: Node) -> None:
        if self.key is None:
            self.items.append(node)
        else:
            self.pairs.append((self.key, node))
            self.key = None


class _Source:
    """Reader, scanner and parser of one text, found by each other under ruamel's names."""

    typ = "pure"
    processing_version = (1, 2)
    comment_handling = None

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self.resolver = self
        self.reader = _Reader(text)
        self.scanner = _Scanner(self)
        self.parser = Parser(self)

    def document(self) -> Node:
        """The one document's node."""
        root: Node | None = None
        opened: list[_Open] = []
        faults: list[PackFault] = []
        documents = count = 0
        while not isinstance(event := self._event(), StreamEndEvent):
            done: Node
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self._stop("a second document begins here; a file holds one pack", event)
                continue
            if isinstance(event, CollectionStartEvent):
                opened.append(self._opened(event, opened))
                continue
            if isinstance(event, CollectionEndEvent):
                done = self._closed(opened.pop(), event.end_mark, faults)
            elif isinstance(event, ScalarEvent):
                done = self._scalar(event)
                if opened and opened[-1].awaits_key:
                    opened[-1].key = self._key(done)
                    continue
                if done.plain and not done.text and opened and opened[-1].key:
                    done = self._empty(opened[-1].key, opened[-1].start)
            else:
                continue
            count += 1
            if count > NODE_LIMIT:
                raise self._stop(f"more than {NODE_LIMIT:,} values; split the file", event)
            if opened:
                opened[-1].add(done)
            else:
                root = done
        if faults:
            raise InvalidPack(faults)
        if root is None or (isinstance(root, Scalar) and root.plain and not root.text):
            raise _invalid(LEFT_OUT[""], self.name)
        return root

    def _event(self) -> Any:
        try:
            return self.parser.get_event()
        except MarkedYAMLError as error:
            at = error.problem_mark or error.context_mark
            begun = error.context_mark or at
            problem = error.problem or error.context
            bracket = self.scanner.brackets[-1].index if self.scanner.brackets else None
            complaint = Complaint(self.text, problem, at.index, begun.index, bracket)
            said = self._late_quote(at) or sentence(complaint)
            raise self._stop(said.message, _mark_of(self.text, said.index)) from None
        except (ValueError, OverflowError):
            # The one thing that ruamel hands on unchecked: chr() of an escape such as \UFFFFFFFF.
            raise self._stop(LEFT_OUT["\\U"], self.reader.get_mark()) from None

    def _late_quote(self, at: Mark) -> Sentence | None:
        """What is wrong when a quoted text of several lines ends in the line that cannot be read."""
        if self.scanner.quoted is None:
            return None
        start, end = self.scanner.quoted
        if start.line == end.line or end.line != at.line:
            return None
        return late_quote(self.text[start.index], start.index, end.line)

    def _stop(self, message: str, at: Any) -> InvalidPack:
        mark: Mark = at if isinstance(at, Mark) else at.start_mark
        return _invalid(message, self.name, mark)

    def _opened(self, event: Any, opened: list[_Open]) -> _Open:
        start: Mark = event.start_mark
        is_mapping = isinstance(event, MappingStartEvent)
        if len(opened) >= NESTING_LIMIT:
            raise self._stop(f"nested deeper than {NESTING_LIMIT} levels", start)
        if opened and opened[-1].awaits_key:
            raise self._stop(left_out("[", self.text, start.index, None), start)
        if is_mapping and event.flow_style and self.text[start.index] != "{":
            raise self._stop(left_out("[:", self.text, start.index, 0), start)
        return _Open(is_mapping, event.flow_style, start)

    def _scalar(self, event: Any) -> Scalar:
        wrong = re.search("[\0\ud800-\udfff]", event.value)
        if wrong:
            raise self._stop(control_character(wrong.group()), event)
        return Scalar(event.value, event.style is None, event.start_mark, event.end_mark)

    def _key(self, key: Scalar) -> Scalar:
        if key.plain and key.text == "<<":
            raise self._stop(LEFT_OUT["<<"], key.start)
        if key.plain and not key.text:
            raise self._stop(LEFT_OUT[":"], key.start)
        return key

    def _empty(self, key: Scalar, bracket: Mark) -> Scalar:
        """The empty value of a key, behind its colon: ruamel puts it at the next token."""
        colon = _COLON.match(self.text, key.end.index)
        if colon is None:
            # Only `{a, b: 1}` can do without.
            whole = quoted_rest(self.text, bracket.index, None)
            raise self._stop(
                "a key without a value; write `key: value`, put a list in [ ], or put the whole "
                f"text in double quotes: {whole}",
                key.start,
            )
        lines = _mark_of(colon.group(), len(colon.group()))
        column = lines.column if lines.line > 1 else key.end.column + lines.column - 1
        behind = Mark(key.end.line + lines.line - 1, column, colon.end())
        return Scalar("", True, behind, behind)

    def _closed(self, opened: _Open, end: Mark, faults: list[PackFault]) -> Node:
        # A block's end event stands at the next token, behind comments: take the last child's end.
        if not opened.flow:
            children = opened.items or [pair[1] for pair in opened.pairs[-1:]]
            end = children[-1].end if children else opened.start
        if not opened.is_mapping:
            return Sequence(tuple(opened.items), opened.flow, opened.start, end)
        first: dict[str, Mark] = {}
        for key, _ in opened.pairs:
            if key.text in first:
                line = first[key.text].line
                message = (
                    f"the key `{cut(key.text)}` stands twice, first on line {line}; remove one"
                )
                faults.append(PackFault(message, self.name, key.start.line, key.start.column))
                if len(faults) == FAULT_LIMIT:
                    raise InvalidPack(faults)
            first.setdefault(key.text, key.start)
        return Mapping(tuple(opened.pairs), opened.flow, opened.start, end)
