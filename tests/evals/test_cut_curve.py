"""Rates at every cut: counts, exact intervals, re-weighting, and the cuts that a chart shows."""

import numpy as np
import pytest

from spinf_serve.evals.certificates import Certificate
from spinf_serve.evals.certify import certify
from spinf_serve.evals.cost import cheapest, cost_curve
from spinf_serve.evals.cut_curve import KINDS, cut_curve, shown_cuts
from spinf_serve.evals.cuts import Target, preset_cuts
from spinf_serve.evals.intervals import exact
from spinf_serve.evals.metrics.classification import confusion

RNG = np.random.default_rng(11)
SCORES = RNG.random(300).round(2)
HOLDS = RNG.random(300) < SCORES


def test_counts_and_intervals_are_exact_at_every_cut():
    cuts = np.array([0.9, 0.1, 0.5, 0.33])
    found = cut_curve(SCORES, HOLDS, cuts)
    for at, cut in enumerate(cuts.tolist()):
        wanted = confusion(SCORES >= cut, HOLDS)
        seen = found.tp[at], found.fp[at], found.tn[at], found.fn[at]
        assert seen == (wanted.tp, wanted.fp, wanted.tn, wanted.fn)
        for kind in KINDS:
            rate = found.rates[kind]
            ends = exact(int(rate.k[at]), int(rate.n[at]))
            assert ends is not None
            assert (rate.low[at], rate.high[at]) == pytest.approx((ends.low, ends.high))
            assert rate.value[at] == rate.k[at] / rate.n[at]


def test_a_stated_base_rate_reweights_rates_and_never_counts():
    scores = np.array([0.1, 0.2, 0.3, 0.8, 0.9, 0.7])
    holds = np.array([False, False, False, True, True, False])
    plain, stated = (cut_curve(scores, holds, [0.65], base) for base in (None, 0.05))
    for one in (plain, stated):
        assert (one.tp.tolist(), one.fp.tolist()) == ([2], [1])
    assert plain.rates["precision"].value[0] == 2 / 3
    # 5 % hold, all found; of the 95 % others a quarter is flagged.
    assert stated.rates["precision"].value[0] == pytest.approx(0.05 / (0.05 + 0.95 / 4))
    assert stated.rates["flag_rate"].value[0] == pytest.approx(0.05 + 0.95 / 4)
    assert stated.rates["recall"].value[0] == plain.rates["recall"].value[0] == 1
    for kind in KINDS:
        rate = stated.rates[kind]
        assert rate.low[0] <= rate.value[0] <= rate.high[0]
    assert np.isnan(cut_curve(scores, holds, [2.0]).rates["precision"].value[0])


@pytest.mark.parametrize("kind", ["precision", "npv", "flag_rate"])
def test_reweighted_rates_are_those_of_a_certificate(kind):
    target = Target(kind, 0.9 if kind == "flag_rate" else 0.3)
    made = certify(SCORES, HOLDS.tolist(), target, preset_cuts("logit"), base_rate=0.4)
    assert isinstance(made, Certificate)
    rate = cut_curve(SCORES, HOLDS, [made.cut], 0.4).rates[kind]
    assert rate.value[0] == made.point.estimate
    assert (rate.low[0], rate.high[0]) == (made.point.interval.low, made.point.interval.high)


def test_shown_cuts_tell_the_scores_apart_and_end_with_flagging_none():
    every = shown_cuts(SCORES, 1_000)
    flagged = [int((SCORES >= cut).sum()) for cut in every.tolist()]
    assert flagged == sorted(flagged, reverse=True) and len(set(flagged)) == len(flagged)
    assert len(every) == len(np.unique(SCORES)) + 1 and (flagged[0], flagged[-1]) == (300, 0)
    some = shown_cuts(SCORES, 20)
    assert len(some) == 20 and set(some) <= set(every) and some[-1] == every[-1]
    assert not len(shown_cuts([]))


def test_the_cost_curve_meets_the_cheapest_cut_and_widens_with_fewer_rows():
    best, every = cheapest(SCORES, HOLDS, 4.0), cost_curve(SCORES, HOLDS, 4.0, most=1_000)
    assert every.cost.min() == best.cost and best.cut in every.cuts.tolist()
    assert np.isinf(every.cuts[-1]) and every.cost[-1] == pytest.approx(4.0 * HOLDS.mean())
    assert ((every.low <= every.cost) & (every.cost <= every.high)).mean() > 0.95
    few = cost_curve(SCORES[:60], HOLDS[:60], 4.0)
    assert (few.high - few.low).mean() > 1.5 * (every.high - every.low).mean()
    with pytest.raises(ValueError, match="make no curve"):
        cost_curve([], [], 4.0)
