import unicodedata

import pytest

from spinf_serve.engine.extraction.merging import number_key, text_key
from spinf_serve.engine.extraction.numbers.reader import read


@pytest.mark.parametrize(
    "texts",
    [
        (
            "Alder Books",
            "alder books",
            "ALDER-BOOKS",
            "the Alder Books.",
            "\u201cAlder\u201d Books",
        ),
        ("e-mail", "email", "E mail"),
        ("-5", "\u22125", "\u20135"),
        ("a", "A"),
        ("5.", "5", "\u201c5\u201d"),
        ("'The Alder Books'", "an alder books!", "\u201eAlder Books\u201c", "(Alder Books)"),
        ("A&B", "a & b", "A& B."),
        ("10:30", "10 : 30"),
        ("5-7", "5 \u2013 7", "5\u20147"),
        ("5.\u2013", "5"),
        ("well-known", "well known", "Well\u2013known"),
        ("it's", "it\u2019s", "its"),
        ("yes", "Yes.", "(yes)", '"yes"', "YES!"),
        ("1 234", "1234"),
        ("5-year plan", "5 year plan"),
        ("- 5", "-5"),
        ("5 -", "5-"),
        ("(5)", "( 5 )"),
        ("snake_case", "snake case"),
        ("Foo (Bar), Baz", "foo (bar) baz", "Foo Bar Baz."),
        ("no - yes , both", "no yes both"),
        ("Straße 5", "STRASSE 5"),
        ("na\u00efve", "nai\u0308ve"),
    ],
)
def test_spellings_of_one_answer_have_one_key(texts):
    assert len({text_key(text) for text in texts}) == 1


@pytest.mark.parametrize(
    "texts",
    [
        ("C", "C++", "C#"),
        ("-5", "5"),
        ("1.5", "15", "1,5"),
        ("5 %", "5"),
        ("$5", "€5", "5"),
        ("?", "!", "??"),
        ("a", "b"),
        ("the", "an"),
        ("1/2", "12", "1-2", "1.2", "1,2", "1, 2", "1:2", "1'2"),
        ("10:30", "1030"),
        ("2024-01-05", "20240105", "2024/01/05", "2024 (01) 05"),
        ("5-7", "57", "5 -7", "5..7"),
        ("5-", "5", "-5", "(5)", "[5]", "+5", "~5", ".5"),
        ("5%-", "5%", "-5%"),
        ("<5", ">5", "5", "<=5", "\u22645", "\u22655"),
        ("C\u266f", "C", "C#", "C\u266d"),
        ("\u20b95", "5", "\u20bd5", "$5", "-$5", "($5)", "-\u20b95", "\ua8385"),
        ("(5 EUR)", "5 EUR", "-EUR 5"),
        ("A&B", "B", "AB", "A/B", "A@B", "A=B", "A+B", "A*B"),
        ("a@b.com", "bcom", "b@a.com", "ab.com"),
        ("Plan A", "Plan", "Plan B"),
        ('The "A" team', "The team"),
        ("5\u00b0", "5", "5\u2032", "5\u2033", "5 \u2030"),
        ("yes \U0001f44d", "yes \U0001f44e", "yes"),
        ("the \u20ac", "the"),
    ],
)
def test_different_answers_have_different_keys(texts):
    assert len({text_key(text) for text in texts}) == len(texts)


def test_every_currency_sign_and_a_minus_before_it_count():
    money = [c for c in map(chr, range(0x10000)) if unicodedata.category(c) == "Sc"]
    assert len({text_key(text) for c in money for text in (f"{c}5", f"-{c}5")}) == 2 * len(money)
    assert "5" not in {text_key(f"{c}5") for c in money}


def key(text, kind):
    reading = read(text, kind)
    assert reading is not None
    return number_key(text, reading)


def test_numbers_are_one_answer_by_value_and_currency():
    assert key("1,234.50", "number") == key("1.234,5", "number") == key("1234.5", "number")
    assert key("€ 5", "amount") == key("5,00 EUR", "amount")
    assert key("$5", "amount") != key("5", "amount") != key("€5", "amount")
    assert key("1,234", "number") != key("1234", "number")
    assert key("5-7", "number") != key("5-8", "number")


def test_numbers_of_different_currencies_or_small_units_are_different_answers():
    assert key("$12 USD", "amount") == key("USD 12", "amount") != key("$12", "amount")
    assert key("5 %", "number") == key("5", "number")
    assert len({key(text, "number") for text in ("5 %", "5 ‰", "5 bp")}) == 3
    assert key("5 bps", "number") == key("5 ‱", "number") == key("5 basis points", "number")
