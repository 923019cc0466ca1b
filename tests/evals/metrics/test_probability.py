"""Brier, log loss and ECE against scikit-learn and the definitions; noise and risk by hand."""

from itertools import pairwise
from math import inf, log
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import brier_score_loss
from sklearn.metrics import log_loss as log_loss_of

from spinf_serve.evals.intervals import wilson
from spinf_serve.evals.metrics import probability
from spinf_serve.evals.metrics.probability import LEAST_P, logit
from spinf_serve.packs.errors import Refused

# A test knows where there is an answer: None in its place fails on the next attribute.
brier: Any = probability.brier
log_loss: Any = probability.log_loss
ece: Any = probability.ece
noise_level: Any = probability.noise_level
reliability: Any = probability.reliability
risk_coverage: Any = probability.risk_coverage

# Steps of 1/16 are exact, lie on edges of 8 bins and tie often.
ROWS = st.lists(
    st.tuples(st.integers(0, 16).map(lambda step: step / 16), st.booleans(), st.integers(1, 4)),
    min_size=1,
    max_size=40,
)


def calibrated(seed, count=300):
    generator = np.random.default_rng(seed)
    p = generator.random(count)
    return p, generator.random(count) < p, generator.random(count) + 0.1


@pytest.mark.parametrize("weighted", [False, True])
def test_brier_and_log_loss_are_scikit_learns(weighted):
    p, holds, weights = calibrated(1)
    weights = weights if weighted else None
    assert brier(p, holds, weights=weights).value == pytest.approx(
        brier_score_loss(holds, p, sample_weight=weights)
    )
    assert log_loss(p, holds, weights=weights).value == pytest.approx(
        log_loss_of(holds, p, sample_weight=weights)
    )


def test_their_errors_are_those_of_means():
    p, holds, _ = calibrated(2)
    assert brier(p, holds).error == pytest.approx(stats.sem((p - holds) ** 2))
    threads = np.repeat(np.arange(300), 3)
    copied = brier(np.repeat(p, 3), np.repeat(holds, 3), groups=threads)
    assert copied.error == pytest.approx(brier(p, holds).error)


def test_a_certain_wrong_row_costs_a_finite_loss():
    assert log_loss([0.0], [True]).value == pytest.approx(-log(LEAST_P))
    assert log_loss([1.0], [False]).value == pytest.approx(-log(LEAST_P))
    assert log_loss([1.0, 0.0], [True, False]).value == pytest.approx(0, abs=1e-15)


def test_logit_keeps_small_numbers_apart():
    assert logit([0.5, 1e-9, 2e-9]).tolist() == pytest.approx([0, log(1e-9), log(2e-9)])
    assert np.isfinite(logit([0.0, 1.0])).all()


def by_hand(p, holds, weights, edges):
    """ECE bin by bin; a p on an inner edge lies in the upper bin."""
    total = 0.0
    for index, (low, high) in enumerate(pairwise(edges)):
        last = index == len(edges) - 2
        rows = [
            (one, label, weight)
            for one, label, weight in zip(p, holds, weights, strict=True)
            if low <= one < high or (last and one == high)
        ]
        mass = sum(weight for _, _, weight in rows)
        if rows:
            rate = sum(weight * label for _, label, weight in rows) / mass
            middle = sum(weight * one for one, _, weight in rows) / mass
            total += mass * abs(rate - middle)
    return total / sum(weights)


@given(ROWS)
def test_ece_is_the_definition_edges_and_ties_among_it(rows):
    p, holds, weights = ([row[index] for row in rows] for index in range(3))
    edges = [index / 8 for index in range(9)]
    assert ece(p, holds, 8) == pytest.approx(by_hand(p, holds, [1] * len(p), edges), abs=1e-12)
    assert ece(p, holds, 8, weights=weights) == pytest.approx(
        by_hand(p, holds, weights, edges), abs=1e-12
    )


@given(ROWS, st.sampled_from(["width", "mass"]), st.integers(1, 12))
def test_reliability_bins_hold_all_rows_and_give_the_ece(rows, binning, bins):
    p, holds = [row[0] for row in rows], [row[1] for row in rows]
    found = reliability(p, holds, bins, binning)
    assert sum(one.rows for one in found) == len(p)
    assert (found[0].low, found[-1].high) == (0, 1)
    total = sum(one.rows * abs(one.rate - one.p) for one in found if one.rows)
    assert ece(p, holds, bins, binning) == pytest.approx(total / len(p), abs=1e-12)


@given(ROWS, st.randoms(use_true_random=False))
def test_figures_ignore_order_and_take_weights_as_copies(rows, random):
    copies = [row for row in rows for _ in range(row[2])]
    random.shuffle(copies)
    p, holds, weights = ([row[index] for row in rows] for index in range(3))
    again = [row[0] for row in copies], [row[1] for row in copies]
    assert brier(*again).value == pytest.approx(brier(p, holds, weights=weights).value)
    assert log_loss(*again).value == pytest.approx(log_loss(p, holds, weights=weights).value)
    assert ece(*again) == pytest.approx(ece(p, holds, weights=weights), abs=1e-12)
    confidence = np.abs(np.array(p) - 0.5)
    found = risk_coverage(confidence, holds, weights=weights)
    other = risk_coverage(np.abs(np.array(again[0]) - 0.5), again[1])
    assert other.coverage == pytest.approx(found.coverage)
    assert other.area == pytest.approx(found.area)


def test_an_empty_bin_is_shown_empty():
    found = reliability([0.05, 0.07, 0.3, 1.0], [0, 1, 1, 1])
    assert [one.rows for one in found] == [2, 0, 0, 1, 0, 0, 0, 0, 0, 1]
    assert (found[1].p, found[1].rate, found[1].interval) == (None, None, None)
    assert found[0].interval == wilson(1, 2)
    assert (found[3].low, found[3].rate) == (0.3, 1)


def test_bins_of_equal_mass_keep_equal_scores_together():
    p = [0.1] * 50 + [0.2] * 25 + [0.9] * 25
    found = reliability(p, [False] * 100, 4, "mass")
    assert [one.rows for one in found if one.rows] == [50, 25, 25]


def test_perfect_certainty_has_no_error():
    assert ece([0.0, 1.0, 1.0], [0, 1, 1]) == 0
    assert noise_level([0.0, 1.0, 1.0], repeats=50).high == 0


def test_noise_of_one_row_is_that_of_a_coin():
    # |1 - 0.3| in 30 % of the draws, |0 - 0.3| else: 0.42; sd 0.183 / sqrt(4000), five of them.
    found = noise_level([0.3], repeats=4000)
    assert found.mean == pytest.approx(0.42, abs=5 * 0.183 / 4000**0.5)
    assert found.high == pytest.approx(0.7)


def mean_error(p):
    """Mean |hits - expected| of rows that hold with probabilities p, from all counts' chances."""
    chances = np.ones(1)
    for one in p:
        chances = np.convolve(chances, [1 - one, one])
    return float(chances @ np.abs(np.arange(len(p) + 1) - np.sum(p)))


@pytest.mark.parametrize(
    ("count", "known"), [(50, 0.143), (100, 0.102), (200, 0.074), (500, 0.046), (1000, 0.033)]
)
def test_a_perfectly_calibrated_score_shows_the_ece_of_its_noise(count, known):
    p = (np.arange(count) + 0.5) / count
    found = noise_level(p).mean
    # A bin's error has a standard deviation of about 0.75 of its mean: over ten bins and 1,000
    # draws 0.75 %, five of them.
    exact = sum(mean_error(part) for part in np.split(p, 10)) / count
    assert found == pytest.approx(exact, rel=0.04)
    # These are of p drawn at random, where bins are not of one size.
    assert found == pytest.approx(known, rel=0.08)


def test_noise_is_where_calibrated_labels_lie_and_not_where_others_do():
    above = [
        ece(p, holds) > noise_level(p, repeats=200).high
        for p, holds, _ in map(calibrated, range(100))
    ]
    # 5 % by its making: 100 runs, three binomial sd.
    assert sum(above) <= 5 + 3 * (100 * 0.05 * 0.95) ** 0.5
    p, holds, _ = calibrated(3)
    assert ece(p**3, holds) > noise_level(p**3).high


def test_noise_grows_with_groups_and_repeats_by_its_seed():
    p, _, weights = calibrated(4)
    groups = np.repeat(np.arange(30), 10)
    alone = noise_level(p, weights=weights)
    assert noise_level(p, weights=weights) == alone
    assert noise_level(np.repeat(p[:30], 10), groups=groups).mean == pytest.approx(
        noise_level(p[:30]).mean, rel=0.05
    )
    assert noise_level(p, groups=groups).mean > alone.mean


def test_no_rows_tell_nothing():
    assert brier([], []) is None
    assert log_loss([], []) is None
    assert ece([], []) is None
    assert noise_level([]) is None
    assert risk_coverage([], []) is None
    assert [one.rows for one in reliability([], [], 2)] == [0, 0]


@pytest.mark.parametrize("wrong", [float("nan"), 1.2, -0.1])
def test_what_is_no_probability_is_refused_with_its_position(wrong):
    for figure in (brier, log_loss, ece, reliability):
        with pytest.raises(Refused, match=r"1 of 2 rows: 1 "):
            figure([0.5, wrong], [True, False])


def test_no_bins_are_a_fault():
    with pytest.raises(ValueError, match="0 bins"):
        ece([0.5], [True], 0)


def test_risk_over_coverage_by_hand():
    found = risk_coverage([0.9, 0.8, 0.8, 0.5], [True, False, True, False])
    assert found.confidence == (0.9, 0.8, 0.5)
    assert found.coverage == pytest.approx((0.25, 0.75, 1))
    assert found.risk == pytest.approx((0, 1 / 3, 0.5))
    assert found.area == pytest.approx(0.5 / 3 + 0.25 * 0.5)
    assert found.risk_at(0.25) == 0
    assert found.risk_at(0.74) == 0
    assert found.risk_at(1) == pytest.approx(0.5)
    assert found.risk_at(0.1) is None


def test_infinite_confidence_comes_first_and_nan_is_refused():
    assert risk_coverage([inf, 1.0], [True, False]).risk == pytest.approx((0, 0.5))
    with pytest.raises(Refused, match=r"confidence: .* 1 of 3 rows: 2 \(nan\)"):
        risk_coverage([inf, 1.0, float("nan")], [True, False, True])


@settings(max_examples=30)
@given(st.lists(st.booleans(), min_size=1, max_size=30))
def test_a_better_order_has_a_smaller_area(correct):
    # Without ties: a tie is kept as a whole, so the best order of few values is no bound.
    found = risk_coverage(-np.arange(len(correct)), correct).area
    best = risk_coverage(-np.arange(len(correct)), sorted(correct, reverse=True)).area
    worst = risk_coverage(-np.arange(len(correct)), sorted(correct)).area
    assert best <= found + 1e-12
    assert found <= worst + 1e-12


def test_an_interval_holds_no_impossible_means():
    found = brier([0.9, 0.95, 0.02], [True, True, True])
    assert found is not None and found.interval is not None
    assert (found.interval.low, found.interval.high) == (0.0, 1.0)
    found = log_loss([0.9, 0.95, 0.02], [True, True, True])
    assert found is not None and found.interval is not None
    assert found.interval.low == 0.0 < found.value < found.interval.high
