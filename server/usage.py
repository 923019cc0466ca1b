"""What a call cost, in tokens and numbers, from the results of its inputs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from spinf_serve.engine.extraction.answers import SlotAnswers
from spinf_serve.engine.work import Result
from spinf_serve.packs.question import Slot
from spinf_serve.server.calls import Call, selections


@dataclass(frozen=True, slots=True)
class SlotUsage:
    """What the slots of a call cost; each filled template of each input counts.

    Attributes:
        text, number, currency: slots by kind, written ones among those of texts.
        answers: distinct texts that were found, before spellings were merged, and written ones.
        decode_tokens: continuations that were read for searched slots.
        generated: slots whose answer was written.
        sequences: texts that were written.
        generated_most_tokens: tokens that these could have.
        generated_tokens: tokens that they have.
        tokens: that all slots count as among those read.
    """

    text: int = 0
    number: int = 0
    currency: int = 0
    answers: int = 0
    decode_tokens: int = 0
    generated: int = 0
    sequences: int = 0
    generated_most_tokens: int = 0
    generated_tokens: int = 0
    tokens: int = 0

    @property
    def slots(self) -> int:
        """Slots of all kinds."""
        return self.text + self.number + self.currency


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call cost, in tokens unless said.

    Attributes:
        inputs: number of contents.
        content_tokens, query_tokens: summed over inputs.
        floor_tokens, floor_prompts: tokens and number of distinct floors.
        questions, combinations, options: numbers; a question that inputs share counts once.
        prompts: number of filled templates, counted for each input.
        packed_tokens: rows that the inputs' trees take in passes, where nothing is cached.
        cached_tokens: those of `content_tokens` that were kept on the device from other calls.
        packs: number of packs.
        pack_query_tokens: those of `query_tokens` that are the packs' questions.
        slots: what its slots cost.
    """

    inputs: int
    content_tokens: int
    query_tokens: int
    floor_tokens: int
    floor_prompts: int
    questions: int
    combinations: int
    options: int
    prompts: int
    packed_tokens: int
    cached_tokens: int
    packs: int
    pack_query_tokens: int
    slots: SlotUsage

    @property
    def processed_tokens(self) -> int:
        """Tokens read for the call: every tree, every distinct floor once, and what slots count as."""
        return self.packed_tokens + self.floor_tokens + self.slots.tokens


def usage_of(call: Call, results: Sequence[Result]) -> Usage:
    """What a call costs, from the results of its inputs."""
    counts = [result.counts for result in results]
    floors: dict[int, int] = {}
    last: object = None
    for count in counts:
        if count.floors is not last:
            floors.update(count.floors)
            last = count.floors
    distinct = {id(question): question for entry in selections(call) for question in entry}
    prompts = {
        id(entry): sum(len(question.prompts) for question in entry) for entry in selections(call)
    }
    return Usage(
        inputs=sum(entry.part == 0 for entry in call.inputs),
        content_tokens=sum(count.content_tokens for count in counts),
        query_tokens=sum(count.query_tokens for count in counts),
        floor_tokens=sum(floors.values()),
        floor_prompts=len(floors),
        questions=len(distinct),
        combinations=sum(len(question.prompts) for question in distinct.values()),
        options=sum(len(question.options) for question in distinct.values()),
        prompts=sum(prompts[id(entry.questions)] for entry in call.inputs),
        packed_tokens=sum(count.packed_tokens for count in counts),
        cached_tokens=sum(count.cached_tokens for count in counts),
        packs=len(call.packs),
        pack_query_tokens=len(call.inputs) * sum(used.fit.query_tokens for used in call.packs),
        slots=_slot_usage(call, results),
    )


def _slot_usage(call: Call, results: Sequence[Result]) -> SlotUsage:
    filled: list[tuple[Slot, SlotAnswers]] = [
        (slot, found)
        for entry, result in zip(call.inputs, results, strict=True)
        for slot, prompts in zip(entry.slots, result.slots, strict=True)
        for found in prompts
    ]
    if not filled:
        return SlotUsage()
    kinds = Counter(found.kind for _, found in filled)
    written = [(slot, found) for slot, found in filled if slot.sampling is not None]
    return SlotUsage(
        text=kinds["text"],
        number=kinds["number"],
        currency=kinds["currency"],
        answers=sum(found.spellings + len(found.generated) for _, found in filled),
        decode_tokens=sum(found.tokens for slot, found in filled if slot.sampling is None),
        generated=len(written),
        sequences=sum(len(found.generated) for _, found in written),
        generated_most_tokens=sum(
            slot.max_tokens * len(found.generated) for slot, found in written
        ),
        generated_tokens=sum(text.tokens for _, found in written for text in found.generated),
        tokens=sum(entry.slot_tokens for entry in call.inputs),
    )
