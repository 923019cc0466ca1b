"""The search for what a slot's answer may be: the most probable continuations, and where they end.

A step looks at a few continuations at a time, the most probable ones. Each may end there, which is
an answer with the probability of its tokens and of the end; and it may go on with a few more tokens.
An answer's probability is the sum over all token paths that were found to spell it. Subclasses say
what may follow and what ends.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from spinf_serve.engine.extraction.answers import FoundAnswer, SlotAnswers
from spinf_serve.engine.extraction.merging import number_key, text_key
from spinf_serve.engine.extraction.numbers.grammar import Kind as NumberKind
from spinf_serve.engine.extraction.numbers.reader import Reading, read
from spinf_serve.engine.extraction.steps import Ask, FloatArray, Seen
from spinf_serve.engine.extraction.vocabulary import Ends, NumberState, Vocabulary

Spelled = TypeVar("Spelled")


@dataclass(frozen=True, slots=True)
class Effort:
    """How far a search goes.

    Attributes:
        beams: continuations that are looked at in one step.
        continuations: tokens with which each of them may go on.
        least: probability below which a continuation is given up.
        share: the same, as a share of the best answer so far.
        spare: further tokens that are read where the most probable ones may be ends.
    """

    beams: int = 6
    continuations: int = 6
    least: float = 0.002
    share: float = 0.02
    spare: int = 26


class _Live(NamedTuple, Generic[Spelled]):
    """A continuation that may go on."""

    tokens: tuple[int, ...]
    logprob: float
    spelled: Spelled


class Search(ABC, Generic[Spelled]):
    """A searched slot on one content.

    Attributes:
        effort: how far it goes.
    """

    def __init__(self, start: Spelled, max_tokens: int, effort: Effort) -> None:
        self.effort = effort
        self._max_tokens = max_tokens
        self._live = [_Live((), 0.0, start)]
        self._paths: dict[str, float] = {}
        self._read = 0

    def asks(self) -> list[Ask]:
        """What it wants to see next; nothing once it has ended."""
        return [self._ask(live.spelled, live.tokens) for live in self._live]

    def take(self, seen: Sequence[Seen]) -> None:
        """What was read for `asks`."""
        self._read += len(seen)
        longer: list[_Live[Spelled]] = []
        for live, found in zip(self._live, seen, strict=True):
            for text, logprob in self._ended(live.spelled, found):
                self._add(text, math.exp(live.logprob + logprob))
            if len(live.tokens) < self._max_tokens:
                longer += [
                    _Live((*live.tokens, token), live.logprob + logprob, spelled)
                    for token, logprob, spelled in self._following(live.spelled, found)
                ]
        self._live = self._kept(longer)

    def _kept(self, live: list[_Live[Spelled]]) -> list[_Live[Spelled]]:
        """The continuations that are still worth a look, the most probable ones."""
        effort = self.effort
        best = max(self._paths.values(), default=0.0)
        least = max(effort.least, effort.share * best)
        worth = [one for one in live if math.exp(one.logprob) >= least]
        return sorted(worth, key=lambda one: (-one.logprob, one.tokens))[: effort.beams]

    def _add(self, text: str, p: float) -> None:
        stripped = text.strip()
        # An answer without a character is no answer: the model has nothing to say there.
        if stripped and p > 0:
            self._paths[stripped] = self._paths.get(stripped, 0.0) + p

    @abstractmethod
    def _ask(self, spelled: Spelled, tokens: tuple[int, ...]) -> Ask:
        """What is wanted of the token behind a continuation; one of the most tokens may only end."""

    @abstractmethod
    def _ended(self, spelled: Spelled, seen: Seen) -> Iterator[tuple[str, float]]:
        """Texts that end here, with the log-probability of ending so."""

    @abstractmethod
    def _following(self, spelled: Spelled, seen: Seen) -> Iterable[tuple[int, float, Spelled]]:
        """Tokens that may follow, with their log-probabilities and what is spelled then."""

    @abstractmethod
    def answers(self) -> SlotAnswers:
        """What was found."""

    def _merged(self, key: Mapping[str, Hashable]) -> list[tuple[str, float]]:
        """The most probable spelling of each key with the probability of all of them, best first."""
        total: dict[Hashable, float] = {}
        shown: dict[Hashable, str] = {}
        for text, p in sorted(self._paths.items(), key=lambda item: (-item[1], item[0])):
            shown.setdefault(key[text], text)
            total[key[text]] = total.get(key[text], 0.0) + p
        found = [(shown[one], p) for one, p in total.items()]
        return sorted(found, key=lambda item: (-item[1], item[0]))


class TextSearch(Search[bytes]):
    """A text that ends before its stop text, before a newline, or where the model ends it."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        stop: str,
        *,
        max_tokens: int,
        effort: Effort | None = None,
    ) -> None:
        super().__init__(b"", max_tokens, effort or Effort())
        self._vocabulary = vocabulary
        self._stop: Ends = vocabulary.ends(stop)

    def _ask(self, spelled: bytes, tokens: tuple[int, ...]) -> Ask:
        return Ask(tokens, self._stop.ids, self.effort.continuations + self.effort.spare)

    def _ended(self, spelled: bytes, seen: Seen) -> Iterator[tuple[str, float]]:
        text = _decoded(spelled)
        if text is not None and len(seen.logprobs):
            yield text, _log_sum(seen.logprobs)
        inner = self._stop.inner
        if inner.keys().isdisjoint(seen.top_ids.tolist()):
            return
        for token, logprob in _top(seen):
            # Where a token's first byte ends the answer, it is one of the ids above.
            cut = inner.get(token)
            if cut is not None:
                longer = _decoded(spelled + self._vocabulary.pieces[token][:cut])
                if longer is not None:
                    yield longer, logprob

    def _following(self, spelled: bytes, seen: Seen) -> Iterable[tuple[int, float, bytes]]:
        pieces, every, inner = self._vocabulary.pieces, self._stop.every, self._stop.inner
        goes_on = (
            (token, logprob, spelled + pieces[token])
            for token, logprob in _top(seen)
            if token not in every and token not in inner
        )
        return islice(goes_on, self.effort.continuations)

    def answers(self) -> SlotAnswers:
        """Texts with the same letters and digits are one answer; see `merging`."""
        merged = self._merged({text: text_key(text) for text in self._paths})
        return SlotAnswers(
            kind="text",
            found=tuple(FoundAnswer(text, p) for text, p in merged),
            mass=_total(self._paths.values()),
            spellings=len(self._paths),
            tokens=self._read,
        )


class NumberSearch(Search[tuple[str, NumberState]]):
    """A number or an amount in a form of the grammar, and nothing else.

    Every token that the grammar lets follow is read, so that what is left of the probability is
    that of the end.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        kind: NumberKind,
        *,
        max_tokens: int,
        effort: Effort | None = None,
    ) -> None:
        start = ("", vocabulary.start(kind))
        super().__init__(start, max_tokens, effort or Effort())
        self._vocabulary = vocabulary
        self._kind: NumberKind = kind

    def _ask(self, spelled: tuple[str, NumberState], tokens: tuple[int, ...]) -> Ask:
        return Ask(tokens, self._vocabulary.columns(self._kind, spelled[1]), 0)

    def _ended(self, spelled: tuple[str, NumberState], seen: Seen) -> Iterator[tuple[str, float]]:
        text, at = spelled
        if at.complete:
            rest = 1.0 - math.fsum(np.exp(seen.logprobs).tolist())
            if rest > 0:
                yield text, math.log(rest)

    def _following(
        self, spelled: tuple[str, NumberState], seen: Seen
    ) -> Iterator[tuple[int, float, tuple[str, NumberState]]]:
        text, at = spelled
        allowed = self._vocabulary.allowed(self._kind, at)
        # By falling probability, equal ones by rising id, as the columns are.
        best = np.argsort(-seen.logprobs, kind="stable")[: self.effort.continuations]
        ids = self._vocabulary.columns(self._kind, at)
        for place, token in zip(best.tolist(), ids[best].tolist(), strict=True):
            reached = allowed[token]
            whole = at.pending + self._vocabulary.pieces[token]
            longer = whole[: len(whole) - len(reached.pending)].decode()
            yield token, float(seen.logprobs[place]), (text + longer, reached)

    def answers(self) -> SlotAnswers:
        """Numbers of the same values and currency are one answer."""
        readings: dict[str, Reading] = {}
        for text in self._paths:
            reading = read(text, self._kind)
            if reading is None:
                raise AssertionError(f"{text!r} was completed and cannot be read")
            readings[text] = reading
        merged = self._merged({text: number_key(text, r) for text, r in readings.items()})
        return SlotAnswers(
            kind="number" if self._kind == "number" else "currency",
            found=tuple(_found(text, p, readings[text]) for text, p in merged),
            mass=_total(self._paths.values()),
            spellings=len(self._paths),
            p_negative=_p_negative([(p, readings[text]) for text, p in merged]),
            tokens=self._read,
        )


def _found(text: str, p: float, reading: Reading) -> FoundAnswer:
    return FoundAnswer(text, p, reading.values, reading.currency, reading.unit)


def _p_negative(merged: list[tuple[float, Reading]]) -> float | None:
    """Of the answers whose value is as large as the best one's, the share of the negative ones."""
    valued = [(p, reading.values[0]) for p, reading in merged if reading.values]
    if not valued:
        return None
    size = abs(valued[0][1])
    alike = [(p, value) for p, value in valued if abs(value) == size]
    total = math.fsum(p for p, _ in alike)
    return math.fsum(p for p, value in alike if value < 0) / total if total else None


def _decoded(spelled: bytes) -> str | None:
    """The text of bytes; None where a character is not whole, so that nothing may end there."""
    try:
        return spelled.decode()
    except UnicodeDecodeError:
        return None


def _top(seen: Seen) -> Iterator[tuple[int, float]]:
    return zip(seen.top_ids.tolist(), seen.top_logprobs.tolist(), strict=True)


def _log_sum(logprobs: FloatArray) -> float:
    top = float(logprobs.max())
    return top + math.log(math.fsum(np.exp(logprobs - top).tolist()))


def _total(values: Iterable[float]) -> float:
    # Rounding may leave a little more than all.
    return min(1.0, math.fsum(values))
