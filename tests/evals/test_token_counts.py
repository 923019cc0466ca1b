"""Sums of tokens, by hand."""

from dataclasses import dataclass
from typing import Any

import pytest

from spinf_serve.evals.estimate import Counted
from spinf_serve.evals.token_counts import count_tokens
from spinf_serve.packs.errors import Refused, Unusable
from spinf_serve.packs.question import Prompt, Question


@dataclass
class Asked:
    content: str
    questions: tuple[Question, ...]


@dataclass
class Tokens:
    content_tokens: int
    query_tokens: int
    packed_tokens: int


QUESTIONS = (
    Question("a", (Prompt("x"), Prompt("y")), (" yes", " no")),
    Question("b", (Prompt("z"),), (" yes", " no")),
)


def count(work):
    if work.content == "long":
        raise Refused("content_too_long", "too long")
    return Tokens(len(work.content), 6, len(work.content) + 5)


def test_calls_read_their_content_again_and_the_tree_once():
    rows = [[Asked("abcd", QUESTIONS)], [Asked("ab", QUESTIONS), Asked("c", QUESTIONS)]]
    counted, refused = count_tokens(count, 1, rows)
    # Three filled templates a content, each with a start of one token and the content.
    apart = 3 * 5 + 6 + 3 * 3 + 6 + 3 * 2 + 6
    assert counted == Counted(2, 9, 7, 9 + 7 + 6, apart) and refused == {}


def test_refused_rows_are_counted_and_in_no_sum():
    rows: list[Any] = [
        [Asked("long", QUESTIONS)],
        Refused("invalid_field", "none"),
        [Asked("a", QUESTIONS)],
    ]
    counted, refused = count_tokens(count, 0, rows)
    assert counted.rows == 1 and refused == {"content_too_long": 1, "invalid_field": 1}
    with pytest.raises(Unusable, match="1 content_too_long"):
        count_tokens(count, 0, [[Asked("long", QUESTIONS)]])
