"""A model's tokens as bytes, and the sets of them that slots ask about. Knows no probabilities."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Final, Protocol

import numpy as np

from spinf_serve.engine.extraction.numbers.grammar import AUTOMATA, GRAMMARS
from spinf_serve.engine.extraction.numbers.grammar import Kind as NumberKind
from spinf_serve.engine.extraction.numbers.pieces import Alt, Chars, Piece, Seq, State
from spinf_serve.engine.extraction.steps import IntArray

_CLOSING: Final[Mapping[str, str]] = MappingProxyType({'"': '"”', "'": "'’"})
"""Stop characters that close a quotation, with what closes it in print."""

_NEWLINE: Final = b"\n"


class Pieces(Protocol):
    """What is asked of a tokenizer here; see `engine.text.tokenizer`."""

    vocab_size: int
    control_ids: frozenset[int]

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes a token stands for; empty for control tokens."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """What ends a text slot.

    Attributes:
        marks: the characters, as bytes, with which the text behind the answer may begin.
        ids: tokens that begin with one of them or stand for no text: none adds to the answer.
        every: the same.
        inner: tokens that have one further behind -> where in their bytes.
    """

    marks: tuple[bytes, ...]
    ids: IntArray
    every: frozenset[int]
    inner: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class NumberState:
    """How far a number has come.

    Attributes:
        state: of the grammar, behind all whole characters.
        pending: bytes of a character that further tokens complete.
    """

    state: State
    pending: bytes = b""

    @property
    def complete(self) -> bool:
        """Whether the number may end here."""
        return self.state.complete and not self.pending


@dataclass(eq=False, slots=True)
class _Branch:
    """A node of the tree of token bytes: tokens that end here, and longer ones by the next byte."""

    ids: list[int] = field(default_factory=list)
    longer: "dict[int, _Branch]" = field(default_factory=dict)


class Vocabulary:
    """What slots need to know of a model's tokens. Sets are made once, when they are asked for.

    Attributes:
        pieces: bytes of each token.
        silent: tokens that stand for no text.
    """

    def __init__(self, tokenizer: Pieces) -> None:
        self.pieces: list[bytes] = [
            tokenizer.token_bytes(token) for token in range(tokenizer.vocab_size)
        ]
        self.silent = frozenset(
            token for token, piece in enumerate(self.pieces) if not piece
        ) | frozenset(token for token in tokenizer.control_ids if token < tokenizer.vocab_size)
        self._ends: dict[str, Ends] = {}
        self._roots: dict[NumberKind, _Branch] = {}
        self._allowed: dict[NumberState, Mapping[int, NumberState]] = {}
        self._columns: dict[NumberState, IntArray] = {}

    def ends(self, stop: str) -> Ends:
        """What ends a text before a stop text; without one a newline or the model's own end does."""
        if stop not in self._ends:
            first = stop[:1]
            marks = (*(char.encode() for char in _CLOSING.get(first, first)), _NEWLINE)
            ids: list[int] = []
            inner: dict[int, int] = {}
            for token, piece in enumerate(self.pieces):
                if token in self.silent or piece.startswith(marks):
                    ids.append(token)
                elif places := [at for mark in marks if (at := piece.find(mark)) >= 0]:
                    inner[token] = min(places)
            self._ends[stop] = Ends(marks, np.array(ids, np.int32), frozenset(ids), inner)
        return self._ends[stop]

    def start(self, kind: NumberKind) -> NumberState:
        """Where a number begins."""
        return NumberState(AUTOMATA[kind].start)

    def allowed(self, kind: NumberKind, at: NumberState) -> Mapping[int, NumberState]:
        """The tokens with which a number may go on -> how far it has come then, by rising id."""
        if at not in self._allowed:
            found: dict[int, NumberState] = {}
            self._walk(self._root(kind), at, found)
            self._allowed[at] = dict(sorted(found.items()))
        return self._allowed[at]

    def columns(self, kind: NumberKind, at: NumberState) -> IntArray:
        """The tokens of `allowed`, in its order."""
        if at not in self._columns:
            allowed = self.allowed(kind, at)
            self._columns[at] = np.fromiter(allowed, np.int32, len(allowed))
        return self._columns[at]

    def _walk(self, branch: _Branch, at: NumberState, found: dict[int, NumberState]) -> None:
        for byte, longer in branch.longer.items():
            reached = _after(at, byte)
            if reached is not None:
                found.update(dict.fromkeys(longer.ids, reached))
                self._walk(longer, reached, found)

    def _root(self, kind: NumberKind) -> _Branch:
        """The tree of all tokens that may be part of a number."""
        if kind not in self._roots:
            root = _Branch()
            known = "".join(sorted(_chars_of(GRAMMARS[kind]))).encode()
            for token, piece in enumerate(self.pieces):
                # Most tokens hold a byte that no number has.
                if piece.translate(None, known) or token in self.silent or len(piece) > _LONGEST:
                    continue
                _put(root, piece, token)
            self._roots[kind] = root
        return self._roots[kind]


_LONGEST: Final = 32
"""Bytes of the longest token that is looked at as part of a number."""


def _put(root: _Branch, piece: Iterable[int], token: int) -> None:
    branch = root
    for byte in piece:
        branch = branch.longer.setdefault(byte, _Branch())
    branch.ids.append(token)


@cache
def _chars_of(piece: Piece) -> frozenset[str]:
    """Every character that a piece can have."""
    if isinstance(piece, Chars):
        return piece.chars
    parts = piece.pieces if isinstance(piece, Seq | Alt) else (piece.piece,)
    return frozenset().union(*map(_chars_of, parts))


@cache
def _wide_chars(state: State) -> tuple[tuple[bytes, str], ...]:
    """Bytes of the characters beyond ASCII that may follow; states are few and never go."""
    return tuple((char.encode(), char) for char in state.next_chars if not char.isascii())


def _after(at: NumberState, byte: int) -> NumberState | None:
    """How far a number has come with one more byte; None when none goes on like that."""
    pending = at.pending + bytes((byte,))
    if not at.pending and byte < 0x80:
        state = at.state.after(chr(byte))
        return None if state is None else NumberState(state)
    for encoded, char in _wide_chars(at.state):
        if encoded == pending:
            state = at.state.after(char)
            return None if state is None else NumberState(state)
        if encoded.startswith(pending):
            return NumberState(at.state, pending)
    return None
