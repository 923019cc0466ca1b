"""How far scores can be taken as shares: a reliability diagram's bins, figures, maps, slices.

Everything is worked out from labelled rows and a view's columns, as plain values that can be written as
JSON; where rows are many, by a job. Knows no screen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from spinf_serve.evals import calibration
from spinf_serve.evals.calibration import ISOTONIC_ROWS, Kind
from spinf_serve.evals.data.labels import RESOLVED
from spinf_serve.evals.intervals import Interval, Mean, exact
from spinf_serve.evals.judged import QUESTION
from spinf_serve.evals.metrics.chance import chance_bands
from spinf_serve.evals.metrics.probability import (
    Bin,
    Binning,
    brier,
    ece,
    log_loss,
    noise_level,
    reliability,
)
from spinf_serve.evals.metrics.slices import by
from spinf_serve.evals.questions import right_option, target_of
from spinf_serve.packs.errors import Refused, Unusable
from spinf_serve.packs.pack import Constants, Pack
from spinf_serve.workbench.actions import certifying
from spinf_serve.workbench.desk import Desk
from spinf_serve.workbench.job_kinds import Report
from spinf_serve.workbench.views import Building, View, project_open, view_of

KIND: Final = "calibrate"

AT_ONCE: Final = 3_000
"""Labelled rows whose figures are worked out while a page waits; more are a job's work."""

BINS: Final = 10
MAPS: Final[tuple[Kind, ...]] = ("platt", "beta", "isotonic")
FOLDS: Final = 5
MOST_SLICES: Final = 50

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Stated:
    """Probabilities and what was so, of N labelled rows, in the order of import.

    Attributes:
        p: what was stated, 0 to 1.
        holds: whether it was so.
        weights: inverse probabilities; None unless every row has one.
        groups: None where each row stands alone.
        slices: columns of each row.
        about: what p is of, in words.
        queued: rows that were chosen by a queue and have no weight.
    """

    p: Numbers
    holds: NDArray[np.bool_]
    weights: Numbers | None
    groups: tuple[str | None, ...] | None
    slices: tuple[Mapping[str, str], ...]
    about: str
    queued: int


def targets_of(desk: Desk, pack: Pack, dataset: str) -> list[str]:
    """What can be looked at: labelled categories in the pack's order, then labelled questions."""
    with desk.project.open(write=False) as connection:
        found = connection.execute(
            "SELECT DISTINCT target FROM label WHERE dataset = ?", [dataset]
        ).fetchall()
    labelled = {target for (target,) in found}
    asked = [
        target_of(question.id, prompt.values.get("F"))
        for question in pack.questions
        for prompt in question.prompts
    ]
    return [one for one in (*pack.categories, *asked) if one in labelled]


def labelled_rows(desk: Desk, dataset: str, target: str, split: str | None) -> int:
    """How many rows are labelled for a target, whether they were answered or not."""
    with project_open(desk) as connection:
        found = connection.execute(
            "SELECT count(DISTINCT row_id) FROM label JOIN item USING (dataset, row_id)"
            " WHERE dataset = $1 AND target = $2 AND ($3 IS NULL OR split = $3)",
            [dataset, target, split],
        ).fetchall()
    return int(found[0][0])


def stated(
    desk: Desk,
    view: View,
    pack: Pack,
    dataset: str,
    target: str,
    split: str | None,
    *,
    mapped: bool = False,
) -> Stated:
    """What was stated of a target's labelled rows, and what was so.

    For a category p is its score; for a question of two options p of the first; for one of more the
    largest p, and whether that option is right.

    Args:
        target: of `targets_of`.
        split: None for all rows.
        mapped: a category's score through its beta map.

    Raises `Unusable`: a label is none of a question's options, or the category has no such map.
    """
    if target.startswith(QUESTION):
        return _question(desk, view, pack, dataset, target, split)
    column = f"{'calibrated' if mapped else 'score'}:{target}"
    columns = view.columns(["number", column])
    known = ~np.isnan(columns[column])
    rows = _labelled(desk, dataset, target, split, columns["number"][known])
    at = [index for index, row in enumerate(rows) if target in row.labels]
    p = columns[column][known][[rows[index].place for index in at]]
    holds = np.array([rows[index].labels[target] for index in at], dtype=bool)
    about = "the score through its beta map" if mapped else "the score"
    return _stated([rows[index] for index in at], p, holds, about)


@dataclass(frozen=True, slots=True)
class _Row:
    """A labelled row; `place` is that among the numbers that were asked for."""

    id: str
    place: int
    labels: Mapping[str, bool]
    classes: Mapping[str, str]
    group: str | None
    weight: float | None
    drawn: str
    slices: Mapping[str, str]


def _labelled(
    desk: Desk, dataset: str, target: str, split: str | None, numbers: NDArray[np.int64]
) -> list[_Row]:
    with desk.project.open(write=False) as connection:
        found = connection.execute(
            f"SELECT number, row_id, value, grp, weight, item.drawn, slices FROM ({RESOLVED})"
            " JOIN item USING (dataset, row_id) WHERE dataset = $1 AND target = $2"
            " AND value IS NOT NULL AND ($3 IS NULL OR split = $3) ORDER BY number",
            [dataset, target, split],
        ).fetchall()
    places = {number: place for place, number in enumerate(numbers.tolist())}
    words = {"yes": True, "no": False}
    return [
        _Row(
            id,
            places[number],
            {target: words[value]} if value in words else {},
            {} if value in (*words, "unsure") else {target: value},
            group,
            weight,
            drawn,
            slices,
        )
        for number, id, value, group, weight, drawn, slices in found
        if number in places
    ]


def _question(
    desk: Desk, view: View, pack: Pack, dataset: str, target: str, split: str | None
) -> Stated:
    question, place = next(
        (question, (question.id, index))
        for question in pack.questions
        for index, prompt in enumerate(question.prompts)
        if target_of(question.id, prompt.values.get("F")) == target
    )
    options = tuple(option.strip() for option in question.options)
    p = np.stack([view.p(place, option, len(options)) for option in range(len(options))], axis=1)
    known = ~np.isnan(p).any(axis=1)
    numbers = view.columns(["number"])["number"][known]
    rows = _labelled(desk, dataset, target, split, numbers)
    right = np.array([right_option(target, row, options) for row in rows], dtype=np.int64)
    at = np.flatnonzero(right >= 0)
    own = p[known][[rows[index].place for index in at.tolist()]].reshape(len(at), len(options))
    kept = [rows[index] for index in at.tolist()]
    if len(options) == 2:
        return _stated(kept, own[:, 0], right[at] == 0, f"p of the answer “{options[0]}”")
    top = own.argmax(axis=1) if len(at) else np.zeros(0, dtype=np.int64)
    sure = own.max(axis=1) if len(at) else np.zeros(0)
    return _stated(kept, sure, top == right[at], "p of the answer that is chosen")


def _stated(rows: Sequence[_Row], p: Numbers, holds: NDArray[np.bool_], about: str) -> Stated:
    weights = [row.weight for row in rows if row.weight is not None]
    whole = bool(weights) and len(weights) == len(rows)
    grouped = any(row.group is not None for row in rows)
    return Stated(
        np.asarray(p, dtype=np.float64),
        holds,
        np.array(weights) if whole else None,
        tuple(row.group for row in rows) if grouped else None,
        tuple(row.slices for row in rows),
        about,
        sum(row.drawn == "queue" and row.weight is None for row in rows),
    )


def worked_out(
    found: Stated, bins: int = BINS, binning: Binning = "width", report: Report | None = None
) -> dict[str, Any]:
    """All figures of some rows, in plain values: `bins`, `whole`, `maps`, `choice`, `slices`.

    Args:
        report: told how far it is, and asked whether to stop.
    """

    def step(done: int, words: str) -> None:
        if report is not None:
            report.progress(done, 4, words)
            report.check()

    step(0, "sorting rows into bins")
    told: dict[str, Any] = {
        "rows": len(found.p),
        "positives": int(found.holds.sum()),
        "weighted": found.weights is not None,
        "about": found.about,
        "queued": found.queued,
        "binning": binning,
        "bins": _bins(found, bins, binning),
    }
    step(1, "figures, and what chance makes of them")
    told["whole"] = _figures(found, bins, binning)
    step(2, "comparing maps on rows that they were not fitted on")
    told |= _maps(found)
    step(3, "slice by slice")
    told["slices"] = _slices(found)
    return told


def calibrate_job(desk: Desk, arguments: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """The job `calibrate`: what `worked_out` tells of a pack's file on a dataset."""
    pack = certifying.loaded(desk.file_named(arguments["file"]).read_bytes())
    if pack.digest != arguments["digest"]:
        raise Unusable(f"{arguments['file']} changed since; open the page again")
    constants: Constants | None = pack.constants((arguments["served"],))
    view = view_of(desk, pack, constants, arguments["dataset"], arguments["bits"])
    if view is None or isinstance(view, Building):
        raise Unusable("the answers are not laid out yet; open the page again")
    found = stated(
        desk,
        view,
        pack,
        arguments["dataset"],
        arguments["target"],
        arguments["split"],
        mapped=arguments["mapped"],
    )
    return worked_out(found, arguments["bins"], arguments["binning"], report)


def _bins(found: Stated, bins: int, binning: Binning) -> list[dict[str, Any]]:
    """The bins that have rows, with exact intervals where rows weigh alike, and chance's band."""
    made = reliability(found.p, found.holds, bins, binning, weights=found.weights)
    bands = chance_bands(made)
    return [
        asdict(one)
        | {"interval": _ends(_interval(one, found.weights is not None)), "chance": _ends(band)}
        for one, band in zip(made, bands, strict=True)
        if one.rows
    ]


def _interval(one: Bin, weighted: bool) -> Interval | None:
    if weighted or one.rate is None:
        return one.interval
    return exact(round(one.rate * one.rows), one.rows)


def _ends(interval: Interval | None) -> dict[str, float] | None:
    return None if interval is None else asdict(interval)


def _figures(found: Stated, bins: int, binning: Binning) -> dict[str, Any] | None:
    if not len(found.p):
        return None
    p, holds, weights, groups = found.p, found.holds, found.weights, found.groups
    noise = noise_level(p, bins, binning, weights=weights, groups=groups)
    share = np.ones(len(p)) if weights is None else weights
    return {
        "ece": ece(p, holds, bins, binning, weights=weights),
        "noise": None if noise is None else asdict(noise),
        "brier": _mean(brier(p, holds, weights=weights, groups=groups)),
        "log_loss": _mean(log_loss(p, holds, weights=weights, groups=groups)),
        "mean_p": float(np.average(p, weights=share)),
        "rate": float(np.average(holds, weights=share)),
    }


def _mean(found: Mean | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {"value": found.value, "interval": _ends(found.interval)}


def _maps(found: Stated) -> dict[str, Any]:
    """What each map loses on rows that it was not fitted on, and which one would be taken."""
    rows = len(found.p)
    if not rows:
        return {"maps": [], "choice": None, "why": "no row is labelled"}
    losses = [_map_told("raw", found.p, found)]
    why_none = None
    for kind in MAPS:
        try:
            p = calibration.held_out(
                found.p, found.holds, kind, folds=FOLDS, weights=found.weights, groups=found.groups
            )
        except Refused as refused:
            why_none = refused.message
            continue
        losses.append(_map_told(kind, p, found))
    choice = calibration.choose(rows)
    notes: list[str] = []
    if 0 < found.holds.sum() < rows:
        notes = list(calibration.fit(found.p, found.holds, weights=found.weights).notes)
    return {
        "maps": losses,
        "choice": choice,
        "why": why_none,
        "map_notes": notes,
        "isotonic_rows": ISOTONIC_ROWS,
        "beta_rows": calibration.BETA_ROWS,
    }


def _map_told(name: str, p: Numbers, found: Stated) -> dict[str, Any]:
    more: dict[str, Any] = {"weights": found.weights, "groups": found.groups}
    return {
        "map": name,
        "log_loss": _mean(log_loss(p, found.holds, **more)),
        "brier": _mean(brier(p, found.holds, **more)),
    }


def _slices(found: Stated) -> list[dict[str, Any]]:
    """Figures slice by slice; ECE beside what chance makes of so few rows."""
    if not any(found.slices) or not len(found.p):
        return []

    def part(inside: NDArray[np.bool_]) -> dict[str, Any]:
        weights = None if found.weights is None else found.weights[inside]
        groups = None
        if found.groups is not None:
            groups = [one for one, held in zip(found.groups, inside, strict=True) if held]
        p, holds = found.p[inside], found.holds[inside]
        noise = noise_level(p, BINS, weights=weights, groups=groups, repeats=200)
        return {
            "mean_p": float(np.average(p, weights=weights)),
            "rate": float(np.average(holds, weights=weights)),
            "ece": ece(p, holds, BINS, weights=weights),
            "noise": None if noise is None else noise.mean,
            "high": None if noise is None else noise.high,
            "log_loss": _mean(log_loss(p, holds, weights=weights, groups=groups)),
        }

    parts = by(found.slices, part)[:MOST_SLICES]
    return [
        {"name": one.name, "value": one.value, "rows": one.rows, "warning": one.warning}
        | one.result
        for one in parts
    ]
