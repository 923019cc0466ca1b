import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinf_serve.packs.errors import Refused
from spinf_serve.packs.grid import (
    MAX_COMBINATIONS,
    MAX_FILLED_CHARS,
    MAX_QUESTION_CHARS,
    MAX_VALUE_CHARS,
    expand,
)
from spinf_serve.packs.template import parse

PLAIN = parse("\nIs it late? Answer:{?}")
ONE = parse("\nDoes it mention {F}? Answer:{?}")
TWO = parse("\n{B} before {A}, {B}:{?}")


def refusal(template, combinations, values=None) -> Refused:
    with pytest.raises(Refused) as refused:
        expand(template, combinations, values)
    return refused.value


def test_without_placeholders_there_is_one_prompt():
    [prompt] = expand(PLAIN, None, None)
    assert prompt.text == "\nIs it late? Answer:"
    assert dict(prompt.values) == {}
    assert expand(PLAIN, [{}], None) == (prompt,)


def test_listed_combinations_keep_their_order():
    prompts = expand(ONE, [{"F": "a refund"}, {"F": "damage"}, {"F": "a refund"}], None)
    assert [prompt.text for prompt in prompts] == [
        f"\nDoes it mention {value}? Answer:" for value in ("a refund", "damage", "a refund")
    ]


def test_all_runs_the_last_placeholder_of_the_template_fastest():
    prompts = expand(TWO, "all", {"A": ["1", "2"], "B": ["x", "y"]})
    assert [list(prompt.values.items()) for prompt in prompts] == [
        [("B", b), ("A", a)] for b in "xy" for a in "12"
    ]
    assert [prompt.text for prompt in prompts][1] == "\nx before 2, x:"


@given(st.lists(st.text(max_size=5), min_size=1, max_size=4), st.lists(st.text(), min_size=1))
def test_all_is_the_list_of_every_combination(firsts, seconds):
    listed = [{"A": second, "B": first} for first in firsts for second in seconds]
    assert expand(TWO, "all", {"B": firsts, "A": seconds}) == expand(TWO, listed, None)


@pytest.mark.parametrize(
    ("template", "combinations", "values", "code", "param", "words"),
    [
        (ONE, None, None, "missing_value", "combinations", "`F`"),
        (ONE, None, {"F": ["a"]}, "missing_value", "combinations", '"all"'),
        (PLAIN, None, {"F": ["a"]}, "invalid_field", "values", "remove"),
        (ONE, [{"F": "a"}], {"F": ["a"]}, "invalid_field", "values", "remove"),
        (ONE, [], None, "missing_value", "combinations", "empty"),
        (ONE, [{"F": "a"}, {}], None, "missing_value", "combinations.1", "lacks `F`"),
        (ONE, [{"G": "a"}], None, "missing_value", "combinations.0", "(it has `G`)"),
        (ONE, [{"F": "", "G": ""}], None, "unknown_placeholder", "combinations.0.G", "`F`"),
        (PLAIN, [{"F": ""}], None, "unknown_placeholder", "combinations.0.F", "no placeholder"),
        (ONE, "every", None, "invalid_field", "combinations", "'every'"),
        (ONE, ["a"], None, "invalid_field", "combinations.0", "is a text; give"),
        (ONE, [{"F": 3}], None, "invalid_field", "combinations.0.F", "is a whole number;"),
        (ONE, "all", None, "missing_value", "values", "`F`"),
        (ONE, "all", {}, "missing_value", "values", "`F`"),
        (PLAIN, "all", None, "missing_value", "values", "leave combinations out"),
        (PLAIN, "all", {"F": ["a"]}, "unknown_placeholder", "values.F", "leave out"),
        (TWO, "all", {"A": ["1"]}, "missing_value", "values", "lacks `B`"),
        (ONE, "all", {"F": ["1"], "G": ["1"]}, "unknown_placeholder", "values.G", "`F`"),
        (ONE, "all", {"F": []}, "missing_value", "values.F", "empty"),
        (ONE, "all", {"F": "abc"}, "invalid_field", "values.F", "is a text; give"),
        (ONE, "all", {"F": ["a", None]}, "invalid_field", "values.F.1", "is null;"),
    ],
)
def test_faults(template, combinations, values, code, param, words):
    refused = refusal(template, combinations, values)
    assert (refused.code, refused.param) == (code, param)
    assert words in refused.message


def test_a_value_has_a_longest_length():
    longest = "x" * MAX_VALUE_CHARS
    assert expand(ONE, [{"F": longest}], None)[0].values["F"] == longest
    assert refusal(ONE, [{"F": longest + "x"}]).param == "combinations.0.F"
    refused = refusal(ONE, "all", {"F": ["a", longest + "x"]})
    assert (refused.code, refused.param) == ("invalid_field", "values.F.1")
    assert "257" in refused.message and "256" in refused.message


def test_combinations_are_counted_before_they_are_made():
    assert len(expand(TWO, "all", {"A": ["a"] * 50, "B": ["b"] * 20})) == MAX_COMBINATIONS
    refused = refusal(TWO, "all", {"A": ["a"] * 1_000_000, "B": ["b"] * 1_000_000})
    assert (refused.code, refused.param) == ("too_many_combinations", "values")
    assert "1000000 x 1000000 values make 1000000000000" in refused.message


def test_a_list_may_be_longer_than_a_grid():
    assert len(expand(ONE, [{"F": str(n)} for n in range(10_000)], None)) == 10_000


@pytest.mark.parametrize("more", [0, 1])
def test_a_filled_template_is_measured_before_it_is_made(more):
    value = "x" * MAX_VALUE_CHARS
    text = "{A}" * (MAX_FILLED_CHARS // MAX_VALUE_CHARS) + "y" * more + "{?}"
    for listed in ([{"A": value}], "all"):
        values = {"A": [value]} if listed == "all" else None
        if not more:
            [prompt] = expand(parse(text), listed, values)
            assert len(prompt.text) == MAX_FILLED_CHARS
            continue
        with pytest.raises(Refused, match=f"{MAX_FILLED_CHARS + 1} characters") as refused:
            expand(parse(text), listed, values)
        found = refused.value
        assert (found.code, found.param) == ("template_too_long", "combinations.0")


def test_a_list_of_long_combinations_stops_before_it_fills_the_memory():
    text = "{A}" * 20_000 + "{?}"
    fits = MAX_QUESTION_CHARS // 60_000
    assert len(expand(parse(text), [{"A": "abc"}] * fits, None)) == fits
    with pytest.raises(Refused) as refused:
        expand(parse(text), [{"A": "abc"}] * 150_000, None)
    found = refused.value
    assert (found.code, found.param) == ("request_too_large", f"combinations.{fits}")
