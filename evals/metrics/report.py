"""Everything about one score and its labels in one value: for a question, category or decision.

Puts together what the other modules here compute; knows no pack and no store. Figures of rows whose
label is not known are not made up: such rows are counted and take no further part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinf_serve.evals.columns import (
    Numbers,
    Truths,
    effective_count,
    group_codes,
    numbers,
    probabilities,
    same_length,
    weights_of,
)
from spinf_serve.evals.intervals import Mean, Share, share
from spinf_serve.evals.metrics.areas import Area, gap, pr_area, roc_area
from spinf_serve.evals.metrics.classification import Rates, rates
from spinf_serve.evals.metrics.probability import (
    Bin,
    Noise,
    RiskCoverage,
    brier,
    ece,
    log_loss,
    logit,
    noise_level,
    reliability,
    risk_coverage,
)
from spinf_serve.evals.metrics.slices import Slice, by

Measure = Literal["p", "lift", "logit_lift", "score"]
"""p; p less its floor; logit p less that of its floor; or a score on a scale of its own."""

FEW_OF_A_KIND = 30
"""Rows of the rarer label below which figures are called provisional."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Rows at `value` of a measure and above are flagged."""

    measure: Measure
    value: float


@dataclass(frozen=True, slots=True)
class Ranking:
    """How well one measure ranks.

    Attributes:
        roc: None without rows of both kinds.
        pr: None without positives.
    """

    roc: Area | None
    pr: Area | None


@dataclass(frozen=True, slots=True)
class Word:
    """How far p can be taken at its word.

    Attributes:
        brier, log_loss: means over rows.
        ece: expected calibration error, equal-width bins.
        noise: what `ece` would be by chance alone for these p; below `noise.high` it says nothing.
        bins: the reliability diagram.
    """

    brier: Mean
    log_loss: Mean
    ece: float
    noise: Noise
    bins: tuple[Bin, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """All figures for one set of rows.

    Attributes:
        rows: labelled rows; the figures are of these.
        unlabelled: rows left out, their label is not known.
        effective_rows: independent rows of one weight that `rows` are worth.
        base_rate: share that holds; None without labelled rows.
        ranking: by measure.
        word: None without p or labelled rows.
        rates: at the cut; None without one.
        risk: errors among those kept when the rows nearest to the cut are handed over; None
            without a cut or labelled rows.
        notes: what the rows do not tell, in words.
    """

    rows: int
    unlabelled: int
    effective_rows: float
    base_rate: Share | None
    ranking: Mapping[Measure, Ranking]
    word: Word | None
    rates: Rates | None
    risk: RiskCoverage | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """A score judged on all rows and on slices.

    Attributes:
        cut: what flagged; None when there is none.
        overall: on all rows.
        slices: the same on each slice.
    """

    cut: Cut | None
    overall: Figures
    slices: tuple[Slice[Figures], ...]


def measures(p: ArrayLike, floor: ArrayLike | None = None) -> dict[Measure, Numbers]:
    """p and, with a floor, its lift and logit lift, [N] each.

    Args:
        p: [N], 0 to 1.
        floor: p on empty content, one for all rows or [N]; None when it was not asked for.
    """
    values = probabilities("p", p)
    found: dict[Measure, Numbers] = {"p": values}
    if floor is not None:
        base = np.asarray(floor, dtype=np.float64)
        same = probabilities("floor", np.full(len(values), base) if base.ndim == 0 else base)
        same_length(len(values), floor=same)
        found["lift"] = values - same
        found["logit_lift"] = logit(values) - logit(same)
    return found


def report(
    rows: Sequence[str],
    scores: Mapping[Measure, ArrayLike],
    labels: Sequence[bool | None],
    cut: Cut | None = None,
    slices: Sequence[Mapping[str, str]] | None = None,
    *,
    weights: ArrayLike | None = None,
    groups: Sequence[Any] | NDArray[Any] | None = None,
    bins: int = 10,
    repeats: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Judged:
    """Judge one score.

    Args:
        rows: each row's id, for messages.
        scores: measure -> [N] numbers, see `measures`; "score" for one without a p.
        labels: [N]; None where it is not known whether it holds.
        cut: on one of the measures.
        slices: each row's slice columns; None for no slices.
        weights, groups: [N], see `intervals.share`; a row without group has None.
        repeats, seed: of the bootstrap of PR areas and the simulation of noise.

    Raises `Refused` (`invalid_field`) with row ids where a score is NaN, infinite or no
    probability; ValueError when lengths differ or the cut is on a measure that is not given.
    """
    columns: dict[Measure, Numbers] = {
        name: probabilities(name, values, rows) if name == "p" else numbers(name, values, rows)
        for name, values in scores.items()
    }
    count = len(rows)
    same_length(count, labels=labels, **columns)
    if slices is not None:
        same_length(count, slices=slices)
    if cut is not None and cut.measure not in columns:
        raise ValueError(f"a cut on {cut.measure}, but the scores are {list(columns)}")
    if cut is not None and not np.isfinite(cut.value):
        raise ValueError(f"a cut at {cut.value} is not a finite number")
    known = np.array([label is not None for label in labels], dtype=bool)
    holds = np.array([bool(label) for label in labels], dtype=bool)
    weight = None if weights is None else weights_of(weights, count)
    codes = None if groups is None else group_codes(groups, count)

    def figures(inside: Truths) -> Figures:
        kept = inside & known
        return _figures(
            {name: column[kept] for name, column in columns.items()},
            holds[kept],
            int((inside & ~known).sum()),
            cut,
            None if weight is None else weight[kept],
            None if codes is None else codes[kept],
            _Settings(bins, repeats, seed, level),
        )

    return Judged(
        cut,
        figures(np.ones(count, dtype=bool)),
        () if slices is None else by(slices, figures),
    )


@dataclass(frozen=True, slots=True)
class _Settings:
    bins: int
    repeats: int
    seed: int
    level: float


def _figures(
    columns: Mapping[Measure, Numbers],
    holds: Truths,
    unlabelled: int,
    cut: Cut | None,
    weights: Numbers | None,
    groups: NDArray[np.int64] | None,
    settings: _Settings,
) -> Figures:
    codes = group_codes(groups, len(holds))
    ranking: dict[Measure, Ranking] = {}
    # With one floor for all rows the measures rank alike, and the bootstrap is slow.
    by_ranks: dict[bytes, Ranking] = {}
    for name, column in columns.items():
        ranks = np.unique(column, return_inverse=True)[1].tobytes()
        if ranks not in by_ranks:
            by_ranks[ranks] = _ranking(column, holds, weights, groups, settings)
        ranking[name] = by_ranks[ranks]
    at_cut = None
    risk = None
    if cut is not None:
        flagged = columns[cut.measure] >= cut.value
        at_cut = rates(flagged, holds, weights=weights, groups=groups, level=settings.level)
        distance = _distance(cut, columns[cut.measure])
        risk = risk_coverage(distance, flagged == holds, weights=weights)
    return Figures(
        len(holds),
        unlabelled,
        effective_count(weights_of(weights, len(holds)), codes),
        share(holds, weights=weights, groups=groups, level=settings.level),
        ranking,
        _word(columns.get("p"), holds, weights, groups, settings),
        at_cut,
        risk,
        _notes(columns, holds, unlabelled, cut),
    )


def _ranking(
    column: Numbers,
    holds: Truths,
    weights: Numbers | None,
    groups: NDArray[np.int64] | None,
    settings: _Settings,
) -> Ranking:
    level, repeats, seed = settings.level, settings.repeats, settings.seed
    return Ranking(
        roc_area(column, holds, weights=weights, groups=groups, level=level),
        pr_area(
            column, holds, weights=weights, groups=groups, repeats=repeats, seed=seed, level=level
        ),
    )


def _distance(cut: Cut, column: Numbers) -> Numbers:
    # p near 0 or 1 is far from a cut in odds, not in p.
    if cut.measure == "p" and 0 < cut.value < 1:
        return np.abs(logit(column) - logit([cut.value]))
    return np.abs(column - cut.value)


def _word(
    p: Numbers | None,
    holds: Truths,
    weights: Numbers | None,
    groups: NDArray[np.int64] | None,
    settings: _Settings,
) -> Word | None:
    if p is None or not len(p):
        return None
    score = brier(p, holds, weights=weights, groups=groups, level=settings.level)
    loss = log_loss(p, holds, weights=weights, groups=groups, level=settings.level)
    error = ece(p, holds, settings.bins, weights=weights)
    noise = noise_level(
        p,
        settings.bins,
        weights=weights,
        groups=groups,
        repeats=settings.repeats,
        seed=settings.seed,
    )
    # There are rows, so all of them exist.
    assert score is not None and loss is not None and error is not None and noise is not None
    bins = reliability(p, holds, settings.bins, weights=weights, level=settings.level)
    return Word(score, loss, error, noise, bins)


def _notes(
    columns: Mapping[Measure, Numbers], holds: Truths, unlabelled: int, cut: Cut | None
) -> tuple[str, ...]:
    notes = []
    count, positives = len(holds), int(holds.sum())
    rarer = min(positives, count - positives)
    if unlabelled:
        notes.append(f"{unlabelled} of {count + unlabelled} rows have no label and take no part")
    if not count:
        notes.append("no labelled row: nothing can be said")
    elif not rarer:
        kind, other = ("positive", "negative") if positives else ("negative", "positive")
        notes.append(f"one class: all labelled rows ({count}) are {kind}; label {other} ones too")
    elif rarer < FEW_OF_A_KIND:
        notes.append(
            f"provisional: {rarer} rows of the rarer label, fewer than {FEW_OF_A_KIND}; look at"
            " the intervals"
        )
    for name, column in columns.items():
        if count > 1 and np.ptp(column) == 0:
            notes.append(f"{name} is {float(column[0])!r} on every row: it tells nothing")
        between = gap(column, holds) if count else None
        if between is not None:
            notes.append(
                f"{name} is separable here: any cut in ({between.below!r}, {between.above!r}]"
                " makes no error on these rows, which does not promise that on others"
            )
    if cut is not None and (tied := int((columns[cut.measure] == cut.value).sum())):
        notes.append(f"{tied} rows lie exactly at the cut and are flagged")
    return tuple(notes)
