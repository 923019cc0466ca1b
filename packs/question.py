"""A question: a template that ends where the answer goes, and the options that may stand there; and a
slot: a template that ends where an answer is to be found or written.

Values only. `spinf_serve.packs.template` parses and fills; `spinf_serve.packs.grid` expands.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from spinf_serve.packs.template import SlotKind

NO_VALUES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Prompt:
    """One filled template of a question.

    Attributes:
        text: the template with its placeholders filled and the slot taken off; what the model reads.
        values: placeholder name -> value, in the order of the template.
    """

    text: str
    values: Mapping[str, str] = field(default_factory=lambda: NO_VALUES, hash=False, compare=False)


@dataclass(frozen=True, slots=True)
class Question:
    """A scored question, checked and expanded: what the engine gets.

    Attributes:
        id: the caller's name for it.
        prompts: its filled templates, one per combination, at least one.
        options: the options exactly as given; the answer keeps their order and spelling.
        case_insensitive: whether other spellings of an option count for it.
        empty_floor: whether `floor_p` is wanted.
        group: the caller's label; echoed, moves no score.
        any_length: whether its filled templates are exempt from the limit on their tokens: those of
            a pack, which its author answers for.
        any_option_length: whether its options are exempt from the limit on theirs: labels that are
            read as whole texts.
    """

    id: str
    prompts: tuple[Prompt, ...]
    options: tuple[str, ...]
    case_insensitive: bool = True
    empty_floor: bool = True
    group: str | None = None
    any_length: bool = False
    any_option_length: bool = False


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens of a text that is written are chosen.

    Attributes:
        temperature: 0 takes the most probable token; else probabilities are raised to its inverse.
        top_k: tokens that are considered, the end besides.
        top_p: of those the most probable ones that have at least this share of their probability.
        seed: with the number of the sequence it fixes every draw.
        n: sequences.
    """

    temperature: float = 0.0
    top_k: int = 1
    top_p: float = 1.0
    seed: int = 0
    n: int = 1


GREEDY: Final = Sampling()
"""The most probable token each time."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for an answer without options, checked and expanded: what the engine gets.

    Attributes:
        id: the caller's name for it.
        prompts: its filled templates up to the slot, one per combination, at least one.
        kind: what may stand there: any kind but `OPTIONS`.
        stop: the text behind the slot; its first character ends a text.
        max_tokens: of an answer.
        sampling: how an answer is written, only where `kind` is `TEXT`; None searches for it.
        top_k: answers that the caller wants to see; the engine gives all that it found.
        group: the caller's label; echoed, moves no answer.
        any_length: whether its filled templates are exempt from the limit on their tokens.
    """

    id: str
    prompts: tuple[Prompt, ...]
    kind: SlotKind
    stop: str = ""
    max_tokens: int = 16
    sampling: Sampling | None = None
    top_k: int = 5
    group: str | None = None
    any_length: bool = False
