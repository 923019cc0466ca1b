"""A call in no wire format's words: contents and questions in; results, warnings and counts out.

Knows paths of the request only as text that a wire format gave it, and no JSON.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from spinf_serve.engine.api import Engine, Job
from spinf_serve.engine.extraction.answers import SlotAnswers
from spinf_serve.engine.work import Counts, Frame, Limits, Result, Work
from spinf_serve.packs.answer import QuestionAnswer
from spinf_serve.packs.decision import DecisionCall
from spinf_serve.packs.errors import Fault, Refused, SpinfError
from spinf_serve.packs.pack import Context, Pack
from spinf_serve.packs.question import NO_VALUES, Prompt, Question, Slot
from spinf_serve.server.served_packs import Fit

LOW_MASS_RESIDUAL = 0.9
"""Mean residual above which a question is too poor to rely on, and the answer says so."""

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


@dataclass(frozen=True, slots=True)
class Warning:
    """Something the caller should know about an answer that was given all the same.

    Attributes:
        code: what kind of thing.
        message: in words, with a remedy.
        param: path of the field it is about, if it is about one.
        input_id, question_id: what it is about, if it is about a question.
    """

    code: str
    message: str
    param: str | None = None
    input_id: str | None = None
    question_id: str | None = None


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


class Budget:
    """How many of something a request may still have; refuses what goes beyond."""

    def __init__(self, limit: int, what: str) -> None:
        self._limit = limit
        self._what = what
        self._taken = 0

    def take(self, count: int) -> None:
        """Takes some. Raises `Refused` (`request_too_large`) when they are more than are left."""
        self._taken += count
        if self._taken > self._limit:
            raise Refused(
                "request_too_large",
                f"the request has {self._taken} {self._what} or more; the limit is {self._limit} "
                "(max_processed_tokens): split it into several requests",
            )


def compile_call(engine: Engine, call: Call) -> tuple[Job, ...]:
    """One compiled work per input. Any thread.

    Raises:
        Refused: with the path of the field in the request.
    """
    jobs: list[Job] = []
    tally = _Tally(call.limits.max_processed_tokens)
    for entry in call.inputs:
        try:
            work = Work(entry.content, entry.questions, call.frame, entry.slots)
            job = engine.compile(work)
        except Refused as refused:
            raise located(refused, entry) from None
        if call.limits != engine.limits:
            _check_lowered(engine, call.limits, entry, job.counts)
        tally.add(job.counts, entry.slot_tokens)
        jobs.append(job)
    return tuple(jobs)


def located(error: SpinfError, entry: Input) -> SpinfError:
    """An engine's error about one work, with the path of the field in the request."""
    path = _path(error.param, entry)
    if isinstance(error, Refused):
        return Refused(error.code, error.message, path)
    return Fault(error.message, path) if isinstance(error, Fault) else error


def _path(param: str | None, entry: Input) -> str:
    head, _, rest = (param or "").partition(".")
    paths = {"questions": entry.question_paths, "slots": entry.slot_paths}.get(head)
    if paths is None or not rest:
        return entry.path
    number, _, below = rest.partition(".")
    query = paths[int(number)]
    return f"{query}.{below}" if below else query


class _Tally:
    """Tokens of a call so far; refuses as soon as they are too many."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._packed = 0
        self._floors: set[int] = set()
        self._floor_tokens = 0
        self._last: object = None

    def add(self, counts: Counts, slot_tokens: int) -> None:
        self._packed += counts.packed_tokens + slot_tokens
        # Works with the same questions share one mapping of floors.
        if counts.floors is not self._last:
            self._last = counts.floors
            new = counts.floors.keys() - self._floors
            self._floor_tokens += sum(counts.floors[key] for key in new)
            self._floors |= new
        processed = self._packed + self._floor_tokens
        if processed > self._limit:
            raise Refused(
                "request_too_large",
                f"the request needs at least {processed} tokens; the limit is {self._limit} "
                "(max_processed_tokens): split it into several requests",
            )


def _check_lowered(engine: Engine, limits: Limits, entry: Input, counts: Counts) -> None:
    """The token limits that a trusted caller lowered for one call; the engine knows only its own."""
    if counts.content_tokens > limits.max_content_tokens:
        raise Refused(
            "content_too_long",
            f"the content has {counts.content_tokens} tokens; this call's limit is "
            f"{limits.max_content_tokens} (limits.max_content_tokens)",
            entry.path,
        )
    if limits.max_query_tokens < engine.limits.max_query_tokens:
        for question, path in zip(entry.questions, entry.question_paths, strict=True):
            if not question.any_length:
                _check_prompts(engine, limits.max_query_tokens, question.prompts, path)
        for slot, path in zip(entry.slots, entry.slot_paths, strict=True):
            _check_prompts(engine, limits.max_query_tokens, slot.prompts, path)
    for question, path in zip(entry.questions, entry.question_paths, strict=True):
        if limits.max_option_tokens < engine.limits.max_option_tokens:
            for index, tokens in enumerate(engine.tokenizer.encode_batch(question.options)):
                if len(tokens) > limits.max_option_tokens:
                    raise Refused(
                        "option_too_long",
                        f"the option has {len(tokens)} tokens; this call's limit is "
                        f"{limits.max_option_tokens} (limits.max_option_tokens)",
                        f"{path}.options.{index}",
                    )


def _check_prompts(engine: Engine, most: int, prompts: Sequence[Prompt], path: str) -> None:
    for index, tokens in enumerate(engine.tokenizer.encode_batch([p.text for p in prompts])):
        if len(tokens) > most:
            filled = f"{path}.combinations.{index}"
            raise Refused(
                "template_too_long",
                f"the filled template has {len(tokens)} tokens; this call's limit is {most} "
                "(limits.max_query_tokens)",
                filled if prompts[index].values else f"{path}.template",
            )


def usage_of(call: Call, results: Sequence[Result]) -> Usage:
    """What a call costs, from the results of its inputs."""
    counts = [result.counts for result in results]
    floors: dict[int, int] = {}
    last: object = None
    for count in counts:
        if count.floors is not last:
            floors.update(count.floors)
            last = count.floors
    distinct = {id(question): question for entry in _selections(call) for question in entry}
    prompts = {
        id(entry): sum(len(question.prompts) for question in entry) for entry in _selections(call)
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


def _spaced(call: Call) -> list[Warning]:
    """Questions whose text ends in a space: models were taught to begin an answer with it."""
    found: dict[str, Warning] = {}
    for entry in call.inputs:
        own = zip(entry.questions[: entry.own], entry.question_paths, strict=False)
        for question, path in own:
            if path not in found and any(p.text.endswith(" ") for p in question.prompts):
                found[path] = Warning(
                    "template_ends_in_space",
                    "the template ends in a space before {?}, which changes which spellings of an "
                    "option count: take the space off and put it in front of the options",
                    param=f"{path}.template",
                    question_id=question.id,
                )
        for slot, path in zip(entry.slots, entry.slot_paths, strict=True):
            if path not in found and any(p.text.endswith(" ") for p in slot.prompts):
                found[path] = Warning(
                    "template_ends_in_space",
                    f"the template ends in a space before {{{slot.kind.value}}}, with which most "
                    "answers begin: take the space off",
                    param=f"{path}.template",
                    question_id=slot.id,
                )
    return list(found.values())


def _drafts(call: Call) -> list[Warning]:
    return [
        Warning(
            "pack_draft",
            f"nothing was fitted on the served model for {used.pack.id} {used.pack.version}: its "
            "answers are given and nothing is decided; fit it, or serve one of "
            f"{', '.join(used.pack.fitted) or 'no model so far'}",
            param=used.path,
        )
        for used in call.packs
        if used.fit.constants is None
    ]


def _doubts(call: Call) -> list[Warning]:
    return [
        Warning("pack_other_model", used.fit.doubt, param=used.path)
        for used in call.packs
        if used.fit.doubt is not None
    ]


def _cut_contents(call: Call) -> list[Warning]:
    return [
        Warning(
            "content_chunked",
            f"the content is longer than {call.limits.max_content_tokens} tokens and was read in "
            f"{entry.parts} chunks, as on_long of its packs says; raw answers are left out",
            param=entry.path,
            input_id=entry.id,
        )
        for entry in call.inputs
        if entry.parts > 1 and entry.part == 0
    ]


def _selections(call: Call) -> list[tuple[Question, ...]]:
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


def warnings_of(call: Call, results: Sequence[Result]) -> list[Warning]:
    """What the caller should know about the answers."""
    found = [*_spaced(call), *_drafts(call), *_doubts(call), *_cut_contents(call)]
    for entry, result in zip(call.inputs, results, strict=True):
        if not result.join_merged:
            found.append(
                Warning(
                    "join_not_merged",
                    "content and question were tokenised apart: no clean cut between them was "
                    "found",
                    param=entry.path,
                )
            )
        for _, answer in shown_answers(call, entry, result):
            if not answer.single_read:
                continue
            residual = sum(prompt.residual for prompt in answer.prompts) / len(answer.prompts)
            if residual > LOW_MASS_RESIDUAL:
                found.append(
                    Warning(
                        "low_option_mass",
                        f"{residual:.1%} of the probability lies outside the options of this "
                        "question; its p compares unlikely answers: check how the template ends "
                        "and whether the options need a leading space",
                        input_id=entry.id,
                        question_id=answer.id,
                    )
                )
    return found


def lowered(limits: Limits, wanted: dict[str, int]) -> Limits:
    """Limits with each wanted one put in where it is lower; others are left out of account."""
    own = {field.name: getattr(limits, field.name) for field in fields(limits)}
    lower = {name: min(own[name], value) for name, value in wanted.items() if name in own}
    return replace(limits, **lower)
