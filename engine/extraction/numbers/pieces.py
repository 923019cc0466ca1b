"""Grammars over characters from a few pieces, with two uses: follow a text, and take it apart.

`Automaton` follows a text that is still being written and says whether it can become a form of the
grammar. `parses` takes a finished form apart, in every way that the grammar allows. Both are made
from the same pieces. Knows no numbers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Tags = tuple[tuple[str, str], ...]
"""What tagged pieces matched, in order: (tag, text)."""


First = frozenset[str] | None
"""Characters with which a piece may begin; None for one that may be nothing."""


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set."""

    chars: frozenset[str]

    @property
    def first(self) -> First:
        """As of other pieces."""
        return self.chars


@dataclass(frozen=True, slots=True)
class Seq:
    """Pieces one behind the other."""

    pieces: "tuple[Piece, ...]"
    first: First = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "first", _first_of_all(self.pieces))


@dataclass(frozen=True, slots=True)
class Alt:
    """One of several pieces; earlier ones are preferred when a text can be read in several ways."""

    pieces: "tuple[Piece, ...]"
    first: First = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "first", _first_of_one(self.pieces))


@dataclass(frozen=True, slots=True)
class Repeat:
    """A piece `least` times or more, at most `most` times; None is no bound."""

    piece: "Piece"
    least: int
    most: int | None
    first: First = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "first", self.piece.first if self.least else None)


@dataclass(frozen=True, slots=True)
class Tag:
    """A piece whose text is wanted by name."""

    name: str
    piece: "Piece"
    first: First = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "first", self.piece.first)


Piece = Chars | Seq | Alt | Repeat | Tag


def _first_of_all(pieces: tuple[Piece, ...]) -> First:
    """Of pieces one behind the other: what the first one begins with that is never nothing."""
    found: frozenset[str] = frozenset()
    for piece in pieces:
        before = piece.piece.first if isinstance(piece, Repeat) else piece.first
        if piece.first is not None:
            return found | piece.first
        if before is None:
            return None
        found |= before
    return None


def _first_of_one(pieces: tuple[Piece, ...]) -> First:
    found: frozenset[str] = frozenset()
    for piece in pieces:
        if piece.first is None:
            return None
        found |= piece.first
    return found


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
    for end, tags in _Parse(text).ways(piece, 0):
        if end == len(text):
            yield tags


_Ways = Sequence[tuple[int, Tags]]
"""Where a piece may end, and its tags then, the preferred way first."""


class _Parse:
    """Takes one text apart. What a piece is at a place is found once, however many forms have it."""

    def __init__(self, text: str) -> None:
        self._text = text
        # By identity: a grammar outlives this, and its pieces are compared part by part.
        self._known: dict[tuple[int, int], _Ways] = {}

    def ways(self, piece: Piece, at: int) -> _Ways:
        """Every way in which the text from a place on begins with a piece."""
        char = self._text[at : at + 1]
        if isinstance(piece, Chars):
            return ((at + 1, ()),) if char in piece.chars else ()
        # Most of a large grammar is through here, at the first character.
        if piece.first is not None and char not in piece.first:
            return ()
        key = id(piece), at
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._found(piece, at)
        return found

    def _found(self, piece: Seq | Alt | Repeat | Tag, at: int) -> _Ways:
        if isinstance(piece, Seq):
            return self._all(piece.pieces, at)
        if isinstance(piece, Alt):
            return [way for one in piece.pieces for way in self.ways(one, at)]
        if isinstance(piece, Tag):
            return [
                (end, ((piece.name, self._text[at:end]), *tags))
                for end, tags in self.ways(piece.piece, at)
            ]
        return self._often(piece, at, 0)

    def _all(self, pieces: tuple[Piece, ...], at: int) -> _Ways:
        found: _Ways = [(at, ())]
        for piece in pieces:
            found = [
                (end, tags + more)
                for middle, tags in found
                for end, more in self.ways(piece, middle)
            ]
            if not found:
                break
        return found

    def _often(self, piece: Repeat, at: int, times: int) -> _Ways:
        found: list[tuple[int, Tags]] = []
        if piece.most is None or times < piece.most:
            for middle, first in self.ways(piece.piece, at):
                if middle > at:
                    rest = self._often(piece, middle, times + 1)
                    found += [(end, first + tags) for end, tags in rest]
        if times >= piece.least:
            found.append((at, ()))
        return found


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
