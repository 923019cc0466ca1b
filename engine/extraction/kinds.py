"""Which search or generation fills a slot."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from spinf_serve.engine.extraction.generation import Generation
from spinf_serve.engine.extraction.numbers.grammar import Kind as NumberKind
from spinf_serve.engine.extraction.search import NumberSearch, TextSearch
from spinf_serve.engine.extraction.steps import Slot
from spinf_serve.engine.extraction.vocabulary import Vocabulary
from spinf_serve.packs import question
from spinf_serve.packs.template import SlotKind

_NUMBERS: Final[Mapping[SlotKind, NumberKind]] = MappingProxyType(
    {SlotKind.NUMBER: "number", SlotKind.AMOUNT: "amount"}
)


def begun(slot: question.Slot, vocabulary: Vocabulary) -> Slot:
    """A slot of which nothing was read yet."""
    if slot.sampling is not None:
        return Generation(vocabulary, slot.stop, slot.max_tokens, slot.sampling)
    if slot.kind in _NUMBERS:
        return NumberSearch(vocabulary, _NUMBERS[slot.kind], max_tokens=slot.max_tokens)
    return TextSearch(vocabulary, slot.stop, max_tokens=slot.max_tokens)
