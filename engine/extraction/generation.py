"""Text that a model writes: the most probable token each time, or one drawn with a seed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import numpy as np

from spinf_serve.engine.extraction.answers import Finish, GeneratedAnswer, SlotAnswers
from spinf_serve.engine.extraction.steps import NO_COLUMNS, Ask, FloatArray, Seen
from spinf_serve.engine.extraction.vocabulary import Ends, Vocabulary
from spinf_serve.packs.question import Sampling

NEVER: Final = Ends((), NO_COLUMNS, frozenset(), MappingProxyType({}))
"""What ends no text."""

_SPARE = 26
"""Further tokens that are read where the most probable ones may be ends."""


@dataclass(slots=True, eq=False)
class _Sequence:
    """One text in the making."""

    draws: np.random.Generator
    tokens: tuple[int, ...] = ()
    spelled: bytes = b""
    finish: Finish | None = None


def stream_of(sampling: Sampling, number: int) -> np.random.Generator:
    """Where a sequence has its draws from: its seed and its number alone."""
    return np.random.Generator(np.random.Philox(key=(sampling.seed, number)))


def drawn(logprobs: FloatArray, sampling: Sampling, draws: np.random.Generator) -> int:
    """Which of some events happens; a temperature above 0.

    Args:
        logprobs: theirs by falling probability, not normed.
    """
    logs = logprobs / sampling.temperature
    weights = np.exp(logs - logs[0])
    shares = np.cumsum(weights) / weights.sum()
    kept = int(np.searchsorted(shares, sampling.top_p, side="left")) + 1
    # One number a token, whatever is kept, so that a draw depends on its place alone.
    at = draws.random() * shares[min(kept, len(shares)) - 1]
    return min(int(np.searchsorted(shares, at, side="right")), len(logprobs) - 1)


@dataclass(slots=True, eq=False)
class Generation:
    """A generated slot on one content.

    The model's own end, a newline and the stop text compete with the tokens as one event, which has
    the probability of all of them.

    Attributes:
        vocabulary: of the model.
        stop: text behind the slot.
        max_tokens: of one sequence.
        sampling: how tokens are chosen.
        ends: what ends a text; `NEVER` lets it go on to `max_tokens`.
    """

    vocabulary: Vocabulary
    stop: str
    max_tokens: int
    sampling: Sampling
    _sequences: list[_Sequence] = field(init=False)
    ends: Ends = field(init=False)
    _read: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.ends = self.vocabulary.ends(self.stop)
        self._sequences = [
            _Sequence(stream_of(self.sampling, number)) for number in range(self.sampling.n)
        ]

    def asks(self) -> list[Ask]:
        """What it wants to see next; sequences that are alike so far share it."""
        return [Ask(tokens, self.ends.ids, self.sampling.top_k + _SPARE) for tokens in self._wanted]

    @property
    def _wanted(self) -> list[tuple[int, ...]]:
        return list(dict.fromkeys(one.tokens for one in self._sequences if one.finish is None))

    def take(self, seen: Sequence[Seen]) -> None:
        """What was read for `asks`."""
        self._read += len(seen)
        by_tokens = dict(zip(self._wanted, seen, strict=True))
        for one in self._sequences:
            if one.finish is None:
                self._advance(one, by_tokens[one.tokens])

    def _advance(self, one: _Sequence, seen: Seen) -> None:
        token = self._choice(one, seen)
        if token is None:
            one.finish = "stop"
            return
        piece = self.vocabulary.pieces[token]
        cut = self.ends.inner.get(token)
        one.tokens = (*one.tokens, token)
        one.spelled += piece if cut is None else piece[:cut]
        if cut is not None:
            one.finish = "stop"
        elif len(one.tokens) == self.max_tokens:
            one.finish = "length"

    def _choice(self, one: _Sequence, seen: Seen) -> int | None:
        """The next token; None for the end."""
        candidates = [
            (token, logprob)
            for token, logprob in zip(
                seen.top_ids.tolist(), seen.top_logprobs.tolist(), strict=True
            )
            if token not in self.ends.every
        ][: self.sampling.top_k]
        ends = self.ends is not NEVER and len(seen.logprobs)
        end = float(np.logaddexp.reduce(seen.logprobs)) if ends else -np.inf
        events: list[tuple[int | None, float]] = [(None, end), *candidates]
        # The end first among equals: a text that may be over is.
        events.sort(key=lambda event: -event[1])
        if self.sampling.temperature == 0:
            return events[0][0]
        place = drawn(np.array([logprob for _, logprob in events]), self.sampling, one.draws)
        return events[place][0]

    def answers(self) -> SlotAnswers:
        """The texts, sequence by sequence."""
        generated = tuple(
            GeneratedAnswer(
                # A character that the last token left unfinished is left out.
                one.spelled.decode(errors="ignore").strip(),
                one.finish or "length",
                len(one.tokens),
            )
            for one in self._sequences
        )
        return SlotAnswers(kind="text", generated=generated, tokens=self._read)
