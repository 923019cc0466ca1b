"""The long check of invariance: works alone against the same works in passes of very many sizes."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from spinf_serve.engine.api import Engine
from spinf_serve.engine.bench.checks import Bits, Check, answer_bits
from spinf_serve.engine.bench.passes import (
    Company,
    in_one_pass,
    rows_of,
    smallest_work,
    without_floors,
)
from spinf_serve.engine.bench.workload import closed_questions, made_up_contents
from spinf_serve.engine.work import Work
from spinf_serve.packs.question import Prompt, Question

MOST_TOGETHER = 129
"""Contents, and questions, that are put into one pass: every number from 1 to this."""

MOST_ROWS = 4096
"""Rows of a pass: every number from 1 to `MOST_TOGETHER`, then steps to this, then a whole pass."""

# Prime, so that the sizes leave every remainder by the sizes of tiles.
_STEP = 97
_QUIET_SECONDS = 2.0


@dataclass(slots=True)
class Ticker:
    """Says how far a sweep is, every two seconds."""

    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    _said: float | None = None

    def tick(self, what: str, done: int, of: int) -> None:
        """Counts; says so when two seconds are over."""
        now = self.clock()
        if self._said is None:
            self._said = now
        if now - self._said >= _QUIET_SECONDS:
            self._said = now
            self.say(f"  {what}: {done} of {of} passes")


@dataclass(slots=True)
class _Tally:
    """Comparisons of one kind, over many passes."""

    name: str
    compared: int = 0
    different: int = 0
    sizes: tuple[int, ...] = ()

    def add(self, size: int, expected: Sequence[bytes], got: Sequence[bytes]) -> None:
        wrong = sum(a != b for a, b in zip(expected, got, strict=True))
        self.compared += len(expected)
        self.different += wrong
        if wrong and self.sizes[-1:] != (size,):
            self.sizes += (size,)

    @property
    def check(self) -> Check:
        return Check(self.name, self.compared, self.different, self.sizes)


def sweep(
    engine: Engine,
    say: Callable[[str], None],
    *,
    most_together: int = MOST_TOGETHER,
    most_rows: int = MOST_ROWS,
) -> Iterator[Check]:
    """Compares the bits of works alone with those in company, in passes of many sizes.

    Args:
        engine: with passes of `most_rows` tokens or more, else sizes end at its own.
        say: gets a line about progress every two seconds.
    """
    ticker = Ticker(say)
    yield _contents(engine, ticker, most_together)
    yield _questions(engine, ticker, most_together)
    largest = engine.config.pass_tokens
    most = min(most_rows, largest)
    few = min(most_together, most)
    yield _rows(engine, ticker, range(1, few + 1), f"1 to {few} rows in a pass")
    many = [rows for rows in row_steps(most) if rows > few]
    if largest > most:
        many.append(largest)
    if many:
        yield _rows(engine, ticker, many, f"{many[0]} to {many[-1]} rows, {len(many)} sizes")


def row_steps(most: int) -> list[int]:
    """Sizes up to `most`: powers of two and their neighbours, and steps of a prime between."""
    powers = [1 << bit for bit in range(most.bit_length())]
    around = {power + by for power in powers for by in (-1, 0, 1)}
    return sorted(size for size in around | set(range(1, most + 1, _STEP)) if 1 <= size <= most)


def _contents(engine: Engine, ticker: Ticker, most: int) -> Check:
    """1, 2, … contents with a question each, all in one pass."""
    tokenizer = engine.tokenizer
    [asked] = closed_questions(tokenizer, 1, 1, content_tokens=1.0)
    texts = ["", *made_up_contents(tokenizer, most - 1, 12.0)]
    works = [without_floors(Work(text, asked.questions)) for text in texts]
    alone = _alone(engine, works, ticker, "each content alone")
    tally = _Tally(f"1 to {most} contents in a pass")
    for count in range(1, most + 1):
        got = [bits for [bits] in _bits(engine, works[:count])]
        tally.add(count, alone[:count], got)
        ticker.tick("contents together", count, most)
    return tally.check


def _questions(engine: Engine, ticker: Ticker, most: int) -> Check:
    """1, 2, … questions on one content."""
    [content] = made_up_contents(engine.tokenizer, 1, 90.0, seed=1)
    questions = tuple(
        Question(f"q{n}", (Prompt(f"\nIs it number {n}? Answer:"),), (" yes", " no"), False, False)
        for n in range(most)
    )
    works = [Work(content, (question,)) for question in questions]
    alone = _alone(engine, works, ticker, "each question alone")
    tally = _Tally(f"1 to {most} questions on a content")
    for count in range(1, most + 1):
        [got] = _bits(engine, [Work(content, questions[:count])])
        tally.add(count, alone[:count], got)
        ticker.tick("questions together", count, most)
    return tally.check


def _alone(engine: Engine, works: Sequence[Work], ticker: Ticker, what: str) -> list[bytes]:
    """Bits of works of one prompt, each in a pass of its own."""
    found: list[bytes] = []
    for work in works:
        [[bits]] = _bits(engine, [work])
        found.append(bits)
        ticker.tick(what, len(found), len(works))
    return found


def _rows(engine: Engine, ticker: Ticker, sizes: Sequence[int], name: str) -> Check:
    """Works of one row, a few and very many rows, in passes of exactly so many rows."""
    probes = _probes(engine)
    own_rows = [rows_of(engine, work) for work in probes]
    alone = [_bits(engine, [work])[0] for work in probes]
    company = Company(engine)
    tally = _Tally(name)
    for number, rows in enumerate(sizes):
        chosen, room = [], rows
        for place, size in enumerate(own_rows):
            if size <= room:
                chosen.append(place)
                room -= size
        beside = company.up_to(room)
        if not chosen or sum(rows_of(engine, work) for work in beside) != room:
            # Only where no work of one row exists: a tokenizer without words.
            continue
        # First, last and in the midst of others in turn.
        before = (0, len(beside), len(beside) // 2)[number % 3]
        works = [*beside[:before], *(probes[place] for place in chosen), *beside[before:]]
        got = _bits(engine, works)[before : before + len(chosen)]
        for place, bits in zip(chosen, got, strict=True):
            tally.add(rows, alone[place], bits)
        ticker.tick(name, number + 1, len(sizes))
    return tally.check


def _probes(engine: Engine) -> list[Work]:
    """Works by rows, ascending: one row, a dozen, a hundred and more than a block of a trunk."""
    tokenizer = engine.tokenizer
    asked = closed_questions(tokenizer, 1, 2, content_tokens=1.0, seed=2)[0].questions
    works = [
        without_floors(Work(text, asked[:count]))
        for tokens, count in ((2, 1), (80, 2), (300, 2))
        for text in made_up_contents(tokenizer, 1, float(tokens), seed=tokens)
    ]
    return [smallest_work(engine), *works]


def _bits(engine: Engine, works: Sequence[Work]) -> list[Bits]:
    return [answer_bits(result) for result in in_one_pass(engine, works)]
