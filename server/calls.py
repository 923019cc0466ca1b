"""A call in no wire format's words: contents and questions in; results, warnings and counts out.

Knows paths of the request only as text that a wire format gave it, and no JSON.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from spinf_serve.engine.api import Engine, Job
from spinf_serve.engine.work import Counts, Limits, Result, Work
from spinf_serve.packs.errors import Fault, Refused, SpinfError
from spinf_serve.packs.question import Question

LOW_MASS_RESIDUAL = 0.9
"""Mean residual above which a question is too poor to rely on, and the answer says so."""


@dataclass(frozen=True, slots=True)
class Input:
    """One content of a call and the questions about it.

    Attributes:
        id: the caller's name for it.
        path: where it stands in the request.
        content: its text.
        questions: at least one. Inputs with the same selection share one tuple.
        question_paths: where each question stands in the request.
    """

    id: str
    path: str
    content: str
    questions: tuple[Question, ...]
    question_paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """What a request asks for. `limits` are the server's, or lower ones of a trusted caller."""

    inputs: tuple[Input, ...]
    limits: Limits


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
class Usage:
    """What a call cost, in tokens unless said.

    Attributes:
        inputs: number of contents.
        content_tokens, query_tokens: summed over inputs.
        floor_tokens, floor_prompts: tokens and number of distinct floors.
        questions, combinations, options: numbers; a question that inputs share counts once.
        prompts: number of filled templates, counted for each input.
        packed_tokens: rows that the inputs' trees take in passes.
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

    @property
    def processed_tokens(self) -> int:
        """Tokens read for the call: every tree, and every distinct floor once."""
        return self.packed_tokens + self.floor_tokens


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
            job = engine.compile(Work(entry.content, entry.questions))
        except Refused as refused:
            raise located(refused, entry) from None
        if call.limits != engine.limits:
            _check_lowered(engine, call.limits, entry, job.counts)
        tally.add(job.counts)
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
    if head != "questions" or not rest:
        return entry.path
    number, _, below = rest.partition(".")
    question = entry.question_paths[int(number)]
    return f"{question}.{below}" if below else question


class _Tally:
    """Tokens of a call so far; refuses as soon as they are too many."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._packed = 0
        self._floors: set[int] = set()
        self._floor_tokens = 0
        self._last: object = None

    def add(self, counts: Counts) -> None:
        self._packed += counts.packed_tokens
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
    for question, path in zip(entry.questions, entry.question_paths, strict=True):
        if limits.max_query_tokens < engine.limits.max_query_tokens:
            texts = [prompt.text for prompt in question.prompts]
            for index, tokens in enumerate(engine.tokenizer.encode_batch(texts)):
                if len(tokens) > limits.max_query_tokens:
                    filled = f"{path}.combinations.{index}"
                    raise Refused(
                        "template_too_long",
                        f"the filled template has {len(tokens)} tokens; this call's limit is "
                        f"{limits.max_query_tokens} (limits.max_query_tokens)",
                        filled if question.prompts[index].values else f"{path}.template",
                    )
        if limits.max_option_tokens < engine.limits.max_option_tokens:
            for index, tokens in enumerate(engine.tokenizer.encode_batch(question.options)):
                if len(tokens) > limits.max_option_tokens:
                    raise Refused(
                        "option_too_long",
                        f"the option has {len(tokens)} tokens; this call's limit is "
                        f"{limits.max_option_tokens} (limits.max_option_tokens)",
                        f"{path}.options.{index}",
                    )


def usage_of(call: Call, counts: Sequence[Counts]) -> Usage:
    """What a call costs, from the counts of its inputs."""
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
        inputs=len(call.inputs),
        content_tokens=sum(count.content_tokens for count in counts),
        query_tokens=sum(count.query_tokens for count in counts),
        floor_tokens=sum(floors.values()),
        floor_prompts=len(floors),
        questions=len(distinct),
        combinations=sum(len(question.prompts) for question in distinct.values()),
        options=sum(len(question.options) for question in distinct.values()),
        prompts=sum(prompts[id(entry.questions)] for entry in call.inputs),
        packed_tokens=sum(count.packed_tokens for count in counts),
    )


def _spaced(call: Call) -> list[Warning]:
    """Questions whose text ends in a space: models were taught to begin an answer with it."""
    found: dict[str, Warning] = {}
    for entry in call.inputs:
        for question, path in zip(entry.questions, entry.question_paths, strict=True):
            if path not in found and any(p.text.endswith(" ") for p in question.prompts):
                found[path] = Warning(
                    "template_ends_in_space",
                    "the template ends in a space before {?}, which changes which spellings of an "
                    "option count: take the space off and put it in front of the options",
                    param=f"{path}.template",
                    question_id=question.id,
                )
    return list(found.values())


def _selections(call: Call) -> list[tuple[Question, ...]]:
    """The distinct selections of questions of a call."""
    return list({id(entry.questions): entry.questions for entry in call.inputs}.values())


def warnings_of(call: Call, results: Sequence[Result]) -> list[Warning]:
    """What the caller should know about the answers."""
    found = _spaced(call)
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
        for answer in result.answers:
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
