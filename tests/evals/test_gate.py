from dataclasses import replace

import numpy as np
import pytest

from spinf_serve.evals.compare import compare
from spinf_serve.evals.drift import Counted, rate_drift, score_drift
from spinf_serve.evals.gate import (
    EXIT_CODES,
    METRICS,
    Outcome,
    Rule,
    Word,
    hold,
    not_worse,
    parse_rule,
    promise_kept,
    rows_alike,
    same_numbers,
    verdict,
)
from spinf_serve.evals.judged import Measured, Refusal, TargetReport
from spinf_serve.packs.errors import Unusable
from tests.support.evaluations import drawn, evaluation, judged

YES, NO = True, False


def held(rule, measured, rows=1000):
    one = evaluation(drawn(rows, 0))
    report = TargetReport(one.targets[0].judged, {"precision": measured})
    changed = replace(one, targets=(report,))
    (outcome,) = hold([parse_rule(rule)], changed)
    return outcome


def test_31_cases_of_which_28_pass_at_a_limit_of_0_8():
    cases = judged([YES] * 31, [YES] * 28 + [NO] * 3)
    found = verdict(hold([parse_rule("accuracy >= 0.8")], evaluation(cases)))
    assert (found.word, found.exit_code) == ("pass", 0)
    assert found.sentence.startswith("pass: ")
    (outcome,) = found.outcomes
    assert outcome.word == "pass"
    assert "0.9032 (28 of 31)" in outcome.saw
    assert ">= 0.8" in outcome.saw


def test_words_and_codes_are_one_to_one():
    assert EXIT_CODES == {
        "pass": 0,
        "regression": 1,
        "error": 2,
        "cannot judge": 3,
        "stale fingerprint": 4,
    }
    for word, code in EXIT_CODES.items():
        found = verdict([Outcome("rule", "", "pass", ""), Outcome("other", "", word, "")])
        assert (found.word, found.exit_code) == (word, code)
        assert found.sentence.startswith(f"{word}: ")


def test_the_gravest_word_wins():
    words: list[Word] = ["pass", "cannot judge", "regression", "stale fingerprint", "error"]
    for last, word in enumerate(words):
        outcomes = [Outcome("rule", "", one, "") for one in words[: last + 1]]
        assert verdict(outcomes).word == word
        assert verdict(outcomes[::-1]).word == word


def test_without_a_rule_it_says_that_it_only_measured():
    found = verdict([])
    assert found.exit_code == 0
    assert "no rule" in found.sentence


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("accuracy >= 0.8", Rule(None, "accuracy", ">=", 0.8)),
        ("  angry.precision>=.9  ", Rule("angry", "precision", ">=", 0.9)),
        ("a.b.ece <= 1e-2 surely", Rule("a.b", "ece", "<=", 0.01, True)),
        ("refused <= 0", Rule(None, "refused", "<=", 0.0)),
    ],
)
def test_rules_are_read(text, rule):
    assert parse_rule(text) == rule


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("accuracy > 0.8", "no rule"),
        ("accuracy", "no rule"),
        ("", "no rule"),
        ("mean >= 0.8", "no metric 'mean'"),
        ("accuracy >= nan", "no finite number|not a finite number"),
        ("accuracy >= much", "not a finite number"),
        ("angry.refused <= 0.1", "not about a target"),
    ],
)
def test_what_is_no_rule_is_refused(text, message):
    with pytest.raises(Unusable, match=message):
        parse_rule(text)


def test_a_rule_about_a_target_that_is_not_there_is_refused():
    with pytest.raises(Unusable, match="no target 'sad' in angry"):
        hold([parse_rule("sad.accuracy >= 0.5")], evaluation(drawn(30, 0)))


def test_a_rule_without_a_target_is_about_every_target():
    both = evaluation(drawn(30, 0), drawn(30, 0, target="money"))
    outcomes = hold([parse_rule("accuracy >= 0.1")], both)
    assert [one.target for one in outcomes] == ["angry", "money"]


def test_every_metric_can_be_asked_for():
    for metric in METRICS:
        assert parse_rule(f"{metric} >= 0.5").metric == metric


@pytest.mark.parametrize(
    ("rule", "measured", "word"),
    [
        ("precision >= 0.9", Measured(0.9, 0.8, 0.95, 100), "pass"),
        ("precision >= 0.9", Measured(0.8999, 0.8, 0.95, 100), "regression"),
        ("precision <= 0.9", Measured(0.9, 0.8, 0.95, 100), "pass"),
        ("precision <= 0.9", Measured(0.91, 0.8, 0.95, 100), "regression"),
        ("precision >= 0.9", Measured(None), "cannot judge"),
        ("precision >= 0.9", Measured(1.0, 0.8, 1.0, 19), "cannot judge"),
        ("precision >= 0.9 surely", Measured(0.95, 0.91, 0.98, 100), "pass"),
        ("precision >= 0.9 surely", Measured(0.95, 0.89, 0.98, 100), "cannot judge"),
        ("precision >= 0.9 surely", Measured(0.85, 0.79, 0.89, 100), "regression"),
        ("precision <= 0.9 surely", Measured(0.85, 0.79, 0.89, 100), "pass"),
        ("precision >= 0.9 surely", Measured(0.95, n=100), "cannot judge"),
        ("recall >= 0.9", Measured(0.95, n=100), "cannot judge"),
    ],
)
def test_limits(rule, measured, word):
    outcome = held(rule, measured)
    assert outcome.word == word
    if measured.value is not None and "precision" in rule:
        assert f"{measured.value:.4f}" in outcome.saw
        assert f"{parse_rule(rule).limit:g}" in outcome.saw


def test_refused_rows_can_be_held_to_a_limit():
    some = evaluation(drawn(38, 0), refused=[Refusal("x", "content_too_long")] * 2)
    (kept,) = hold([parse_rule("refused <= 0.05")], some)
    (broken,) = hold([parse_rule("refused <= 0.04")], some)
    assert (kept.word, broken.word) == ("pass", "regression")
    assert "2 of 40" in broken.saw
    assert broken.rows == ("x", "x")


def test_breaks_beyond_chance_are_a_regression_and_are_named():
    before = judged([YES] * 40, [YES] * 40)
    now = judged([YES] * 40, [YES] * 30 + [NO] * 10)
    verdicts, scores = not_worse([compare(before, now)])
    assert verdicts.word == "regression"
    assert verdicts.rows == tuple(f"r{index}" for index in range(30, 40))
    assert "30 of 40" in verdicts.saw and "40 in the baseline" in verdicts.saw
    assert scores.word == "regression"


def test_fixes_are_no_regression():
    before = judged([YES] * 40, [YES] * 30 + [NO] * 10)
    now = judged([YES] * 40, [YES] * 40)
    assert [one.word for one in not_worse([compare(before, now)])] == ["pass", "pass"]


def test_the_level_is_shared_by_all_targets():
    before = judged([YES] * 40, [YES] * 40)
    # Six breaks: p = 1/64, which stays below the level times three and not times five.
    now = judged([YES] * 40, [YES] * 34 + [NO] * 6)
    silent, fewer = replace(before, scores=None), replace(now, scores=None)
    one = compare(silent, fewer)
    others = [compare(other, other) for other in (replace(silent, target=t) for t in "abcd")]
    assert not_worse([one, *others[:2]])[0].word == "regression"
    assert not_worse([one, *others])[0].word == "pass"


def test_rows_that_could_never_show_a_regression_are_not_judged():
    before = judged([YES] * 4, [YES] * 4)
    (verdicts, scores) = not_worse([compare(before, before)])
    assert (verdicts.word, scores.word) == ("cannot judge", "cannot judge")
    assert "4 rows are so few" in verdicts.saw


def test_sides_that_share_no_labelled_row_are_not_judged():
    apart = compare(judged([YES], [YES], rows=["a"]), judged([YES], [YES], rows=["b"]))
    (outcome,) = not_worse([apart])
    assert outcome.word == "cannot judge"
    assert "0 shared rows" in outcome.saw


def test_runs_without_a_change_are_rarely_called_worse():
    generator = np.random.default_rng(1)
    alarms = 0
    for _ in range(300):
        comparisons = []
        for number in range(3):
            truth = (generator.random(60) < 0.5).tolist()
            sides = [
                judged(
                    truth,
                    [
                        t if r < 0.8 else not t
                        for t, r in zip(truth, generator.random(60), strict=True)
                    ],
                    target=f"t{number}",
                )
                for _ in range(2)
            ]
            comparisons.append(compare(*sides, repeats=200))
        alarms += any(one.word == "regression" for one in not_worse(comparisons))
    # 5 % of 300 runs, three standard errors above.
    assert 0 < alarms <= 26


def test_promises():
    def word(recorded, new):
        return promise_kept(
            "angry", "precision >= 0.9", rate_drift(Counted(*recorded), Counted(*new))
        ).word

    assert word((95, 100), (47, 50)) == "pass"
    assert word((95, 100), (35, 50)) == "regression"
    assert word((7, 9), (1, 1)) == "cannot judge"
    assert word((95, 100), (0, 0)) == "cannot judge"


def test_unlike_rows_are_no_regression():
    generator = np.random.default_rng(0)
    old, new = generator.random(300), generator.random(300)
    assert rows_alike("angry", score_drift(old, new, 0.5)).word == "pass"
    moved = rows_alike("angry", score_drift(old, new**3, 0.5))
    assert moved.word == "cannot judge"
    assert "label some" in moved.saw
    assert rows_alike("angry", score_drift(old, new[:3])).word == "cannot judge"
    # Beyond chance with so many rows, and of no account.
    many = generator.random(40_000)
    assert rows_alike("angry", score_drift(many, many * 0.95)).word == "pass"


def test_fingerprints():
    assert same_numbers("the proof", "a" * 64, "a" * 64).word == "pass"
    assert same_numbers("the proof", "a" * 64, "b" * 64).word == "stale fingerprint"
    assert same_numbers("the proof", "a" * 64, "").word == "cannot judge"
    assert same_numbers("the proof", "", "a" * 64).word == "cannot judge"
