"""`spinf-serve bench --extraction`: what slots cost, in tokens that could be scored meanwhile.

Each figure is a ratio of two jobs of one run, which differ in their slots alone and take turns: a
machine that is slow for a while is slow for both.
"""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import torch

from spinf_serve.engine.api import Engine, open_engine
from spinf_serve.engine.bench.doctor import MadeUp
from spinf_serve.engine.bench.machine import card_of, commit, processor_name, versions
from spinf_serve.engine.bench.output import write_json
from spinf_serve.engine.bench.results import today
from spinf_serve.engine.bench.workload import closed_questions
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.extraction.generation import NEVER, Generation
from spinf_serve.engine.extraction.search import Effort, Search
from spinf_serve.engine.outcomes import Outcomes
from spinf_serve.engine.work import Limits, Work
from spinf_serve.packs.question import GREEDY, Prompt, Slot
from spinf_serve.packs.template import SlotKind

Say = Callable[[str], None]

_QUESTIONS = 8
"""Beside the slots whose price is asked for: so that a token is scored as in a pass of many."""

_MANY_QUESTIONS, _MANY_SLOTS = 100, 10

FAR = Effort(least=0.0, share=0.0)
"""A search that gives nothing up."""

ONE = Effort(beams=1, least=0.0, share=0.0)
"""One continuation in each step. Weights that are made up give no text much probability, so that the
usual search would end at once; this one reads about as many as a search on real weights does."""


@dataclass(frozen=True, slots=True)
class Slots:
    """The job.

    Attributes:
        contents: with a slot each.
        content_tokens: their mean length.
        max_tokens: of a slot.
        repeats: of everything.
        many_contents: those with a hundred questions, without slots and with ten.
        made_up: whether the weights are: then searches go on with one continuation to the last token,
            and a written text ends there too; a job more has searches that give nothing up.
    """

    contents: int = 24
    content_tokens: float = 466.0
    max_tokens: int = 16
    repeats: int = 3
    many_contents: int = 4
    made_up: bool = False


@dataclass(slots=True)
class ExtractionFigures:
    """What a run measured.

    Attributes:
        token_seconds: of a scored token, the median.
        searched, generated, number: a slot's price in scored tokens, spread over all contents.
        farthest: that of a search that gives nothing up, where weights are made up.
        lone: that of a searched slot on one content that is alone.
        rows: continuations that were read for one searched slot, the mean.
        slowdown: seconds with ten slots beside a hundred questions by those without slots.
        passes: of each job in one repeat.
        seconds: every measured time, raw, by job.
    """

    commit: str
    date: str
    command: str
    processor: str
    card: str
    versions: dict[str, str]
    model: str
    dtype: str
    fingerprint: str
    shape: dict[str, Any]
    token_seconds: float = 0.0
    searched: float = 0.0
    generated: float = 0.0
    number: float = 0.0
    farthest: float | None = None
    lone: float = 0.0
    rows: float = 0.0
    slowdown: float = 0.0
    passes: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)


def run_extraction(
    config: EngineConfig,
    *,
    slots: Slots | None = None,
    made_up: MadeUp | None = None,
    at: str | None = None,
    out: Path | None = None,
    say: Say = print,
) -> ExtractionFigures:
    """Measures what slots cost and says it.

    Args:
        made_up: measures on this instead of the configuration's model, with searches that give
            nothing up.
        at: the commit, where there is no repository to ask.
        out: gets the figures as JSON.
    """
    slots = slots or Slots()
    if made_up is None:
        return measured(open_engine(config, Limits()), slots, at=at, out=out, say=say)
    # It needs Triton, which not every machine has.
    from spinf_serve.engine.bench.synthetic_engine import synthetic_engine, tokenizer_at

    tokenizer = tokenizer_at(made_up.tokenizer)
    made = synthetic_engine(made_up.name, made_up.scheme, tokenizer, config, Limits(), say)
    return measured(made.engine, replace(slots, made_up=True), at=at, out=out, say=say)


def measured(
    engine: Engine,
    slots: Slots,
    *,
    at: str | None = None,
    out: Path | None = None,
    say: Say = print,
) -> ExtractionFigures:
    """As `run_extraction`, of an engine that is open."""
    config, facts = engine.config, engine.fingerprint.facts
    on_card = facts["backend"] == "cuda" and torch.cuda.is_available()
    figures = ExtractionFigures(
        commit=at or commit(),
        date=today(),
        command=" ".join(["spinf-serve", *sys.argv[1:]]),
        processor=processor_name(),
        card=card_of(torch.device("cuda")).line if on_card else "",
        versions=versions(),
        model=engine.served.id,
        dtype=facts["scheme"] if on_card else config.dtype,
        fingerprint=engine.fingerprint.short,
        shape=asdict(slots),
    )
    scored = closed_questions(engine.tokenizer, slots.contents, _QUESTIONS, slots.content_tokens)
    many = closed_questions(
        engine.tokenizer, slots.many_contents, _MANY_QUESTIONS, slots.content_tokens, distinct=False
    )
    search = _slot("found", "searched", slots.max_tokens)
    jobs = {
        "scored": scored,
        "searched": _with(scored, search),
        "generated": _with(scored, _slot("written", "generated", slots.max_tokens)),
        "number": _with(scored, _slot("number", "number", slots.max_tokens)),
        "scored_alone": scored[:1],
        "searched_alone": _with(scored[:1], search),
        "many": many,
        "many_with_slots": _with(many, *_ten(slots.max_tokens)),
    }
    efforts = dict.fromkeys(jobs, ONE if slots.made_up else None)
    if slots.made_up:
        jobs["farthest"], efforts["farthest"] = jobs["searched"], FAR
    # Whatever is made once is made here, as the sets of a vocabulary's tokens and recorded passes.
    for name, works in jobs.items():
        _run(engine, works if slots.made_up else works[:1], efforts[name])
    rows = decoded = 0
    for _ in range(slots.repeats):
        for name, works in jobs.items():
            engine.forget()
            before = replace(engine.stats)
            start = time.perf_counter()
            _run(engine, works, efforts[name])
            figures.seconds.setdefault(name, []).append(time.perf_counter() - start)
            figures.passes[name] = engine.stats.passes - before.passes
            if name == "scored":
                rows = engine.stats.rows - before.rows
            if name == "searched":
                decoded = engine.stats.decode_rows - before.decode_rows
    _summarise(figures, slots, rows, decoded)
    for line in _lines(figures, slots):
        say(line)
    if out is not None:
        write_json(out, asdict(figures))
    return figures


def _run(engine: Engine, works: Sequence[Work], effort: Effort | None) -> None:
    """Answers works as `Engine.run` does; with an effort all slots go on to their last token."""
    if effort is None:
        engine.run(works)
        return
    found = Outcomes(len(works), None)
    jobs = [engine.compile(work) for work in works]
    for job in jobs:
        for slot in job.slots:
            if isinstance(slot, Search):
                slot.effort = effort
            elif isinstance(slot, Generation):
                slot.ends = NEVER
        engine.submit(job)
    while engine.pending:
        found.add(engine.step())
    if found.fault is not None:
        raise found.fault


def _summarise(figures: ExtractionFigures, slots: Slots, rows: int, decoded: int) -> None:
    seconds = figures.seconds
    figures.token_seconds = median(seconds["scored"]) / rows
    figures.rows = decoded / slots.contents

    def price(name: str, without: str, count: int) -> float:
        """Of one slot; each repeat's own difference, in tokens at the rate of that repeat."""
        return median(
            (more - less) / count / (scored / rows)
            for more, less, scored in zip(
                seconds[name], seconds[without], seconds["scored"], strict=True
            )
        )

    figures.searched = price("searched", "scored", slots.contents)
    figures.generated = price("generated", "scored", slots.contents)
    figures.number = price("number", "scored", slots.contents)
    if slots.made_up:
        figures.farthest = price("farthest", "scored", slots.contents)
    figures.lone = price("searched_alone", "scored_alone", 1)
    figures.slowdown = median(
        more / less for more, less in zip(seconds["many_with_slots"], seconds["many"], strict=True)
    )


def _lines(figures: ExtractionFigures, slots: Slots) -> list[str]:
    model = f"{figures.model} {figures.dtype} on {figures.card or figures.processor}"
    searched = f"{figures.searched:.0f} tokens ({figures.rows:.0f} continuations)"
    many = (
        f"{_MANY_SLOTS} slots beside {_MANY_QUESTIONS} questions on {slots.many_contents} contents"
    )
    lines = [
        f"{model}; {slots.contents} contents x 1 slot, max_tokens {slots.max_tokens}",
        f"a scored token takes {1000 * figures.token_seconds:.3f} ms",
        f"a searched slot costs {searched}, alone on one content {figures.lone:.0f}",
        f"a number slot costs {figures.number:.0f} tokens",
        f"a generated slot costs {figures.generated:.0f} tokens",
        f"{many} take {figures.slowdown:.2f} times as long as the questions alone",
    ]
    if figures.farthest is not None:
        lines.append(f"a search that gives nothing up costs {figures.farthest:.0f} tokens")
    return lines


def _slot(name: str, kind: str, max_tokens: int) -> Slot:
    if kind == "number":
        return Slot(name, (Prompt("\nHow many? Answer:"),), SlotKind.NUMBER, "", max_tokens)
    sampling = GREEDY if kind == "generated" else None
    text = (Prompt('\nFirst of all it says "'),)
    return Slot(name, text, SlotKind.TEXT, '"', max_tokens, sampling)


def _ten(max_tokens: int) -> tuple[Slot, ...]:
    """Ten searched slots with prompts of their own."""
    what = ("subject", "place", "day", "person", "reason", "object", "verb", "end", "tone", "city")
    return tuple(
        Slot(word, (Prompt(f'\nThe {word} is "'),), SlotKind.TEXT, '"', max_tokens)
        for word in what[:_MANY_SLOTS]
    )


def _with(works: Sequence[Work], *slots: Slot) -> list[Work]:
    return [replace(work, slots=slots) for work in works]
