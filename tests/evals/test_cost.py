import numpy as np
import pytest

from spinf_serve.evals.cost import cheapest


def _brute(scores, labels, miss, weights):
    distinct = np.unique(scores)
    cuts = [distinct[0], *(distinct[:-1] + np.diff(distinct) / 2), np.inf]
    paid = [
        (weights * np.where(scores >= cut, ~labels, miss * labels)).sum() / weights.sum()
        for cut in cuts
    ]
    return min(zip(paid, [-cut for cut in cuts], strict=True))


@pytest.mark.parametrize("seed", range(6))
def test_the_cut_is_the_cheapest_of_all(seed):
    generator = np.random.default_rng(seed)
    scores = np.round(generator.random(60), 1 + seed % 2)
    labels = generator.random(60) < scores
    weights = generator.random(60) + 0.5
    found = cheapest(scores, labels, 3.0, weights=weights, repeats=20)
    cost, cut = _brute(scores, labels, 3.0, weights)
    assert found.cost == pytest.approx(cost)
    assert found.cut == pytest.approx(-cut)


def test_with_calibrated_scores_the_cut_nears_the_ratio_and_its_spread_holds_it():
    generator = np.random.default_rng(3)
    scores = generator.random(4000)
    labels = generator.random(4000) < scores
    found = cheapest(scores, labels, 4.0, repeats=200)
    assert found.cut is not None and found.cut_interval is not None
    assert found.cut_interval.low < 0.2 < found.cut_interval.high
    assert found.cut_interval.low <= found.cut <= found.cut_interval.high
    assert found.cut_interval.high - found.cut_interval.low < 0.15
    assert found.cost_interval.low < found.cost < found.cost_interval.high


def test_where_flagging_none_is_cheapest_there_is_no_cut():
    found = cheapest([0.1, 0.2, 0.3, 0.4], [False, True, False, False], 0.5, repeats=50)
    assert found.cut is None and found.cost == pytest.approx(0.125)
    assert found.cut_interval is None and found.none_flagged > 0.5


def test_groups_are_drawn_as_wholes():
    generator = np.random.default_rng(8)
    scores = generator.random(60)
    labels = generator.random(60) < scores
    alone = cheapest(scores, labels, 2.0)
    copies = cheapest(
        np.repeat(scores, 8), np.repeat(labels, 8), 2.0, groups=np.repeat(np.arange(60), 8).tolist()
    )
    assert copies.cut == alone.cut
    assert copies.cost_interval == alone.cost_interval and copies.cut_interval == alone.cut_interval


@pytest.mark.parametrize(
    ("scores", "labels"), [([], []), ([float("nan"), 0.1], [True, False]), ([0.1], [True, True])]
)
def test_what_sets_no_cut_is_refused(scores, labels):
    with pytest.raises(ValueError, match="set no cut"):
        cheapest(scores, labels, 2.0)
