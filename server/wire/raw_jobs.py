"""The wire format of /v0/score: prompts as they are, and log-probabilities of the texts behind them.

For whoever measures models or tests wordings: nothing is put around a prompt, and nothing is made of a
log-probability.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

from spinf_serve.engine.api import Engine
from spinf_serve.engine.work import Result
from spinf_serve.packs.ask import MAX_NAME_CHARS, check_unicode, checked_options
from spinf_serve.packs.errors import Refused
from spinf_serve.packs.question import Prompt, Question
from spinf_serve.server.auth import Caller
from spinf_serve.server.calls import Call, Input
from spinf_serve.server.exchange import Asked, Scored
from spinf_serve.server.served_packs import ServedPacks
from spinf_serve.server.wire.fields import Fields, wrong_type
from spinf_serve.server.wire.json_text import Document, encode
from spinf_serve.server.wire.plain_texts import refuse_half_pairs
from spinf_serve.server.wire.spinf_reply import engine_facts

MAX_JOBS: Final = 1000
"""Most jobs of a call."""

_BODY: Final = frozenset({"jobs"})
_JOB: Final = frozenset({"id", "prompts", "options"})
# What the engine says of a question, whose options stand beside the prompts here.
_OF_QUESTION: Final = re.compile(r"(jobs\.\d+)\.prompts\.(\d+)\.(?:options\.(\d+)|template)")


@dataclass(frozen=True, slots=True)
class RawRequest:
    """What tells a call of this format from others: it has no content and decides nothing."""


@dataclass(frozen=True, slots=True)
class RawWire:
    """Reads and writes bodies of /v0/score."""

    @property
    def route(self) -> str:
        """As in `Wire`."""
        return "raw"

    def read(self, document: Document, engine: Engine, caller: Caller, packs: ServedPacks) -> Asked:
        """As in `Wire`."""
        refuse_half_pairs(document)
        body = Fields(document.value, "", _BODY)
        _refuse_unknown(body)
        jobs = body.items("jobs")
        if jobs is None:
            raise body.missing("jobs")
        if not 1 <= len(jobs) <= MAX_JOBS:
            raise body.refused("jobs", f"has {len(jobs)} entries; 1 to {MAX_JOBS} are allowed")
        found: dict[str, Input] = {}
        for index, value in enumerate(jobs):
            job = _job(value, f"jobs.{index}", engine)
            if job.id in found:
                raise Refused(
                    "duplicate_id",
                    f"the id {job.id!r} is also that of {found[job.id].path}",
                    f"{job.path}.id",
                )
            found[job.id] = job
        return Asked(Call(tuple(found.values()), engine.limits), (), RawRequest())

    def write(self, scored: Scored, engine: Engine) -> bytes:
        """As in `Wire`."""
        results = [
            _result(entry, result)
            for entry, result in zip(scored.asked.call.inputs, scored.results, strict=True)
        ]
        return encode(
            {
                "results": results,
                "usage": {
                    "packed_tokens": scored.usage.packed_tokens,
                    "forwards": scored.forwards,
                },
                "timing": {
                    "wall_s": round(scored.timing.wall / 1e3, 6),
                    "gpu_busy_s": round(scored.timing.busy / 1e3, 6),
                },
                "engine": engine_facts(engine),
            }
        )


def in_place(refused: Refused) -> Refused:
    """A refusal of a question, with the path of what it is about in a body of this format."""
    found = _OF_QUESTION.fullmatch(refused.param or "")
    if found is None:
        return refused
    job, prompt, option = found.groups()
    path = f"{job}.prompts.{prompt}" if option is None else f"{job}.options.{prompt}.{option}"
    return Refused(refused.code, refused.message, path)


def _refuse_unknown(fields: Fields) -> None:
    if fields.unknown:
        name = fields.unknown[0][:MAX_NAME_CHARS]
        raise Refused("invalid_field", f"{name!r} is no field here", fields.at(name))


def _job(value: Any, path: str, engine: Engine) -> Input:
    job = Fields(value, path, _JOB)
    _refuse_unknown(job)
    name = job.text("id", MAX_NAME_CHARS)
    prompts, options = job.items("prompts"), job.items("options")
    if prompts is None:
        raise job.missing("prompts")
    if options is None:
        raise job.missing("options")
    most = engine.limits.max_prompts_per_input
    if not 1 <= len(prompts) <= most:
        raise Refused(
            "too_many_prompts",
            f"{job.at('prompts')} has {len(prompts)} entries; 1 to {most} are allowed"
            " (max_prompts_per_input)",
            job.at("prompts"),
        )
    if len(options) != len(prompts):
        raise job.refused(
            "options",
            f"has {len(options)} lists for {len(prompts)} prompts; one for each is needed",
        )
    questions = tuple(
        _question(prompt, options[place], path, place, engine)
        for place, prompt in enumerate(prompts)
    )
    return Input(
        id=name,
        path=path,
        content="",
        questions=questions,
        question_paths=tuple(f"{path}.prompts.{place}" for place in range(len(prompts))),
        own=len(questions),
    )


def _question(prompt: Any, options: Any, path: str, place: int, engine: Engine) -> Question:
    where, listed = f"{path}.prompts.{place}", f"{path}.options.{place}"
    if type(prompt) is not str:
        raise wrong_type(prompt, where, "a text")
    check_unicode(prompt, where)
    limits = engine.limits
    # What a content and a question about it may have together.
    most = limits.max_content_tokens + limits.max_query_tokens
    # No token is shorter than a byte.
    if len(prompt.encode()) > most:
        tokens = len(engine.tokenizer.encode(prompt))
        if tokens > most:
            raise Refused(
                "content_too_long",
                f"the prompt has {tokens} tokens; the limit is {most} (max_content_tokens +"
                " max_query_tokens)",
                where,
            )
    if type(options) is not list:
        raise wrong_type(options, listed, "a list of texts")
    try:
        checked = checked_options(options, case_insensitive=False, max_options=limits.max_options)
    except Refused as refused:
        below = (refused.param or "").removeprefix("options")
        raise Refused(refused.code, refused.message, f"{listed}{below}") from None
    return Question(
        id=str(place),
        prompts=(Prompt(prompt),),
        options=checked,
        case_insensitive=False,
        empty_floor=False,
        any_length=True,
        any_option_length=True,
    )


def _result(entry: Input, result: Result) -> dict[str, Any]:
    return {
        "id": entry.id,
        "logprobs": [
            [option.logprob for option in answer.prompts[0].options] for answer in result.answers
        ],
        "packed_tokens": result.counts.packed_tokens,
        # All prompts of a job are branches of one tree.
        "trees": 1,
    }
