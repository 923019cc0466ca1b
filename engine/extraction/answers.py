"""Answers of slots: what was found or generated, with its probability. Values only."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

Kind = Literal["text", "number", "currency"]
Finish = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class FoundAnswer:
    """An answer that a search found, all its spellings together.

    Attributes:
        text: its most probable spelling, stripped.
        p: probability that the model writes one of the spellings that were found.
        values: what a number or amount can mean, the preferred reading first; empty for texts, and
            for a text that is not one number.
        currency: the sign or code beside an amount, as written.
        unit: `%`, `‰` or `bp` behind a number.
    """

    text: str
    p: float
    values: tuple[Decimal, ...] = ()
    currency: str | None = None
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class GeneratedAnswer:
    """A text that was generated.

    Attributes:
        text: it, stripped, without the stop text.
        finish: `stop` where the model ended it, `length` where `max_tokens` did.
        tokens: how many tokens it took, the ending one not counted.
    """

    text: str
    finish: Finish
    tokens: int


@dataclass(frozen=True, slots=True)
class SlotAnswers:
    """All that a slot gives on one content.

    Attributes:
        kind: what stands in the slot.
        found: answers of a search by falling probability; empty for a generated slot.
        mass: probability of all that the search found, whether or not it is among `found`.
        spellings: distinct texts that were found, before they were merged.
        p_negative: of the probability of answers as large as the best one, the share of negative
            ones; None for texts and where nothing was found.
        generated: texts in the order of their sequences; empty for a searched slot.
        tokens: continuations that were read for it.
    """

    kind: Kind
    found: tuple[FoundAnswer, ...] = ()
    mass: float = 0.0
    spellings: int = 0
    p_negative: float | None = None
    generated: tuple[GeneratedAnswer, ...] = ()
    tokens: int = 0
