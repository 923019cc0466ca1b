"""Calibration maps: oracles, known worlds, what small or odd samples say, and the order of maps."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from spinf_serve.evals.calibration import (
    BetaMap,
    IsotonicMap,
    PlattMap,
    beta,
    choose,
    fit,
    held_out,
    isotonic,
    platt,
)
from spinf_serve.evals.metrics.probability import logit
from spinf_serve.packs.errors import Refused
from spinf_serve.packs.logistic import platt as platt_of
from spinf_serve.packs.logistic import smoothed_targets

ROWS = st.lists(
    st.tuples(st.floats(0, 1), st.booleans(), st.integers(1, 4)), min_size=1, max_size=40
)
PROBE = np.linspace(0, 1, 41)


def over_confident(generator, count):
    """Raw scores with twice the true log-odds."""
    true = generator.normal(0, 2.05, count)
    return expit(2 * true), generator.random(count) < expit(true)


def skewed(generator, count):
    """Raw scores whose true map is a beta map that bends to one side only."""
    raw = expit(generator.normal(1.5, 3, count))
    return raw, generator.random(count) < BetaMap(1.6, 0.35, -0.7).apply(raw)


def loss(p, holds):
    return float(-np.log(np.where(holds, p, 1 - p)).mean())


def errors(inputs, p):
    """Standard errors of slopes and, last, shift: the inverse of Fisher's information."""
    rows = np.column_stack([inputs, np.ones(len(inputs))])
    return np.sqrt(np.diag(np.linalg.inv((rows.T * (p * (1 - p))) @ rows)))


@pytest.mark.parametrize("seed", range(3))
def test_platt_finds_the_map_of_an_over_confident_world(seed):
    raw, holds = over_confident(np.random.default_rng(seed), 4000)
    found = platt(raw, holds)
    slope, shift = errors(logit(raw)[:, None], expit(logit(raw) / 2))
    assert found.slope == pytest.approx(0.5, abs=4 * slope)
    assert found.shift == pytest.approx(0, abs=4 * shift)


@pytest.mark.parametrize("seed", range(3))
def test_beta_finds_the_map_of_a_skewed_world(seed):
    raw, holds = skewed(np.random.default_rng(seed), 6000)
    found = beta(raw, holds)
    inputs = np.column_stack([np.log(raw), -np.log1p(-raw)])
    of_p, of_rest, shift = errors(inputs, BetaMap(1.6, 0.35, -0.7).apply(raw))
    assert found.on_p == pytest.approx(1.6, abs=4 * of_p)
    assert found.on_rest == pytest.approx(0.35, abs=4 * of_rest)
    assert found.shift == pytest.approx(-0.7, abs=4 * shift)


@pytest.mark.parametrize("seed", range(3))
def test_isotonic_finds_the_steps_of_a_world_of_steps(seed):
    generator = np.random.default_rng(seed)
    raw = generator.random(6000)
    truth = np.select([raw < 0.3, raw < 0.7], [0.1, 0.5], 0.9)
    found = isotonic(raw, generator.random(6000) < truth)
    # Mean squared error of a rising fit: about (variation x variance / n)^(2/3), here at most
    # (0.8 x 0.25 / 6000)^(2/3) = 0.001, and steps are easier. Four times that.
    assert np.mean((found.apply(raw) - truth) ** 2) < 0.004


def test_platt_is_that_of_the_packs_and_its_weighted_form_agrees_with_it():
    raw, holds = over_confident(np.random.default_rng(4), 200)
    known = platt_of(logit(raw), holds)
    assert platt(raw, holds) == PlattMap(known.slope, known.shift)
    weighted = platt(raw, holds, weights=np.full(200, 3.0))
    assert weighted.slope == pytest.approx(known.slope, rel=1e-6)
    assert weighted.shift == pytest.approx(known.shift, abs=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_beta_is_scikit_learns_logistic_regression_on_soft_targets(weighted):
    generator = np.random.default_rng(5)
    raw, holds = skewed(generator, 300)
    weights = generator.random(300) + 0.5 if weighted else None
    found = beta(raw, holds, weights=weights)
    each = np.ones(300) if weights is None else weights

    def effective(rows):
        return each[rows].sum() ** 2 / (each[rows] ** 2).sum()

    up, down = effective(holds), effective(~holds)
    targets = np.where(holds, (up + 1) / (up + 2), 1 / (down + 2))
    inputs = np.column_stack([np.log(raw), -np.log1p(-raw)])
    # A soft target is the row twice: as a positive by its target, as a negative by the rest.
    oracle = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(
        np.vstack([inputs, inputs]),
        np.repeat([True, False], 300),
        sample_weight=np.concatenate([each * targets, each * (1 - targets)]),
    )
    assert oracle.coef_.min() > 0
    assert [found.on_p, found.on_rest] == pytest.approx(oracle.coef_[0].tolist(), abs=1e-4)
    assert found.shift == pytest.approx(oracle.intercept_[0], abs=1e-4)


def test_a_slope_that_would_fall_is_held_at_0_and_the_rest_is_the_best_there():
    generator = np.random.default_rng(6)
    raw = generator.random(500)
    # True odds rise with -ln(1 - p) and fall with ln p.
    truth = expit(-np.log(raw) * 0.3 - np.log1p(-raw) * 1.5 - 2)
    holds = generator.random(500) < truth
    found = beta(raw, holds)
    assert found.on_p == 0
    targets = smoothed_targets(holds)

    def total(on_rest, shift):
        out = -on_rest * np.log1p(-raw) + shift
        return float(np.mean(np.logaddexp(0, out) - targets * out))

    best = total(found.on_rest, found.shift)
    for step in (-1e-2, 1e-2):
        assert total(found.on_rest + step, found.shift) > best
        assert total(found.on_rest, found.shift + step) > best


def test_isotonic_is_scikit_learns():
    raw, holds = skewed(np.random.default_rng(7), 400)
    raw = np.round(raw, 2)
    weights = np.linspace(1, 3, 400)
    oracle = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
    oracle.fit(raw, holds, sample_weight=weights)
    found = isotonic(raw, holds, weights=weights)
    assert found.apply(PROBE).tolist() == pytest.approx(oracle.predict(PROBE).tolist())


@settings(max_examples=60)
@given(ROWS)
def test_every_map_gives_probabilities_that_never_fall(rows):
    p, holds = [row[0] for row in rows], [row[1] for row in rows]
    for found in (platt(p, holds), beta(p, holds), isotonic(p, holds)):
        out = found.apply(PROBE)
        assert ((out >= 0) & (out <= 1)).all()
        assert (np.diff(out) >= -1e-12).all()


@settings(max_examples=30)
@given(ROWS, st.randoms(use_true_random=False))
def test_maps_ignore_the_order_of_rows_and_the_unit_of_weights(rows, random):
    p, holds, weights = ([row[index] for row in rows] for index in range(3))
    random.shuffle(rows)
    q, other, again = ([row[index] for row in rows] for index in range(3))
    tenfold = [weight * 10.0 for weight in again]
    for maker in (platt, beta, isotonic):
        # Where rows are few the optimum is flat: what counts is what the map says on the rows.
        assert maker(q, other, weights=tenfold).apply(sorted(p)).tolist() == pytest.approx(
            maker(p, holds, weights=weights).apply(sorted(p)).tolist(), abs=2e-3
        )


def test_weights_bring_back_the_traffic_that_was_sampled_unevenly():
    # Positives kept at a tenth: their weight is 10, and the map is that of the traffic.
    generator = np.random.default_rng(8)
    raw, holds = over_confident(generator, 20_000)
    kept = ~holds | (generator.random(20_000) < 0.1)
    weights = np.where(holds, 10.0, 1.0)[kept]
    uneven = platt(raw[kept], holds[kept])
    evened = platt(raw[kept], holds[kept], weights=weights)
    slope, shift = errors(logit(raw)[:, None], expit(logit(raw) / 2))
    # A tenth of the positives are left: at most sqrt(10) times the error.
    assert evened.shift == pytest.approx(0, abs=4 * shift * 10**0.5)
    assert evened.slope == pytest.approx(0.5, abs=4 * slope * 10**0.5)
    assert uneven.shift == pytest.approx(np.log(0.1), abs=0.2)


def test_the_kind_is_platt_for_few_and_beta_for_many_and_never_isotonic():
    assert [choose(rows) for rows in (1, 99, 100, 10_000_000)] == ["platt", "platt", "beta", "beta"]
    raw, holds = skewed(np.random.default_rng(9), 120)
    assert isinstance(fit(raw, holds).map, BetaMap)
    assert isinstance(fit(raw[:99], holds[:99]).map, PlattMap)
    assert fit(raw, holds).kind == "beta"
    assert fit(raw, holds, "platt").map == platt(raw, holds)


def test_an_isotonic_map_is_refused_below_a_cut_and_on_few_rows():
    raw, holds = skewed(np.random.default_rng(10), 1000)
    with pytest.raises(Refused, match="plateaus"):
        fit(raw, holds, "isotonic", for_cuts=True)
    with pytest.raises(Refused, match="999 labelled rows, fewer than 1000"):
        fit(raw[1:], holds[1:], "isotonic")
    assert isinstance(fit(raw, holds, "isotonic").map, IsotonicMap)


@pytest.mark.parametrize("kind", ["platt", "beta"])
def test_separable_rows_have_a_finite_map_and_a_note(kind):
    found = fit([0.2, 0.3, 0.4, 0.7, 0.8, 0.9], [0, 0, 0, 1, 1, 1], kind)
    low, high = found.map.apply([0.2, 0.9])
    assert 0.01 < low < 0.3
    assert 0.7 < high < 0.99
    assert any("any cut in (0.4, 0.7]" in note for note in found.notes)
    assert any("provisional: 6 rows with 3" in note for note in found.notes)


@pytest.mark.parametrize("kind", ["platt", "beta"])
@pytest.mark.parametrize(
    ("p", "holds", "level", "note"),
    [
        ([0.4, 0.6, 0.9], [1, 1, 1], 4 / 5, "all 3 rows are positive"),
        ([0.4, 0.6, 0.9], [0, 0, 0], 1 / 5, "all 3 rows are negative"),
        ([0.5] * 4, [0, 1, 0, 1], 1 / 2, "all rows have one score"),
        ([0.2, 0.4, 0.6, 0.8], [1, 1, 0, 0], 1 / 2, "runs against its labels"),
    ],
)
def test_rows_that_tell_nothing_give_one_number_and_a_note(kind, p, holds, level, note):
    found = fit(p, holds, kind)
    assert found.map.apply(PROBE).tolist() == pytest.approx([level] * len(PROBE), abs=1e-6)
    assert any(note in one for one in found.notes)


def test_a_sound_sample_has_no_notes():
    raw, holds = over_confident(np.random.default_rng(11), 300)
    found = fit(raw, holds)
    assert (found.notes, found.rows, found.positives) == ((), 300, int(holds.sum()))


def test_probabilities_of_0_and_1_are_taken_and_told():
    found = fit([0.0, 0.2, 0.8, 1.0] * 10, [0, 1, 0, 1] * 10)
    assert any("20 rows have a p of 0 or 1" in note for note in found.notes)
    assert np.isfinite(found.map.apply([0.0, 1.0])).all()


@pytest.mark.parametrize("maker", [fit, platt, beta, isotonic, held_out])
def test_what_is_no_probability_is_refused_with_its_position(maker):
    with pytest.raises(Refused, match=r"1 of 3 rows: 2 \(nan\)"):
        maker([0.5, 0.6, float("nan")], [0, 1, 1])


def test_no_rows_are_refused():
    with pytest.raises(Refused, match="no labelled row"):
        fit([], [])


def test_held_out_rows_are_mapped_by_maps_made_without_them_or_their_group():
    # Every label is drawn anew for each thread: a map that saw a copy would know it.
    generator = np.random.default_rng(12)
    raw = np.repeat(generator.random(60), 5)
    holds = np.repeat(generator.random(60) < 0.5, 5)
    groups = np.repeat(np.arange(60), 5)
    out = held_out(raw, holds, "platt", groups=groups, seed=1)
    for group in range(60):
        assert len(set(out[groups == group].tolist())) == 1
    # Changing one group's labels changes no p of its own.
    turned = np.where(groups == 7, ~holds, holds)
    again = held_out(raw, turned, "platt", groups=groups, seed=1)
    assert not np.array_equal(out, again)


def test_held_out_takes_the_kind_of_all_rows_and_repeats_by_its_seed():
    raw, holds = skewed(np.random.default_rng(13), 110)
    # Folds hold 88 rows, fewer than a beta map needs: still the map that will be used is judged.
    out = held_out(raw, holds, seed=2)
    assert out.tolist() == held_out(raw, holds, "beta", seed=2).tolist()
    assert out.tolist() != held_out(raw, holds, "platt", seed=2).tolist()


def test_held_out_loss_is_honest_where_that_on_the_same_rows_flatters():
    raw, holds = skewed(np.random.default_rng(14), 1200)
    same = isotonic(raw, holds).apply(raw)
    apart = held_out(raw, holds, "isotonic")
    clipped = [np.clip(one, 1e-3, 1 - 1e-3) for one in (same, apart)]
    assert loss(clipped[0], holds) < loss(clipped[1], holds)


def test_too_few_rows_of_a_label_for_the_folds_are_refused():
    with pytest.raises(Refused, match="2 independent rows of the rarer label, fewer than 5 folds"):
        held_out([0.1] * 20, [True] * 2 + [False] * 18)
    with pytest.raises(Refused, match="1 independent rows"):
        held_out([0.1] * 20, [True] * 10 + [False] * 10, groups=[1] * 10 + list(range(2, 12)))


def mean_losses(world, count, fresh):
    """Mean log loss of Platt's, the beta and the isotonic map on fresh rows, over 20 samples."""
    found: dict[Any, list[float]] = {platt: [], beta: [], isotonic: []}
    for seed in range(20):
        raw, holds = world(np.random.default_rng([count, seed]), count)
        for maker, losses in found.items():
            # An isotonic 0 or 1 that is wrong would cost infinity.
            p = np.clip(maker(raw, holds).apply(fresh[0]), 1e-3, 1 - 1e-3)
            losses.append(loss(p, fresh[1]))
    return [float(np.mean(losses)) for losses in found.values()]


@pytest.mark.parametrize("world", [over_confident, skewed])
def test_maps_come_in_the_known_order_on_fresh_rows(world):
    fresh = world(np.random.default_rng(99), 40_000)
    by_platt, by_beta, by_steps = mean_losses(world, 50, fresh)
    # Three numbers cost at 50 rows about what they gain where two do not fit the world.
    assert by_platt < by_beta + 0.01
    assert by_platt < by_steps - 0.1
    assert by_platt < loss(np.clip(fresh[0], 1e-9, 1 - 1e-9), fresh[1])
    by_platt, by_beta, by_steps = mean_losses(world, 500, fresh)
    assert by_beta < by_steps
    by_platt, by_beta, by_steps = mean_losses(world, 3000, fresh)
    assert by_beta < by_platt + 0.001
    assert by_beta < by_steps


def test_an_isotonic_map_of_50_rows_is_worse_than_none():
    fresh = over_confident(np.random.default_rng(99), 40_000)
    raw_loss = loss(np.clip(fresh[0], 1e-9, 1 - 1e-9), fresh[1])
    by_platt, _, by_steps = mean_losses(over_confident, 50, fresh)
    assert by_platt < raw_loss < by_steps
