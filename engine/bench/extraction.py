"""`spinf-serve bench --extraction`: what slots cost, in tokens that could be scored meanwhile.

Each figure is a ratio of two jobs of one run, which differ in their slots alone and take turns: a
machine that is slow for a while is slow for both.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median

from spinf_serve.engine.api import Engine, open_engine
from spinf_serve.engine.bench.machine import commit, processor_name
from spinf_serve.engine.bench.output import write_json
from spinf_serve.engine.bench.workload import closed_questions
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.work import Limits, Work
from spinf_serve.packs.question import GREEDY, Prompt, Slot
from spinf_serve.packs.template import SlotKind

Say = Callable[[str], None]

_QUESTIONS = 8
"""Beside the slots whose price is asked for: so that a token is scored as in a pass of many."""

_MANY_QUESTIONS, _MANY_SLOTS, _MANY_CONTENTS = 100, 10, 4


@dataclass(frozen=True, slots=True)
class Slots:
    """The job: contents with a slot each, their mean tokens, how far a slot goes, and repeats."""

    contents: int = 24
    content_tokens: float = 466.0
    max_tokens: int = 16
    repeats: int = 3


@dataclass(slots=True)
class ExtractionFigures:
    """What a run measured.

    Attributes:
        token_seconds: of a scored token, the median.
        searched, generated, number: a slot's price in scored tokens, spread over all contents.
        lone: that of a searched slot on one content that is alone.
        rows: continuations that were read for one searched slot, the mean.
        slowdown: seconds with ten slots beside a hundred questions by those without slots.
        seconds: every measured time, raw, by job.
    """

    commit: str
    processor: str
    model: str
    dtype: str
    fingerprint: str
    shape: dict[str, float]
    token_seconds: float = 0.0
    searched: float = 0.0
    generated: float = 0.0
    number: float = 0.0
    lone: float = 0.0
    rows: float = 0.0
    slowdown: float = 0.0
    seconds: dict[str, list[float]] = field(default_factory=dict)


def run_extraction(
    config: EngineConfig, *, slots: Slots | None = None, out: Path | None = None, say: Say = print
) -> ExtractionFigures:
    """Measures what slots cost and says it; `out` gets the figures as JSON."""
    return measured(open_engine(config, Limits()), slots or Slots(), out, say)


def measured(
    engine: Engine, slots: Slots, out: Path | None = None, say: Say = print
) -> ExtractionFigures:
    """As `run_extraction`, of an engine that is open."""
    config = engine.config
    figures = ExtractionFigures(
        commit=commit(),
        processor=processor_name(),
        model=engine.served.id,
        dtype=config.dtype,
        fingerprint=engine.fingerprint.short,
        shape=asdict(slots),
    )
    scored = closed_questions(engine.tokenizer, slots.contents, _QUESTIONS, slots.content_tokens)
    many = closed_questions(
        engine.tokenizer, _MANY_CONTENTS, _MANY_QUESTIONS, slots.content_tokens, distinct=False
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
    # Whatever is made once is made here, as the sets of a vocabulary's tokens.
    for works in jobs.values():
        engine.run(works[:1])
    rows = decoded = 0
    for _ in range(slots.repeats):
        for name, works in jobs.items():
            engine.forget()
            rows_before, decoded_before = engine.stats.rows, engine.stats.decode_rows
            start = time.perf_counter()
            engine.run(works)
            figures.seconds.setdefault(name, []).append(time.perf_counter() - start)
            if name == "scored":
                rows = engine.stats.rows - rows_before
            if name == "searched":
                decoded = engine.stats.decode_rows - decoded_before
    _summarise(figures, slots, rows, decoded)
    for line in _lines(figures, slots):
        say(line)
    if out is not None:
        write_json(out, asdict(figures))
    return figures


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
    figures.lone = price("searched_alone", "scored_alone", 1)
    figures.slowdown = median(
        more / less for more, less in zip(seconds["many_with_slots"], seconds["many"], strict=True)
    )


def _lines(figures: ExtractionFigures, slots: Slots) -> list[str]:
    model = f"{figures.model} {figures.dtype} on {figures.processor}"
    searched = f"{figures.searched:.0f} tokens ({figures.rows:.0f} continuations)"
    many = f"{_MANY_SLOTS} slots beside {_MANY_QUESTIONS} questions"
    return [
        f"{model}; {slots.contents} contents x 1 slot, max_tokens {slots.max_tokens}",
        f"a scored token takes {1000 * figures.token_seconds:.3f} ms",
        f"a searched slot costs {searched}, alone on one content {figures.lone:.0f}",
        f"a number slot costs {figures.number:.0f} tokens",
        f"a generated slot costs {figures.generated:.0f} tokens",
        f"{many} take {figures.slowdown:.2f} times as long as the questions alone",
    ]


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
