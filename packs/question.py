"""A question: a template that ends where the answer goes, and the options that may stand there.

Values only. `spinf_serve.packs.template` parses and fills; `spinf_serve.packs.grid` expands.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

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
