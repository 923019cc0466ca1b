"""A pack on labelled rows whose scores are kept: every target's verdicts, figures and points.

Puts together the store's answers, the pack's evaluation and the metrics. Asks no model.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from spinf_serve.evals.data.rows import Row
from spinf_serve.evals.intervals import Share
from spinf_serve.evals.judged import (
    DECISION,
    Evaluation,
    Judged,
    Made,
    Measured,
    Refusal,
    Slice,
    TargetReport,
    figure_of,
)
from spinf_serve.evals.metrics.agreement import kappa
from spinf_serve.evals.metrics.areas import Area, roc_area
from spinf_serve.evals.metrics.classification import Rates, rates
from spinf_serve.evals.metrics.probability import brier, ece, log_loss, noise_level
from spinf_serve.evals.metrics.report import report
from spinf_serve.evals.metrics.slices import by
from spinf_serve.evals.questions import asked, choice_figures, with_answers
from spinf_serve.evals.reads_measured import groups_of, with_reads
from spinf_serve.evals.scored import (
    Answers,
    arranged,
    outcomes,
    score,
    taken,
)
from spinf_serve.evals.store import Matrix
from spinf_serve.packs.decision import DecisionCall, thresholds
from spinf_serve.packs.pack import Constants, Pack

NOT_SCORED = "not_scored"
"""Code of a row that has no whole answer though the model refused nothing: a failed or broken run."""

MANY_ROWS = 2000
REPEATS, FEWER_REPEATS = 1000, 300
"""Draws of a bootstrap up to so many rows, and beyond, where each takes longer and tells less."""

_MANY_SLICES = 50


@dataclass(frozen=True, slots=True)
class Known:
    """What is kept in memory of a row: all but its text."""

    id: str
    content: str
    group: str | None
    labels: Mapping[str, bool]
    slices: Mapping[str, str]
    drawn: str
    weight: float | None
    classes: Mapping[str, str] = field(default_factory=dict)


def known(rows: Iterable[Row]) -> list[Known]:
    """Rows without their texts; the content's digest stands for text and parameters."""
    return [
        Known(
            row.id,
            sha256(
                json.dumps(
                    [row.media or row.text, row.context, sorted(row.parameters.items())]
                ).encode()
            ).hexdigest(),
            row.group,
            row.labels,
            row.slices,
            row.drawn,
            row.weight,
            row.classes,
        )
        for row in rows
    ]


def evaluate(
    pack: Pack,
    constants: Constants,
    rows: Sequence[Known],
    matrix: Matrix,
    made: Made,
    *,
    slices: Sequence[str] | None = None,
) -> Evaluation:
    """Measure a pack on a dataset.

    Args:
        constants: what was fitted on the model that answered.
        rows: of the dataset or split.
        matrix: the same rows' kept scores.
        slices: the columns to break figures down by; None for all.

    Raises `Unusable` when a row's label for a question is none of its options.
    """
    whole, indexes = arranged(pack, matrix.logprobs, matrix.floors, matrix.starts)
    wanted = set(matrix.rows)
    at = {matrix.rows[index]: place for place, index in enumerate(indexes.tolist())}
    refused = []
    here: list[Known] = []
    for row in rows:
        # Rows that came or went between two looks at the project are no one's fault.
        if row.id not in wanted:
            continue
        if row.id in matrix.refused or row.id not in at:
            refused.append(Refusal(row.id, matrix.refused.get(row.id, NOT_SCORED)))
        else:
            here.append(row)
    answers = taken(whole, np.array([at[row.id] for row in here], dtype=np.int64))
    targets = [
        replace(
            with_reads(pack, measured(judged, here, slices=slices), answers),
            decides=judged.target not in pack.categories or pack.categories[judged.target].decides,
        )
        for judged in judged_targets(pack, constants, here, answers)
    ]
    # Of a content that was cut, each chunk has its own answer and the whole none.
    whole_at = np.flatnonzero(answers.chunks == 1)
    uncut = [here[index] for index in whole_at.tolist()]
    questions, notes = asked(pack, uncut, taken(answers, whole_at))
    targets += [
        with_answers(
            measured(one.judged, uncut, slices=slices), one, _weights(uncut, one.judged.labelled())
        )
        for one in questions
    ]
    if len(uncut) < len(here):
        notes.append(
            f"{len(here) - len(uncut)} rows are longer than the model reads at once and were read in"
            f" chunks ({pack.on_long} of their z); single questions are judged without them"
        )
    return Evaluation(
        made,
        len(here) + len(refused),
        tuple(refused),
        tuple(targets),
        (*_notes(here), *notes),
    )


def judged_targets(
    pack: Pack, constants: Constants, rows: Sequence[Known], answers: Answers
) -> list[Judged]:
    """Every category's scores and verdicts on the rows that were answered, then the decision's.

    The decision holds where any category that decides does, unless the rows have labels of their
    own for it.
    """
    scored = score(pack, constants, answers)
    found = outcomes(pack, constants, scored)
    in_force = thresholds(pack, constants, DecisionCall())
    shared = (
        tuple(row.id for row in rows),
        tuple(row.content for row in rows),
        tuple(row.group for row in rows),
    )
    judged = []
    for id in pack.categories:
        flags = [one.categories[id].flagged for one in found]
        known_flags = tuple(flag for flag in flags if flag is not None)
        judged.append(
            Judged(
                id,
                *shared,
                tuple(row.labels.get(id) for row in rows),
                scored.scores[id],
                known_flags if in_force[id] is not None else None,
                in_force[id],
                calibrated=scored.calibrated.get(id),
            )
        )
    deciding = [
        id for id, one in pack.categories.items() if one.decides and in_force[id] is not None
    ]
    if deciding or constants.layer is not None:
        scores = [one.verdict.score for one in found]
        # A micro layer's score is on a scale of its own, and is no probability.
        is_p = all(one.verdict.mode == "max" for one in found)
        whole = [value for value in scores if value is not None]
        judged.append(
            Judged(
                DECISION,
                *shared,
                tuple(_truth(row.labels, deciding) for row in rows),
                np.array(whole) if is_p and len(whole) == len(rows) else None,
                tuple(one.verdict.unsafe for one in found),
                constants.max_threshold if is_p else None,
            )
        )
    return judged


def measured(
    judged: Judged, rows: Sequence[Known], *, slices: Sequence[str] | None = None
) -> TargetReport:
    """A target with its figures, weighted where every labelled row has a weight.

    Args:
        rows: those of `judged`, in its order.
    """
    at = judged.labelled()
    groups = groups_of(judged, at)
    repeats = REPEATS if len(at) <= MANY_ROWS else FEWER_REPEATS
    weights = _weights(rows, at)
    holds = np.array([judged.labels[index] for index in at], dtype=bool)
    figures: dict[str, Measured] = {}
    confusion = noise = None
    notes: tuple[str, ...] = ()
    flagged = None
    if judged.choices is not None:
        figures |= choice_figures(judged.choices, at, weights, groups)
    elif judged.flagged is not None:
        flagged = np.array(judged.flagged, dtype=bool)[at]
        found = rates(flagged, holds, weights=weights, groups=groups)
        figures |= _rates(found, weights is None)
        counts = found.confusion
        confusion = {"tp": counts.tp, "fp": counts.fp, "fn": counts.fn, "tn": counts.tn}
        agreed = kappa(flagged, holds, weights=weights, groups=groups, repeats=repeats)
        if agreed is not None:
            figures["kappa"] = Measured(None)
            if agreed.kappa is not None:
                figures["kappa"] = figure_of(agreed.kappa, agreed.interval, len(at))
    if judged.scores is not None:
        ids = [judged.rows[index] for index in at]
        whole = report(
            ids,
            {"p": judged.scores[at]},
            holds.tolist(),
            weights=weights,
            groups=groups,
            repeats=repeats,
        ).overall
        figures["roc_area"] = _area(whole.ranking["p"].roc, len(at))
        figures["pr_area"] = _area(whole.ranking["p"].pr, len(at))
        if whole.word is not None:
            squares, loss = whole.word.brier, whole.word.log_loss
            figures["brier"] = figure_of(squares.value, squares.interval, len(at))
            figures["log_loss"] = figure_of(loss.value, loss.interval, len(at))
            figures["ece"] = Measured(whole.word.ece, n=len(at))
            noise = whole.word.noise.mean
        notes = whole.notes
        if judged.calibrated is not None and len(at):
            more, told = _calibrated(judged.calibrated[at], holds, weights, groups)
            figures |= more
            notes = (*notes, told)
    unlabelled = len(judged.rows) - len(at)
    if unlabelled:
        notes = (f"{unlabelled} of {len(judged.rows)} answered rows have no label for it", *notes)

    def part(inside: NDArray[np.bool_]) -> dict[str, Measured]:
        of_part = None
        if groups is not None:
            of_part = [group for group, held in zip(groups, inside, strict=True) if held]
        weight = None if weights is None else weights[inside]
        if judged.choices is not None:
            return choice_figures(judged.choices, at[inside], weight, of_part)
        cut = _Part(
            None if flagged is None else flagged[inside],
            None if judged.scores is None else judged.scores[at][inside],
            holds[inside],
            weight,
            of_part,
        )
        return _of_part(cut)

    columns = [_columns(rows[index], slices) for index in at]
    parts = by(columns, part) if any(columns) else ()
    if len(parts) > _MANY_SLICES:
        notes = (
            *notes,
            f"{len(parts)} slices, of which {_MANY_SLICES} are shown: name columns with --slice",
        )
        parts = parts[:_MANY_SLICES]
    shown = tuple(Slice(one.name, one.value, one.rows, one.result, one.warning) for one in parts)
    return TargetReport(judged, figures, confusion, noise, shown, notes=notes)


def _calibrated(
    p: NDArray[np.float64],
    holds: NDArray[np.bool_],
    weights: NDArray[np.float64] | None,
    groups: list[str | None] | None,
) -> tuple[dict[str, Measured], str]:
    """How far the values of a `beta` map can be taken at their word, and their ece by chance."""
    figures = {}
    for name, of in (("brier", brier), ("log_loss", log_loss)):
        found = of(p, holds, weights=weights, groups=groups)
        if found is not None:
            figures[f"calibrated_{name}"] = figure_of(found.value, found.interval, len(p))
    figures["calibrated_ece"] = Measured(ece(p, holds, weights=weights), n=len(p))
    chance = noise_level(p, weights=weights, groups=groups)
    by_chance = "" if chance is None else f"; an ece of {chance.mean:.3f} is chance for them"
    return figures, f"calibrated figures are of its scores through its beta map{by_chance}"


@dataclass(frozen=True, slots=True)
class _Part:
    flagged: NDArray[np.bool_] | None
    scores: NDArray[np.float64] | None
    holds: NDArray[np.bool_]
    weights: NDArray[np.float64] | None
    groups: list[str | None] | None


def _of_part(part: _Part) -> dict[str, Measured]:
    figures: dict[str, Measured] = {}
    if part.flagged is not None:
        found = rates(part.flagged, part.holds, weights=part.weights, groups=part.groups)
        all_of = _rates(found, part.weights is None)
        figures |= {name: all_of[name] for name in ("accuracy", "precision", "recall")}
    if part.scores is not None:
        area = roc_area(part.scores, part.holds, weights=part.weights, groups=part.groups)
        figures["roc_area"] = _area(area, len(part.holds))
    return figures


def _rates(found: Rates, counted: bool) -> dict[str, Measured]:
    """Figures of verdicts; counts k of n only where they are what the share is made of."""

    def of(one: Share | None) -> Measured:
        if one is None:
            return Measured(None)
        count = one.count if counted else None
        return Measured(one.value, one.interval.low, one.interval.high, one.of, count)

    flagged_or_holding = found.confusion.tp + found.confusion.fp + found.confusion.fn
    f1 = Measured(None)
    if found.f1 is not None:
        ends = found.f1.interval
        f1 = Measured(found.f1.value, ends.low, ends.high, flagged_or_holding)
    return {
        "accuracy": of(found.accuracy),
        "precision": of(found.precision),
        "recall": of(found.recall),
        "f1": f1,
        "flag_rate": of(found.flag_rate),
        "base_rate": of(found.base_rate),
    }


def _area(area: Area | None, rows: int) -> Measured:
    return Measured(None) if area is None else figure_of(area.value, area.interval, rows)


def _truth(labels: Mapping[str, bool], deciding: Sequence[str]) -> bool | None:
    if DECISION in labels:
        return labels[DECISION]
    values = [labels.get(id) for id in deciding]
    if any(values):
        return True
    return None if None in values or not deciding else False


def _weights(rows: Sequence[Known], at: NDArray[np.int64]) -> NDArray[np.float64] | None:
    found = [rows[index].weight for index in at]
    given = [weight for weight in found if weight is not None]
    return np.array(given) if given and len(given) == len(found) else None


def _columns(row: Known, slices: Sequence[str] | None) -> Mapping[str, str]:
    if slices is None:
        return row.slices
    return {name: value for name, value in row.slices.items() if name in slices}


def _notes(rows: Sequence[Known]) -> list[str]:
    notes = []
    queued = sum(row.drawn == "queue" and row.weight is None for row in rows)
    if queued:
        notes.append(
            f"{queued} rows were drawn by a queue and have no weight: figures are those of these"
            " rows, not those of the traffic"
        )
    weighted = sum(row.weight is not None for row in rows)
    if 0 < weighted < len(rows):
        notes.append(
            f"{weighted} of {len(rows)} rows have a weight; a target's figures are weighted where"
            " all its labelled rows have one"
        )
    return notes
