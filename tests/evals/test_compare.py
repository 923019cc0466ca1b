from math import comb

import numpy as np
import pytest

from spinf_serve.evals.compare import compare, flips_by_slice, holm, pair
from tests.support.evaluations import drawn, judged

YES, NO = True, False


def test_pairs_what_both_sides_have_and_lists_the_rest_apart():
    baseline = drawn(200, 0)
    candidate = drawn(205, 0)
    pairing = pair(baseline, candidate)
    assert len(pairing.both) == 200
    assert pairing.only_candidate == ("r200", "r201", "r202", "r203", "r204")
    assert pairing.only_baseline == () == pairing.changed
    found = compare(baseline, candidate)
    assert found.flips is not None and found.flips.rows == 200


def test_a_row_with_another_content_is_another_row():
    before = judged([YES, NO], [YES, NO])
    now = judged([YES, NO], [YES, NO], contents=["text of r0", "edited"])
    assert pair(before, now).both == ("r0",)
    assert pair(before, now).changed == ("r1",)


def test_rows_are_matched_by_id_and_not_by_place():
    before = judged([YES, NO, YES], [YES, YES, NO])
    now = judged([YES, YES, NO], [NO, YES, NO], rows=["r2", "r0", "r1"])
    found = compare(before, now)
    assert found.flips is not None
    assert found.flips.fixes == ("r1",)
    assert found.flips.breaks == ()


@pytest.mark.parametrize(("fixes", "breaks"), [(0, 0), (1, 0), (0, 5), (3, 9), (7, 7), (2, 30)])
def test_the_p_values_are_those_of_fair_coins(fixes, breaks):
    changed = fixes + breaks
    rows = changed + 10
    before = judged([YES] * rows, [NO] * fixes + [YES] * (rows - fixes))
    now = judged([YES] * rows, [YES] * fixes + [NO] * breaks + [YES] * 10)
    flips = compare(before, now).flips
    assert flips is not None
    worse = sum(comb(changed, k) for k in range(breaks, changed + 1)) / 2**changed
    low, high = min(fixes, breaks), max(fixes, breaks)
    tail = sum(comb(changed, k) for k in range(high, changed + 1)) / 2**changed
    assert flips.p_worse == pytest.approx(worse)
    assert flips.p_differs == pytest.approx(1.0 if low == high else min(1.0, 2 * tail))
    assert (len(flips.fixes), len(flips.breaks)) == (fixes, breaks)
    assert (flips.right_before, flips.right_now) == (rows - fixes, rows - breaks)


def test_a_group_of_copies_counts_once():
    before = judged([YES] * 20, [YES] * 20, groups=["thread"] * 20)
    now = judged([YES] * 20, [NO] * 20, groups=["thread"] * 20)
    flips = compare(before, now).flips
    assert flips is not None
    assert len(flips.breaks) == 20
    assert (flips.units_broken, flips.units) == (1, 1)
    assert flips.p_worse == 0.5


def test_the_candidate_s_labels_count_and_changed_ones_are_listed():
    before = judged([YES, NO], [YES, NO])
    now = judged([YES, YES], [YES, NO])
    found = compare(before, now)
    assert found.relabelled == ("r1",)
    assert found.flips is not None
    assert (found.flips.right_before, found.flips.right_now) == (1, 1)
    assert found.brier is not None
    assert found.brier.now == pytest.approx((0.1**2 + 0.9**2) / 2)


def test_rows_without_a_label_take_no_part():
    before = judged([None, None], [YES, NO])
    assert compare(before, before).flips is None
    assert compare(before, before).brier is None
    some = judged([None, YES], [YES, NO])
    found = compare(some, some)
    assert found.flips is not None and found.flips.rows == 1


def test_without_verdicts_or_scores_the_other_is_compared():
    silent = judged([YES, NO], None, scores=[0.7, 0.2])
    assert compare(silent, silent).flips is None
    assert compare(silent, silent).brier is not None
    assert compare(judged([YES], [YES]), judged([YES], None)).brier is None


def test_equal_sides_differ_in_nothing():
    one = drawn(80, 3)
    found = compare(one, one)
    assert found.flips is not None and found.brier is not None
    assert (found.flips.p_differs, found.flips.p_worse) == (1.0, 1.0)
    assert (found.brier.low, found.brier.high, found.brier.p_worse) == (0.0, 0.0, 1.0)


def test_the_interval_of_the_brier_change_holds_the_true_change_as_often_as_it_says():
    generator = np.random.default_rng(5)
    held = alarms = 0
    for seed in range(200):
        p = generator.beta(1, 1, 120)
        truth = (generator.random(120) < p).tolist()
        # Scores shifted by 0.1 at random sides: each costs 0.01 in the mean, whatever the label.
        moved = p + 0.1 * generator.choice([-1, 1], 120)
        before = judged(truth, None, scores=p.tolist())
        change = compare(before, judged(truth, None, scores=moved.tolist()), seed=seed).brier
        assert change is not None
        held += change.low <= 0.01 <= change.high
        same = p + 0.1 * np.where(np.array(truth), 1, -1) * generator.choice([-1, 1], 120)
        null = compare(
            judged(truth, None, scores=same.tolist()),
            judged(truth, None, scores=(2 * p - same).tolist()),
            seed=seed,
        ).brier
        assert null is not None
        alarms += null.p_worse < 0.05
    # 95 % and 5 % of 200 runs, four standard errors wide.
    assert 178 <= held <= 200
    assert alarms <= 22


def test_the_bootstrap_draws_whole_groups():
    alone = drawn(60, 8)
    assert alone.scores is not None
    copies = judged(
        [label for label in alone.labels for _ in range(5)],
        None,
        scores=np.repeat(alone.scores, 5).tolist(),
        groups=[f"g{index}" for index in range(60) for _ in range(5)],
    )
    flat = judged(copies.labels, None, scores=np.full(300, 0.5).tolist(), groups=copies.groups)
    small = judged(alone.labels, None, scores=np.full(60, 0.5).tolist())
    many, few = compare(flat, copies).brier, compare(small, alone).brier
    assert many is not None and few is not None
    assert many.units == few.units == 60
    assert many.now == pytest.approx(few.now)
    assert (many.low, many.high) == pytest.approx((few.low, few.high))


def test_equal_input_gives_equal_output():
    assert compare(drawn(50, 1), drawn(50, 2)) == compare(drawn(50, 1), drawn(50, 2))


def test_holm():
    assert holm({}) == {}
    found = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert found == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02})
    assert list(found) == ["a", "b", "c", "d"]
    assert holm({"a": 0.7, "b": 0.9}) == {"a": 1.0, "b": 1.0}


def test_slices_tell_where_verdicts_broke():
    labels = [YES] * 6
    before = judged(labels, [YES, YES, YES, NO, NO, YES])
    now = judged(labels, [NO, NO, YES, YES, YES, YES])
    languages = {f"r{n}": {"language": "en" if n < 3 else "fr"} for n in range(5)}
    found = {one.value: one.result for one in flips_by_slice(before, now, languages)}
    assert found["en"] is not None and found["fr"] is not None and found["(none)"] is not None
    assert (found["en"].breaks, found["en"].fixes) == (("r0", "r1"), ())
    assert (found["fr"].breaks, found["fr"].fixes) == ((), ("r3", "r4"))
    assert (found["(none)"].rows, found["(none)"].right_now) == (1, 1)
    whole = compare(before, now).flips
    assert whole is not None
    assert sum(one.rows for one in found.values() if one) == whole.rows
