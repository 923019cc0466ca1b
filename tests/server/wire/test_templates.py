"""How closed questions are worded: what the model reads, and that labels stay apart."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinf_serve.server.wire.closed_questions import ClosedQuestion, Kind
from spinf_serve.server.wire.templates import NO, YES, spoken, worded


def closed(kind: Kind, labels: tuple[str, ...], **changes: Any) -> ClosedQuestion:
    given_fields: dict[str, Any] = {
        "key": "late",
        "path": "questions.late",
        "instructions": "Who?",
        "descriptions": ("",) * len(labels),
        **changes,
    }
    return ClosedQuestion(kind=kind, labels=labels, **given_fields)


def test_a_cloze_lists_no_label():
    question = worded(closed(Kind.CHOICE, ("tech", "billing")), "cloze")
    assert question.prompts[0].text == "\n\nQuestion: Who?\nAnswer:"
    assert question.options == (" billing", " tech")
    assert question.empty_floor and not question.case_insensitive


def test_a_turn_lists_labels_in_the_order_of_their_texts():
    one = worded(closed(Kind.CHOICE, ("tech", "billing"), descriptions=("", "pay")), "chat")
    other = worded(closed(Kind.CHOICE, ("billing", "tech"), descriptions=("pay", "")), "chat")
    assert one == other
    assert one.prompts[0].text == (
        "\n\nWho?\n\n- billing: pay\n- tech\n\n"
        "Answer with one option of this list only, word for word."
    )
    assert one.options == ("billing", "tech")
    assert not one.empty_floor


def test_levels_are_listed_from_the_lowest():
    text = worded(closed(Kind.SCORE, ("z", "a")), "chat").prompts[0].text
    assert text.index("- z") < text.index("- a")


def test_meanings_stand_before_what_is_asked():
    question = closed(Kind.NOUL, (YES, NO), descriptions=("any refund", ""))
    cloze = worded(question, "cloze").prompts[0].text
    assert cloze == "\n\nYes: any refund\n\nQuestion: Who?\nAnswer:"
    turn = worded(question, "chat").prompts[0].text
    assert turn == "\n\nYes: any refund\n\nWho?\n\nAnswer with Yes or No only."


@pytest.mark.parametrize("style", ["cloze", "chat"])
def test_a_key_is_never_shown(style):
    one = worded(closed(Kind.CHOICE, ("a", "b")), style)
    other = worded(closed(Kind.CHOICE, ("a", "b"), key="something else"), style)
    assert (one.prompts, one.options) == (other.prompts, other.options)


def test_labels_are_closed_where_one_begins_another():
    assert worded(closed(Kind.CHOICE, ("New", "Old", "New York")), "cloze").options == (
        " New\n",
        " New York\n",
        " Old\n",
    )


LABELS = st.lists(st.text('ab" \n\r\u2028\\', max_size=5), min_size=1, max_size=6, unique=True)


@given(LABELS)
def test_no_option_begins_another_and_all_differ(labels):
    options = worded(closed(Kind.CHOICE, tuple(labels)), "cloze").options
    assert len(set(options)) == len(labels)
    assert not any(a != b and b.startswith(a) for a in options for b in options)


@given(st.text(max_size=8))
def test_a_spoken_label_is_one_line(label):
    assert "\n" not in spoken(label) and spoken(label).strip() == spoken(label) != ""
