import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logit
from scipy.stats import binomtest

from spinf_serve.evals.cuts import (
    Target,
    between,
    labels_needed,
    least_counted,
    minimum_rows,
    preset_cuts,
)
from spinf_serve.evals.exact import Counts, reweighted_lower
from spinf_serve.packs.errors import Unusable


@pytest.mark.parametrize(
    ("value", "rows"),
    [
        (0.80, [14, 22, 30, 37, 50, 82]),
        (0.90, [29, 46, 61, 76, 103, 167]),
        (0.95, [59, 93, 124, 153, 208, 336]),
        (0.98, [149, 236, 313, 386, 523, 845]),
        (0.99, [299, 473, 628, 773, 1049, 1693]),
    ],
)
def test_labels_needed_are_those_of_the_published_table(value, rows):
    assert [labels_needed(value, errors) for errors in (0, 1, 2, 3, 5, 10)] == rows
    assert minimum_rows(value, 0.05) == rows[0]


@given(st.sampled_from([0.6, 0.9, 0.97]), st.integers(0, 20), st.sampled_from([0.05, 0.01]))
def test_labels_needed_are_the_least(value, errors, delta):
    rows = labels_needed(value, errors, delta)
    passes = [
        binomtest(n - errors, n, value, alternative="greater").pvalue <= delta
        for n in (rows - 1, rows)
        if n >= errors and n
    ]
    assert passes[-1] and not any(passes[:-1])


def test_logit_cuts_are_even_in_log_odds():
    cuts = preset_cuts("logit", low=-3, high=3, count=13)
    assert np.allclose(logit(cuts), np.linspace(-3, 3, 13))
    assert preset_cuts("lift", low=-3, high=3, count=13).tolist() == np.linspace(-3, 3, 13).tolist()


@given(st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.5, 0.9]), min_size=1, max_size=60))
def test_coverage_cuts_flag_at_most_their_share_and_lie_between(scores):
    shares = (0.1, 0.5, 1.0)
    cuts = preset_cuts("coverage", scores, shares=shares)
    column = np.array(scores)
    reachable = {float((column >= cut).mean()) for cut in between(column)}
    wanted = {max((one for one in reachable if one <= share), default=0.0) for share in shares}
    assert {float((column >= cut).mean()) for cut in cuts} == wanted - {0.0}
    assert not set(cuts[cuts > column.min()]) & set(scores)


def test_neighbouring_floats_have_a_cut_between_them():
    low = 0.3
    high = float(np.nextafter(low, 1))
    assert between([high, low, high]).tolist() == [low, high]
    assert between([1.0]).tolist() == [1.0]


@pytest.mark.parametrize("traffic", [None, [], [0.1, float("nan")]])
def test_coverage_needs_traffic(traffic):
    with pytest.raises(Unusable, match="set no cuts"):
        preset_cuts("coverage", traffic)


@pytest.mark.parametrize(
    ("kind", "value", "delta"),
    [("precision", 1.0, 0.05), ("recall", 0.0, 0.05), ("cost", -1.0, 0.05), ("npv", 0.9, 0.6)],
)
def test_a_target_out_of_range_is_refused(kind, value, delta):
    with pytest.raises(Unusable, match="0"):
        Target(kind, value, delta)


def test_walks_start_at_two_and_from_500_rows_at_three_times_the_least():
    def least(rows):
        counts = Counts(np.zeros(1), np.zeros(1), np.array([rows / 2]), np.array([rows / 2]))
        return [
            float(least_counted(kind, 0.9, counts, None, 0.05)[0])
            for kind in ("precision", "npv", "recall", "flag_rate")
        ]

    assert least(498) == [58, 58, 29, 0]
    assert least(500) == [87, 87, 29, 0]


def test_with_a_base_rate_the_start_is_found_by_the_sizes_of_the_classes():
    def start(positives, negatives):
        counts = Counts(np.zeros(1), np.zeros(1), np.array([positives]), np.array([negatives]))
        return float(least_counted("precision", 0.9, counts, 0.05, 0.05)[0])

    # Without any negative above, 1,000 of them leave room for a base rate of 5 %; 500 do not.
    found = start(1000.0, 1000.0)
    none, sizes = np.zeros(1), np.array([1000.0])

    def bound(rows):
        return float(reweighted_lower(np.array([rows]), sizes, none, sizes, 0.05, 0.05)[0])

    least = next(rows for rows in range(1001) if bound(float(rows)) >= 0.9)
    assert least < found <= least + 0.1 * (1000 - least) + 1
    assert start(500.0, 500.0) == float("inf")
