"""Platt's map and the logistic regression against brute-force optima in float64."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinf_serve.packs.logistic import logistic, platt, smoothed_targets


def log_loss(slope, shift, x, targets):
    out = slope * x + shift
    return float(np.sum(np.logaddexp(0, out) - targets * out))


def brute_force(x, targets, low_slope=-30.0, high_slope=30.0):
    """Least loss over a grid that closes in on its best point, step by step."""
    centre, width = (0.0, 0.0), 30.0
    for _ in range(60):
        slopes = np.clip(centre[0] + width * np.linspace(-1, 1, 9), low_slope, high_slope)
        shifts = centre[1] + width * np.linspace(-1, 1, 9)
        pairs = list(product(slopes, shifts))
        centre = min(pairs, key=lambda pair: log_loss(pair[0], pair[1], x, targets))
        width *= 0.7
    return centre


def overlapping(seed, count=80, gap=1.5):
    rng = np.random.default_rng(seed)
    holds = rng.random(count) < 0.4
    return rng.normal(size=count) + gap * holds, holds


def test_targets_are_platts():
    holds = np.array([True, True, False])
    assert smoothed_targets(holds).tolist() == [3 / 4, 3 / 4, 1 / 3]


@pytest.mark.parametrize("seed", range(3))
def test_map_is_the_brute_force_optimum(seed):
    x, holds = overlapping(seed)
    found = platt(x, holds)
    slope, shift = brute_force(x, smoothed_targets(holds))
    assert found.slope == pytest.approx(slope, abs=1e-4)
    assert found.shift == pytest.approx(shift, abs=1e-4)
    assert not found.turned


def test_a_falling_map_is_held_flat_at_the_constrained_optimum():
    x, holds = overlapping(4)
    found = platt(-x, holds)
    targets = smoothed_targets(holds)
    slope, shift = brute_force(-x, targets, low_slope=0.0)
    assert (found.slope, found.turned) == (0, True)
    assert slope == 0
    assert found.shift == pytest.approx(shift, abs=1e-4)


def test_separable_rows_have_a_finite_steep_map():
    x = np.array([-2.0, -1.0, 1.0, 2.0])
    holds = x > 0
    found = platt(x, holds)
    slope, shift = brute_force(x, smoothed_targets(holds))
    assert found.slope == pytest.approx(slope, abs=1e-4)
    assert found.shift == pytest.approx(shift, abs=1e-4)


@pytest.mark.parametrize("holds", [[True] * 5, [False] * 5])
def test_one_class_is_flat_at_platts_target(holds):
    marks = np.array(holds)
    found = platt(np.arange(5.0), marks)
    assert found.slope == 0 and not found.turned
    level = float(smoothed_targets(marks)[0])
    assert 1 / (1 + np.exp(-found.shift)) == pytest.approx(level)


def test_numbers_that_do_not_move_are_flat():
    found = platt(np.full(6, 3.25), np.array([True, False] * 3))
    assert (found.slope, found.shift, found.turned) == (0, 0, False)


@given(
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.booleans()), min_size=1, max_size=30),
)
def test_never_nan_and_never_falling(rows):
    x = np.array([value for value, _ in rows])
    holds = np.array([mark for _, mark in rows])
    found = platt(x, holds)
    assert np.isfinite([found.slope, found.shift]).all()
    assert found.slope >= 0


def test_regression_has_no_gradient_left():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4))
    targets = (x @ [1.0, -2.0, 0.5, 0.0] + rng.normal(size=200) > 0).astype(float)
    weights = logistic(x, targets, ridge=1e-2)
    p = 1 / (1 + np.exp(-(x @ weights[:4] + weights[4])))
    gradient = x.T @ (p - targets) / 200 + 1e-2 * weights[:4]
    assert np.abs(gradient).max() < 1e-10
    assert abs(float(np.mean(p - targets))) < 1e-10


def test_a_ridge_keeps_separable_rows_finite():
    x = np.array([[-1.0], [1.0]])
    weights = logistic(x, np.array([0.0, 1.0]), ridge=1e-2)
    # Stationary: the mean of -(1 - p) x is 0.01 w.
    assert 1 / (1 + np.exp(weights[0])) == pytest.approx(1e-2 * weights[0], abs=1e-10)
    assert weights[1] == pytest.approx(0, abs=1e-10)
