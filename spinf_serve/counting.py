"""Tokens of a sheet's rows under a pack, by the model's own tokenizer and tree, without running it."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from spinf_serve.engine.api import Engine
from spinf_serve.engine.counting import Counting, counting_without_weights
from spinf_serve.engine.work import Work
from spinf_serve.evals import token_counts
from spinf_serve.evals.estimate import PER, Counted, Estimate
from spinf_serve.packs.errors import Refused, Unusable
from spinf_serve.server.config import ServerConfig

MEASURED_SECONDS = 5.0
"""How long a model is run to learn its rate."""


def counting(config: ServerConfig, say: Callable[[str], None]) -> Counting:
    """The configured model's, whose weights are not read. Raises `Unusable`."""
    return counting_without_weights(config.engine, config.limits, say)


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
    """As `spinf_serve.evals.token_counts.count_tokens`, with a model's tokens."""
    start = 0 if model.tokenizer.bos_id is None else 1
    return token_counts.count_tokens(model.count, start, rows)


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
