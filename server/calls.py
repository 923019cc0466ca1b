"""A call in no wire format's words: the contents and questions that come in, and what is shown of results.

Knows paths of the request only as text that a wire format gave it, and no JSON.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from spinf_serve.engine.extraction.answers import SlotAnswers
from spinf_serve.engine.work import Frame, Limits, Result
from spinf_serve.packs.answer import QuestionAnswer
from spinf_serve.packs.decision import DecisionCall
from spinf_serve.packs.pack import Context, Pack
from spinf_serve.packs.question import NO_VALUES, Question, Slot
from spinf_serve.server.served_packs import Fit

TOKENS_OF_SLOT_TOKEN = 6
"""Tokens that each token of a slot's longest answer is counted as, among those read for a call: as many
continuations are looked at in a step."""


@dataclass(frozen=True, slots=True)
class Input:
    """One content of a call and the questions about it.

    Attributes:
        id: the caller's name for it.
        path: where it stands in the request.
        content: its text.
        questions: at least one where there is no slot. Inputs with the same selection share one
            tuple.
        question_paths: where each question stands in the request.
        own: how many of the questions are the caller's; those of the call's packs follow, pack by
            pack.
        wrapping: text that the packs put before and after the caller's content, in `content`.
        parameters: what fills the packs' contexts, as the caller gave it.
        part, parts: number of the chunk and of all chunks when a long content was cut; inputs of
            one path belong together and follow one another.
        slots: the caller's queries whose answer is found or written; shared likewise.
        slot_paths: where each slot stands in the request.
        slot_places: how many of the caller's queries, of both kinds, stand before each slot.
    """

    id: str
    path: str
    content: str
    questions: tuple[Question, ...]
    question_paths: tuple[str, ...]
    own: int
    wrapping: tuple[str, str] = ("", "")
    parameters: Mapping[str, str] = field(default_factory=lambda: NO_VALUES)
    part: int = 0
    parts: int = 1
    slots: tuple[Slot, ...] = ()
    slot_paths: tuple[str, ...] = ()
    slot_places: tuple[int, ...] = ()

    @property
    def inner(self) -> str:
        """The caller's content without what the packs put around it."""
        before, after = self.wrapping
        return self.content[len(before) : len(self.content) - len(after)]

    @property
    def slot_tokens(self) -> int:
        """Tokens that its slots are counted as, whatever is found."""
        return sum(
            TOKENS_OF_SLOT_TOKEN * slot.max_tokens * len(slot.prompts) for slot in self.slots
        )


@dataclass(frozen=True, slots=True)
class UsedPack:
    """A pack that a call uses, checked.

    Attributes:
        path: where the request names it.
        pack: the version that is used.
        fit: that pack on the served model.
        context: how it presents the content.
        include_queries: whether its raw answers are wanted too.
        decision: what the call says about the decision.
    """

    path: str
    pack: Pack
    fit: Fit
    context: Context
    include_queries: bool
    decision: DecisionCall

    @property
    def shows_answers(self) -> bool:
        """Whether the raw answers are part of the response: a draft has nothing else to give."""
        return self.include_queries or self.fit.constants is None


@dataclass(frozen=True, slots=True)
class Call:
    """What a request asks for.

    Attributes:
        inputs: at least one.
        limits: the server's, or lower ones of a trusted caller.
        packs: whose questions follow the caller's in every input.
        frame: the chat that contents and questions are put into, if any.
    """

    inputs: tuple[Input, ...]
    limits: Limits
    packs: tuple[UsedPack, ...] = ()
    frame: Frame | None = None


def selections(call: Call) -> list[tuple[Question, ...]]:
    """The distinct selections of questions of a call."""
    return list({id(entry.questions): entry.questions for entry in call.inputs}.values())


def answers_of_packs(
    call: Call, entry: Input, result: Result
) -> list[tuple[UsedPack, slice, tuple[QuestionAnswer, ...]]]:
    """Each pack of a call with the place of its questions in the input's, and their answers."""
    found = []
    at = entry.own
    for used in call.packs:
        place = slice(at, at + len(used.pack.questions))
        found.append((used, place, result.answers[place]))
        at = place.stop
    return found


def shown_answers(
    call: Call, entry: Input, result: Result
) -> list[tuple[Question, QuestionAnswer]]:
    """The answers that the response has: to own questions, and to those of packs that show theirs.

    A cut content has none: each chunk has its own answers, and a caller reads them as the whole's.
    """
    if entry.parts > 1:
        return []
    found = list(zip(entry.questions[: entry.own], result.answers, strict=False))
    for used, place, answers in answers_of_packs(call, entry, result):
        if used.shows_answers:
            found += zip(entry.questions[place], answers, strict=True)
    return found


def shown_slots(entry: Input, result: Result) -> list[tuple[int, Slot, str, Sequence[SlotAnswers]]]:
    """The slots of an input: place among the caller's queries, slot, path, answers by prompt."""
    return list(zip(entry.slot_places, entry.slots, entry.slot_paths, result.slots, strict=True))


def lowered(limits: Limits, wanted: dict[str, int]) -> Limits:
    """Limits with each wanted one put in where it is lower; others are left out of account."""
    own = {field.name: getattr(limits, field.name) for field in fields(limits)}
    lower = {name: min(own[name], value) for name, value in wanted.items() if name in own}
    return replace(limits, **lower)
