"""A model of a dozen tokens whose next token depends on all before it, and every text it can write.

The oracle of searches: it enumerates, and shares no code with them but the reading of numbers.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from spinf_serve.engine.extraction.steps import Ask, Seen, Slot

END = "<end>"
Tokens = tuple[int, ...]


class ToyTokenizer:
    """Only what a vocabulary asks of a tokenizer."""

    def __init__(self, pieces: Sequence[bytes | str]) -> None:
        self.pieces = [piece if isinstance(piece, bytes) else piece.encode() for piece in pieces]
        self.vocab_size = len(pieces) + 1
        self.control_ids = frozenset({len(pieces)})

    def token_bytes(self, token_id: int) -> bytes:
        return self.pieces[token_id] if token_id < len(self.pieces) else b""


class ToyModel:
    """Probabilities from checksums; `sharpness` makes them less even."""

    def __init__(self, vocab: int, seed: int, sharpness: float = 2.0) -> None:
        self.vocab = vocab
        self._seed = seed
        self._sharpness = sharpness
        self._known: dict[Tokens, np.ndarray] = {}

    def logprobs(self, tokens: Tokens) -> np.ndarray:
        """[V] natural logs for the token behind `tokens`."""
        if tokens not in self._known:
            digest = hashlib.sha256(f"{self._seed}:{tokens}".encode()).digest()
            draws = np.random.default_rng(int.from_bytes(digest[:8], "little"))
            logits = draws.normal(size=self.vocab) * self._sharpness
            self._known[tokens] = logits - np.logaddexp.reduce(logits)
        return self._known[tokens]

    def see(self, ask: Ask) -> Seen:
        """What a slot is shown."""
        logprobs = self.logprobs(ask.tokens)
        order = np.lexsort((np.arange(self.vocab), -logprobs))[: ask.top]
        return Seen(logprobs[ask.columns], order.astype(np.int32), logprobs[order])


def run(slot: Slot, model: ToyModel) -> int:
    """Shows a slot what it asks for until it ends; the number of steps."""
    steps = 0
    asked: set[Tokens] = set()
    while asks := slot.asks():
        steps += 1
        for ask in asks:
            assert ask.tokens not in asked
            assert not ask.tokens or ask.tokens[:-1] in asked
            asked.add(ask.tokens)
        slot.take([model.see(ask) for ask in asks])
    return steps


def continuations(model: ToyModel, most: int) -> Iterator[tuple[Tokens, float]]:
    """Every sequence of at most so many tokens, the control token left out, with its probability."""
    level: list[tuple[Tokens, float]] = [((), 1.0)]
    for length in range(most + 1):
        yield from level
        if length < most:
            level = [
                ((*tokens, token), p * math.exp(model.logprobs(tokens)[token]))
                for tokens, p in level
                for token in range(model.vocab - 1)
            ]


def texts_by_enumeration(
    model: ToyModel, pieces: Sequence[bytes], most: int, marks: Sequence[bytes]
) -> dict[str, float]:
    """Every text that ends within `most` tokens: stripped text -> probability."""
    found: dict[str, float] = {}

    def add(spelled: bytes, p: float) -> None:
        try:
            text = spelled.decode().strip()
        except UnicodeDecodeError:
            return
        if text:
            found[text] = found.get(text, 0.0) + p

    for tokens, p in continuations(model, most):
        spelled = b"".join(pieces[token] for token in tokens)
        if any(mark in spelled for mark in marks):
            continue
        for token, logprob in enumerate(model.logprobs(tokens).tolist()):
            piece = b"" if token == len(pieces) else pieces[token]
            places = [piece.find(mark) for mark in marks if mark in piece]
            if token == len(pieces):
                add(spelled, p * math.exp(logprob))
            elif places:
                add(spelled + piece[: min(places)], p * math.exp(logprob))
    return found


def numbers_by_enumeration(
    model: ToyModel,
    pieces: Sequence[bytes],
    most: int,
    viable: Callable[[bytes], bool],
    complete: Callable[[str], bool],
) -> dict[str, float]:
    """Every number that ends within `most` tokens: stripped text -> probability.

    Args:
        viable: whether bytes can be the beginning of a number.
        complete: whether a text is one.
    """
    found: dict[str, float] = {}
    for tokens, p in continuations(model, most):
        spelled = b"".join(pieces[token] for token in tokens)
        if not viable(spelled):
            continue
        try:
            text = spelled.decode()
        except UnicodeDecodeError:
            continue
        if complete(text):
            goes_on = sum(
                math.exp(model.logprobs(tokens)[token])
                for token, piece in enumerate(pieces)
                if viable(spelled + piece)
            )
            found[text.strip()] = found.get(text.strip(), 0.0) + p * (1 - goes_on)
    return found
