import time

import pytest

from spinf_serve.packs.ask import scored_question
from spinf_serve.packs.errors import Refused


def ask(template="\nIs it late? Answer:{?}", options=(" yes", " no"), **more):
    return scored_question(more.pop("id", "late"), template, options, **more)


def refusal(**arguments) -> Refused:
    with pytest.raises(Refused) as refused:
        ask(**arguments)
    return refused.value


def test_a_question_keeps_what_was_given():
    question = ask(
        id="",
        template="\n{F}?{?}",
        options=[" yes", "No "],
        combinations=[{"F": "a"}, {"F": "{?}"}],
        case_insensitive=False,
        empty_floor=False,
        group="g",
    )
    assert [prompt.text for prompt in question.prompts] == ["\na?", "\n{?}?"]
    assert (question.id, question.options, question.group) == ("", (" yes", "No "), "g")
    assert (question.case_insensitive, question.empty_floor) == (False, False)


def test_one_option_is_enough():
    assert ask(options=[" yes"]).options == (" yes",)


@pytest.mark.parametrize(
    ("arguments", "code", "param", "words"),
    [
        ({"id": "x" * 129}, "invalid_field", "id", "129 characters, more than the 128"),
        ({"group": "x" * 129}, "invalid_field", "group", "128"),
        ({"template": "no slot"}, "invalid_template", "template", "no slot"),
        ({"options": None}, "missing_value", "options", "options is missing"),
        ({"options": []}, "too_many_options", "options", "0 options; between 1 and 1000"),
        ({"options": ["a"] * 1001}, "too_many_options", "options", "1001 options"),
        (
            {"options": list("abc"), "max_options": 2},
            "too_many_options",
            "options",
            "1 and 2 are allowed (max_options)",
        ),
        ({"options": ["a", ""]}, "invalid_field", "options.1", "empty"),
        ({"options": ["a", True]}, "invalid_field", "options.1", "is true or false;"),
        ({"template": "{F}{?}"}, "missing_value", "combinations", "`F`"),
        ({"slot_fields": ["top_k"]}, "invalid_field", "top_k", "extraction"),
        ({"template": "Paid:{$}"}, "extraction_disabled", "template", "`{$}`"),
        ({"template": "Paid:{n}", "options": None}, "extraction_disabled", "template", "`{n}`"),
        ({"template": '"{*}"', "slot_fields": ["top_k"]}, "extraction_disabled", "template", "*"),
        (
            {"template": '"{*}"', "slot_fields": ["max_tokens", "generate"]},
            "generation_disabled",
            "generate",
            "generate",
        ),
    ],
)
def test_faults(arguments, code, param, words):
    refused = refusal(**arguments)
    assert (refused.code, refused.param) == (code, param)
    assert words in refused.message


@pytest.mark.parametrize(
    ("field", "arguments", "unknown", "points_at"),
    [
        ("options", {"options": None}, ["optoins"], "`optoins`"),
        ("options", {"options": None}, ["color", "option"], "`option`"),
        ("combinations", {"template": "{F}{?}"}, ["combination"], "`combination`"),
    ],
)
def test_a_misspelt_field_is_pointed_at(field, arguments, unknown, points_at):
    # T-L1
    refused = refusal(unknown=unknown, **arguments)
    assert (refused.code, refused.param) == ("missing_value", field)
    assert points_at in refused.message and f"did you mean `{field}`?" in refused.message


def test_an_unrelated_unknown_field_is_not_pointed_at():
    assert "mean" not in refusal(options=None, unknown=["temperature"]).message


@pytest.mark.parametrize(
    ("options", "first", "second"),
    [
        (["Billing", "Billing ", "billing"], 0, 1),  # T-A4
        ([" no", " yes", "YES"], 1, 2),
        (["STRASSE", "straße"], 0, 1),  # T-A10
        (["x", "x"], 0, 1),
    ],
)
def test_options_the_same_but_for_case_and_outer_space_are_refused(options, first, second):
    refused = refusal(options=options)
    assert (refused.code, refused.param) == ("duplicate_option", f"options.{second}")
    assert f"options {first} ({options[first]!r}) and {second} ({options[second]!r})" in (
        refused.message
    )


def test_where_case_matters_only_equal_options_are_refused():
    kept = ask(options=["Billing", "Billing ", "billing"], case_insensitive=False)
    assert kept.options == ("Billing", "Billing ", "billing")
    assert refusal(options=["x", "y", "x"], case_insensitive=False).param == "options.2"


def test_a_dotted_capital_i_is_another_option():
    # T-A10: its case fold has a combining dot.
    assert ask(options=["İptal", "iptal"]).options == ("İptal", "iptal")


@pytest.mark.parametrize(
    ("arguments", "param"),
    [
        ({"id": "\ud83d"}, "id"),
        ({"group": "\ud83d"}, "group"),
        ({"template": "ab\ud83d{?}"}, "template"),
        ({"options": [" yes", "\ude00"]}, "options.1"),
        ({"template": "{F}{?}", "combinations": [{"F": "ok"}, {"F": "\ud83d"}]}, "combinations.1"),
    ],
)
def test_half_an_emoji_is_refused(arguments, param):
    refused = refusal(**arguments)
    assert (refused.code, refused.param) == ("invalid_field", param)
    assert "U+D" in refused.message


def test_many_questions_take_milliseconds():
    started = time.perf_counter()
    for number in range(1344):
        ask(id=str(number), template=f"\nIs number {number} about a refund? Answer:{{?}}")
    single = time.perf_counter() - started
    started = time.perf_counter()
    for _ in range(24):
        ask(
            template="\nIs it about {F} and {G}? Answer:{?}",
            combinations="all",
            values={"F": [str(n) for n in range(8)], "G": [str(n) for n in range(7)]},
        )
    grids = time.perf_counter() - started
    assert single < 0.3 and grids < 0.1, (single, grids)
