"""Small evaluations, made by hand or from a seed."""

from collections.abc import Sequence

import numpy as np

from spinf_serve.evals.judged import (
    Evaluation,
    Judged,
    Lifts,
    Made,
    Measured,
    Refusal,
    TargetReport,
)

MADE = Made(
    pack="demo/shop",
    version="1.2.0",
    pack_digest="a" * 64,
    model="tiny",
    model_digest="b" * 64,
    bits="c" * 64,
    rounded=False,
    data="shop.duckdb:mails",
    data_digest="d" * 64,
    split="test",
    date="2026-01-02",
)


def judged(
    labels: Sequence[bool | None],
    flagged: Sequence[bool] | None,
    *,
    rows: Sequence[str] | None = None,
    scores: Sequence[float] | None = None,
    groups: Sequence[str | None] | None = None,
    contents: Sequence[str] | None = None,
    target: str = "angry",
) -> Judged:
    """A target on rows `r0`, `r1`, …; scores are 0.9 where flagged and 0.1 elsewhere."""
    ids = tuple(rows) if rows is not None else tuple(f"r{index}" for index in range(len(labels)))
    if scores is None and flagged is not None:
        scores = [0.9 if flag else 0.1 for flag in flagged]
    return Judged(
        target,
        ids,
        tuple(contents) if contents is not None else tuple(f"text of {id}" for id in ids),
        tuple(groups) if groups is not None else (None,) * len(ids),
        tuple(labels),
        None if scores is None else np.array(scores, dtype=np.float64),
        None if flagged is None else tuple(flagged),
        None if flagged is None else 0.5,
    )


def accuracy(one: Judged) -> Measured:
    """Share of right verdicts, without an interval."""
    assert one.flagged is not None
    right = sum(flag == label for flag, label in zip(one.flagged, one.labels, strict=True))
    return Measured(right / len(one.rows), n=len(one.rows), k=right)


def evaluation(*targets: Judged, refused: Sequence[Refusal] = ()) -> Evaluation:
    """Of targets, with the accuracy as their only figure."""
    reports = tuple(TargetReport(one, {"accuracy": accuracy(one)}) for one in targets)
    return Evaluation(MADE, len(targets[0].rows) + len(refused), tuple(refused), reports)


def drawn(count: int, seed: int, *, names: str = "r", target: str = "angry") -> Judged:
    """Scores that are calibrated by construction, a threshold of 0.5."""
    generator = np.random.default_rng(seed)
    scores = generator.beta(0.7, 0.7, count)
    labels = generator.random(count) < scores
    return judged(
        labels.tolist(),
        (scores >= 0.5).tolist(),
        scores=scores.tolist(),
        rows=[f"{names}{index}" for index in range(count)],
        target=target,
    )


def lifts(count: int, seed: int) -> Lifts:
    """Points at random."""
    generator = np.random.default_rng(seed)
    return Lifts(
        generator.uniform(0.1, 0.3, count), generator.random(count), generator.random(count) < 0.5
    )
