"""From a request that was answered to the log's entries: a function of the two and of a draw.

Evaluates the packs again, which costs less than to keep what every request was told.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Final, Literal

from spinf_serve.engine.work import Result
from spinf_serve.packs.decision import DecisionCall, thresholds
from spinf_serve.packs.evaluate import Evaluation, evaluate
from spinf_serve.packs.pack import Constants, Pack, Read
from spinf_serve.packs.reads import vectors
from spinf_serve.packs.reason import reason
from spinf_serve.server.calls import Input, UsedPack, answers_of_packs
from spinf_serve.server.decision_log.entries import (
    Answered,
    Decided,
    Entry,
    Identity,
    PackFacts,
    content_digest,
)
from spinf_serve.server.exchange import Ended, Scored
from spinf_serve.server.wire.closed_questions import ClosedRequest
from spinf_serve.server.wire.closed_reply import answers_of
from spinf_serve.server.wire.raw_jobs import RawRequest
from spinf_serve.server.wire.spinf import ScoreRequest

STRONGEST: Final = 3
"""Reads of each category that are kept where not all are: those with the largest z."""

# There are many, and nothing is computed from them again.
_Z_DECIMALS: Final = 4

Content = Literal["digest", "sample", "text"]


@dataclass(frozen=True, slots=True)
class Keeping:
    """What of a request is kept.

    Attributes:
        content: the content's text never, of those that chance draws, or always; its digest always.
        rate: the chance to be drawn, 0 to 1, of each content for itself.
        answers: whether answers to own questions, and the z of every read, are kept.
    """

    content: Content = "digest"
    rate: float = 0.0
    answers: bool = False


def entries_of(
    request: Ended, scored: Scored, identity: Identity, keeping: Keeping, draw: Callable[[], float]
) -> Iterator[Entry]:
    """An entry for each content of an answered request; none where prompts are read as they are.

    Args:
        draw: a number from 0 to below 1, each as likely, a new one a call.
    """
    call = scored.asked.call
    detail = scored.asked.detail
    if isinstance(detail, RawRequest):
        return
    # Chunks of one content follow one another.
    pairs = zip(call.inputs, scored.results, strict=True)
    for _, group in groupby(pairs, key=lambda pair: pair[0].path):
        chunks = list(group)
        entry = chunks[0][0]
        results = [result for _, result in chunks]
        text = "".join(chunk.inner for chunk, _ in chunks)
        drawn = draw() < keeping.rate
        kept = keeping.content == "text" or (keeping.content == "sample" and drawn)
        by_chunk = [answers_of_packs(call, entry, result) for result in results]
        decided = tuple(
            _decided(parts[0][0], [answers for _, _, answers in parts], keeping)
            for parts in zip(*by_chunk, strict=True)
        )
        if isinstance(detail, ClosedRequest):
            # These answers are the decision.
            answers = tuple(_closed(scored))
        else:
            answers = tuple(_answered(entry, results[0])) if keeping.answers else ()
        yield Entry(
            request=request.request_id,
            input=entry.id,
            at=request.created,
            caller=request.caller.name,
            route=request.route,
            endpoint=detail.endpoint if isinstance(detail, ScoreRequest) else None,
            identity=identity,
            digest=content_digest(text),
            text=text if kept else None,
            parameters=dict(entry.parameters),
            chunks=len(chunks),
            drawn=drawn,
            rate=keeping.rate,
            decided=decided,
            answers=answers,
        )


def facts_of(pack: Pack) -> PackFacts:
    """What is kept of a pack so that its decisions can be read when its file is gone."""
    reads = {read.id: _asked(pack, read) for read in pack.reads}
    facts = {
        "contexts": {name: one.template for name, one in pack.contexts.items()},
        "categories": {
            id: {"label": one.label or id, "requires": list(one.requires)}
            for id, one in pack.categories.items()
        },
        "reads": reads,
    }
    return PackFacts(pack.id, pack.version, pack.digest, facts)


def _asked(pack: Pack, read: Read) -> dict[str, Any]:
    question = next(one for one in pack.questions if one.id == read.query)
    prompt = next(one for one in question.prompts if one.values.get("F") == read.value)
    return {
        "category": read.category,
        "question": prompt.text,
        "options": list(question.options),
    }


def _decided(used: UsedPack, chunks: Sequence[Any], keeping: Keeping) -> Decided:
    pack, constants = used.pack, used.fit.constants
    shared: dict[str, Any] = {
        "pack": pack.id,
        "version": pack.version,
        "digest": pack.digest,
        "context": used.context.name,
        "state": used.fit.state,
        "call": _call(used.decision),
    }
    if constants is None:
        return Decided(**shared, decision=None, route=None, reason=None, categories={}, reads={})
    found = evaluate(pack, constants, [vectors(pack, each) for each in chunks], used.decision)
    return Decided(
        **shared,
        decision=asdict(found.verdict),
        route=None if found.route is None else asdict(found.route),
        reason=reason(pack, constants, used.decision, found),
        categories=_categories(pack, constants, used.decision, found),
        reads=_short(found.z if keeping.answers else strongest(pack, found.z)),
    )


def _call(call: DecisionCall) -> dict[str, Any]:
    """What a request said about the decision, as `scoring.packs[].decision` has it."""
    said = {
        "mode": call.mode,
        "threshold": call.threshold,
        "thresholds": dict(call.thresholds) or None,
        "critical": None if call.critical is None else list(call.critical),
    }
    return {name: value for name, value in said.items() if value is not None}


def _categories(
    pack: Pack, constants: Constants, call: DecisionCall, found: Evaluation
) -> dict[str, dict[str, Any]]:
    in_force = thresholds(pack, constants, call)
    return {
        id: {
            "score": one.score,
            "percentile": one.percentile,
            "threshold": in_force[id],
            "flagged": one.flagged,
            "band": one.band,
        }
        for id, one in found.categories.items()
    }


def _short(z: Mapping[str, float]) -> dict[str, float]:
    return {id: round(value, _Z_DECIMALS) for id, value in z.items()}


def strongest(pack: Pack, z: Mapping[str, float]) -> dict[str, float]:
    """The `STRONGEST` reads of each category with the largest z, in the order of the file."""
    kept: set[str] = set()
    for category in pack.categories:
        own = [read.id for read in pack.reads if read.category == category]
        kept.update(sorted(own, key=lambda id: -z[id])[:STRONGEST])
    return {read.id: z[read.id] for read in pack.reads if read.id in kept}


def _closed(scored: Scored) -> Iterator[Answered]:
    for answer in answers_of(scored):
        question = answer.question
        yield Answered(
            question.key,
            question.instructions,
            {},
            dict(zip(question.labels, answer.p, strict=True)),
        )


def _answered(entry: Input, result: Result) -> Iterator[Answered]:
    for question, answer in zip(entry.questions[: entry.own], result.answers, strict=False):
        for asked, prompt in zip(question.prompts, answer.prompts, strict=True):
            yield Answered(
                answer.id,
                asked.text,
                dict(prompt.values),
                {option.text: option.p for option in prompt.options},
            )
