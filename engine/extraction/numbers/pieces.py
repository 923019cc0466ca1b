"""Grammars over characters from a few pieces, with two uses: follow a text, and take it apart.

`Automaton` follows a text that is still being written and says whether it can become a form of the
grammar. `parses` takes a finished form apart, in every way that the grammar allows. Both are made
from the same pieces. Knows no numbers.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

Tags = tuple[tuple[str, str], ...]
"""What tagged pieces matched, in order: (tag, text)."""


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set."""

    chars: frozenset[str]


@dataclass(frozen=True, slots=True)
class Seq:
    """Pieces one behind the other."""

    pieces: "tuple[Piece, ...]"


@dataclass(frozen=True, slots=True)
class Alt:
    """One of several pieces; earlier ones are preferred when a text can be read in several ways."""

    pieces: "tuple[Piece, ...]"


@dataclass(frozen=True, slots=True)
class Repeat:
    """A piece `least` times or more, at most `most` times; None is no bound."""

    piece: "Piece"
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Tag:
    """A piece whose text is wanted by name."""

    name: str
    piece: "Piece"


Piece = Chars | Seq | Alt | Repeat | Tag


def chars(every: str) -> Chars:
    """One of these characters."""
    return Chars(frozenset(every))


def seq(*pieces: Piece) -> Piece:
    """Pieces one behind the other."""
    return Seq(pieces)


def alt(*pieces: Piece) -> Piece:
    """One of these pieces."""
    return Alt(pieces)


def optional(piece: Piece) -> Piece:
    """A piece or nothing, preferably the piece."""
    return Repeat(piece, 0, 1)


def repeat(piece: Piece, least: int, most: int | None = None) -> Piece:
    """A piece several times, preferably often."""
    return Repeat(piece, least, most)


def tag(name: str, piece: Piece) -> Piece:
    """A piece whose text is wanted."""
    return Tag(name, piece)


def word(text: str, *, any_case: bool = False) -> Piece:
    """Exactly this text; with `any_case` each letter may be of either case."""
    return Seq(
        tuple(chars(c.lower() + c.upper() if any_case and len(c.upper()) == 1 else c) for c in text)
    )


def words(*texts: str, any_case: bool = False) -> Piece:
    """One of these texts, preferably a longer one. A tree by characters, since they may be many."""
    rests: dict[str, list[str]] = {}
    for text in texts:
        first = text[:1].lower() if any_case else text[:1]
        rests.setdefault(first, []).append(text[1:])
    longer = [
        seq(word(first, any_case=any_case), words(*rest, any_case=any_case))
        for first, rest in rests.items()
        if first
    ]
    return Alt((*longer, NOTHING)) if "" in rests else Alt(tuple(longer))


NOTHING: Piece = Seq(())


def parses(piece: Piece, text: str) -> Iterator[Tags]:
    """Every way in which the whole text is this piece, the preferred one first."""
    for end, tags in _match(piece, text, 0):
        if end == len(text):
            yield tags


def _match(piece: Piece, text: str, at: int) -> Iterator[tuple[int, Tags]]:
    if isinstance(piece, Chars):
        if at < len(text) and text[at] in piece.chars:
            yield at + 1, ()
    elif isinstance(piece, Seq):
        yield from _match_all(piece.pieces, text, at)
    elif isinstance(piece, Alt):
        for one in piece.pieces:
            yield from _match(one, text, at)
    elif isinstance(piece, Tag):
        for end, tags in _match(piece.piece, text, at):
            yield end, ((piece.name, text[at:end]), *tags)
    else:
        yield from _match_often(piece, text, at, 0)


def _match_all(pieces: tuple[Piece, ...], text: str, at: int) -> Iterator[tuple[int, Tags]]:
    if not pieces:
        yield at, ()
        return
    for middle, first in _match(pieces[0], text, at):
        for end, rest in _match_all(pieces[1:], text, middle):
            yield end, first + rest


def _match_often(piece: Repeat, text: str, at: int, times: int) -> Iterator[tuple[int, Tags]]:
    if piece.most is None or times < piece.most:
        for middle, first in _match(piece.piece, text, at):
            if middle == at:
                continue
            for end, rest in _match_often(piece, text, middle, times + 1):
                yield end, first + rest
    if times >= piece.least:
        yield at, ()


@dataclass(eq=False, slots=True)
class _Node:
    """A place in the automaton: where one of some characters, or nothing, leads.

    There are many, so that each is one object and no more.
    """

    accepted: frozenset[str] = frozenset()
    target: "_Node | None" = None
    free: "tuple[_Node, ...]" = ()


@dataclass(eq=False, slots=True)
class State:
    """How far a text has come. States are few and shared: compare them with `is`.

    Attributes:
        complete: whether the text so far is a form of the grammar.
    """

    complete: bool
    _nodes: frozenset[_Node]
    _automaton: "Automaton"
    _after: dict[str, "State | None"] = field(default_factory=dict)

    def after(self, text: str) -> "State | None":
        """The state behind more text; None when nothing in the grammar goes on like that."""
        state = self
        for char in text:
            if char not in state._after:
                state._after[char] = state._automaton.step(state, char)
            following = state._after[char]
            if following is None:
                return None
            state = following
        return state

    @property
    def next_chars(self) -> frozenset[str]:
        """The characters that may follow."""
        return frozenset(char for node in self._nodes for char in node.accepted)


class Automaton:
    """Follows texts through a grammar. Its states are made as texts reach them."""

    def __init__(self, piece: Piece) -> None:
        self._end = _Node()
        first = _built(piece, self._end)
        self._states: dict[frozenset[_Node], State] = {}
        start = self._state([first])
        if start is None:
            raise AssertionError("a grammar without a form")
        self.start = start

    def step(self, state: State, char: str) -> State | None:
        """The state behind one more character."""
        reached = [
            node.target
            for node in state._nodes
            if node.target is not None and char in node.accepted
        ]
        return self._state(reached)

    def _state(self, nodes: list[_Node]) -> State | None:
        every: set[_Node] = set()
        while nodes:
            node = nodes.pop()
            if node not in every:
                every.add(node)
                nodes += node.free
        if not every:
            return None
        key = frozenset(every)
        if key not in self._states:
            self._states[key] = State(self._end in key, key, self)
        return self._states[key]


def _built(piece: Piece, end: _Node) -> _Node:
    """The place from which a piece leads to `end`."""
    if isinstance(piece, Chars):
        return _Node(piece.chars, end)
    if isinstance(piece, Seq):
        for one in reversed(piece.pieces):
            end = _built(one, end)
        return end
    if isinstance(piece, Alt):
        return _Node(free=tuple(_built(one, end) for one in piece.pieces))
    if isinstance(piece, Tag):
        return _built(piece.piece, end)
    if piece.most is None:
        again = _Node()
        again.free = (end, _built(piece.piece, again))
        first = again
    else:
        first = end
        for _ in range(piece.most - piece.least):
            first = _Node(free=(end, _built(piece.piece, first)))
    for _ in range(piece.least):
        first = _built(piece.piece, first)
    return first


def tagged(tags: Tags) -> Mapping[str, str]:
    """The text of each tag; a grammar gives a tag at most once in one form."""
    return dict(tags)
