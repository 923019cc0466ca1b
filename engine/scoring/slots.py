"""The slots of a work in tokens, compiled once and shared by every content that they are asked about.

What a slot asks of its prompt follows from the slot alone, so it is read with the questions.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from spinf_serve.engine.extraction.kinds import begun
from spinf_serve.engine.extraction.steps import Ask
from spinf_serve.engine.extraction.vocabulary import Vocabulary
from spinf_serve.engine.scoring.compile import Opening
from spinf_serve.engine.text.cut import Cut
from spinf_serve.engine.text.framed import compile_framed, join_framed
from spinf_serve.engine.text.joins import PromptTokens, compile_prompts, join
from spinf_serve.engine.text.tokenizer import Tokenizer
from spinf_serve.engine.work import Frame, Limits
from spinf_serve.packs.errors import Refused
from spinf_serve.packs.question import Slot
from spinf_serve.packs.template import SlotKind


@dataclass(frozen=True, slots=True, eq=False)
class SlotSet:
    """Compiled slots: S prompts of all slots in order.

    Attributes:
        slots: what was compiled.
        prompts: [S] tokens of each prompt, apart from any content; they have no options.
        asks: [S] what is wanted of the token behind each.
    """

    slots: tuple[Slot, ...]
    prompts: list[PromptTokens]
    asks: list[Ask]

    @property
    def each(self) -> Iterator[Slot]:
        """The slot of each prompt."""
        return (slot for slot in self.slots for _ in slot.prompts)

    @property
    def texts(self) -> list[str]:
        """[S] the prompts as texts."""
        return [prompt.text for slot in self.slots for prompt in slot.prompts]

    def openings(self, prompts: list[PromptTokens], lead: tuple[int, ...] = ()) -> list[Opening]:
        """What is read for them behind a content; `prompts` as they are joined with it."""
        return [
            Opening(lead + prompt.path, ask.columns, ask.top, slot.max_tokens)
            for slot, prompt, ask in zip(self.each, prompts, self.asks, strict=True)
        ]


def compile_slots(
    tokenizer: Tokenizer,
    vocabulary: Vocabulary,
    slots: tuple[Slot, ...],
    frame: Frame | None,
    limits: Limits,
) -> SlotSet:
    """The slots in tokens. Raises `Refused` with a param relative to the work."""
    count = sum(len(slot.prompts) for slot in slots)
    if count > limits.max_extractions_per_input:
        raise Refused(
            "too_many_extractions",
            f"the slots have {count} filled templates in all; the limit is "
            f"{limits.max_extractions_per_input} (max_extractions_per_input): split them over "
            "several requests",
            "slots",
        )
    prompts: list[PromptTokens] = []
    asks: list[Ask] = []
    for number, slot in enumerate(slots):
        if slot.sampling is not None and slot.kind is not SlotKind.TEXT:
            raise AssertionError(
                f"slot {slot.id} writes a {slot.kind.name}; only texts are written"
            )
        made = _compiled(tokenizer, slot, frame, number)
        for index, prompt in enumerate(made):
            _check_length(prompt, slot, number, index, limits)
        prompts += made
        asks += [begun(slot, vocabulary).asks()[0]] * len(made)
    return SlotSet(slots, prompts, asks)


def join_slots(
    tokenizer: Tokenizer, content: Cut, slots: SlotSet, frame: Frame | None
) -> list[PromptTokens]:
    """[S] prompts behind the trunk of a content, each with the content's stem in its path."""
    texts = slots.texts
    if frame is not None:
        return join_framed(tokenizer, content, texts, slots.prompts, frame)
    return join(tokenizer, content, texts, slots.prompts, (), False, 0)


def _compiled(
    tokenizer: Tokenizer, slot: Slot, frame: Frame | None, number: int
) -> list[PromptTokens]:
    texts = [prompt.text for prompt in slot.prompts]
    try:
        if frame is None:
            return compile_prompts(tokenizer, texts, (), False, 0)
        return compile_framed(tokenizer, texts, (), frame, 0)
    except Refused:
        # Anew, since parts of texts were tokenised: a place counts from a text's start.
        for index, text in enumerate(texts):
            try:
                tokenizer.encode(text)
            except Refused as fault:
                raise fault.within(f"slots.{number}.{prompt_field(slot, index)}") from None
        raise


def _check_length(
    prompt: PromptTokens, slot: Slot, number: int, index: int, limits: Limits
) -> None:
    if prompt.template_tokens > limits.max_query_tokens and not slot.any_length:
        raise Refused(
            "template_too_long",
            f"the filled template has {prompt.template_tokens} tokens; the limit is "
            f"{limits.max_query_tokens} (max_query_tokens)",
            f"slots.{number}.{prompt_field(slot, index)}",
        )


def prompt_field(slot: Slot, index: int) -> str:
    """The field that a slot's prompt is made from."""
    return f"combinations.{index}" if slot.prompts[index].values else "template"
