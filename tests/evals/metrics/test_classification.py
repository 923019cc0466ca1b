"""Rates and classes against scikit-learn, and what they say where rows are missing."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as oracle

from spinf_serve.evals import intervals
from spinf_serve.evals.intervals import wilson
from spinf_serve.evals.metrics import classification
from spinf_serve.evals.metrics.classification import Confusion, confusion
from spinf_serve.packs.errors import Refused

# A test knows where there is an answer: None in its place fails on the next attribute.
rates: Any = classification.rates
classes: Any = classification.classes
bootstrap: Any = intervals.bootstrap

SHARES = (
    "accuracy",
    "precision",
    "recall",
    "specificity",
    "negative_predictive_value",
    "flag_rate",
    "base_rate",
)
ROWS = st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(1, 4)), max_size=40)


def drawn(seed, count=200):
    generator = np.random.default_rng(seed)
    holds = generator.random(count) < 0.3
    flagged = np.where(generator.random(count) < 0.2, ~holds, holds)
    return flagged, holds, generator.random(count) + 0.1


@pytest.mark.parametrize("weighted", [False, True])
def test_rates_are_scikit_learns(weighted):
    flagged, holds, weights = drawn(1)
    weights = weights if weighted else None
    found = rates(flagged, holds, weights=weights)
    given_weights = {"sample_weight": weights}
    assert found.accuracy.value == pytest.approx(
        oracle.accuracy_score(holds, flagged, **given_weights)
    )
    assert found.precision.value == pytest.approx(
        oracle.precision_score(holds, flagged, **given_weights)
    )
    assert found.recall.value == pytest.approx(oracle.recall_score(holds, flagged, **given_weights))
    assert found.specificity.value == pytest.approx(
        oracle.recall_score(~holds, ~flagged, **given_weights)
    )
    assert found.negative_predictive_value.value == pytest.approx(
        oracle.precision_score(~holds, ~flagged, **given_weights)
    )
    assert found.f1.value == pytest.approx(oracle.f1_score(holds, flagged, **given_weights))
    assert found.base_rate.value == pytest.approx(np.average(holds, weights=weights))
    assert found.flag_rate.value == pytest.approx(np.average(flagged, weights=weights))


def test_counts_are_scikit_learns_and_never_weighted():
    flagged, holds, weights = drawn(2)
    tn, fp, fn, tp = oracle.confusion_matrix(holds, flagged).ravel().tolist()
    assert confusion(flagged, holds) == Confusion(tp, fp, tn, fn)
    assert rates(flagged, holds, weights=weights).confusion == Confusion(tp, fp, tn, fn)


def test_shares_have_wilsons_interval_of_their_own_rows():
    flagged, holds, _ = drawn(3)
    found = rates(flagged, holds)
    counts = found.confusion
    assert found.precision.interval == wilson(counts.tp, counts.tp + counts.fp)
    assert found.recall.of == counts.tp + counts.fn


def test_the_interval_of_f1_is_close_to_the_bootstraps():
    flagged, holds, _ = drawn(4, count=400)
    found = rates(flagged, holds).f1
    again = bootstrap(lambda a, b: float(oracle.f1_score(b, a)), [flagged, holds], repeats=200)
    # Both are within 1 / n of the same normal interval; the ends of 200 draws move by a
    # twentieth of the width.
    budget = 0.2 * (again.high - again.low)
    assert found.interval.low == pytest.approx(again.low, abs=budget)
    assert found.interval.high == pytest.approx(again.high, abs=budget)


def test_a_rate_without_rows_is_none_and_never_0():
    found = rates([False, False], [False, False])
    assert (found.precision, found.recall, found.f1) == (None, None, None)
    assert found.accuracy.value == found.specificity.value == 1
    empty = rates([], [])
    assert all(getattr(empty, name) is None for name in (*SHARES, "f1"))
    assert empty.confusion == Confusion(0, 0, 0, 0)


def test_an_unknown_label_is_refused():
    with pytest.raises(Refused, match="labels"):
        rates([True, False], [True, None])


def test_lengths_that_differ_are_refused():
    with pytest.raises(ValueError, match="3 rows but 2"):
        rates([True, False], [True, False, True])


def values(found):
    shares = [getattr(found, name) for name in (*SHARES, "f1")]
    return [None if one is None else pytest.approx(one.value) for one in shares]


@given(ROWS, st.randoms(use_true_random=False))
def test_rates_ignore_the_order_of_rows_and_take_weights_as_copies(rows, random):
    flagged, holds, times = ([row[index] for row in rows] for index in range(3))
    found = rates(flagged, holds, weights=times)
    copies = [row for row in rows for _ in range(row[2])]
    random.shuffle(copies)
    again = rates([row[0] for row in copies], [row[1] for row in copies])
    assert values(found) == values(again)


@given(ROWS)
def test_copies_in_groups_keep_rates_and_intervals(rows):
    flagged, holds = [row[0] for row in rows], [row[1] for row in rows]
    once = rates(flagged, holds)
    groups = np.repeat(np.arange(len(rows)), 3)
    again = rates(np.repeat(flagged, 3), np.repeat(holds, 3), groups=groups)
    assert values(once) == values(again)
    for name in (*SHARES, "f1"):
        one, other = getattr(once, name), getattr(again, name)
        if one is not None:
            assert other.interval.low == pytest.approx(one.interval.low, abs=1e-9)


def test_classes_are_scikit_learns():
    generator = np.random.default_rng(5)
    names = ["bill", "none", "ship"]
    true = generator.choice(names, 150).tolist()
    chosen = [name if generator.random() < 0.7 else str(generator.choice(names)) for name in true]
    found = classes(chosen, true)
    assert found.classes == tuple(names)
    assert np.array(found.counts).tolist() == oracle.confusion_matrix(true, chosen).tolist()
    assert found.accuracy.value == pytest.approx(oracle.accuracy_score(true, chosen))
    assert found.macro_f1 == pytest.approx(oracle.f1_score(true, chosen, average="macro"))
    recalls = oracle.recall_score(true, chosen, average=None)
    assert [one.recall.value for one in found.each] == pytest.approx(recalls)


def test_an_abstention_is_a_class_that_is_never_true():
    found = classes(["a", "unsure", "b"], ["a", "a", "b"], ["a", "b", "unsure"])
    assert found.counts == ((1, 0, 1), (0, 1, 0), (0, 0, 0))
    assert found.accuracy.value == pytest.approx(2 / 3)
    assert found.each[2].recall is None
    assert found.each[2].precision.value == 0


def test_an_unlisted_class_is_told():
    with pytest.raises(ValueError, match=r"lack \['c'\]"):
        classes(["c"], ["a"], ["a", "b"])


def test_no_rows_of_several_classes():
    found = classes([], [], ["a", "b"])
    assert found.counts == ((0, 0), (0, 0))
    assert (found.accuracy, found.macro_f1) == (None, None)
