"""What a slot asks of a model step by step, and what it gets. Knows no device and no tree.

A *continuation* is the tokens behind a slot's prompt. What is read for one depends on the content,
the prompt and these tokens alone, so that slots share passes without knowing of each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spinf_serve.engine.extraction.answers import SlotAnswers

IntArray = NDArray[np.int32]
FloatArray = NDArray[np.float64]

NO_COLUMNS: IntArray = np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """What is wanted of the token behind one continuation.

    Attributes:
        tokens: the continuation; `()` is the prompt itself. Every other one asked has a parent,
            itself without its last token, among those that were asked just before.
        columns: [C] token ids whose log-probability is wanted, ascending.
        top: how many of the most probable tokens of the whole vocabulary are wanted besides.
    """

    tokens: tuple[int, ...]
    columns: IntArray
    top: int


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What was read for an `Ask`.

    Attributes:
        logprobs: [C] natural logs of the probabilities of its columns.
        top_ids: [top] the most probable tokens, by falling probability, equal ones by rising id;
            fewer where the vocabulary is smaller.
        top_logprobs: [top] theirs.
    """

    logprobs: FloatArray
    top_ids: IntArray
    top_logprobs: FloatArray


class Slot(Protocol):
    """One slot on one content: asks, is shown what was read, and ends with answers."""

    def asks(self) -> Sequence[Ask]:
        """What it wants to see next, each continuation once; nothing once it has ended."""
        ...

    def take(self, seen: Sequence[Seen]) -> None:
        """What was read for `asks`, in the same order."""
        ...

    def answers(self) -> SlotAnswers:
        """The answers; call it when nothing is asked any more."""
        ...
