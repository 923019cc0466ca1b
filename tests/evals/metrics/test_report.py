"""The report: the same figures as its parts, on the rows that are labelled, in words where none."""

from typing import Any

import numpy as np
import pytest

from spinf_serve.evals.metrics.areas import pr_area, roc_area
from spinf_serve.evals.metrics.classification import rates
from spinf_serve.evals.metrics.probability import brier, ece, log_loss, noise_level
from spinf_serve.evals.metrics.report import Cut, Ranking, measures, report
from spinf_serve.packs.errors import Refused


def rows_of(count):
    return [f"row {index}" for index in range(count)]


def world(count=120, seed=1):
    generator = np.random.default_rng(seed)
    p = generator.random(count)
    return p, (generator.random(count) < p).tolist()


def judged(p, labels, cut=None, slices=None, **more):
    return report(rows_of(len(p)), {"p": p}, labels, cut, slices, repeats=50, **more)


def test_measures_are_p_lift_and_logit_lift():
    found = measures([0.5, 0.9], 0.5)
    assert list(found) == ["p", "lift", "logit_lift"]
    assert found["lift"].tolist() == pytest.approx([0, 0.4])
    assert found["logit_lift"].tolist() == pytest.approx([0, np.log(9)])
    assert measures([0.5, 0.9], [0.1, 0.9])["lift"].tolist() == pytest.approx([0.4, 0])
    assert list(measures([0.5])) == ["p"]


def test_every_figure_is_that_of_its_part():
    p, labels = world()
    weights = np.linspace(1, 2, len(p))
    groups = [f"thread {index // 2}" for index in range(len(p))]
    both: dict[str, Any] = {"weights": weights, "groups": groups}
    found = judged(p, labels, Cut("p", 0.6), **both).overall
    assert found.rates == rates(p >= 0.6, labels, **both)
    assert found.ranking["p"].roc == roc_area(p, labels, **both)
    assert found.ranking["p"].pr == pr_area(p, labels, repeats=50, **both)
    assert found.word.brier == brier(p, labels, **both)
    assert found.word.log_loss == log_loss(p, labels, **both)
    assert found.word.ece == ece(p, labels, weights=weights)
    assert found.word.noise == noise_level(p, repeats=50, **both)
    assert found.effective_rows < len(p) / 2
    assert (found.rows, found.unlabelled, found.notes) == (len(p), 0, ())


def test_measures_that_rank_alike_have_one_ranking_and_others_their_own():
    p, labels = world()
    scores = measures(p, 0.2)
    found = report(rows_of(len(p)), scores, labels, repeats=20).overall.ranking
    assert found["p"] == found["lift"] == found["logit_lift"]
    floors = np.random.default_rng(2).random(len(p))
    scores = measures(p, floors)
    found = report(rows_of(len(p)), scores, labels, repeats=20).overall.ranking
    assert found["lift"].roc == roc_area(p - floors, labels)
    assert found["lift"] != found["p"]


def test_a_cut_on_another_measure_flags_by_that_measure():
    p, labels = world()
    scores = measures(p, 0.3)
    found = report(rows_of(len(p)), scores, labels, Cut("lift", 0.25), repeats=5).overall
    assert found.rates == rates(scores["lift"] >= 0.25, labels)


def test_unlabelled_rows_take_no_part_and_are_counted():
    p, labels = world()
    found = judged([*p, 0.99], [*labels, None], Cut("p", 0.5)).overall
    without = judged(p, labels, Cut("p", 0.5)).overall
    assert (found.rows, found.unlabelled) == (len(p), 1)
    assert found.rates == without.rates
    assert found.word == without.word
    assert found.notes == ("1 of 121 rows have no label and take no part",)


def test_slices_are_reports_of_their_rows():
    p, labels = world()
    slices = [{"lang": "de" if index % 3 else "en"} for index in range(len(p))]
    found = judged(p, labels, Cut("p", 0.5), slices)
    german, english = found.slices
    inside = np.array([row["lang"] == "en" for row in slices])
    alone = judged(p[inside], np.array(labels)[inside].tolist(), Cut("p", 0.5)).overall
    assert (english.value, english.rows, english.warning) == ("en", 40, None)
    assert english.result == alone
    assert german.result.rows + english.result.rows == found.overall.rows


def test_risk_hands_over_the_rows_nearest_to_the_cut_first():
    p = [0.999, 0.6, 0.001, 0.4]
    found = judged(p, [True, False, False, True], Cut("p", 0.5)).overall.risk
    assert found.risk_at(0.5) == 0
    assert found.risk_at(1) == 0.5
    # In odds 0.999 is far above a cut of 0.9; in p 0.7 would be farther away.
    found = judged([0.999, 0.7], [True, True], Cut("p", 0.9)).overall.risk
    assert found.risk == (0, 0.5)


def test_a_score_without_p_is_ranked_and_cut_but_not_taken_at_its_word():
    scores = [-3.0, 2.0, 5.0]
    found: Any = report(rows_of(3), {"score": scores}, [False, True, True], Cut("score", 1)).overall
    assert found.word is None
    assert found.rates.accuracy.value == 1


def test_one_class_separable_ties_and_few_rows_are_told_in_words():
    one = judged([0.1, 0.9], [True, True], Cut("p", 0.5)).overall
    assert one.ranking["p"].roc is None
    assert "one class: all labelled rows (2) are positive" in one.notes[0]
    split = judged([0.2, 0.3, 0.4, 0.7, 0.8, 0.9], [False] * 3 + [True] * 3).overall
    assert "provisional: 3 rows of the rarer label" in split.notes[0]
    assert "any cut in (0.4, 0.7]" in split.notes[1]
    tied = judged([0.5] * 100, [True] * 30 + [False] * 70, Cut("p", 0.5)).overall
    assert tied.notes == (
        "p is 0.5 on every row: it tells nothing",
        "100 rows lie exactly at the cut and are flagged",
    )


def test_no_labelled_rows_give_none_everywhere():
    for found in (judged([], [], Cut("p", 0.5)), judged([0.4], [None], Cut("p", 0.5))):
        figures = found.overall
        assert (figures.rows, figures.base_rate, figures.word, figures.risk) == (
            0,
            None,
            None,
            None,
        )
        assert figures.ranking == {"p": Ranking(None, None)}
        assert figures.rates.accuracy is None
        assert figures.notes[-1] == "no labelled row: nothing can be said"


def test_a_row_exactly_at_the_cut_is_flagged():
    found = judged([0.3, 0.7], [False, True], Cut("p", 0.7)).overall
    assert found.rates.confusion.tp == 1
    assert found.notes[-1] == "1 rows lie exactly at the cut and are flagged"


def test_a_slice_without_labels_is_judged_as_empty():
    slices = [{"lang": "de"}, {"lang": "en"}]
    found = judged([0.4, 0.6], [True, None], Cut("p", 0.5), slices)
    assert [one.result.rows for one in found.slices] == [1, 0]


def test_a_wrong_score_is_refused_with_the_row_id():
    with pytest.raises(Refused, match=r"p: .* 1 of 2 rows: 'row 1' \(nan\)"):
        judged([0.5, float("nan")], [True, False])
    with pytest.raises(Refused, match=r"'row 0' \(1\.5\)"):
        judged([1.5, 0.5], [True, None])


@pytest.mark.parametrize("cut", [Cut("lift", 0.1), Cut("p", float("nan"))])
def test_a_cut_that_cannot_be_used_is_a_fault(cut):
    with pytest.raises(ValueError, match="a cut"):
        judged([0.5], [True], cut)


def test_lengths_that_differ_are_a_fault():
    with pytest.raises(ValueError, match="2 rows but 1 in labels"):
        judged([0.5, 0.6], [True])
    with pytest.raises(ValueError, match="slices"):
        judged([0.5, 0.6], [True, False], slices=[{}])
