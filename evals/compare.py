"""Two sides on the same rows: what got fixed, what broke, and whether that is more than chance.

Verdicts are compared by McNemar's test, exact (Q. McNemar, "Note on the sampling error of the
difference between correlated proportions or percentages", Psychometrika 12, 1947): under no
difference a changed row is a fix or a break with equal chance, whatever the others do. Rows of one
group stand or fall together, so a group counts once, by whether more of its rows got fixed or broke.
Knows no pack: packs and models are compared alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import erfc, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from spinf_serve.evals.judged import Judged, units
from spinf_serve.evals.metrics.slices import Slice, by

_DRAWS_AT_ONCE = 1 << 22


@dataclass(frozen=True, slots=True)
class Pairing:
    """Which rows two sides share.

    Attributes:
        both: ids of rows that both have with the same content, in the candidate's order.
        only_baseline, only_candidate: ids of one side alone.
        changed: ids that both have, with different contents: not the same row.
    """

    both: tuple[str, ...]
    only_baseline: tuple[str, ...]
    only_candidate: tuple[str, ...]
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Flips:
    """Verdicts that differ between the sides.

    Attributes:
        rows: labelled rows of both with a verdict on either side.
        right_before, right_now: of these, how many the baseline and the candidate have right.
        fixes, breaks: ids that became right, and that became wrong.
        units_fixed, units_broken: groups (or single rows) with more fixes, and with more breaks.
        units: groups (or single rows) that are compared.
        p_differs: exact two-sided p of no difference.
        p_worse: exact one-sided p of "not worse"; small when breaks prevail.
    """

    rows: int
    right_before: int
    right_now: int
    fixes: tuple[str, ...]
    breaks: tuple[str, ...]
    units_fixed: int
    units_broken: int
    units: int
    p_differs: float
    p_worse: float


@dataclass(frozen=True, slots=True)
class BrierChange:
    """Mean squared distance of scores from labels, on the shared labelled rows.

    Attributes:
        before, now: of the two sides, 0 (best) to 1.
        low, high: 95 % percentile interval of `now - before`, rows of a group drawn together.
        units: groups (or single rows) drawn from.
        p_worse: one-sided p of "not worse", from the bootstrap's spread as a normal's.
    """

    before: float
    now: float
    low: float
    high: float
    units: int
    p_worse: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """One target on both sides.

    Attributes:
        relabelled: shared rows whose label differs between the sides; the candidate's is used.
        flips: None without labelled shared rows, or without a threshold on a side. For a question of
            several options a verdict is right where the labelled one is chosen.
        brier: None without labelled shared rows, or without scores on a side.
    """

    target: str
    pairing: Pairing
    relabelled: tuple[str, ...]
    flips: Flips | None
    brier: BrierChange | None


def pair(baseline: Judged, candidate: Judged) -> Pairing:
    """Match rows by id and content."""
    before = dict(zip(baseline.rows, baseline.contents, strict=True))
    now = dict(zip(candidate.rows, candidate.contents, strict=True))
    return Pairing(
        tuple(row for row in now if row in before and before[row] == now[row]),
        tuple(row for row in before if row not in now),
        tuple(row for row in now if row not in before),
        tuple(row for row in now if row in before and before[row] != now[row]),
    )


def compare(
    baseline: Judged, candidate: Judged, *, repeats: int = 1000, seed: int = 0
) -> Comparison:
    """Compare one target on the rows that both sides have.

    Args:
        repeats: bootstrap draws, from a generator of this seed: equal input gives equal output.
    """
    pairing = pair(baseline, candidate)
    old_at = {row: index for index, row in enumerate(baseline.rows)}
    new_at = {row: index for index, row in enumerate(candidate.rows)}
    relabelled = tuple(
        row
        for row in pairing.both
        if _label(baseline, old_at[row]) != _label(candidate, new_at[row])
    )
    known = [row for row in pairing.both if candidate.labels[new_at[row]] is not None]
    old = np.array([old_at[row] for row in known], dtype=int)
    new = np.array([new_at[row] for row in known], dtype=int)
    blocks = _blocks(candidate, new)
    flips = brier = None
    if baseline.choices is not None and candidate.choices is not None:
        if known:
            # What was chosen before is held to the label of now.
            true = np.array(candidate.choices.true, dtype=object)[new]
            was = np.array(baseline.choices.chosen, dtype=object)[old] == true
            now = np.array(candidate.choices.chosen, dtype=object)[new] == true
            flips = _flips(known, was, now, blocks)
    elif baseline.choices is not None or candidate.choices is not None:
        # A verdict on two options and a choice among more are not alike.
        known = []
    if known and baseline.flagged is not None and candidate.flagged is not None and flips is None:
        truth = np.array([candidate.labels[index] for index in new], dtype=bool)
        was = np.array(baseline.flagged, dtype=bool)[old] == truth
        now = np.array(candidate.flagged, dtype=bool)[new] == truth
        flips = _flips(known, was, now, blocks)
    if known and baseline.scores is not None and candidate.scores is not None:
        truth = np.array([candidate.labels[index] for index in new], dtype=bool)
        brier = _brier(
            (baseline.scores[old] - truth) ** 2,
            (candidate.scores[new] - truth) ** 2,
            blocks,
            repeats,
            seed,
        )
    return Comparison(candidate.target, pairing, relabelled, flips, brier)


def flips_by_slice(
    baseline: Judged, candidate: Judged, slices: Mapping[str, Mapping[str, str]]
) -> tuple[Slice[Flips | None], ...]:
    """What got fixed and what broke in each slice of the candidate's rows.

    Args:
        slices: row -> its columns; a row without any is in the slices `(none)`.

    The p of many slices are many tests: correct them with `holm` before one of them is believed.
    """

    def flips(inside: NDArray[np.bool_]) -> Flips | None:
        return compare(baseline, _part(candidate, np.flatnonzero(inside)), repeats=1).flips

    return by([slices.get(row, {}) for row in candidate.rows], flips)


def _part(judged: Judged, indexes: NDArray[np.int64]) -> Judged:
    """Some rows of a target."""
    at = indexes.tolist()

    def taken(values: Sequence[Any] | None) -> Any:
        return None if values is None else tuple(values[index] for index in at)

    choices = judged.choices
    if choices is not None:
        choices = replace(
            choices, chosen=taken(choices.chosen), true=taken(choices.true), p=choices.p[indexes]
        )
    return replace(
        judged,
        rows=taken(judged.rows),
        contents=taken(judged.contents),
        groups=taken(judged.groups),
        labels=taken(judged.labels),
        scores=None if judged.scores is None else judged.scores[indexes],
        flagged=taken(judged.flagged),
        choices=choices,
        calibrated=None if judged.calibrated is None else judged.calibrated[indexes],
    )


def _label(judged: Judged, index: int) -> bool | str | None:
    return judged.labels[index] if judged.choices is None else judged.choices.true[index]


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """The same tests' p after S. Holm's correction for their number (1979), in the same order."""
    adjusted: dict[str, float] = {}
    highest = 0.0
    for rank, name in enumerate(sorted(p_values, key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[name]))
        adjusted[name] = highest
    return {name: adjusted[name] for name in p_values}


def _blocks(candidate: Judged, indexes: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Positions among the compared rows, by group."""
    position = {int(index): at for at, index in enumerate(indexes)}
    return [
        np.array([position[index] for index in unit], dtype=int)
        for unit in units(candidate.groups, [int(index) for index in indexes])
    ]


def _flips(
    rows: Sequence[str],
    was: NDArray[np.bool_],
    now: NDArray[np.bool_],
    blocks: Sequence[NDArray[np.int64]],
) -> Flips:
    change = now.astype(int) - was.astype(int)
    net = [int(change[block].sum()) for block in blocks]
    fixed, broken = sum(one > 0 for one in net), sum(one < 0 for one in net)
    differs = worse = 1.0
    if fixed + broken:
        differs = float(binomtest(broken, fixed + broken, 0.5).pvalue)
        worse = float(binomtest(broken, fixed + broken, 0.5, alternative="greater").pvalue)
    return Flips(
        len(rows),
        int(was.sum()),
        int(now.sum()),
        tuple(row for row, one in zip(rows, change, strict=True) if one > 0),
        tuple(row for row, one in zip(rows, change, strict=True) if one < 0),
        fixed,
        broken,
        len(blocks),
        differs,
        worse,
    )


def _brier(
    before: NDArray[np.float64],
    now: NDArray[np.float64],
    blocks: Sequence[NDArray[np.int64]],
    repeats: int,
    seed: int,
) -> BrierChange:
    change = now - before
    sums = np.array([change[block].sum() for block in blocks])
    sizes = np.array([len(block) for block in blocks], dtype=np.float64)
    drawn = _resampled(sums, sizes, repeats, seed)
    # Interpolation between zeros may give -0.
    low, high = np.quantile(drawn, (0.025, 0.975)) + 0.0
    spread, mean = float(drawn.std()), float(change.mean())
    if spread > 0:
        worse = erfc(mean / spread / sqrt(2)) / 2
    else:
        # All units alike, or only one: no spread to measure a change by.
        worse = 1.0
    return BrierChange(
        float(before.mean()), float(now.mean()), float(low), float(high), len(blocks), worse
    )


def _resampled(
    sums: NDArray[np.float64], sizes: NDArray[np.float64], repeats: int, seed: int
) -> NDArray[np.float64]:
    """Mean change of units drawn with replacement, [repeats]; few at once, to bound memory."""
    generator = np.random.default_rng(seed)
    count = len(sums)
    step = max(1, _DRAWS_AT_ONCE // count)
    means = []
    for start in range(0, repeats, step):
        drawn = generator.integers(0, count, size=(min(step, repeats - start), count))
        means.append(sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1))
    return np.concatenate(means)
