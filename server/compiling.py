"""From a call to works that the engine has compiled, within the limits of the server and of the call.

Errors come back with the path of the field in the request.
"""

from collections.abc import Sequence

from spinf_serve.engine.api import Engine, Job
from spinf_serve.engine.work import Counts, Limits, Work
from spinf_serve.packs.errors import Fault, Refused, SpinfError
from spinf_serve.packs.question import Prompt
from spinf_serve.server.calls import Call, Input


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
