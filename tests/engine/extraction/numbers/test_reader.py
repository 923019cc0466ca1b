from decimal import Decimal
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinf_serve.engine.extraction.numbers.grammar import AUTOMATA, FORMS, GRAMMARS, SPACES, Kind
from spinf_serve.engine.extraction.numbers.pieces import Alt, Chars, Piece, Repeat, Seq, Tag
from spinf_serve.engine.extraction.numbers.reader import read
from tests.engine.extraction.numbers.written_forms import (
    AMOUNTS,
    NO_NUMBERS,
    NUMBERS,
    RANGES,
    TWO_READINGS,
)

KINDS: tuple[Kind, ...] = ("number", "amount")
NUMBER_ROWS = [(locale, text, v) for locale, rows in NUMBERS.items() for text, v in rows.items()]
AMOUNT_ROWS = [(locale, text, *v) for locale, rows in AMOUNTS.items() for text, v in rows.items()]


def accepted(text: str, kind: Kind) -> bool:
    state = AUTOMATA[kind].start.after(text)
    return state is not None and state.complete


def test_the_table_is_as_large_as_promised():
    assert len(NUMBER_ROWS) + len(AMOUNT_ROWS) >= 150
    assert len(NUMBERS.keys() | AMOUNTS.keys()) >= 12


@pytest.mark.parametrize(("locale", "text", "value"), NUMBER_ROWS)
def test_numbers_as_they_are_written(locale, text, value):
    reading = read(text, "number")
    assert reading is not None
    assert reading.values == (Decimal(value),)
    assert not reading.ambiguous
    assert accepted(text, "number")


@pytest.mark.parametrize(("locale", "text", "value", "code"), AMOUNT_ROWS)
def test_amounts_as_they_are_written(locale, text, value, code):
    reading = read(text, "amount")
    assert reading is not None
    assert reading.values == (Decimal(value),)
    assert reading.currency_code == code
    assert accepted(text, "amount")
    assert reading.currency is None or reading.currency in text


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_of_two_readings_carries_both(kind):
    for text, values in TWO_READINGS[kind].items():
        reading = read(text, kind)
        assert reading is not None
        assert reading.values == tuple(Decimal(value) for value in values), text
        assert reading.ambiguous


@pytest.mark.parametrize("kind", KINDS)
def test_a_range_is_not_one_number(kind):
    for text in RANGES[kind]:
        reading = read(text, kind)
        assert reading is not None, text
        assert (reading.value, reading.is_range, reading.currency) == (None, True, None), text
        assert accepted(text, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_number_is_not_read_and_not_completed(kind):
    for text in NO_NUMBERS[kind]:
        assert read(text, kind) is None, text
        assert not accepted(text, kind), text


def test_every_documented_example_is_read():
    for form in FORMS:
        for example in form.examples:
            assert read(example, form.kind) is not None, example


def test_units_and_signs_are_told():
    texts = {"5%": "%", "5 Percent": "%", "5 ‰": "‰", "5 BPS": "bp", "5": None}
    texts |= {"5 promille": "‰", "5 Permille": "‰", "5‱": "bp", "5bps": "bp", "5-%": "%"}
    for text, unit in texts.items():
        reading = read(text, "number")
        assert reading is not None
        assert reading.unit == unit, text


def test_a_bracket_with_a_minus_is_negative_once():
    assert read("-(5)", "number") == read("(5)", "number")


def test_a_word_of_english_and_german_leaves_both_readings_of_its_digits_too():
    reading = read("1,234 Billion", "number")
    assert reading is not None
    assert [value / 10**9 for value in reading.values] == [1234, 1234000, Decimal("1.234")]


def test_a_sign_with_a_point_is_never_a_sign_and_a_decimal_point():
    for text in ("Rs.50", "Rs.50-", "kr.500", "лв.5", "-Rs.50"):
        reading = read(text, "amount")
        assert reading is not None
        assert not reading.ambiguous, text
        assert abs(reading.values[0]) >= 5, text
    spaced = read("Rs .50", "amount")
    assert spaced is not None
    assert spaced.values == (Decimal("0.5"),)


def written(piece: Piece, draws: Random) -> str:
    """A text of a piece, at random."""
    if isinstance(piece, Chars):
        return draws.choice(sorted(piece.chars))
    if isinstance(piece, Seq):
        return "".join(written(one, draws) for one in piece.pieces)
    if isinstance(piece, Alt):
        return written(draws.choice(piece.pieces), draws)
    if isinstance(piece, Tag):
        return written(piece.piece, draws)
    assert isinstance(piece, Repeat)
    most = piece.least + 3 if piece.most is None else min(piece.most, piece.least + 3)
    return "".join(written(piece.piece, draws) for _ in range(draws.randint(piece.least, most)))


ANY = "0123456789.,'’ -−–—()+%‰‱$€£kKmMbnt½⅐/" + SPACES + "EURUSDRstoBillion"


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_is_written_by_the_grammar_can_be_read(kind):
    start = AUTOMATA[kind].start
    for seed in range(300):
        text = written(GRAMMARS[kind], Random(seed))
        assert accepted(text, kind), text
        reading = read(text, kind)
        assert reading is not None, text
        assert len(reading.values) <= 4, text
        assert bool(reading.values) != reading.is_range, text
        assert all(start.after(text[:end]) is not None for end in range(len(text))), text


@pytest.mark.parametrize("kind", KINDS)
def test_the_automaton_completes_exactly_what_is_read(kind):
    @given(st.text(alphabet=ANY, max_size=8))
    def check(text: str) -> None:
        assert accepted(text, kind) == (read(text, kind) is not None)

    check()


@pytest.mark.parametrize("kind", KINDS)
@given(
    whole=st.integers(0, 10**12),
    cents=st.integers(0, 99),
    style=st.sampled_from([",.", ".,", "'.", " ,", "\u202f,"]),
    negative=st.booleans(),
)
def test_grouped_values_come_back(kind, whole, cents, style, negative):
    group, mark = style
    digits = f"{whole:,}".replace(",", group)
    text = f"{'-' if negative else ''}{digits}{mark}{cents:02d}"
    reading = read(text, kind)
    value = Decimal(whole) + Decimal(cents) / 100
    assert reading is not None
    assert reading.values == (-value if negative else value,)
