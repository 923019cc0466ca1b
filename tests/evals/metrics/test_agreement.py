"""Kappa against scikit-learn and a published table, and where it does not exist."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from spinf_serve.evals import intervals
from spinf_serve.evals.metrics import agreement

# A test knows where there is an answer: None in its place fails on the next attribute.
kappa: Any = agreement.kappa
bootstrap: Any = intervals.bootstrap


def two_hands(seed, count=120, steps=4):
    generator = np.random.default_rng(seed)
    first = generator.integers(0, steps, count)
    second = np.where(generator.random(count) < 0.6, first, generator.integers(0, steps, count))
    return first, second, generator.random(count) + 0.1


@pytest.mark.parametrize("distance", [None, "linear", "quadratic"])
@pytest.mark.parametrize("weighted", [False, True])
def test_kappa_is_scikit_learns(distance, weighted):
    first, second, weights = two_hands(1)
    weights = weights if weighted else None
    found = kappa(first, second, distance=distance, weights=weights, repeats=50)
    assert found.kappa == pytest.approx(
        cohen_kappa_score(first, second, weights=distance, sample_weight=weights)
    )
    assert found.interval.low < found.kappa < found.interval.high


def test_kappa_of_a_table_by_hand():
    # 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: agreed 0.7, by chance 0.5.
    first = [True] * 25 + [False] * 25
    second = [True] * 20 + [False] * 5 + [True] * 10 + [False] * 15
    found = kappa(first, second)
    assert found.kappa == pytest.approx(0.4)
    assert found.agreed.value == pytest.approx(0.7)


@pytest.mark.parametrize("distance", [None, "quadratic"])
def test_the_interval_is_that_of_resampled_rows(distance):
    first, second, _ = two_hands(2)
    found = kappa(first, second, distance=distance, repeats=100, seed=7)
    slow = bootstrap(
        lambda a, b: float(cohen_kappa_score(a, b, weights=distance)),
        [first, second],
        repeats=100,
        seed=7,
    )
    assert found.interval.low == pytest.approx(slow.low)
    assert found.interval.high == pytest.approx(slow.high)


def test_groups_widen_the_interval():
    first, second, _ = two_hands(3, count=40)
    first, second = np.repeat(first, 10), np.repeat(second, 10)
    alone = kappa(first, second).interval
    grouped = kappa(first, second, groups=np.repeat(np.arange(40), 10)).interval
    assert grouped.high - grouped.low > 2 * (alone.high - alone.low)


def test_one_same_answer_throughout_has_no_kappa():
    found = kappa([True] * 5, [True] * 5)
    assert (found.agreed.value, found.kappa, found.interval) == (1, None, None)


def test_no_rows_have_no_agreement():
    assert kappa([], []) is None


def test_an_answer_off_the_scale_is_told():
    with pytest.raises(ValueError, match="lack"):
        kappa(["low", "odd"], ["low", "high"], order=["low", "high"])


def test_the_order_of_a_scale_counts():
    first = ["low", "high", "middle", "low"]
    second = ["low", "middle", "middle", "middle"]
    found = kappa(first, second, distance="linear", order=["low", "middle", "high"], repeats=20)
    codes = {"low": 0, "middle": 1, "high": 2}
    assert found.kappa == pytest.approx(
        cohen_kappa_score(
            [codes[one] for one in first], [codes[one] for one in second], weights="linear"
        )
    )


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=2, max_size=30),
    st.randoms(use_true_random=False),
)
def test_kappa_ignores_the_order_of_rows_and_of_hands_and_copies(rows, random):
    found = kappa([a for a, _ in rows], [b for _, b in rows], repeats=2)
    doubled = rows * 2
    random.shuffle(doubled)
    again = kappa([b for _, b in doubled], [a for a, _ in doubled], repeats=2)
    if found.kappa is None:
        assert again.kappa is None
    else:
        assert again.kappa == pytest.approx(found.kappa, abs=1e-12)
