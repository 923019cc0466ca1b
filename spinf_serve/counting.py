"""Tokens of a sheet's rows under a pack, by the model's own tokenizer and tree, without running it."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from spinf_serve.engine.api import Engine
from spinf_serve.engine.config import AUTO
from spinf_serve.engine.text.tokenizer import Tokenizer
from spinf_serve.engine.work import Counts, Limits, Work
from spinf_serve.evals.estimate import PER, Counted, Estimate
from spinf_serve.packs.errors import Refused, Unusable
from spinf_serve.server.config import ServerConfig

MEASURED_SECONDS = 5.0
"""How long a model is run to learn its rate."""


class Compiles(Protocol):
    """What turns a work into tokens."""

    def __call__(self, work: Work) -> Counts:
        """Its token counts. Raises `Refused` as an engine does."""
        ...


@dataclass(frozen=True, slots=True)
class Counting:
    """What a model makes of texts.

    Attributes:
        model: its id.
        count: a work's tokens.
    """

    model: str
    tokenizer: Tokenizer
    limits: Limits
    count: Compiles


def counting(config: ServerConfig, say: Callable[[str], None]) -> Counting:
    """The configured model's, whose weights are not read. Raises `Unusable`."""
    from spinf_serve.engine.card import find_card
    from spinf_serve.engine.loading.locate import obtainable
    from spinf_serve.engine.loading.open import open_checkpoint
    from spinf_serve.engine.placement import default_model, place
    from spinf_serve.engine.scoring.job import compile_job
    from spinf_serve.engine.scoring.question_set import Compiler

    engine = config.engine
    name = engine.model
    if name == AUTO:
        card = place(engine, find_card).card
        name, _ = default_model(card, partial(obtainable, offline=engine.offline))
    opened = open_checkpoint(name, offline=engine.offline, say=say)
    # As an engine takes them: the model's own where nobody set one.
    own = {name: most for name, most in opened.limits.items() if name in engine.open_limits}
    limits: Limits = replace(config.limits, **own)
    compiler = Compiler(opened.tokenizer, limits)

    def count(work: Work) -> Counts:
        return compile_job(work, compiler, opened.tokenizer, limits, opened.spec.context).counts

    return Counting(opened.served.id, opened.tokenizer, limits, count)


def counting_of(engine: Engine) -> Counting:
    """An open engine's."""
    return Counting(
        engine.served.id,
        engine.tokenizer,
        engine.limits,
        lambda work: engine.compile(work).counts,
    )


def count_tokens(
    model: Counting, rows: Iterable[Sequence[Work] | Refused]
) -> tuple[Counted, Mapping[str, int]]:
    """Tokens of rows, and code -> rows that were refused and are not in the sum.

    Args:
        rows: the works of each row, one per chunk; or why there are none.

    Raises `Unusable` when no row is left.
    """
    sum_ = Counted(0, 0, 0, 0, 0)
    refused: Counter[str] = Counter()
    for works in rows:
        try:
            if isinstance(works, Refused):
                raise works
            sum_ += _of_row(model, works)
        except Refused as stop:
            refused[stop.code] += 1
    if not sum_.rows:
        listed = ", ".join(f"{count} {code}" for code, count in refused.items())
        raise Unusable(f"no row can be counted: {listed or 'the sheet has none'}")
    return sum_, dict(refused)


def _of_row(model: Counting, works: Sequence[Work]) -> Counted:
    bos = 0 if model.tokenizer.bos_id is None else 1
    content = tree = apart = calls = 0
    for work in works:
        counts = model.count(work)
        prompts = sum(len(question.prompts) for question in work.questions)
        content += counts.content_tokens
        tree += counts.packed_tokens
        apart += prompts * (bos + counts.content_tokens) + counts.query_tokens
        calls += prompts
    return Counted(1, calls, content, tree, apart)


def measured_rate(engine: Engine, works: Sequence[Work]) -> float:
    """Tokens a second that an engine reads of works like these, over `MEASURED_SECONDS`.

    Raises `Unusable` when the model refuses all of them.
    """
    good = []
    for work in works:
        try:
            engine.compile(work)
        except Refused:
            continue
        good.append(work)
    if not good:
        raise Unusable("the model refuses these rows; give its rate with --rate")
    # Whatever a first pass has to set up is no part of the rate.
    engine.run(good[:1])
    rows, begun, at, size = engine.stats.rows, time.monotonic(), 0, 1
    while (took := time.monotonic() - begun) < MEASURED_SECONDS:
        engine.run([good[(at + step) % len(good)] for step in range(size)])
        at += size
        size = min(2 * size, 64)
    return (engine.stats.rows - rows) / took


def estimate_lines(
    counted: Counted, refused: Mapping[str, int], told: Estimate, rate: float, price: float
) -> list[str]:
    """An estimate in lines."""
    rows = counted.rows
    content, calls = counted.content_tokens / rows, counted.calls / rows
    lines = [f"{rows} rows counted: {content:.0f} tokens and {calls:.0f} questions each on average"]
    if refused:
        listed = ", ".join(f"{count} {code}" for code, count in sorted(refused.items()))
        lines.append(f"{sum(refused.values())} rows are refused and not in it: {listed}")
    lines.append(f"at {rate:,.0f} tokens a second and {price:g} an hour, {PER:,} decisions take")
    for name, cost in (("read once", told.tree), ("one call per question", told.apart)):
        lines.append(
            f"  {name:<22} {cost.tokens:>14,.0f} tokens {cost.seconds:>10,.1f} s"
            f" {cost.money:>10,.4f}"
        )
    lines.append(
        f"one call per question reads {told.times:.1f} times as many tokens; it is taken to read"
        " them at the same rate, which favours it"
    )
    return lines
