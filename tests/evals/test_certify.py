from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mapie.risk_control import BinaryClassificationController
from scipy.special import expit
from scipy.stats import binomtest

from spinf_serve.evals.certificates import Certificate, NotReachable
from spinf_serve.evals.certify import allowance, bands, certify
from spinf_serve.evals.cuts import Target, preset_cuts

PRECISION = Target("precision", 0.9)
CUTS = preset_cuts("logit")


def _sample(rows, seed=0, middle=1.68):
    generator = np.random.default_rng(seed)
    scores = expit(generator.normal(middle, 1.2, rows))
    return scores, generator.random(rows) < scores


def _promised(found):
    assert isinstance(found, Certificate), found
    return found


def _refused(found):
    assert isinstance(found, NotReachable), found
    return found


def test_the_walk_is_the_published_one_row_by_row():
    scores, labels = _sample(1000)
    kept = []
    for cut in sorted(CUTS, reverse=True):
        flagged = scores >= cut
        if flagged.sum() < 3 * 29:
            continue
        if binomtest(int(labels[flagged].sum()), int(flagged.sum()), 0.9, "greater").pvalue > 0.05:
            break
        kept.append(float(cut))
    found = _promised(certify(scores, labels, PRECISION, CUTS))
    assert found.passed == tuple(kept) and found.cut == kept[-1]
    assert found.point.n == (scores >= found.cut).sum()
    assert found.point.k == labels[scores >= found.cut].sum()
    assert found.point.bound >= 0.9
    assert found.point.coverage == found.point.n / 1000
    assert found.point.recall == found.point.k / labels.sum()
    assert found.point.effective_n == found.point.n
    below, above = found.point.gap
    assert below < found.cut <= above
    assert not ((scores > below) & (scores < above)).any()


def _mapie(scores, labels, kind, order):
    controller = BinaryClassificationController(
        lambda column: np.column_stack([1 - column[:, 0], column[:, 0]]),
        kind,
        0.9,
        0.95,
        list_predict_params=order,
        fwer_method="fixed_sequence",
    )
    controller.calibrate(scores[:, None], labels.astype(int))
    return controller


@pytest.mark.filterwarnings("ignore:No predict parameters")
@pytest.mark.filterwarnings("ignore:Fixed sequence testing requires a monotonic risk")
@pytest.mark.parametrize("kind", ["precision", "recall"])
def test_mapie_promises_the_same_cuts(kind):
    """MAPIE counts errors as ceil(n x rate), which rounding turns into one more at times: there it
    may stop earlier, and never goes further."""
    same = promised = 0
    for seed in range(40):
        scores, labels = _sample(600, seed)
        found = certify(scores, labels, Target(kind, 0.9), CUTS)
        ours = found.passed if isinstance(found, Certificate) else ()
        order = CUTS[::-1] if kind == "precision" else CUTS
        if kind == "precision":
            order = np.array([cut for cut in order if (scores >= cut).sum() >= 3 * 29])
        controller = _mapie(scores, labels, kind, order)
        theirs = tuple(np.asarray(controller.valid_predict_params).tolist())
        assert theirs == ours[: len(theirs)]
        stopped = order[len(theirs)] if len(theirs) < len(order) else None
        counted = scores >= stopped if kind == "precision" else labels
        failed = scores < stopped if kind == "recall" else ~labels
        n, errors = int(counted.sum()), int((counted & failed).sum())
        rounded = (
            controller.p_values[len(theirs), 0] > 1.01 * binomtest(errors, n, 0.1, "less").pvalue
        )
        assert theirs == ours or rounded
        same += theirs == ours
        promised += bool(ours)
    assert promised >= 25 and same >= 30


def test_recall_is_walked_from_loose_to_strict_over_the_rows_that_hold():
    scores, labels = _sample(600)
    found = _promised(certify(scores, labels, Target("recall", 0.9), CUTS))
    assert found.point.n == labels.sum() and found.point.k == labels[scores >= found.cut].sum()
    assert list(found.passed) == sorted(found.passed) and found.cut == max(found.passed)
    tighter = CUTS[CUTS > found.cut][0]
    k = int(labels[scores >= tighter].sum())
    assert binomtest(k, int(labels.sum()), 0.9, "greater").pvalue > 0.05


def test_a_flag_rate_needs_no_labels():
    scores, _ = _sample(600)
    found = _promised(certify(scores, None, Target("flag_rate", 0.3), CUTS))
    assert found.base_rate is None and found.point.recall in (None, found.point.coverage)
    assert found.point.bound <= 0.3
    looser = CUTS[found.cut > CUTS][-1]
    assert binomtest(int((scores >= looser).sum()), 600, 0.3, "less").pvalue > 0.05


def test_npv_counts_the_rows_below():
    scores, labels = _sample(1000, middle=-1.68)
    found = _promised(certify(scores, labels, Target("npv", 0.9), CUTS))
    assert found.point.n == (scores < found.cut).sum()
    assert found.point.k == (~labels)[scores < found.cut].sum()
    mirrored = certify(1 - scores, ~labels, PRECISION, np.sort(1 - CUTS))
    assert np.isclose(_promised(mirrored).cut, 1 - found.cut)


def test_separable_rows_say_so_and_promise_nothing_by_it():
    found = _refused(
        certify([0.2, 0.3, 0.4, 0.7, 0.8, 0.9], [False] * 3 + [True] * 3, PRECISION, CUTS)
    )
    assert any(
        "separable: any cut in (0.4, 0.7] tells these rows apart, the middle is 0.55" in note
        for note in found.notes
    )
    assert found.why == "too_few_rows" and "it takes 29" in found.words
    assert found.point.interval.low < 0.5 and found.point.interval.high == 1.0


@pytest.mark.parametrize(
    ("scores", "labels", "why", "words"),
    [
        ([0.5] * 100, [True] * 30 + [False] * 70, "no_information", "30 hold, 70 do not"),
        ([0.1, 0.9], [True, True], "one_class", "all 2 rows hold"),
        ([0.1, 0.9], [False, False], "one_class", "all 2 rows do not hold"),
        ([0.1, float("nan"), 0.3], [True, False, True], "not_a_number", "rows b;"),
        ([], [], "no_rows", "label a random sample"),
        ([0.1, 0.2], [None, None], "no_rows", "no row has a label"),
    ],
)
def test_what_sets_no_cut_is_said_in_words(scores, labels, why, words):
    found = _refused(certify(scores, labels, PRECISION, CUTS, ids="abc"[: len(scores)]))
    assert found.why == why and words in found.words
    assert found.point is None and found.labels_needed is None


def test_rows_of_a_queue_promise_nothing():
    scores, labels = _sample(300)
    found = _refused(certify(scores, labels, PRECISION, CUTS, drawn=["queue"] * 300))
    assert found.why == "not_random" and "300 labelled rows" in found.words


def test_a_spent_delta_promises_nothing():
    scores, labels = _sample(1000)
    assert _refused(certify(scores, labels, PRECISION, CUTS, delta=0.0)).why == "spent"


def test_coin_flips_are_named():
    generator = np.random.default_rng(1)
    found = _refused(certify(generator.random(400), generator.random(400) < 0.5, PRECISION, CUTS))
    assert found.why == "failed" and found.labels_needed is None
    assert "no number of labels" in found.words
    assert any("no better than chance" in note for note in found.notes)


def test_few_rows_of_a_class_are_provisional():
    generator = np.random.default_rng(1)
    labels = np.arange(2000) < 12
    scores = expit(generator.normal(np.where(labels, 3.0, -3.0), 1.0))
    found = _refused(certify(scores, labels, PRECISION, CUTS))
    assert "provisional: only 12 rows hold" in found.notes
    assert found.point.interval.low < found.point.estimate < found.point.interval.high


def test_ties_are_told_and_never_parted():
    scores = np.array([0.2] * 100 + [0.9] * 100)
    labels = np.array([False] * 100 + [True] * 98 + [False] * 2)
    found = _promised(certify(scores, labels, PRECISION, CUTS))
    assert found.point.n == 100 and found.point.gap == (0.2, 0.9)
    assert any("tied: 100 of 200 rows" in note for note in found.notes)


def test_a_cut_on_an_observed_score_moves_between_scores():
    scores = np.array([0.2] * 100 + [0.9] * 100)
    labels = np.array([False] * 100 + [True] * 98 + [False] * 2)
    found = _promised(certify(scores, labels, PRECISION, [0.2, 0.9]))
    assert found.cut == pytest.approx(0.55) and found.point.n == 100


@pytest.mark.parametrize("seed", [1, 3])
def test_the_labels_still_needed_carry_the_promise(seed):
    """As many rows again, with the same rates: one walk from that cut on passes."""
    scores, labels = _sample(300, seed, middle=1.2)
    found = _refused(certify(scores, labels, PRECISION, CUTS))
    assert found.labels_needed
    times = (300 + found.labels_needed) / 300

    def bound(factor):
        return binomtest(
            int(found.point.k * factor), int(found.point.n * factor), alternative="greater"
        ).proportion_ci(0.95, "exact")

    assert bound(times * 1.05).low >= 0.9 > bound(times * 0.9).low or times * found.point.n >= 57
    assert f"About {found.labels_needed:,} more" in found.words


def test_a_stated_base_rate_is_kept_and_costs_certainty():
    generator = np.random.default_rng(2)
    labels = np.arange(2000) < 1000
    scores = expit(generator.normal(np.where(labels, 2.0, -2.0), 1.0))
    plain = _promised(certify(scores, labels, PRECISION, CUTS))
    stated = _promised(certify(scores, labels, PRECISION, CUTS, base_rate=0.05))
    assert plain.base_rate == 0.5 and not plain.stated
    assert stated.base_rate == 0.05 and stated.stated
    assert stated.cut > plain.cut and stated.point.coverage < 0.05
    assert stated.point.bound >= 0.9
    assert stated.point.effective_n < stated.point.n
    assert 0.85 < stated.point.interval.low < stated.point.estimate
    assert any("5.00 % positives or more" in note for note in stated.notes)
    assert any("state the base rate" in note for note in plain.notes)


def test_weighted_rows_are_thinned_to_a_random_sample():
    """Unsure rows drawn ten times as often: with weights the counts are those of the traffic."""
    generator = np.random.default_rng(4)
    scores, labels = _sample(60_000, 4)
    chance = np.where(scores < 0.9, 0.1, 0.01)
    drawn = generator.random(60_000) < chance
    found = certify(
        scores[drawn],
        labels[drawn],
        Target("recall", 0.7),
        CUTS,
        weights=1 / chance[drawn],
        drawn=["queue"] * int(drawn.sum()),
    )
    found = _promised(found)
    # Of 60,000 rows every hundredth is left.
    assert 500 < found.rows < 700
    true = (scores[labels] >= found.cut).mean()
    assert abs(found.point.estimate - true) < 0.06
    naive = _promised(certify(scores[drawn], labels[drawn], Target("recall", 0.7), CUTS))
    assert abs(naive.point.estimate - (scores[labels] >= naive.cut).mean()) > 0.06


def test_bands_share_delta_and_do_not_cross():
    scores, labels = _sample(3000, middle=0.0)
    found = bands(scores, labels, Target("precision", 0.8), Target("npv", 0.8), CUTS)
    act, below = _promised(found.act), _promised(found.pass_)
    assert act.delta == below.delta == 0.025 and below.cut < act.cut
    between = ((scores >= below.cut) & (scores < act.cut)).mean()
    assert found.review_per_1000 == pytest.approx(1000 * between)


def test_bands_that_pass_each_other_meet_and_leave_nothing_to_review():
    scores, labels = _sample(3000, middle=0.0)
    alone = [
        _promised(certify(scores, labels, target, CUTS))
        for target in (Target("precision", 0.6), Target("npv", 0.6))
    ]
    assert alone[0].cut < alone[1].cut
    found = bands(scores, labels, Target("precision", 0.6), Target("npv", 0.6), CUTS)
    act, below = _promised(found.act), _promised(found.pass_)
    assert alone[0].cut <= act.cut == below.cut <= alone[1].cut
    assert act.point.bound >= 0.6 and below.point.bound >= 0.6
    assert found.review_per_1000 == pytest.approx(0.0, abs=1e-9)


def test_a_band_without_a_cut_leaves_its_rows_to_review():
    scores, labels = _sample(400, middle=-1.0)
    found = bands(scores, labels, Target("precision", 0.99), Target("npv", 0.7), CUTS)
    assert isinstance(found.act, NotReachable)
    reviewed = (scores >= _promised(found.pass_).cut).mean()
    assert found.review_per_1000 == pytest.approx(1000 * reviewed)


def test_what_certifications_of_a_split_take_never_exceeds_delta():
    spent: list[float] = []
    for _ in range(20):
        spent.append(allowance(0.05, spent, planned=20))
    assert spent == [0.05 / 20] * 20
    assert allowance(0.05, spent, planned=20) == 0.0
    assert allowance(0.05, [0.05]) == 0.0
    assert allowance(0.05, [0.03], planned=1) == pytest.approx(0.02)
    endless: list[float] = []
    for _ in range(200):
        endless.append(allowance(0.05, endless, planned=None))
    assert all(share > 0 for share in endless) and sum(endless) < 0.05
    assert all(one > other for one, other in pairwise(endless))


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from(["precision", "recall", "npv", "flag_rate"]))
def test_a_stored_cut_flags_the_same_rows(seed, kind):
    generator = np.random.default_rng(seed)
    # Few distinct scores: ties at every cut.
    scores = np.round(generator.random(200), 2)
    labels = generator.random(200) < 0.2 + 0.7 * scores
    found = certify(scores, labels, Target(kind, 0.5), np.round(np.linspace(0, 1, 51), 2))
    point = found.point
    assert point is not None
    cut = point.cut
    stored = float(repr(cut))
    assert stored == cut
    flagged = scores >= stored
    expected = {
        "precision": flagged.sum(),
        "npv": (~flagged).sum(),
        "recall": labels.sum(),
        "flag_rate": 200,
    }[kind]
    assert point.n == expected
    below, above = point.gap
    assert cut not in scores or below is None
    assert ((scores >= above) == flagged).all() if above is not None else not flagged.any()


def test_what_only_the_caller_can_get_wrong_is_a_value_error():
    with pytest.raises(ValueError, match="nothing is promised of a cost"):
        certify([0.1], [True], Target("cost", 4.0), CUTS)
    with pytest.raises(ValueError, match="needs labels"):
        certify([0.1], None, PRECISION, CUTS)
    with pytest.raises(ValueError, match="1 scores but 2 labels"):
        certify([0.1], [True, False], PRECISION, CUTS)
    with pytest.raises(ValueError, match="0 cuts"):
        certify([0.1], [True], PRECISION, [])
    with pytest.raises(ValueError, match="base rate of 1"):
        certify([0.1], [True], PRECISION, CUTS, base_rate=1.0)


def test_labels_half_and_half_are_told_how_many_a_base_rate_takes():
    generator = np.random.default_rng(2)
    labels = np.arange(1000) < 500
    scores = expit(generator.normal(np.where(labels, 4.0, -4.0), 1.0))
    found = certify(scores, labels, PRECISION, CUTS, base_rate=0.05)
    assert isinstance(found, NotReachable)
    # 0.05 * 0.1 / (0.9 * 0.95) of the negatives may be flagged; 0.05 is (1 - that)^511.
    (note,) = [one for one in found.notes if "at least" in one]
    assert "at least 511 rows that do not hold" in note and "there are 500" in note
    assert "even without an error it takes" not in found.words
