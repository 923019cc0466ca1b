"""Passes of a chosen make-up, for checks: which works lie in one together, and how many rows it has.

Everything goes through the engine as anyone's works do; nothing is faked.
"""

from collections.abc import Sequence
from dataclasses import replace

from spinf_serve.engine.api import Engine
from spinf_serve.engine.bench.workload import closed_questions, made_up_contents
from spinf_serve.engine.text.tokenizer import Tokenizer
from spinf_serve.engine.work import Result, Work
from spinf_serve.packs.errors import Refused, SpinfError
from spinf_serve.packs.question import Prompt, Question

LENGTHS = (0, 1, 2, 3, 5, 9, 11, 40, 130, 300)
_WORD = " box"
_COMPANY_TOKENS = (470, 190, 75, 30, 12, 5)


def works_of_many_lengths(
    tokenizer: Tokenizer, lengths: Sequence[int] = LENGTHS, questions: int = 8
) -> list[Work]:
    """Works whose contents have about the given numbers of tokens, with the same questions."""
    asked = closed_questions(tokenizer, 1, questions, content_tokens=1.0)[0].questions
    texts = [
        closed_questions(tokenizer, 1, 1, content_tokens=float(n), seed=n)[0].content
        if n > 16
        else (_WORD * n).strip()
        for n in lengths
    ]
    return [Work(text, asked) for text in texts]


def without_floors(work: Work) -> Work:
    """The same work with its questions' floors left out, so that its own rows are all there is."""
    return Work(work.content, tuple(replace(one, empty_floor=False) for one in work.questions))


def in_one_pass(engine: Engine, works: Sequence[Work]) -> list[Result]:
    """Answers works that wait together, so that one pass takes them all if it is large enough.

    Raises:
        SpinfError: the first refusal or fault.
    """
    jobs = [engine.compile(work) for work in works]
    for job in jobs:
        engine.submit(job)
    results: dict[int, Result] = {}
    try:
        while len(results) < len(jobs):
            for job, outcome in engine.step():
                if isinstance(outcome, SpinfError):
                    raise outcome
                results[job.tree.key] = outcome
    finally:
        for job in jobs:
            engine.cancel(job)
    return [results[job.tree.key] for job in jobs]


def rows_of(engine: Engine, work: Work) -> int:
    """Rows that a work without floors takes in a pass."""
    return engine.compile(work).counts.packed_tokens


def smallest_work(engine: Engine) -> Work:
    """A work of as few rows as the model allows: one, of the start token or of a letter."""
    found: list[tuple[int, Work]] = []
    for text in ("", "x", "\nx"):
        for options in ((" yes", " no"), ("a", "b")):
            work = Work("", (Question("q", (Prompt(text),), options, False, False),))
            try:
                found.append((rows_of(engine, work), work))
            except Refused:
                # Without a start token there is nothing to read the answer of an empty text from.
                continue
    return min(((rows, work) for rows, work in found if rows), key=lambda pair: pair[0])[1]


class Company:
    """Works that lie beside others in a pass, so that it gets a wanted number of rows."""

    def __init__(self, engine: Engine) -> None:
        tokenizer = engine.tokenizer
        [asked] = closed_questions(tokenizer, 1, 1, content_tokens=1.0)
        works = [
            without_floors(Work(text, asked.questions))
            for tokens in _COMPANY_TOKENS
            for text in made_up_contents(tokenizer, 1, tokens, seed=tokens)
        ]
        works.append(smallest_work(engine))
        sized = [(rows_of(engine, work), work) for work in works]
        self._sized = sorted(sized, key=lambda pair: -pair[0])

    def up_to(self, rows: int) -> list[Work]:
        """Works of at most so many rows in all; of exactly as many where one has a single row."""
        taken: list[Work] = []
        while rows >= self._sized[-1][0]:
            for size, work in self._sized:
                if size <= rows:
                    taken.append(work)
                    rows -= size
        return taken
