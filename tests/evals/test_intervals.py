"""Intervals against scipy, against their own promise, and under reordering and copies."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from spinf_serve.evals import intervals
from spinf_serve.evals.intervals import Interval, bootstrap_counts

# A test knows where there is an answer: None in its place fails on the next attribute.
wilson: Any = intervals.wilson
exact: Any = intervals.exact
share: Any = intervals.share
mean: Any = intervals.mean
bootstrap: Any = intervals.bootstrap

COUNTS = [(0, 1), (1, 1), (0, 20), (20, 20), (3, 7), (27, 30), (499, 1000), (1, 100_000)]


@pytest.mark.parametrize(("k", "n"), COUNTS)
@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
def test_wilson_is_scipys(k, n, level):
    found = wilson(k, n, level)
    oracle = stats.binomtest(k, n).proportion_ci(level, method="wilson")
    assert (found.low, found.high) == pytest.approx((oracle.low, oracle.high), abs=1e-12)


@pytest.mark.parametrize(("k", "n"), COUNTS)
@pytest.mark.parametrize(
    ("side", "alternative"), [("two", "two-sided"), ("low", "greater"), ("high", "less")]
)
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_exact_is_scipys(k, n, side, alternative, level):
    found = exact(k, n, level, side)
    oracle = stats.binomtest(k, n, alternative=alternative).proportion_ci(level, method="exact")
    assert (found.low, found.high) == pytest.approx((oracle.low, oracle.high), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("n", [1, 5, 20, 60])
@pytest.mark.parametrize("side", ["two", "low", "high"])
def test_exact_holds_its_level_for_every_share(n, side):
    bounds = [exact(k, n, 0.95, side) for k in range(n + 1)]
    for true in np.linspace(0.001, 0.999, 200):
        inside = [bound.low <= true <= bound.high for bound in bounds]
        assert stats.binom.pmf(np.arange(n + 1), n, true)[inside].sum() >= 0.95 - 1e-12


def test_twenty_of_twenty_is_not_certain():
    assert wilson(20, 20).low == pytest.approx(0.839, abs=5e-4)
    assert exact(20, 20).low == pytest.approx(0.832, abs=5e-4)
    assert wilson(20, 20).high == exact(20, 20).high == 1


@pytest.mark.parametrize(
    ("target", "rows"),
    [
        (0.8, [14, 22, 30, 37, 50, 82]),
        (0.9, [29, 46, 61, 76, 103, 167]),
        (0.95, [59, 93, 124, 153, 208, 336]),
        (0.99, [299, 473, 628, 773, 1049, 1693]),
    ],
)
def test_the_least_rows_for_a_promise_with_some_errors(target, rows):
    for errors, n in zip([0, 1, 2, 3, 5, 10], rows, strict=True):
        assert exact(n - errors, n, side="low").low >= target
        assert exact(n - 1 - errors, n - 1, side="low").low < target


def test_no_rows_tell_nothing():
    assert wilson(0, 0) is None
    assert exact(0, 0) is None
    assert share([]) is None
    assert mean([]) is None


@pytest.mark.parametrize(("k", "n", "level"), [(2, 1, 0.95), (-1, 4, 0.95), (1, 2, 1.0)])
def test_what_is_no_share_or_level_is_a_fault(k, n, level):
    with pytest.raises(ValueError):
        wilson(k, n, level)


def test_exact_bounds_are_for_whole_rows():
    with pytest.raises(ValueError, match="whole rows"):
        exact(1.5, 3)


def test_a_share_without_weights_is_wilsons():
    found = share([True] * 27 + [False] * 3)
    assert (found.value, found.count, found.of) == (0.9, 27, 30)
    assert found.interval == wilson(27, 30)


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.integers(2, 5))
def test_copies_in_groups_add_no_certainty_to_a_share(inside, times):
    copied = np.repeat(inside, times)
    groups = np.repeat(np.arange(len(inside)), times)
    once, grouped, alone = share(inside), share(copied, groups=groups), share(copied)
    assert (grouped.value, grouped.interval.low) == pytest.approx(
        (once.value, once.interval.low), abs=1e-9
    )
    assert alone.interval.high - alone.interval.low < once.interval.high - once.interval.low


@given(
    st.lists(st.tuples(st.booleans(), st.floats(0.1, 10)), min_size=1, max_size=30),
    st.randoms(use_true_random=False),
)
def test_a_share_does_not_depend_on_the_order_of_rows_or_the_unit_of_weights(rows, random):
    inside, weights = [row[0] for row in rows], np.array([row[1] for row in rows])
    found = share(inside, weights=weights)
    random.shuffle(rows)
    again = share([row[0] for row in rows], weights=[row[1] * 7 for row in rows])
    assert again.value == pytest.approx(found.value)
    assert again.interval.low == pytest.approx(found.interval.low, abs=1e-9)
    assert again.interval.high == pytest.approx(found.interval.high, abs=1e-9)
    assert found.value == pytest.approx(np.average(inside, weights=weights))


def test_a_mean_has_the_usual_standard_error_and_students_interval():
    values = np.random.default_rng(1).normal(size=25)
    found = mean(values)
    oracle = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert found.error == pytest.approx(stats.sem(values))
    assert (found.interval.low, found.interval.high) == pytest.approx((oracle.low, oracle.high))


def test_copies_in_groups_add_no_certainty_to_a_mean():
    values = np.random.default_rng(2).normal(size=25)
    groups = [f"thread {index}" for index in range(25) for _ in range(4)]
    assert mean(np.repeat(values, 4), groups=groups).interval.low == pytest.approx(
        mean(values).interval.low
    )


def test_a_mean_of_one_group_has_no_error():
    found = mean([1.0, 2.0], groups=["a", "a"])
    assert (found.value, found.error, found.interval) == (1.5, None, None)


def test_intervals_of_weighted_grouped_means_hold_their_level():
    # Binomial error of 400 runs at 95 %: 3.5 sd is 3.8 points; Student's t keeps the rest honest.
    generator = np.random.default_rng(3)
    held = 0
    for _ in range(400):
        groups = np.repeat(np.arange(60), generator.integers(1, 6, 60))
        shared = generator.normal(size=60)[groups]
        values = shared + generator.normal(size=len(groups))
        found = mean(values, groups=groups)
        held += found.interval.low <= 0 <= found.interval.high
    assert held / 400 >= 0.95 - 0.038


def middle(values):
    return float(np.median(values)) if len(values) else None


def test_the_bootstrap_of_a_mean_is_close_to_its_normal_interval():
    values = np.random.default_rng(4).normal(size=200)
    found = bootstrap(lambda column: float(column.mean()), [values], repeats=2000)
    reach = 1.96 * values.std() / np.sqrt(200)
    # A 2.5 % quantile of 2,000 draws has a standard error of about 0.06 standard deviations.
    budget = 4 * 0.06 * values.std() / np.sqrt(200)
    assert found.low == pytest.approx(values.mean() - reach, abs=budget)
    assert found.high == pytest.approx(values.mean() + reach, abs=budget)


def test_the_bootstrap_repeats_by_its_seed_and_draws_groups_as_wholes():
    values = np.repeat(np.arange(10.0), 10)
    groups = np.repeat(np.arange(10), 10)
    grouped = bootstrap(middle, [values], groups, repeats=300, seed=5)
    assert grouped == bootstrap(middle, [values], groups, repeats=300, seed=5)
    alone = bootstrap(middle, [values], repeats=300, seed=5)
    assert grouped.high - grouped.low > alone.high - alone.low


def test_columns_are_drawn_together():
    left = np.arange(50.0)
    found = bootstrap(lambda a, b: float(np.abs(a + b).max()), [left, -left], repeats=50)
    assert found == Interval(0, 0)


def test_a_statistic_that_often_does_not_exist_has_no_interval():
    rare = np.array([1.0] + [0.0] * 20)
    assert bootstrap(lambda a: float(a.mean()) if a.any() else None, [rare]) is None
    assert bootstrap(middle, [np.array([1.0])]) is None
    assert bootstrap(middle, [np.array([])]) is None


@settings(max_examples=20)
@given(st.integers(2, 60), st.integers(1, 4))
def test_counts_are_those_of_draws_of_whole_groups(groups, size):
    codes = np.repeat(np.arange(groups), size)

    def seen(counts):
        assert (counts.sum(axis=1) == groups * size).all()
        for group in range(groups):
            assert (np.ptp(counts[:, codes == group], axis=1) == 0).all()
        return counts[:, 0].astype(float)

    assert bootstrap_counts(seen, codes, repeats=40) is not None
