from dataclasses import replace

import pytest

from spinf_serve.evals.drift import Counted
from spinf_serve.evals.measuring import Known
from spinf_serve.evals.promises import (
    counted,
    notes_of,
    promises_kept,
    promises_of,
    proof_stands,
)
from spinf_serve.evals.proof import METHOD, REWEIGHTED
from spinf_serve.packs.digests import asked_digest, constants_digest
from spinf_serve.packs.errors import Unusable
from tests.support.evaluations import evaluation, judged
from tests.support.packs import golden, made

YES, NO = True, False


def told(**changes):
    return {
        "target": "precision",
        "value": 0.9,
        "delta": 0.05,
        "method": METHOD,
        "cut": 0.5,
        "rows": 100,
        "hits": 96,
        "rate": 0.96,
        "bound": 0.91,
        "interval": [0.9, 0.98],
        "coverage": 0.3,
        "base_rate": 0.3,
    } | changes


def promised(name="angry", **changes):
    (promise,) = promises_of({"promises": {name: told(**changes)}})
    return promise


def bare(count, **changes):
    return [
        replace(Known(f"r{index}", "", None, {}, {}, "random", None), **changes)
        for index in range(count)
    ]


def test_promises_are_read_from_a_proof():
    promise = promised()
    assert (promise.target, promise.is_threshold, promise.cut) == ("angry", True, 0.5)
    assert promise.recorded == Counted(96, 100)
    assert str(promise) == "precision >= 0.9"
    rate = promised("angry/act", target="flag_rate", value=0.1, hits=4)
    assert (rate.target, rate.is_threshold) == ("angry", False)
    assert rate.recorded == Counted(96, 100)
    assert str(rate) == "act: flag_rate <= 0.1"
    assert promises_of(None) == promises_of({"model": "x"}) == []


@pytest.mark.parametrize(
    "proof",
    [
        {"promises": [1]},
        {"promises": {"angry": "yes"}},
        {"promises": {"angry": told(target="cost")}},
        {"promises": {"angry": told(rows=3)}},
        {"promises": {"angry": told(cut=None)}},
        {"promises": {"angry": {}}},
    ],
)
def test_what_is_no_promise_is_an_error(proof):
    with pytest.raises(Unusable, match="fit the pack again"):
        promises_of(proof)


@pytest.mark.parametrize(
    ("kind", "count"),
    [("precision", (2, 3)), ("recall", (2, 6)), ("npv", (5, 9)), ("flag_rate", (9, 12))],
)
def test_each_kind_counts_its_rows(kind, count):
    labels = [YES] * 6 + [NO] * 6
    flags = [YES] * 2 + [NO] * 4 + [YES] + [NO] * 5
    one = judged(labels, flags)
    assert counted(promised(target=kind), one, bare(12)) == Counted(*count)


def test_only_rows_that_can_carry_a_promise_count():
    one = judged([YES] * 4, [YES] * 4)
    assert counted(promised(), one, bare(4)) == Counted(4, 4)
    assert counted(promised(), one, bare(4, drawn="queue")) == Counted(0, 0)
    grouped = replace(one, groups=("a", "a", "a", None))
    assert counted(promised(), grouped, bare(4)) == Counted(2, 2)
    assert counted(promised(), judged([None] * 4, [YES] * 4), bare(4)) == Counted(0, 0)


def test_a_threshold_s_promise_is_about_verdicts_and_a_band_s_about_scores():
    # A requirement was missed: the score is high and the row is not flagged.
    one = judged([NO, YES], [NO, YES], scores=[0.9, 0.9])
    assert counted(promised(), one, bare(2)) == Counted(1, 1)
    assert counted(promised("angry/act"), one, bare(2)) == Counted(1, 2)
    # Another threshold than the promised one is in force: the promise's own cut counts.
    assert counted(promised(cut=0.4), one, bare(2)) == Counted(1, 2)
    assert counted(promised("angry/act"), replace(one, scores=None), bare(2)) == Counted(0, 0)


def words(promise, labels, flags):
    one = evaluation(judged(labels, flags))
    return [found.word for found in promises_kept([promise], one, bare(len(labels)))]


def test_new_labels_bear_a_promise_out_or_break_it():
    assert words(promised(), [YES] * 48 + [NO] * 2, [YES] * 50) == ["pass"]
    assert words(promised(), [YES] * 35 + [NO] * 15, [YES] * 50) == ["regression"]
    assert words(promised(), [YES] * 35, [NO] * 35) == ["cannot judge"]
    assert words(promised("sad"), [YES] * 50, [YES] * 50) == ["cannot judge"]


def test_a_re_weighted_promise_is_held_to_its_limit():
    again = promised(method=REWEIGHTED, hits=60)
    # Far more right than the counts it was made on, which were drawn class by class.
    assert words(again, [YES] * 46 + [NO] * 4, [YES] * 50) == ["pass"]
    assert words(again, [YES] * 38 + [NO] * 12, [YES] * 50) == ["regression"]
    assert words(again, [YES], [YES]) == ["cannot judge"]
    assert words(again, [YES], [NO]) == ["cannot judge"]


def test_several_promises_share_the_level():
    one = evaluation(judged([YES] * 43 + [NO] * 7, [YES] * 50))
    first, second = promised(), promised("angry/act")
    (alone,) = promises_kept([first], one, bare(50))
    together = promises_kept([first, second], one, bare(50))
    assert alone.word == "regression"
    assert "level 0.05" in alone.saw and "level 0.025" in together[0].saw


def test_a_proof_stands_for_a_model_and_a_pack():
    pack, constants = made(golden())
    digests = {"constants": constants_digest(constants), "asked": asked_digest(pack.body)}
    proven = replace(constants, proof={"model": "a" * 64, **digests})
    assert proof_stands(pack, constants, "a" * 64) == []
    assert [one.word for one in proof_stands(pack, proven, "a" * 64)] == ["pass"]
    assert [one.word for one in proof_stands(pack, proven, "b" * 64)] == ["stale fingerprint"]
    moved = replace(proven, max_threshold=0.123)
    assert [one.word for one in proof_stands(pack, moved, "a" * 64)] == ["pass", "cannot judge"]
    edited = replace(proven, proof={**digests, "model": "a" * 64, "asked": "0" * 64})
    (_, asked) = proof_stands(pack, edited, "a" * 64)
    assert asked.word == "cannot judge" and "what it asks" in asked.saw


def test_notes_tell_how_many_promises_may_be_wrong():
    promises = [promised(), promised("sad")]
    assert notes_of([], None, "d") == ["the pack has no proof on this model: nothing is promised"]
    proof = {"data": "d", "open": ["sad/act"]}
    many, left_open, same = notes_of(promises, proof, "d")
    assert "2 promises; up to 0.1" in many
    assert "sad/act" in left_open
    assert "these very rows" in same
    assert len(notes_of(promises[:1], {"data": "e"}, "d")) == 0
