"""Reads: the formulas, their limits and their symmetries."""

from dataclasses import replace
from math import inf, log, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinf_serve.packs.answer import QuestionAnswer
from spinf_serve.packs.errors import Fault
from spinf_serve.packs.pack import Read
from spinf_serve.packs.reads import log_shares, read_value, read_z, shares, vectors
from tests.support.packs import GOLDEN_LOGPROBS, answered, golden, made

ps = st.floats(0, 1)
logs = st.floats(-60, 0)


def read(kind: Any, **more: Any) -> Read:
    return Read("r", "q", None, kind, "c", **more)


def at(*p: float) -> Any:
    return np.array(p, dtype=np.float64)


def test_pair_is_the_logit_of_the_share():
    assert read_value(read("pair"), (), at(0.6, 0.2)) == pytest.approx(log(3))


def test_pair_stays_finite_at_both_ends():
    edge = log((1 - 1e-6) / 1e-6)
    assert read_value(read("pair"), (), at(1, 0)) == pytest.approx(edge)
    assert read_value(read("pair"), (), at(0, 1)) == pytest.approx(-edge)
    assert read_value(read("pair"), (), at(0, 0)) == 0


@given(ps, ps)
def test_sign_turns_a_pair_round(first, second):
    plus = read_value(read("pair"), (), at(first, second))
    minus = read_value(read("pair", sign=-1), (), at(first, second))
    assert minus == -plus
    assert read_value(read("pair"), (), at(second, first)) == pytest.approx(-plus, abs=1e-6)


@given(ps, ps, ps)
def test_a_pair_rises_with_its_first_option(low, high, other):
    low, high = sorted((low, high))
    assert read_value(read("pair"), (), at(low, other)) <= read_value(
        read("pair"), (), at(high, other)
    )


@given(st.lists(ps, min_size=3, max_size=6), ps)
def test_the_other_kinds_rise_with_what_speaks_for_them(p, more):
    raised = [max(p[0], more), *p[1:]]
    mu = (-1.0,) * len(p)
    set_read = read("set", unsafe=(0,))
    assert read_value(set_read, mu, at(*p)) <= read_value(set_read, mu, at(*raised)) + 1e-9
    option = read("option", option=0)
    assert read_value(option, (-1.0,), at(*p)) <= read_value(option, (-1.0,), at(*raised)) + 1e-9
    # Option 0 of `any` is "none of these": it speaks against.
    assert read_value(read("any"), mu, at(*p)) >= read_value(read("any"), mu, at(*raised)) - 1e-9


def test_any_and_the_set_of_all_but_the_first_are_one_formula():
    mu, p = (-1.0, -2.0, -0.5, -3.0), at(0.4, 0.1, 0.2, 0.3)
    both = [read_value(read("any"), mu, p), read_value(read("set", unsafe=(1, 2, 3)), mu, p)]
    a = [log(share) - usual for share, usual in zip(p.tolist(), mu, strict=True)]
    expected = float(np.logaddexp.reduce(a[1:])) - a[0]
    assert both == pytest.approx([expected, expected], abs=1e-12)


def test_a_set_and_its_complement_are_opposite():
    mu, p = (-1.0, -2.0, -0.5, -3.0), at(0.4, 0.1, 0.2, 0.3)
    one = read_value(read("set", unsafe=(0, 2)), mu, p)
    assert read_value(read("set", unsafe=(1, 3)), mu, p) == pytest.approx(-one)
    assert one != 0


def test_option_takes_its_own_level_off():
    assert read_value(read("option", option=1), (-0.25,), at(0.5, 0.3, 0.2)) == pytest.approx(
        log(0.3) + 0.25
    )


def test_shares_count_from_what_the_options_hold_together():
    assert log_shares(at(0.03, 0.01)) == pytest.approx([log(0.75), log(0.25)])
    assert log_shares(at(1, 0))[1] == pytest.approx(log(1e-9))


@given(st.lists(logs, min_size=2, max_size=8))
def test_softmax_sums_to_one(logprobs):
    p = shares(logprobs, "q")
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert (p >= 0).all()


def test_softmax_takes_an_option_without_any_chance():
    assert shares([-1.0, -inf], "q").tolist() == [1, 0]


@pytest.mark.parametrize("logprobs", [[nan, -1.0], [-1.0, nan], [inf, -1.0], [-inf, -inf]])
def test_softmax_of_no_numbers_is_a_fault(logprobs):
    with pytest.raises(Fault, match="question q: the logprobs"):
        shares(logprobs, "q")


def test_z_is_the_distance_from_usual():
    pack, constants = made(golden())
    answers = vectors(pack, answered(golden(), GOLDEN_LOGPROBS))
    z = read_z(pack, constants, answers)
    assert list(z) == ["angry", "refund", "bill", "notbill"]
    # (-0.5 + 1.2 is the logit) + 1 usual, over 2.
    assert z["angry"] == pytest.approx((0.7 + 1) / 2)


def test_rounded_p_and_exact_p():
    exact, _ = made(golden())
    rounded = replace(exact, answers="p")
    answers = answered(golden(), GOLDEN_LOGPROBS)
    unrounded = vectors(exact, answers)["kind", None]
    assert vectors(rounded, answers)["kind", None].tolist() == [
        round(p, 6) for p in unrounded.tolist()
    ]
    assert unrounded.tolist() != [round(p, 6) for p in unrounded.tolist()]


def test_other_questions_of_the_call_are_left_alone():
    pack, _ = made(golden())
    answers = answered(golden(), GOLDEN_LOGPROBS)
    own = QuestionAnswer("own", answers[0].prompts, True)
    assert list(vectors(pack, (own, *answers))) == list(vectors(pack, answers))


def test_a_missing_answer_is_a_fault_that_names_the_read():
    pack, _ = made(golden())
    answers = answered(golden(), GOLDEN_LOGPROBS)
    with pytest.raises(Fault, match="read refund: question about for 'a refund' has no answer"):
        vectors(pack, [answer for answer in answers if answer.id != "about"])


def test_a_p_that_is_no_number_is_a_fault():
    pack, _ = made(golden(answers="p"))
    angry, *rest = answered(golden(), GOLDEN_LOGPROBS)
    prompt = angry.prompts[0]
    broken = prompt._replace(options=(prompt.options[0]._replace(p=nan), prompt.options[1]))
    with pytest.raises(Fault, match="question angry: a p is not"):
        vectors(pack, [angry._replace(prompts=(broken,)), *rest])
