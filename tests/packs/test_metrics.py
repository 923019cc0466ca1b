"""AUC against counting pairs, its error, and reports of a pack."""

from dataclasses import replace
from math import nan, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinf_serve.packs.decision import DecisionCall
from spinf_serve.packs.metrics import auc, judge, report
from spinf_serve.packs.pack import Route
from spinf_serve.packs.reads import vectors
from tests.support.packs import GOLDEN_LOGPROBS, answered, golden, made


@given(st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.5, 0.9]), st.booleans()), max_size=20))
def test_area_is_the_share_of_pairs_in_order(rows):
    positives = [score for score, holds in rows if holds]
    negatives = [score for score, holds in rows if not holds]
    found = auc([score for score, _ in rows], [holds for _, holds in rows])
    if not positives or not negatives:
        assert found is None
        return
    won = sum((p > n) + (p == n) / 2 for p in positives for n in negatives)
    assert found is not None
    assert found.value == pytest.approx(won / len(positives) / len(negatives), abs=1e-15)
    assert found.error >= 0


def test_error_is_hanleys_and_mcneils():
    # 2 positives, 3 negatives, 4 of 6 pairs in order.
    found = auc([0.9, 0.3, 0.4, 0.5, 0.1], [True, True, False, False, False])
    assert found is not None
    a = 4 / 6
    q1, q2 = a / (2 - a), 2 * a * a / (1 + a)
    expected = sqrt((a * (1 - a) + (q1 - a * a) + 2 * (q2 - a * a)) / 6)
    assert found.value == pytest.approx(a)
    assert found.error == pytest.approx(expected)


def test_error_is_about_the_spread_over_fresh_samples():
    rng = np.random.default_rng(0)
    holds = np.arange(200) < 60
    drawn = [auc(rng.normal(size=200) + 1.0 * holds, holds) for _ in range(400)]
    values = [one.value for one in drawn if one is not None]
    errors = [one.error for one in drawn if one is not None]
    assert np.std(values) == pytest.approx(np.mean(errors), rel=0.15)


def test_scores_that_are_no_numbers_are_refused():
    with pytest.raises(ValueError, match="not a finite number"):
        auc([nan, 0.1], [True, False])
    with pytest.raises(ValueError, match="2 scores but 1 labels"):
        auc([0.2, 0.1], [True])


def test_report_counts_known_rows_only():
    scores = [0.9, 0.8, 0.7, 0.2, 0.1]
    found = report(scores, [True, True, True, False, False], [True, False, None, True, False])
    assert (found.positives, found.negatives) == (2, 2)
    assert (found.hit, found.wrong, found.precision) == (0.5, 0.5, 0.5)
    assert found.auc is not None and found.auc.value == 0.75


def test_report_without_threshold_or_rows_says_nothing():
    free = report([0.9, 0.1], [None, None], [True, False])
    assert (free.hit, free.wrong, free.precision) == (None, None, None)
    assert free.auc is not None
    empty = report([0.9], [True], [None])
    assert (empty.positives, empty.negatives, empty.auc) == (0, 0, None)
    assert (empty.hit, empty.wrong, empty.precision) == (None, None, None)
    quiet = report([0.1, 0.2], [False, False], [True, False])
    assert (quiet.hit, quiet.wrong, quiet.precision) == (0, 0, None)


def rows():
    """Three rows: angry and about money; neither; about money only."""
    plain = golden()
    pack, _ = made(plain)
    calm = {**GOLDEN_LOGPROBS, ("angry", None): (-6.0, -0.1), ("kind", None): (-4.0, -0.2, -2.2)}
    money = {**GOLDEN_LOGPROBS, ("angry", None): (-6.0, -0.1)}
    answers = [[vectors(pack, answered(plain, one))] for one in (GOLDEN_LOGPROBS, calm, money)]
    labels = [
        {"anger": True, "money": True, "topic": False},
        {"anger": False, "money": False, "topic": True},
        {"anger": False, "money": True, "topic": None},
    ]
    return answers, labels


def test_report_of_a_pack():
    pack, constants = made(golden())
    answers, labels = rows()
    found = judge(pack, constants, answers, labels)
    anger, money, topic = found.categories.values()
    assert (anger.positives, anger.negatives, anger.hit, anger.wrong) == (1, 2, 1, 0)
    assert (money.positives, money.negatives) == (2, 1)
    # Money requires anger, which only the first row has.
    assert (money.hit, money.wrong) == (0.5, 0)
    assert (topic.positives, topic.negatives, topic.hit) == (1, 1, None)
    areas = [one.auc.value for one in found.categories.values() if one.auc is not None]
    assert found.macro_auc == pytest.approx(sum(areas) / 3)
    assert (found.routed, found.abstained) == (None, None)


def test_verdict_is_judged_on_what_decides():
    pack, constants = made(golden())
    answers, labels = rows()
    by_layer = judge(pack, constants, answers, labels).verdict
    assert (by_layer.positives, by_layer.negatives) == (2, 1)
    assert by_layer.auc is not None
    flags = judge(pack, constants, answers, labels, DecisionCall(mode="per_category")).verdict
    assert (flags.auc, flags.hit, flags.wrong, flags.precision) == (None, 0.5, 0, 1)
    only = DecisionCall(mode="per_category", thresholds={"money": None})
    assert judge(pack, constants, answers, labels, only).verdict.positives == 1
    # One that is known to hold is enough; one that is not known is too little to be safe.
    unknown = [{"anger": None, "money": True}, {"anger": None, "money": False}, labels[1]]
    found = judge(pack, constants, answers, unknown).verdict
    assert (found.positives, found.negatives) == (1, 1)
    none = DecisionCall(thresholds=dict.fromkeys(pack.categories))
    assert judge(pack, constants, answers, labels, none).verdict.positives == 0


def test_routes_are_judged_where_one_target_is_known():
    pack, constants = made(golden())
    answers, labels = rows()
    routed = replace(pack, route=Route(("anger", "money", "topic")))
    # Anger does not lead in row 3, but what else holds there is not known.
    labels[2] = {"anger": True, "money": False, "topic": None}
    found = judge(routed, constants, answers, labels)
    # Row 1 has two targets; row 2 is topic, and topic leads there.
    assert (found.routed, found.abstained) == (1, 0)
    shy = replace(pack, route=Route(("anger", "money", "topic"), minimum=0.99))
    assert judge(shy, constants, answers, labels).abstained == 1
    with pytest.raises(ValueError, match="3 rows but 2 labels"):
        judge(pack, constants, answers, labels[:2])
