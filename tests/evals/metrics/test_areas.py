"""Areas against scikit-learn and the definitions, their intervals against simulation."""

from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from spinf_serve.evals import intervals
from spinf_serve.evals.metrics import areas
from spinf_serve.evals.metrics.areas import Gap, gap, pr_curve, roc_curve
from spinf_serve.packs import metrics as pack_metrics
from spinf_serve.packs.errors import Refused

# A test knows where there is an answer: None in its place fails on the next attribute.
roc_area: Any = areas.roc_area
pr_area: Any = areas.pr_area
auc: Any = pack_metrics.auc
bootstrap: Any = intervals.bootstrap

# Few distinct values, so that ties are common.
ROWS = st.lists(st.tuples(st.integers(0, 6), st.booleans(), st.integers(1, 4)), max_size=40)


def world(seed, count=120, gap=1.2, rate=0.4):
    generator = np.random.default_rng(seed)
    holds = generator.random(count) < rate
    return generator.normal(size=count) + gap * holds, holds


def both(holds):
    return any(holds) and not all(holds)


@settings(max_examples=40)
@given(ROWS)
def test_values_are_scikit_learns_ties_and_weights_among_them(rows):
    scores, holds, weights = ([row[index] for row in rows] for index in range(3))
    roc = roc_area(scores, holds, weights=weights)
    pr = pr_area(scores, holds, weights=weights, repeats=2)
    assert (roc is not None) == both(holds)
    assert (pr is not None) == any(holds)
    if roc is not None:
        assert roc.value == pytest.approx(roc_auc_score(holds, scores, sample_weight=weights))
        assert roc_area(scores, holds).value == pytest.approx(auc(scores, holds).value)
    if pr is not None:
        assert pr.value == pytest.approx(
            average_precision_score(holds, scores, sample_weight=weights)
        )


@settings(max_examples=40)
@given(ROWS, st.randoms(use_true_random=False))
def test_areas_ignore_order_and_take_weights_as_copies(rows, random):
    scores, holds, weights = ([row[index] for row in rows] for index in range(3))
    if not both(holds):
        return
    copies = [row for row in rows for _ in range(row[2])]
    random.shuffle(copies)
    again = [row[0] for row in copies], [row[1] for row in copies]
    assert roc_area(*again).value == pytest.approx(roc_area(scores, holds, weights=weights).value)
    assert pr_area(*again, repeats=2).value == pytest.approx(
        pr_area(scores, holds, weights=weights, repeats=2).value
    )


@settings(max_examples=40)
@given(ROWS, st.randoms(use_true_random=False))
def test_the_interval_does_not_depend_on_the_order_of_rows(rows, random):
    if not any(row[1] for row in rows):
        return
    found = pr_area([row[0] for row in rows], [row[1] for row in rows], repeats=20).interval
    random.shuffle(rows)
    again = pr_area([row[0] for row in rows], [row[1] for row in rows], repeats=20).interval
    assert found == again


def test_the_error_is_delongs():
    scores, holds = world(1, count=60)
    scores = np.round(scores, 1)
    wins = np.sign(scores[holds][:, None] - scores[~holds][None, :]) / 2 + 0.5
    positives, negatives = wins.mean(axis=1), wins.mean(axis=0)
    error = sqrt(positives.var(ddof=1) / len(positives) + negatives.var(ddof=1) / len(negatives))
    assert roc_area(scores, holds).error == pytest.approx(error)


def test_without_copies_the_clustered_error_is_close_to_delongs():
    scores, holds = world(2, count=400)
    alone = roc_area(scores, holds)
    grouped = roc_area(scores, holds, groups=[f"row {index}" for index in range(400)])
    # They differ by n / (n - 1) in each kind's variance.
    assert grouped.error == pytest.approx(alone.error, rel=2 / holds.sum())


def test_copies_in_groups_add_no_certainty():
    scores, holds = world(3, count=80)
    once = roc_area(scores, holds, groups=np.arange(80))
    groups = np.repeat(np.arange(80), 10)
    again = roc_area(np.repeat(scores, 10), np.repeat(holds, 10), groups=groups)
    assert again.error == pytest.approx(once.error)
    assert again.interval.low == pytest.approx(once.interval.low)
    pr = pr_area(np.repeat(scores, 10), np.repeat(holds, 10), groups=groups)
    assert pr.interval.low == pytest.approx(pr_area(scores, holds).interval.low)


def test_the_pr_interval_is_that_of_resampled_rows():
    scores, holds = world(4, count=60)
    order = np.lexsort((np.ones(60), holds, -scores))
    slow = bootstrap(
        lambda s, y: float(average_precision_score(y, s)) if y.any() else None,
        [scores[order], holds[order]],
        repeats=200,
        seed=3,
    )
    found = pr_area(scores, holds, repeats=200, seed=3).interval
    assert (found.low, found.high) == pytest.approx((slow.low, slow.high))


def test_the_roc_interval_holds_its_level():
    # Two normals 1.2 apart: the area is Phi(1.2 / sqrt 2). 200 runs: 3 binomial sd are 4.6 points.
    true = 0.8019
    held = 0
    for seed in range(200):
        interval = roc_area(*world(seed, count=80)).interval
        held += interval.low <= true <= interval.high
    assert held / 200 >= 0.95 - 0.046


def test_separable_rows_have_a_wide_interval_and_no_error():
    found = roc_area([0.2, 0.3, 0.4, 0.7, 0.8, 0.9], [0, 0, 0, 1, 1, 1])
    assert (found.value, found.error, found.interval.high) == (1, None, 1)
    assert found.interval.low < 0.6
    turned = roc_area([0.2, 0.3, 0.4, 0.7, 0.8, 0.9], [1, 1, 1, 0, 0, 0])
    assert (turned.value, turned.interval.low) == (0, 0)
    assert turned.interval.high == pytest.approx(1 - found.interval.low)


def test_the_interval_of_separable_rows_narrows_with_independent_rows_only():
    def low(copies, groups):
        scores = np.repeat([0.1, 0.2, 0.8, 0.9], copies)
        holds = np.repeat([False, False, True, True], copies)
        return roc_area(scores, holds, groups=groups).interval.low

    assert low(10, None) > low(1, None) + 0.2
    assert low(10, np.repeat(np.arange(4), 10)) == pytest.approx(low(1, None))


def test_one_row_of_a_kind_has_an_interval():
    found = roc_area([0.9, 0.1, 0.2, 0.3, 0.95], [1, 0, 0, 0, 0])
    assert found.value == 0.75
    assert found.interval.low < 0.3
    assert found.interval.high > 0.9


def test_all_ties_rank_nothing():
    found = roc_area([0.5] * 100, [1] * 30 + [0] * 70)
    assert found.value == 0.5
    assert found.interval.low < 0.45
    assert found.interval.high > 0.55
    assert pr_area([0.5] * 100, [1] * 30 + [0] * 70).value == pytest.approx(0.3)


def test_a_nan_score_is_refused_with_its_position():
    for area in (roc_area, pr_area):
        with pytest.raises(Refused, match=r"1 of 2 rows: 1 \(nan\)"):
            area([0.1, float("nan")], [0, 1])


@pytest.mark.parametrize(
    ("scores", "holds", "found"),
    [
        ([0.2, 0.4, 0.7, 0.9], [0, 0, 1, 1], Gap(0.4, 0.7)),
        ([0.2, 0.7, 0.7, 0.9], [0, 0, 1, 1], None),
        ([0.2, 0.4], [1, 0], None),
        ([0.2, 0.4], [1, 1], None),
        ([], [], None),
    ],
)
def test_the_gap_of_separable_rows(scores, holds, found):
    assert gap(scores, holds) == found


def test_curves_carry_the_areas_and_the_cuts():
    scores, holds = world(5)
    roc, pr = roc_curve(scores, holds), pr_curve(scores, holds)
    assert np.trapezoid(roc.y, roc.x) == pytest.approx(roc_area(scores, holds).value)
    assert (roc.x[0], roc.y[0], roc.x[-1], roc.y[-1]) == (0, 0, 1, 1)
    for x, y, cut in zip(roc.x, roc.y, roc.cuts, strict=True):
        flagged = scores >= cut
        assert (x, y) == pytest.approx((flagged[~holds].mean(), flagged[holds].mean()))
    assert (pr.x[0], pr.x[-1]) == (0, 1)
    for recall, precision, cut in list(zip(pr.x, pr.y, pr.cuts, strict=True))[1:]:
        flagged = scores >= cut
        assert (recall, precision) == pytest.approx((flagged[holds].mean(), holds[flagged].mean()))


@pytest.mark.parametrize(("curve", "holds"), [(roc_curve, [1, 1]), (pr_curve, [0, 0])])
def test_a_curve_without_its_rows_is_told(curve, holds):
    with pytest.raises(ValueError, match="needs rows"):
        curve([0.1, 0.2], holds)
