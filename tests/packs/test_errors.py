"""Words of messages."""

import pytest

from spinf_serve.packs.errors import kind_of


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("x", "a text"),
        (True, "true or false"),
        (3, "a whole number"),
        (0.5, "a number"),
        ({}, "an object"),
        ([], "a list"),
        (None, "null"),
        (object(), "no plain value"),
    ],
)
def test_a_value_is_told_in_words_of_its_format(value, words):
    assert kind_of(value) == words
