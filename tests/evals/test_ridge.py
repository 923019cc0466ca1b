"""The ridge of a micro layer: firm where inputs are noise, loose where they tell."""

import numpy as np

from spinf_serve.evals.ridge import RIDGES, best_ridge


def test_noise_is_held_down_and_signal_is_not():
    rng = np.random.default_rng(5)
    inputs = rng.normal(size=(400, 3))
    alone = [None] * 400
    telling = 8 * inputs[:, 0] + rng.normal(size=400) > 0
    noise = rng.random(400) < 0.5
    assert best_ridge(inputs, telling, alone) in RIDGES[:2]
    assert best_ridge(inputs, noise, alone) == RIDGES[-1]


def test_too_few_rows_of_a_kind_leave_the_default():
    inputs = np.arange(20.0)[:, None]
    holds = inputs[:, 0] >= 16
    assert best_ridge(inputs, holds, [None] * 20) is None
    # Ten rows that hold, in four groups.
    groups = [f"g{n % 4}" if n >= 10 else None for n in range(20)]
    assert best_ridge(inputs, inputs[:, 0] >= 10, groups) is None
