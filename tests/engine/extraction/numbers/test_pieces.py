import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinf_serve.engine.extraction.numbers.pieces import (
    Automaton,
    alt,
    chars,
    optional,
    parses,
    repeat,
    seq,
    tag,
    word,
    words,
)

PIECE = seq(
    optional(tag("sign", chars("+-"))),
    tag("digits", repeat(chars("01"), 1, 3)),
    alt(word("x"), seq(word("y"), repeat(chars("z"), 2))),
)


def follows(text: str) -> tuple[bool, bool]:
    """Whether a text may still become a form, and whether it is one."""
    state = Automaton(PIECE).start.after(text)
    return state is not None, state is not None and state.complete


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", (True, False)),
        ("+0", (True, False)),
        ("101x", (True, True)),
        ("1010", (False, False)),
        ("1y", (True, False)),
        ("1yz", (True, False)),
        ("1yzz", (True, True)),
        ("1yzzzz", (True, True)),
        ("1xx", (False, False)),
    ],
)
def test_an_automaton_follows_a_text(text, expected):
    assert follows(text) == expected


def test_states_are_shared_and_say_what_may_follow():
    start = Automaton(PIECE).start
    assert start.next_chars == frozenset("+-01")
    once, twice = start.after("1yzz"), start.after("0yzz")
    assert once is twice
    assert once is not None
    assert once.next_chars == frozenset("z")


def test_a_form_is_taken_apart():
    assert list(parses(PIECE, "-10x")) == [(("sign", "-"), ("digits", "10"))]
    assert list(parses(PIECE, "-10")) == []


def test_every_reading_is_given_the_preferred_one_first():
    piece = alt(seq(tag("a", word("1")), word("2")), tag("b", word("12")))
    assert list(parses(piece, "12")) == [(("a", "1"),), (("b", "12"),)]


def test_words_are_matched_longest_first_and_in_any_case_when_wanted():
    piece = seq(tag("unit", words("m", "mm", any_case=True)), optional(word("m")))
    assert [dict(tags)["unit"] for tags in parses(piece, "MM")] == ["MM"]
    assert [dict(tags)["unit"] for tags in parses(piece, "Mm")] == ["Mm", "M"]


@given(st.text(alphabet="+-01xyz", max_size=7))
def test_following_and_taking_apart_agree(text):
    assert follows(text)[1] == any(True for _ in parses(PIECE, text))


def test_a_piece_knows_with_what_it_may_begin():
    assert PIECE.first == frozenset("+-01")
    assert optional(word("x")).first is None
    assert seq(optional(word("x")), repeat(word("y"), 0)).first is None
    assert seq(seq(optional(word("x"))), word("y")).first is None
    assert alt(word("ab"), tag("t", word("cd"))).first == frozenset("ac")
    assert seq(optional(word("x")), seq(), word("y")).first is None
    assert list(parses(seq(optional(word("x")), seq(), word("y")), "y")) == [()]
