"""What goes through the engine's door: a content with questions and slots in, answers and counts out.

No torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from spinf_serve.engine.extraction.answers import SlotAnswers
from spinf_serve.packs.answer import QuestionAnswer
from spinf_serve.packs.question import GREEDY, Question, Sampling, Slot

PromptStyle = Literal["cloze", "chat"]
"""How closed questions are worded for a model: a text that ends where the label goes, or a turn of a
chat that lists the options."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Control tokens of a chat around a content and its questions, as ids: no text can spell them.

    A framed prompt reads: bos, `before`, content, filled template, `behind`, option, `close`.

    Attributes:
        before: opens the turn that holds content and question; part of what all questions share.
        behind: ends that turn and opens the one whose first words the options are.
        close: ends that turn, so that no option stands for a longer one that begins with it.
    """

    before: tuple[int, ...]
    behind: tuple[int, ...]
    close: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """One content, the questions about it and the slots to be filled from it.

    Attributes:
        content: the text that they are about; always read literally. May be empty.
        questions: at least one where there is no slot. Works that share one questions tuple and one
            slots tuple share its compilation.
        frame: the chat that they are put into; None puts them before the model as they are.
        slots: answers that are found or written, from the same read of the content.
    """

    content: str
    questions: tuple[Question, ...]
    frame: Frame | None = None
    slots: tuple[Slot, ...] = ()


@dataclass(frozen=True, slots=True)
class Generate:
    """A text that the model writes behind a prompt, without a content or a question.

    Attributes:
        prompt: a text, read literally behind the model's bos; or token ids, read as they are.
        max_tokens: of what is written.
        sampling: how tokens are chosen; one sequence.
        stop: texts before the first of which it ends; the model's own end always does.
    """

    prompt: str | tuple[int, ...]
    max_tokens: int = 16
    sampling: Sampling = GREEDY
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """Largest sizes an engine accepts; the meaning of each is that of the field of `scoring` limits.

    All are tokens or counts. `max_query_tokens` bounds one filled template.
    """

    max_content_tokens: int = 4096
    max_query_tokens: int = 256
    max_prompts_per_input: int = 10_000
    max_processed_tokens: int = 2_000_000
    max_options: int = 1000
    max_option_tokens: int = 5
    max_extractions_per_input: int = 10


@dataclass(frozen=True, slots=True)
class Counts:
    """Token counts of one work, as `usage` reports them.

    Attributes:
        content_tokens: tokens of the content alone, without bos.
        query_tokens: tokens of the filled templates, plus for each option its tokens but one.
        packed_tokens: rows the work's tree takes in passes, trunk counted once.
        floors: floors this work needs, whether or not they were already known: what makes two
            floors of different works the same -> the floor's tokens. Counted once a call.
        cached_tokens: of the content's tokens, those that were not read for this work, as they were
            kept from another one on the same content.
        decode_tokens: continuations that were read for searched slots, their prompts among them.
        generated_tokens: tokens of the texts that were written.
    """

    content_tokens: int
    query_tokens: int
    packed_tokens: int
    floors: Mapping[int, int]
    cached_tokens: int = 0
    decode_tokens: int = 0
    generated_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """Answers to one work.

    Attributes:
        answers: one per question, in order.
        counts: what was read for it.
        join_merged: False when no clean cut between content and question was found, so that the
            two were tokenised apart; a warning for the caller.
        slots: for each slot, in order, what each of its prompts gave.
        decode_seconds: how long that took, from when the tree was read.
    """

    answers: tuple[QuestionAnswer, ...]
    counts: Counts
    join_merged: bool
    slots: tuple[tuple[SlotAnswers, ...], ...] = ()
    decode_seconds: float = 0.0
