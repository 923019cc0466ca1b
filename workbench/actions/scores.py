"""What the page Scores shows: values of rows by label, and the rows behind a piece of a chart.

A subject is what is looked at: one answer of a question, or a category's score. Numbers come from the
view and from `spinf_serve.evals`; labels and texts from the project, live. Knows no screen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from spinf_serve.evals.data.labels import NO, RESOLVED, UNSURE, YES
from spinf_serve.evals.judged import DECISION, QUESTION
from spinf_serve.evals.questions import right_option, target_of
from spinf_serve.evals.reads_measured import speaking
from spinf_serve.evals.scored import Answers, Place, score
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.pack import Constants, Cuts, Pack, Read
from spinf_serve.workbench.desk import Desk
from spinf_serve.workbench.view_file import column_of, options_kept
from spinf_serve.workbench.views import View, project_open, quoted

LABELS: Final = (YES, NO, UNSURE, "no label")
"""What a row is for a target; where annotators differ and nobody settled it, it has no label."""

CATEGORY: Final = "category:"

_LEAST_FLOOR: Final = 1e-300
"""A p of zero has no logarithm; the pack raises so small a p by itself."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is looked at.

    Attributes:
        key: in addresses: `topic#0/2`, `read:case/topic`, `category:billing`.
        name: for people.
        asks: the filled template and what is answered, for people; empty for a category.
        place, options: the filled template, and which of its options speak; None for a category.
        of: how many options the template has.
        target: the labels it is looked at beside.
        sql: its value, over the view's columns.
        floor: its p on empty content, for a category its score with every read at its floor; None
            where that is not kept.
        cut: the value from which on the category is flagged, where that hangs on this alone.
        bands: cuts of the category's bands, for a category.
    """

    key: str
    name: str
    asks: str
    place: Place | None
    options: tuple[int, ...]
    of: int
    target: str
    sql: str
    floor: float | None = None
    cut: float | None = None
    bands: Cuts | None = None

    @property
    def residual(self) -> str | None:
        """The view's column of what lies outside the options."""
        return None if self.place is None else column_of("residual", self.place)

    @property
    def columns(self) -> list[str]:
        """The view's columns that its value is made of."""
        if self.place is None:
            return [f"score:{self.key.removeprefix(CATEGORY)}"]
        kept = {0 if self.of == 2 else one for one in self.options}
        return [column_of("p", self.place, one) for one in sorted(kept)]

    def of_columns(self, columns: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """Its value for each row, [N], from `columns`; NaN where there is none."""
        found = [columns[name] for name in self.columns]
        if self.place is not None and self.of == 2:
            # Of two options, only the first is in the view.
            both = [found[0], 1.0 - found[0]]
            found = [both[one] for one in self.options]
        return _speaking(found)

    def values(self, view: View) -> NDArray[np.float64]:
        """Its value for each row of the view, [N]; NaN where there is none."""
        return self.of_columns(view.columns(self.columns))


def _speaking(columns: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    if len(columns) == 1:
        return columns[0]
    summed: NDArray[np.float64] = np.minimum(np.stack(columns, axis=1).sum(axis=1), 1.0)
    return summed


def subjects(
    pack: Pack, constants: Constants | None, view: View, target: str | None, *, all_of: bool
) -> list[Subject]:
    """What can be looked at beside a target's labels, in the pack's order: categories first.

    Args:
        target: a category, `decision` or a labelled question; None without labels.
        all_of: every option of every question, rather than the answers that speak for the target.
    """
    found: list[Subject] = []
    if constants is not None:
        floors = category_floors(pack, constants, view)
        for id in pack.categories:
            if all_of or target in (id, DECISION) or target not in pack.categories:
                found.append(_category(pack, constants, id, target or id, floors.get(id)))
    if target in pack.categories and not all_of:
        reads = [read for read in pack.reads if read.category == target]
        return found + [_read(pack, constants, view, read, len(reads) == 1) for read in reads]
    for question in pack.questions:
        for index, prompt in enumerate(question.prompts):
            own = target_of(question.id, prompt.values.get("F"))
            if (target or "").startswith(QUESTION) and not all_of and own != target:
                continue
            for option in options_kept(len(question.options)):
                found.append(_answer(pack, view, (question.id, index), (option,), target or own))
    return found


def category_floors(pack: Pack, constants: Constants, view: View) -> dict[str, float]:
    """Category -> its score with every read at its floor, where all of its floors are kept."""
    kept, logprobs = set(), {}
    for question in pack.questions:
        for index, prompt in enumerate(question.prompts):
            floor = view.floor((question.id, index))
            if floor is not None:
                kept.add((question.id, prompt.values.get("F")))
            # What stands in for a floor that is not kept is in no category that is returned.
            p = np.array([floor or [1.0] * len(question.options)])
            logprobs[question.id, index] = np.log(np.maximum(p, _LEAST_FLOOR))
    scored = score(pack, constants, Answers(1, logprobs, {}))
    lacking = {one.category for one in pack.reads if (one.query, one.value) not in kept}
    return {id: float(one[0]) for id, one in scored.scores.items() if id not in lacking}


def _category(
    pack: Pack, constants: Constants, id: str, target: str, floor: float | None
) -> Subject:
    cuts = constants.bands.categories.get(id) if constants.bands is not None else None
    name = pack.categories[id].label or id
    sql = quoted(f"score:{id}")
    threshold = constants.categories[id].threshold
    return Subject(f"{CATEGORY}{id}", name, "", None, (), 0, target, sql, floor, threshold, cuts)


def _answer(
    pack: Pack, view: View, place: Place, options: tuple[int, ...], target: str, key: str = ""
) -> Subject:
    question = next(one for one in pack.questions if one.id == place[0])
    prompt = question.prompts[place[1]]
    value = prompt.values.get("F")
    count = len(question.options)
    words = " or ".join(question.options[option].strip() for option in options)
    name = f"{place[0]}{'' if value is None else f' [{value}]'}: {words}"
    parts = [
        f"(1 - {quoted(column_of('p', place, 0))})"
        if count == 2 and option == 1
        else quoted(column_of("p", place, option))
        for option in options
    ]
    sql = parts[0] if len(parts) == 1 else f"least({' + '.join(parts)}, 1)"
    floor = view.floor(place)
    floor_p = None
    if floor is not None:
        floor_p = float(_speaking([np.array([floor[option]]) for option in options])[0])
    asks = f"{prompt.text.strip()} {words}"
    key = key or f"{place[0]}#{place[1]}/{options[0]}"
    return Subject(key, name, asks, place, options, count, target, sql, floor_p)


def _read(pack: Pack, constants: Constants | None, view: View, read: Read, alone: bool) -> Subject:
    question = next(one for one in pack.questions if one.id == read.query)
    index = next(
        number
        for number, prompt in enumerate(question.prompts)
        if prompt.values.get("F") == read.value
    )
    count = len(question.options)
    # Which options speak is what evals sums: each alone, as ones and zeros.
    options = tuple(np.flatnonzero(speaking(read, np.eye(count)) > 0).tolist())
    found = _answer(pack, view, (read.query, index), options, read.category, f"read:{read.id}")
    cut = None
    if alone and constants is not None and not pack.categories[read.category].requires:
        cut = _cut(constants, read)
    return replace(found, cut=cut)


def shared_cuts(pack: Pack, subject: Subject) -> dict[str, int]:
    """Category -> of how many answers its score is made, where this answer is one of several."""
    if subject.place is None:
        return {}
    question = next(one for one in pack.questions if one.id == subject.place[0])
    value = question.prompts[subject.place[1]].values.get("F")
    mine = {one.category for one in pack.reads if (one.query, one.value) == (question.id, value)}
    if subject.target in pack.categories:
        mine &= {subject.target}
    sizes = {id: sum(one.category == id for one in pack.reads) for id in pack.categories}
    return {id: size for id, size in sizes.items() if id in mine and size > 1}


def _cut(constants: Constants, read: Read) -> float | None:
    """p at which a category is flagged that rests on one answer of two options; None for others."""
    fit, on = constants.categories[read.category], constants.reads[read.id]
    slope, shift = fit.platt
    if read.kind != "pair" or fit.threshold is None or not 0 < fit.threshold < 1 or slope <= 0:
        return None
    z = (log(fit.threshold / (1 - fit.threshold)) - shift) / slope
    # The value is the log odds of the option that speaks, whichever it is.
    odds = on.mean + on.sd * z
    return 1 / (1 + exp(-odds)) if abs(odds) < 700 else None


def targets(desk: Desk, pack: Pack, dataset: str, *, fitted: bool) -> list[str]:
    """What rows of a dataset are labelled for, as far as the pack knows it; the pack's order."""
    with project_open(desk) as connection:
        given = {
            name
            for (name,) in connection.execute(
                "SELECT DISTINCT target FROM label WHERE dataset = ?", [dataset]
            ).fetchall()
        }
    found = [id for id in pack.categories if id in given]
    if fitted and found:
        found.append(DECISION)
    known = [
        target_of(question.id, prompt.values.get("F"))
        for question in pack.questions
        for prompt in question.prompts
    ]
    return found + [one for one in known if one in given]


@dataclass(frozen=True, slots=True, eq=False)
class Base:
    """What the project says of each row of a view, in its order, [N].

    Attributes:
        number: of the row.
        inside: whether it is in the split, and there still.
        said: its resolved label for the target as codes of `words`; -1 for none.
        words: the labels that occur.
        groups: codes; None when each row stands alone.
        weights: None unless every labelled row has one.
        refused: whether it has no whole answer.
    """

    number: NDArray[np.int64]
    inside: NDArray[np.bool_]
    said: NDArray[np.int16]
    words: tuple[str, ...]
    groups: NDArray[np.int64] | None
    weights: NDArray[np.float64] | None
    refused: NDArray[np.bool_]

    def labels(self, subject: Subject, pack: Pack) -> NDArray[np.int8]:
        """Places in `LABELS`, [N]: what each row is, seen from the subject."""
        places = [LABELS.index(label_for(subject, pack, word)) for word in self.words]
        found = np.array([*places, LABELS.index("no label")], dtype=np.int8)
        labels: NDArray[np.int8] = found[self.said]
        return labels


@dataclass(frozen=True, slots=True)
class _Said:
    labels: Mapping[str, bool]
    classes: Mapping[str, str]
    id: str = "a row"


def label_for(subject: Subject, pack: Pack, word: str | None) -> str:
    """A resolved label as one of `LABELS`; the right option of a question is yes for that option."""
    if word is None:
        return LABELS[3]
    if not subject.target.startswith(QUESTION) or subject.place is None:
        return word if word in LABELS[:3] else LABELS[3]
    question = next(one for one in pack.questions if one.id == subject.place[0])
    try:
        options = tuple(option.strip() for option in question.options)
        right = right_option(subject.target, _Said({}, {subject.target: word}), options)
    except Unusable:
        return LABELS[3]
    if right < 0:
        return UNSURE if word == UNSURE else LABELS[3]
    return YES if right in subject.options else NO


def said_sql(pack: Pack, constants: Constants | None, target: str | None) -> tuple[str, list[Any]]:
    """SQL of (row_id, value) for a target's labels; what is in force decides for the decision."""
    resolved = f"SELECT row_id, target, value FROM ({RESOLVED}) WHERE dataset = $dataset"
    if target != DECISION or constants is None:
        return f"{resolved} AND target = $target", [target or ""]
    deciding = [
        id
        for id, one in pack.categories.items()
        if one.decides and constants.categories[id].threshold is not None
    ]
    decided = (
        "SELECT row_id, CASE"
        " WHEN bool_or(target = 'decision' AND value IN ('yes', 'no'))"
        " THEN max(value) FILTER (WHERE target = 'decision')"
        " WHEN bool_or(value = 'yes' AND target <> 'decision') THEN 'yes'"
        " WHEN count(*) FILTER (WHERE value = 'no' AND target <> 'decision') = len($target)"
        " THEN 'no' END AS value"
        f" FROM ({resolved} AND (target = 'decision' OR list_contains($target, target)))"
        " GROUP BY row_id"
    )
    return decided, [deciding]


def base(
    desk: Desk,
    pack: Pack,
    constants: Constants | None,
    view: View,
    target: str | None,
    split: str | None,
) -> Base:
    """What the project says of a view's rows now."""
    sql, given = said_sql(pack, constants, target)
    with project_open(desk) as connection:
        found = connection.execute(
            f"WITH said AS ({sql}), words AS (SELECT value, row_number() OVER (ORDER BY value) - 1"
            " AS code FROM (SELECT DISTINCT value FROM said WHERE value IS NOT NULL))"
            " SELECT view.number AS number, item.row_id IS NOT NULL AND"
            " ($split IS NULL OR coalesce(item.split = $split, false)) AS inside,"
            " coalesce(words.code, -1)::SMALLINT AS said,"
            " CASE WHEN item.grp IS NULL THEN -view.number"
            " ELSE (hash(item.grp) >> 1)::BIGINT END AS grp, item.weight AS weight,"
            f" view.refused IS NOT NULL AS refused FROM {view.sql} AS view"
            " LEFT JOIN (SELECT row_id, split, grp, weight FROM item WHERE dataset = $dataset) AS"
            " item USING (row_id) LEFT JOIN said USING (row_id)"
            " LEFT JOIN words ON words.value = said.value ORDER BY view.number",
            {"dataset": view.about["dataset"], "split": split, "target": given[0]},
        ).fetchnumpy()
        words = connection.execute(
            f"SELECT DISTINCT value FROM ({sql}) WHERE value IS NOT NULL ORDER BY value",
            {"dataset": view.about["dataset"], "target": given[0]},
        ).fetchall()
    plain = {name: np.ma.getdata(one) for name, one in found.items()}
    weights = np.ma.filled(found["weight"], np.nan)
    labelled = plain["said"] >= 0
    is_weighted = bool(labelled.any()) and not np.isnan(weights[labelled]).any()
    return Base(
        plain["number"],
        plain["inside"].astype(bool),
        plain["said"],
        tuple(word for (word,) in words),
        plain["grp"] if (plain["grp"] >= 0).any() else None,
        weights if is_weighted else None,
        plain["refused"].astype(bool),
    )
