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
    ],
)
def test_different_answers_have_different_keys(texts):
    assert len({text_key(text) for text in texts}) == len(texts)


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
