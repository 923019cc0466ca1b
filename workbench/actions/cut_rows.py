"""Rows of a dataset as the cut of a category or of the decision sees them, read from a view's columns.

Which rows count is what `spinf_serve.evals.fitting` would count: the part that carries a promise, drawn at
random, one of each group. Knows no screen and computes no score.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import duckdb
import numpy as np
from numpy.typing import NDArray

from spinf_serve.evals.cost import CostCurve, CostCut, cheapest, cost_curve
from spinf_serve.evals.cut_curve import CutCurve, Rates, cut_curve, shown_cuts
from spinf_serve.evals.data.labels import CHOSEN, NO, RESOLVED, YES
from spinf_serve.evals.eligible import RANDOM, eligible
from spinf_serve.evals.fitting import TEST, carrier
from spinf_serve.evals.judged import DECISION
from spinf_serve.evals.promising import any_holds
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.pack import Constants, Pack
from spinf_serve.workbench.desk import Desk
from spinf_serve.workbench.views import View, project_open

Numbers = NDArray[np.float64]
Places = NDArray[np.int64]

MOST_CUTS: Final = 200
"""Cuts that a chart shows."""

REPEATS, FEWER_REPEATS, MANY_ROWS = 500, 100, 20_000
"""Resamples of a cost, and how many where rows are many and each takes long and tells little."""

YES_CODE, NO_CODE, UNKNOWN_CODE = 1, 0, -1


@dataclass(frozen=True, slots=True, eq=False)
class CutRows:
    """Answered rows as one cut sees them, [N] each, in the order of import.

    Attributes:
        name: a category, or `decision`.
        numbers: of the rows in the project.
        own: the pack's score.
        walked: the same, moved below or above all others where it does not decide.
        truths: 1 where it holds, 0 where not, -1 where that is not known.
        counted: positions of the labelled rows that a promise would count.
        traffic: positions that the share flagged is counted on: no label is needed there.
        costed: positions of all labelled rows of that part for which the score alone decides, which
            costs are counted on; `weights` and `groups` are theirs.
        split: the part of the dataset that a promise would count; None for all.
        notes: which rows are left out, a sentence each.
    """

    name: str
    numbers: Places
    own: Numbers
    walked: Numbers
    truths: NDArray[np.int8]
    counted: Places
    traffic: Places
    costed: Places
    weights: Numbers
    groups: tuple[str | None, ...] | None
    split: str | None
    notes: tuple[str, ...]

    @property
    def scores(self) -> Numbers:
        """Of the counted rows."""
        return self.walked[self.counted]

    @property
    def holds(self) -> NDArray[np.bool_]:
        """Labels of the counted rows."""
        found: NDArray[np.bool_] = self.truths[self.counted] == YES_CODE
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """The counted rows at one cut.

    Attributes:
        flagged: tells of all rows drawn at random, labelled or not.
        tp, fp, fn, tn: counted rows by flag and label.
    """

    cut: float
    tp: int
    fp: int
    fn: int
    tn: int
    precision: "Figure"
    recall: "Figure"
    npv: "Figure"
    flagged: "Figure"


@dataclass(frozen=True, slots=True)
class Figure:
    """A share k of n with its exact 95 % interval; None where no row is counted."""

    value: float | None
    low: float | None
    high: float | None
    k: int
    n: int


@dataclass(frozen=True, slots=True)
class Band:
    """The rows of one of three bands.

    Attributes:
        start: the score that it begins at; None for the lowest.
        load: its share of the traffic.
        holds, not_holds: its counted rows by their labels.
        right: of those acted on, the share that holds; of those passed, the share that does not. None
            where a person decides.
    """

    name: Literal["act", "review", "pass"]
    start: float | None
    load: Figure
    holds: int
    not_holds: int
    right: Figure | None


def cut_names(pack: Pack) -> list[str]:
    """What of a pack has a cut: its categories, and its decision unless it decides per category."""
    return [*pack.categories, *([] if pack.decision.mode == "per_category" else [DECISION])]


def cut_rows(
    desk: Desk, view: View, pack: Pack, constants: Constants, dataset: str, name: str
) -> CutRows:
    """The answered rows as the cut of a category or the decision sees them.

    Args:
        view: of the pack with these constants.

    Raises `Unusable` when the view or the project is gone.
    """
    required = () if name == DECISION else pack.categories[name].requires
    critical = pack.decision.critical if name == DECISION else ()
    score = "decided" if name == DECISION else f"score:{name}"
    flags = [f"flagged:{id}" for id in (*required, *critical)]
    columns = view.columns(list(dict.fromkeys(["number", score, *flags])))
    deciding = [
        id
        for id, one in pack.categories.items()
        if one.decides and constants.categories[id].threshold is not None
    ]
    wanted = [DECISION, *deciding] if name == DECISION else [name]
    with project_open(desk) as connection:
        facts = _facts(connection, dataset)
        labels = _labels(connection, dataset, wanted)
    own = np.asarray(columns[score], dtype=np.float64)
    answered = ~np.isnan(own)
    numbers = columns["number"][answered]
    own = own[answered]
    free = np.ones(len(own), dtype=bool)
    for id in required:
        free &= np.array([flag is True for flag in columns[f"flagged:{id}"][answered].tolist()])
    for id in critical:
        free &= np.array([flag is not True for flag in columns[f"flagged:{id}"][answered].tolist()])
    aside = own.max(initial=0) + 1 if name == DECISION else own.min(initial=0) - 1
    walked = np.where(free, own, aside)
    place = np.searchsorted(facts["number"], numbers)
    there = place < len(facts["number"])
    there[there] = facts["number"][place[there]] == numbers[there]
    numbers, own, walked, place = numbers[there], own[there], walked[there], place[there]
    truths, chosen = _truths(name, deciding, labels, numbers)
    return _counted(name, pack, facts, numbers, own, walked, place, truths, chosen, free[there])


def look(rows: CutRows, cut: float, base_rate: float | None = None) -> Look:
    """What a cut does to the counted rows. It promises nothing.

    Args:
        base_rate: share of the traffic that holds, where rows were drawn class by class: rates are
            re-weighted to it.
    """
    found = cut_curve(rows.scores, rows.holds, [cut], base_rate)
    rates = {kind: _figure(one) for kind, one in found.rates.items()}
    flagged = rates["flag_rate"]
    if base_rate is None:
        on_all = cut_curve(rows.walked[rows.traffic], np.ones(len(rows.traffic), dtype=bool), [cut])
        flagged = _figure(on_all.rates["flag_rate"])
    return Look(
        cut,
        int(found.tp[0]),
        int(found.fp[0]),
        int(found.fn[0]),
        int(found.tn[0]),
        rates["precision"],
        rates["recall"],
        rates["npv"],
        flagged,
    )


def curve(rows: CutRows, base_rate: float | None = None) -> CutCurve:
    """The counted rows at the cuts that a chart shows."""
    return cut_curve(rows.scores, rows.holds, shown_cuts(rows.scores, MOST_CUTS), base_rate)


def costs(rows: CutRows, miss: float) -> tuple[CostCut, CostCurve]:
    """The cheapest cut and the cost of a row at every cut, in false alarms.

    Args:
        miss: what a miss costs in false alarms.

    Raises `Unusable` when no row is labelled.
    """
    if not len(rows.costed):
        raise Unusable("no row is labelled, so no cut has a cost; label rows on the page Data")
    scores, holds = rows.walked[rows.costed], rows.truths[rows.costed] == YES_CODE
    many = len(rows.costed) > MANY_ROWS
    more: dict[str, Any] = {"weights": rows.weights, "groups": rows.groups}
    more["repeats"] = FEWER_REPEATS if many else REPEATS
    return cheapest(scores, holds, miss, **more), cost_curve(scores, holds, miss, **more)


def three_bands(rows: CutRows, review: float, act: float) -> tuple[Band, Band, Band]:
    """Act, review and pass, as two cuts part the rows.

    Args:
        review: the lower cut; below it a row passes.
        act: the upper cut, at least `review`.
    """
    high, low = look(rows, act), look(rows, review)
    traffic = rows.walked[rows.traffic]
    acted, kept = traffic >= act, traffic >= review
    return (
        Band("act", act, _share(acted), high.tp, high.fp, high.precision),
        Band("review", review, _share(kept & ~acted), low.tp - high.tp, low.fp - high.fp, None),
        Band("pass", None, _share(~kept), low.fn, low.tn, low.npv),
    )


def _share(inside: NDArray[np.bool_]) -> Figure:
    # A curve of one cut that parts those inside from the others.
    found = cut_curve(inside.astype(np.float64), np.ones(len(inside), dtype=bool), [0.5])
    return _figure(found.rates["flag_rate"])


def false_alarms(rows: CutRows, cut: float) -> Places:
    """Positions of the counted rows that are flagged and do not hold, the surest first."""
    wrong = (rows.scores >= cut) & ~rows.holds
    at = rows.counted[wrong]
    return at[np.argsort(-rows.walked[at], kind="stable")]


def misses(rows: CutRows, cut: float) -> Places:
    """Positions of the counted rows that hold and are not flagged, the furthest below first."""
    wrong = (rows.scores < cut) & rows.holds
    at = rows.counted[wrong]
    return at[np.argsort(rows.walked[at], kind="stable")]


def texts_of(desk: Desk, dataset: str, numbers: Sequence[int]) -> list[tuple[str, str]]:
    """Id and text of some rows, in the order given; rows that are gone are left out."""
    with desk.project.open(write=False) as connection:
        found = connection.execute(
            "SELECT number, row_id, coalesce(media, text) FROM item"
            " WHERE dataset = $1 AND number IN (SELECT unnest($2::BIGINT[]))",
            [dataset, list(numbers)],
        ).fetchall()
    by_number = {number: (id, text) for number, id, text in found}
    return [by_number[number] for number in numbers if number in by_number]


def _figure(rates: Rates) -> Figure:
    value, low, high = (float(one[0]) for one in (rates.value, rates.low, rates.high))
    k, n = int(rates.k[0]), int(rates.n[0])
    return Figure(None, None, None, k, n) if np.isnan(value) else Figure(value, low, high, k, n)


def _facts(connection: duckdb.DuckDBPyConnection, dataset: str) -> dict[str, NDArray[Any]]:
    """How each row came to be there, by its number, ascending."""
    found = connection.execute(
        "SELECT number, split = $2 AS held, drawn = $3 AS random, weight, grp FROM item"
        " WHERE dataset = $1 ORDER BY number",
        [dataset, TEST, RANDOM],
    ).fetchnumpy()
    grp = np.ma.asarray(found["grp"])
    groups = grp.data.copy()
    groups[np.ma.getmaskarray(grp)] = None
    return {
        "number": np.asarray(found["number"], dtype=np.int64),
        "held": np.ma.filled(np.ma.asarray(found["held"]), False).astype(bool),
        "random": np.asarray(found["random"], dtype=bool),
        "weight": np.ma.filled(np.ma.asarray(found["weight"], dtype=np.float64), np.nan),
        "grp": groups,
    }


def _labels(
    connection: duckdb.DuckDBPyConnection, dataset: str, targets: Sequence[str]
) -> dict[str, dict[str, NDArray[Any]]]:
    """Target -> numbers of its labelled rows, what was said, and whether a row was chosen for it."""
    found = connection.execute(
        f"SELECT number, list_position($2::VARCHAR[], target) AS place, value = '{YES}' AS holds, {CHOSEN} AS chosen FROM ({RESOLVED})"
        " JOIN item USING (dataset, row_id) WHERE dataset = $1"
        f" AND list_contains($2::VARCHAR[], target) AND value IN ('{YES}', '{NO}')"
        " ORDER BY number",
        [dataset, list(targets)],
    ).fetchnumpy()
    # By their place: a text for each label would take more than all the rest.
    place = np.asarray(found["place"])
    labels = {}
    for index, name in enumerate(targets, start=1):
        at = place == index
        labels[name] = {key: np.asarray(found[key])[at] for key in ("number", "holds", "chosen")}
    return labels


def _truths(
    name: str,
    deciding: Sequence[str],
    labels: Mapping[str, Mapping[str, NDArray[Any]]],
    numbers: Places,
) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
    """What is known of each row, and whether it was chosen for a label that this rests on."""
    codes = {id: _spread(one, numbers) for id, one in labels.items()}
    if name != DECISION:
        return codes[name]
    said, chosen = codes[DECISION]
    for id in deciding:
        chosen = chosen | codes[id][1]
    words = {YES_CODE: True, NO_CODE: False}
    truths = said.copy()
    for index in np.flatnonzero(said == UNKNOWN_CODE).tolist():
        row = {id: code for id in deciding if (code := int(codes[id][0][index])) != UNKNOWN_CODE}
        if row:
            holds = any_holds(deciding, {id: words[code] for id, code in row.items()})
            truths[index] = UNKNOWN_CODE if holds is None else int(holds)
    return truths, chosen


def _spread(
    labels: Mapping[str, NDArray[Any]], numbers: Places
) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
    codes = np.full(len(numbers), UNKNOWN_CODE, dtype=np.int8)
    chosen = np.zeros(len(numbers), dtype=bool)
    place = np.searchsorted(numbers, labels["number"])
    there = place < len(numbers)
    there[there] = numbers[place[there]] == labels["number"][there]
    codes[place[there]] = labels["holds"][there].astype(np.int8)
    chosen[place[there]] = labels["chosen"][there].astype(bool)
    return codes, chosen


def _counted(
    name: str,
    pack: Pack,
    facts: Mapping[str, NDArray[Any]],
    numbers: Places,
    own: Numbers,
    walked: Numbers,
    place: Places,
    truths: NDArray[np.int8],
    chosen: NDArray[np.bool_],
    free: NDArray[np.bool_],
) -> CutRows:
    held = facts["held"][place]
    split = carrier(pack, name, bool(facts["held"].any()))
    inside = np.flatnonzero(held if split == TEST else ~held)
    random, weights = facts["random"][place][inside], facts["weight"][place][inside]
    grp = facts["grp"][place][inside].tolist()
    groups = grp if any(group is not None for group in grp) else None
    by_label = random & ~chosen[inside]
    labelled = eligible(
        truths[inside] != UNKNOWN_CODE,
        groups,
        np.where(chosen[inside], np.nan, weights),
        _drawn(by_label),
    )
    traffic = eligible(np.ones(len(inside), dtype=bool), groups, weights, _drawn(random))
    costed = (truths[inside] != UNKNOWN_CODE) & free[inside]
    return CutRows(
        name,
        numbers,
        own,
        walked,
        truths,
        inside[labelled.rows],
        inside[traffic.rows],
        inside[costed],
        np.nan_to_num(weights[costed], nan=1.0),
        None if groups is None else tuple(np.array(grp, dtype=object)[costed].tolist()),
        split,
        labelled.notes(),
    )


def _drawn(random: NDArray[np.bool_]) -> list[str]:
    return [RANDOM if one else "" for one in random.tolist()]
