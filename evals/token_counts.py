"""Sums the tokens of rows, of which a model says how many each has. Knows no tokenizer and no engine."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from spinf_serve.evals.estimate import Counted
from spinf_serve.packs.errors import Refused, Unusable
from spinf_serve.packs.question import Question


class Asked(Protocol):
    """One content with its questions."""

    @property
    def questions(self) -> tuple[Question, ...]:
        """What is asked about it."""
        ...


class Tokens(Protocol):
    """Tokens of one content with its questions."""

    @property
    def content_tokens(self) -> int:
        """Of the content alone."""
        ...

    @property
    def query_tokens(self) -> int:
        """Of the filled templates, and what options have beyond their first."""
        ...

    @property
    def packed_tokens(self) -> int:
        """Rows of passes."""
        ...


Work = TypeVar("Work", bound=Asked)


def count_tokens(
    count: Callable[[Work], Tokens],
    start_tokens: int,
    rows: Iterable[Sequence[Work] | Refused],
) -> tuple[Counted, Mapping[str, int]]:
    """Tokens of rows, and code -> rows that were refused and are not in the sum.

    Args:
        count: a work's tokens; raises `Refused`.
        start_tokens: tokens that every sequence begins with.
        rows: the works of each row, one per chunk; or why there are none.

    Raises `Unusable` when no row is left.
    """
    sum_ = Counted(0, 0, 0, 0, 0)
    refused: Counter[str] = Counter()
    for works in rows:
        try:
            if isinstance(works, Refused):
                raise works
            sum_ += _of_row(count, start_tokens, works)
        except Refused as stop:
            refused[stop.code] += 1
    if not sum_.rows:
        listed = ", ".join(f"{count} {code}" for code, count in refused.items())
        raise Unusable(f"no row can be counted: {listed or 'there is none'}")
    return sum_, dict(refused)


def _of_row(count: Callable[[Work], Tokens], start_tokens: int, works: Sequence[Work]) -> Counted:
    content = tree = apart = calls = 0
    for work in works:
        counts = count(work)
        prompts = sum(len(question.prompts) for question in work.questions)
        content += counts.content_tokens
        tree += counts.packed_tokens
        apart += prompts * (start_tokens + counts.content_tokens) + counts.query_tokens
        calls += prompts
    return Counted(1, calls, content, tree, apart)
