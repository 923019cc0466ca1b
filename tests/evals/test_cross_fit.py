import numpy as np
import pytest

from spinf_serve.evals.cross_fit import Choice, CrossFit, cross_fit
from spinf_serve.evals.intervals import Interval


def _rows(count=400, seed=0):
    generator = np.random.default_rng(seed)
    labels = np.arange(count) % 3 == 0
    return generator.normal(labels * 1.5, 1.0), labels


def _fitted(*given, **named) -> CrossFit:
    found = cross_fit(*given, **named)
    assert found is not None
    return found


def test_a_fixed_cut_gives_the_rates_of_all_rows():
    scores, labels = _rows()
    found = _fitted(lambda train: Choice(0.7), scores, labels, repeats=3)
    flagged = scores >= 0.7
    assert found.cut == 0.7 and found.cut_interval == Interval(0.7, 0.7)
    assert found.precision == pytest.approx(labels[flagged].mean())
    assert found.recall == pytest.approx(flagged[labels].mean())
    assert found.npv == pytest.approx((~labels)[~flagged].mean())
    assert found.flag_rate == pytest.approx(flagged.mean())
    assert found.chosen == 1.0 and (found.folds, found.repeats) == (5, 3)


def test_rows_of_a_queue_are_trained_on_and_not_counted():
    scores, labels = _rows()
    random = np.arange(400) % 4 == 0
    found = _fitted(lambda train: Choice(0.7), scores, labels, repeats=2, weights=random)
    flagged = scores >= 0.7
    assert found.precision == pytest.approx(labels[flagged & random].mean())
    assert found.flag_rate == pytest.approx(flagged[random].mean())
    with pytest.raises(ValueError, match="one is below 0"):
        cross_fit(lambda train: Choice(0.7), scores, labels, weights=np.full(400, -1.0))


def test_a_choice_that_learns_by_heart_is_found_out():
    """In its own rows it is always right; on rows left out it knows nothing."""
    generator = np.random.default_rng(2)
    labels = generator.random(300) < 0.5

    def by_heart(train):
        scores = generator.random(300)
        scores[train] = labels[train]
        return Choice(0.5, scores)

    found = _fitted(by_heart, np.zeros(300), labels, repeats=5)
    assert found.precision == pytest.approx(0.5, abs=0.08)


def test_no_group_and_no_row_is_on_both_sides_and_both_classes_are_in_each_fold():
    scores, labels = _rows(240)
    groups = (np.arange(240) // 4).tolist()
    seen = []

    def choose(train):
        seen.append(train)
        return Choice(0.0)

    cross_fit(choose, scores, labels, groups=groups, folds=4, repeats=2)
    assert len(seen) == 8
    for train in seen:
        left_out = np.setdiff1d(np.arange(240), train)
        assert not set(train // 4) & set(left_out // 4)
        assert labels[left_out].any() and not labels[left_out].all()


def test_folds_without_a_choice_are_told():
    scores, labels = _rows()
    found = _fitted(lambda train: None, scores, labels, repeats=2)
    assert found.chosen == 0 and found.cut is None and found.precision is None
    turns = iter([True, False] * 10)
    half = _fitted(lambda train: Choice(0.0) if next(turns) else None, scores, labels, repeats=2)
    assert half.chosen == 0.5


def test_a_class_of_two_rows_gives_two_folds_and_of_one_none():
    scores = np.arange(10.0)
    found = _fitted(lambda train: Choice(5.0), scores, scores >= 8, repeats=2)
    assert found.folds == 2
    assert cross_fit(lambda train: Choice(5.0), scores, scores >= 9) is None
    # Two rows of one group are one.
    assert cross_fit(lambda train: Choice(5.0), scores, scores >= 8, [0] * 8 + [1, 1]) is None


def test_the_spread_of_the_cut_is_that_of_the_folds():
    scores, labels = _rows()
    found = _fitted(lambda train: Choice(float(np.median(scores[train]))), scores, labels)
    assert found.cut is not None and found.cut_interval is not None
    assert found.cut_interval.low < found.cut < found.cut_interval.high
