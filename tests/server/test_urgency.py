"""Headers that say how soon an answer is wanted."""

import time

import pytest
from starlette.datastructures import Headers

from spinf_serve.engine.api import Priority
from spinf_serve.packs.errors import Refused
from spinf_serve.server.urgency import deadline_of, priority_of


def headers(**given: str) -> Headers:
    return Headers({name.replace("_", "-"): value for name, value in given.items()})


@pytest.mark.parametrize(
    ("given", "priority"),
    [
        ({}, Priority.INTERACTIVE),
        ({"x_spinf_priority": "interactive"}, Priority.INTERACTIVE),
        ({"x_spinf_priority": " Batch "}, Priority.BATCH),
    ],
)
def test_a_request_is_interactive_unless_it_says_otherwise(given, priority):
    assert priority_of(headers(**given)) is priority


def test_an_unknown_priority_is_refused_with_those_that_there_are():
    with pytest.raises(Refused) as caught:
        priority_of(headers(x_spinf_priority="1"))
    assert caught.value.code == "invalid_field"
    assert "'1'" in caught.value.message and "interactive or batch" in caught.value.message


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({}, 600),
        ({"x_request_deadline_ms": "1500"}, 1.5),
        ({"x_request_deadline_ms": "9" * 12}, 600),
    ],
)
def test_the_sooner_of_header_and_setting_counts(given, seconds):
    before = time.monotonic()
    deadline = deadline_of(headers(**given), 600)
    assert before + seconds <= deadline <= time.monotonic() + seconds


@pytest.mark.parametrize("given", ["0", "-5", "1.5", "soon", "", "9" * 13, "²", "9" * 5000])
def test_a_deadline_that_is_no_number_is_refused(given):
    with pytest.raises(Refused) as caught:
        deadline_of(headers(x_request_deadline_ms=given), 600)
    assert caught.value.code == "invalid_field"
