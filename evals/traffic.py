"""Has the traffic moved: a decision log's random sample against a baseline, or against an earlier time.

Needs no label, and so says only whether contents are like those that a promise was made from.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from spinf_serve.evals.data.decision_log import LogScores
from spinf_serve.evals.drift import score_drift
from spinf_serve.evals.gate import (
    LEVEL,
    Outcome,
    Verdict,
    rows_alike,
    same_numbers,
    verdict,
)
from spinf_serve.evals.judged import Evaluation
from spinf_serve.packs.errors import Unusable

Scores = Mapping[str, NDArray[np.float64]]


def against_baseline(baseline: Evaluation, pack: str, now: LogScores) -> Verdict:
    """Hold what a pack said of the sample beside a baseline's scores, category by category.

    Raises `Unusable` when the baseline is another pack's, or no category is in both.
    """
    if baseline.made.pack != pack:
        raise Unusable(f"the baseline is one of {baseline.made.pack}, and not of {pack}")
    before = {
        one.judged.target: one.judged.scores
        for one in baseline.targets
        if one.judged.scores is not None and one.judged.target in now.scores
    }
    thresholds = {one.judged.target: one.judged.threshold for one in baseline.targets}
    models = tuple(dict.fromkeys((baseline.made.model_digest, *now.models)))
    digests = tuple(dict.fromkeys((baseline.made.pack_digest, *now.pack_digests)))
    return _held("the baseline", models, digests, before, now, thresholds)


def against_earlier(before: LogScores, now: LogScores) -> Verdict:
    """Hold a later part of the sample beside an earlier one.

    Raises `Unusable` when no category is in both.
    """
    shared = {name: scores for name, scores in before.scores.items() if name in now.scores}
    models = tuple(dict.fromkeys((*before.models, *now.models)))
    digests = tuple(dict.fromkeys((*before.pack_digests, *now.pack_digests)))
    return _held("the earlier sample", models, digests, shared, now, now.thresholds)


def _held(
    what: str,
    models: tuple[str, ...],
    digests: tuple[str, ...],
    before: Scores,
    now: LogScores,
    thresholds: Mapping[str, float | None],
) -> Verdict:
    if not before:
        raise Unusable(f"the log's sample and {what} have no category in common")
    # A second model among those that answered is as much another one as a wholly new one.
    outcomes = [same_numbers(what, models[0], models[-1])]
    if len(models) > 1:
        return verdict(outcomes)
    if len(digests) > 1:
        saw = f"{digests[0][:12]}, now {digests[-1][:12]}: its scores may be on another scale"
        outcomes.append(Outcome(f"the pack's file of {what}", "", "cannot judge", saw))
    # The tests of all categories share the chance of a false alarm.
    level = LEVEL / len(before)
    for name, scores in before.items():
        drift = score_drift(scores, now.scores[name], thresholds.get(name))
        outcomes.append(rows_alike(name, drift, level))
    return verdict(outcomes)
