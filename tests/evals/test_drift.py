import numpy as np
import pytest
from scipy.stats import binom, hypergeom

from spinf_serve.evals.drift import BOSCHLOO_TABLES, Counted, rate_drift, score_drift


def test_an_equal_rate_is_no_fall_and_a_lower_one_is():
    assert rate_drift(Counted(90, 100), Counted(45, 50)).p_worse > 0.4
    fallen = rate_drift(Counted(95, 100), Counted(35, 50))
    assert fallen.p_worse < 0.001
    assert fallen.low is not None and fallen.high is not None
    assert fallen.low < -0.25 < fallen.high < 0


def test_a_higher_rate_is_not_worse():
    assert rate_drift(Counted(35, 50), Counted(95, 100)).p_worse > 0.95


def test_fisher_is_the_hypergeometric_tail():
    recorded, new = Counted(280, 300), Counted(170, 200)
    assert (recorded.n + 1) * (new.n + 1) > BOSCHLOO_TABLES
    found = rate_drift(recorded, new)
    assert found.test == "fisher"
    assert found.p_worse == pytest.approx(hypergeom(500, 450, 200).cdf(170))


def test_boschloo_is_sharper_than_fisher_and_keeps_its_level():
    recorded, new = Counted(28, 30), Counted(14, 20)
    found = rate_drift(recorded, new)
    assert found.test == "boschloo"
    assert found.p_worse < hypergeom(50, 42, 20).cdf(14)
    # The size at one rate, summed over all outcomes, stays under the level asked for.
    ways = {
        (a, b): binom(12, 0.8).pmf(a) * binom(10, 0.8).pmf(b) for a in range(13) for b in range(11)
    }
    size = sum(
        chance
        for (a, b), chance in ways.items()
        if chance > 1e-6 and rate_drift(Counted(a, 12), Counted(b, 10)).p_worse < 0.05
    )
    assert 0.01 < size <= 0.05


@pytest.mark.parametrize(
    ("recorded", "new"),
    [
        (Counted(9, 10), Counted(0, 0)),
        (Counted(0, 0), Counted(1, 9)),
        (Counted(9, 9), Counted(4, 4)),
        (Counted(0, 9), Counted(0, 4)),
    ],
)
def test_where_nothing_can_differ_p_is_one(recorded, new):
    assert rate_drift(recorded, new).p_worse == 1.0


def test_two_new_rows_cannot_show_a_fall_and_says_so():
    assert rate_drift(Counted(5, 9), Counted(0, 2)).least_p > 0.05
    assert rate_drift(Counted(95, 100), Counted(20, 20)).least_p < 1e-6


def test_impossible_counts_are_refused():
    with pytest.raises(ValueError, match="5 of 4"):
        Counted(5, 4)
    with pytest.raises(ValueError, match="-1 of 4"):
        Counted(-1, 4)


def test_equal_distributions_rarely_differ_and_moved_ones_do():
    generator = np.random.default_rng(0)
    p_values = []
    for _ in range(100):
        found = score_drift(generator.random(80), generator.random(60))
        assert found.p_differs is not None
        p_values.append(found.p_differs)
    assert sum(p < 0.05 for p in p_values) <= 12
    moved = score_drift(generator.random(300), generator.random(300) ** 3, 0.5)
    assert moved.p_differs is not None and moved.p_differs < 1e-6
    assert moved.distance is not None and moved.distance > 0.3
    assert moved.delta is not None and moved.delta < -0.3
    assert moved.flagged_before == pytest.approx(0.5, abs=0.1)
    assert moved.flagged_now == pytest.approx(0.2, abs=0.08)


def test_delta_is_one_when_all_new_scores_are_above():
    found = score_drift(np.linspace(0, 0.4, 9), np.linspace(0.5, 1, 7))
    assert (found.delta, found.distance) == (1.0, 1.0)


def test_a_handful_of_scores_has_no_distribution():
    found = score_drift(np.array([0.1, 0.2]), np.linspace(0, 1, 50), 0.5)
    assert (found.distance, found.p_differs, found.delta) == (None, None, None)
    assert (found.rows_before, found.rows_now) == (2, 50)
    assert found.flagged_before == 0.0
    assert score_drift(np.array([]), np.array([0.3]), 0.5).flagged_before is None


def test_what_is_no_number_is_refused():
    with pytest.raises(ValueError, match="finite"):
        score_drift(np.array([0.1, float("nan")]), np.array([0.2]))
