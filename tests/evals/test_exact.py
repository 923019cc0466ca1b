import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from spinf_serve.evals.exact import (
    Counts,
    bounds,
    estimates,
    lower,
    reweighted,
    trials,
    upper,
    walk,
)


@given(st.integers(1, 300), st.data(), st.sampled_from([0.05, 0.025, 0.01]))
def test_bounds_are_those_of_scipy(n, data, delta):
    k = data.draw(st.integers(0, n))
    one = binomtest(k, n, alternative="greater").proportion_ci(1 - delta, "exact")
    other = binomtest(k, n, alternative="less").proportion_ci(1 - delta, "exact")
    counts = np.array([float(k)]), np.array([float(n)])
    assert abs(float(lower(*counts, delta)[0]) - one.low) < 1e-9
    assert abs(float(upper(*counts, delta)[0]) - other.high) < 1e-9


def test_no_trial_bounds_nothing():
    none = np.zeros(2)
    assert lower(none, none, 0.05).tolist() == [0, 0]
    assert upper(none, none, 0.05).tolist() == [1, 1]


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12))
def test_a_walk_ends_at_the_first_tested_failure(steps):
    kept = -1
    for index, (passed, tested) in enumerate(steps):
        if tested and not passed:
            break
        if tested:
            kept = index
    columns = np.array(steps).T
    assert int(walk(columns[0], columns[1])) == kept
    # A thousand sets at once are walked like one.
    many = np.stack([columns[0]] * 3), np.stack([columns[1]] * 3)
    assert walk(*many).tolist() == [kept] * 3


def test_reweighting_is_bayes_rule():
    assert np.isclose(reweighted(np.array([0.8]), np.array([0.1]), 0.2)[0], 0.16 / 0.24)
    assert reweighted(np.zeros(1), np.zeros(1), 0.2).tolist() == [0]


def _counts():
    return Counts(np.array([30.0]), np.array([4.0]), np.array([50.0]), np.array([70.0]))


def test_what_each_promise_counts():
    found = {kind: trials(kind, _counts()) for kind in ("precision", "npv", "recall", "flag_rate")}
    assert {kind: (k[0], n[0]) for kind, (k, n) in found.items()} == {
        "precision": (30, 34),
        "npv": (66, 86),
        "recall": (30, 50),
        "flag_rate": (34, 120),
    }


def test_the_rows_own_base_rate_gives_the_plain_rates():
    for kind in ("precision", "npv", "recall", "flag_rate"):
        plain = estimates(kind, _counts(), None)[0]
        assert np.isclose(estimates(kind, _counts(), 50 / 120)[0], plain)


def test_recall_is_the_same_at_every_base_rate():
    found = [bounds("recall", _counts(), base, 0.05)[0] for base in (0.1, 0.9, None)]
    assert len(set(found)) == 1


def test_a_reweighted_bound_is_wrong_in_at_most_delta():
    generator = np.random.default_rng(5)
    runs = 20_000
    for hit, wrong, base in ((0.6, 0.01, 0.05), (0.95, 0.2, 0.5), (0.3, 0.001, 0.01)):
        true = reweighted(np.array([hit]), np.array([wrong]), base)[0]
        counts = Counts(
            generator.binomial(60, hit, runs).astype(float),
            generator.binomial(300, wrong, runs).astype(float),
            np.array([60.0]),
            np.array([300.0]),
        )
        misses = (bounds("precision", counts, base, 0.05) > true).mean()
        # 20,000 runs at 5 %: three standard errors are 0.0046.
        assert misses <= 0.0546, (hit, wrong, base)
        # The mirror image of the classes turns precision into npv.
        mirrored = Counts(
            300 - counts.negatives_above,
            60 - counts.positives_above,
            counts.negatives,
            counts.positives,
        )
        assert np.allclose(
            bounds("npv", mirrored, 1 - base, 0.05), bounds("precision", counts, base, 0.05)
        )


def test_a_flag_rate_at_a_stated_base_rate_is_wrong_in_at_most_delta():
    generator = np.random.default_rng(6)
    runs = 20_000
    counts = Counts(
        generator.binomial(60, 0.7, runs).astype(float),
        generator.binomial(60, 0.1, runs).astype(float),
        np.array([60.0]),
        np.array([60.0]),
    )
    true = 0.05 * 0.7 + 0.95 * 0.1
    assert (bounds("flag_rate", counts, 0.05, 0.05) < true).mean() <= 0.0546
