"""Traffic held beside a baseline: alike passes, moved cannot be judged, other numbers are stale."""

from dataclasses import replace

import numpy as np
import pytest

from spinf_serve.evals.data.decision_log import LogScores
from spinf_serve.evals.judged import Evaluation, Judged, Made, TargetReport
from spinf_serve.evals.traffic import against_baseline, against_earlier
from spinf_serve.packs.errors import Unusable

MADE = Made(
    "demo/support", "0.1.0", "c" * 64, "stub", "a" * 64, "b" * 64, False, "p:d", "0" * 64, None,
    "2026-11-30",
)  # fmt: skip
RANDOM = np.random.default_rng(5)


def sample(scores, /, **changes) -> LogScores:
    values = np.asarray(scores, dtype=np.float64)
    made = LogScores(
        ("c" * 64,),
        ("a" * 64,),
        len(values),
        len(values),
        (0.1,),
        {"anger": values},
        {"anger": 0.5},
    )
    return replace(made, **changes)


def baseline(scores, /, **changes) -> Evaluation:
    values = np.asarray(scores, dtype=np.float64)
    ids = tuple(str(n) for n in range(len(values)))
    judged = Judged(
        "anger", ids, ids, (None,) * len(ids), (None,) * len(ids), values,
        tuple(bool(p >= 0.5) for p in values), 0.5,
    )  # fmt: skip
    return Evaluation(replace(MADE, **changes), len(ids), (), (TargetReport(judged, {}),))


def test_traffic_like_the_baseline_passes():
    found = against_baseline(
        baseline(RANDOM.random(300)), "demo/support", sample(RANDOM.random(300))
    )
    assert (found.word, found.exit_code) == ("pass", 0)
    assert [one.target for one in found.outcomes] == ["", "anger"]
    assert "300 new scores, 300 in the baseline" in found.outcomes[1].saw


def test_traffic_that_moved_cannot_be_judged():
    moved = sample(RANDOM.random(300) ** 3)
    found = against_baseline(baseline(RANDOM.random(300)), "demo/support", moved)
    assert (found.word, found.exit_code) == ("cannot judge", 3)
    assert "label some of the new rows" in found.outcomes[1].saw
    assert "flagged " in found.outcomes[1].saw


def test_a_handful_of_contents_cannot_be_judged():
    found = against_baseline(baseline(RANDOM.random(300)), "demo/support", sample([0.1, 0.2]))
    assert found.word == "cannot judge"
    assert found.outcomes[1].saw.endswith("too few")


@pytest.mark.parametrize("models", [("f" * 64,), ("a" * 64, "f" * 64)])
def test_another_model_s_scores_are_stale(models):
    now = sample(RANDOM.random(50), models=models)
    found = against_baseline(baseline(RANDOM.random(50)), "demo/support", now)
    assert (found.word, found.exit_code) == ("stale fingerprint", 4)
    assert len(found.outcomes) == 1


def test_another_file_of_the_pack_cannot_be_judged():
    now = sample(RANDOM.random(50), pack_digests=("d" * 64,))
    found = against_baseline(baseline(RANDOM.random(50)), "demo/support", now)
    assert found.word == "cannot judge"
    assert "its scores may be on another scale" in found.outcomes[1].saw


def test_another_pack_or_no_shared_category_is_an_error():
    with pytest.raises(Unusable, match="one of demo/support, and not of demo/other"):
        against_baseline(baseline([0.1] * 9), "demo/other", sample([0.1] * 9))
    other = sample([0.1] * 9, scores={"joy": np.full(9, 0.1)})
    with pytest.raises(Unusable, match="no category in common"):
        against_baseline(baseline([0.1] * 9), "demo/support", other)
    with pytest.raises(Unusable, match="no category in common"):
        against_earlier(sample([0.1] * 9), other)


def test_a_later_time_is_held_beside_an_earlier_one():
    early = sample(RANDOM.random(200))
    assert against_earlier(early, sample(RANDOM.random(200))).word == "pass"
    assert against_earlier(early, sample(RANDOM.random(200) / 2)).word == "cannot judge"
    stale = sample(RANDOM.random(200), models=("f" * 64,))
    assert against_earlier(early, stale).word == "stale fingerprint"


def test_false_alarms_stay_within_the_level():
    alarms = 0
    for _ in range(200):
        before, now = baseline(RANDOM.random(60)), sample(RANDOM.random(60))
        alarms += against_baseline(before, "demo/support", now).word != "pass"
    # 5 % at most; the distance that counts is more than chance mostly gives.
    assert alarms <= 18
