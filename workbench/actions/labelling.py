"""Labels one at a time: given, corrected, taken back, each with how its row came to be labelled.

Knows no screen. What holds where annotators differ is `spinf_serve.evals.data.labels`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import duckdb

from spinf_serve.evals.counting import Counting, counting
from spinf_serve.evals.cuts import labels_needed, minimum_rows
from spinf_serve.evals.data.labels import (
    NO,
    YES,
    Drawn,
    Label,
    delete_label,
    now,
    put_labels,
)
from spinf_serve.evals.data.notes import put_note
from spinf_serve.evals.judged import DECISION, QUESTION
from spinf_serve.evals.questions import target_of
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.pack import Pack
from spinf_serve.workbench.audit import note
from spinf_serve.workbench.desk import Desk
from spinf_serve.workbench.started import speaks_for

SETTLED: Final = " (settled)"
"""Ends the name of an annotator who settles a dispute that they are part of: what they said before
stays, since it tells how far annotators agree."""

GUIDELINE: Final = "guideline:"
"""Begins the setting that holds a target's guideline."""

MAX_GUIDELINE_CHARS: Final = 20_000


@dataclass(frozen=True, slots=True)
class TargetName:
    """What rows can be labelled for.

    Attributes:
        target: as labels name it.
        title: for people.
        values: what a label may say, without `unsure`.
    """

    target: str
    title: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Given:
    """A label that was stored, and what stood in its place."""

    label: Label
    before: Label | None


def targets_of(pack: Pack | None, labelled: Sequence[str]) -> list[TargetName]:
    """What rows can be labelled for: a pack's categories, its decision, its questions; then others.

    Args:
        labelled: targets that a dataset has labels for.
    """
    found: dict[str, TargetName] = {}

    def add(target: str, title: str, values: tuple[str, ...] = (YES, NO)) -> None:
        found.setdefault(target, TargetName(target, title, values))

    if pack is not None:
        for id, category in pack.categories.items():
            add(id, id if category.label is None else f"{category.label} ({id})")
        if pack.decision is not None:
            add(DECISION, "The decision as a whole")
    for target in labelled:
        if not target.startswith(QUESTION):
            add(target, target)
    if pack is not None:
        for question in pack.questions:
            for prompt in question.prompts:
                value = prompt.values.get("F")
                title = f"question {question.id}" + ("" if value is None else f", {value}")
                options = tuple(option.strip() for option in question.options)
                add(target_of(question.id, value), title, options)
    for target in labelled:
        add(target, target.removeprefix(QUESTION))
    return list(found.values())


def drawn_for(labels: Sequence[Label], target: str, chosen: Drawn | None) -> Drawn | None:
    """How a row came to be labelled for a target, for a label that is to be stored.

    A row that has a label already was not chosen anew: what said how it was chosen stays. A
    correction of a random row's label leaves it a random row; as a row of a queue it would leave
    the rows that a promise counts, and so would every row where a label and its score differ.

    Args:
        labels: of the row.
        chosen: how it was chosen now; None for as it was drawn.
    """
    earlier = [one.drawn for one in labels if one.target == target and one.drawn != "queue"]
    return earlier[0] if earlier and chosen is not None else chosen


def answer(
    desk: Desk,
    user: str,
    dataset: str,
    row_id: str,
    target: str,
    value: str,
    *,
    annotator: str,
    chosen: Drawn | None,
    score_visible: bool,
    seen: str | None,
    settle: bool = False,
) -> Given:
    """Store one label.

    Args:
        user: who is at the screen; for the audit trail.
        annotator: who says it.
        chosen: how the row was chosen for it; None for as it was drawn.
        seen: what the screen showed as this annotator's label; None for none.
        settle: whether it settles what others said of the row.

    Raises `Unusable`, and stores nothing: the row is gone, the annotator's label is another by now
    than the screen showed, or the annotator is somebody else than the user whom a proxy names.
    """
    _own_name(user, annotator)
    if not annotator.strip():
        raise Unusable("nobody is named as the annotator; write a name beside “Labelling as”")
    with desk.project.open(write=False) as connection:
        labels = [one for one in labels_on(connection, dataset, row_id) if one.target == target]
    others = [one for one in labels if one.annotator not in (annotator, annotator + SETTLED)]
    who = annotator
    if (
        settle
        and others
        and any(one.annotator == annotator and not one.adjudicated for one in labels)
    ):
        who = annotator + SETTLED
    before = next((one for one in labels if one.annotator == who), None)
    own = own_of(labels, target, annotator)
    if (None if own is None else own.value) != seen:
        now_it_is = "no label" if own is None else repr(own.value)
        raise Unusable(
            f"row {row_id}: its label was changed elsewhere meanwhile and is {now_it_is} now;"
            " nothing was overwritten. Look at the row again"
        )
    label = Label(
        row_id,
        target,
        value,
        who,
        now(),
        drawn_for(labels, target, chosen),
        score_visible or (before is not None and before.score_visible),
        settle and bool(others),
    )
    put_labels(desk.project, dataset, [label])
    note(
        desk,
        user,
        "label",
        f"{dataset}/{row_id}",
        target=target,
        value=value,
        before=None if before is None else before.value,
        annotator=who,
    )
    return Given(label, before)


def correct(
    desk: Desk,
    user: str,
    dataset: str,
    row_id: str,
    target: str,
    value: str,
    *,
    annotator: str,
    score_visible: bool,
    seen: str | None,
) -> Given:
    """Mend a label, or give one, of a row that was picked by hand; it settles what others said.

    Arguments and errors as for `answer`. Nobody knows how the row was picked: where it had no label
    it counts for no promise.
    """
    chosen: Drawn = "queue" if score_visible else "import"
    return answer(
        desk,
        user,
        dataset,
        row_id,
        target,
        value,
        annotator=annotator,
        chosen=chosen,
        score_visible=score_visible,
        seen=seen,
        settle=True,
    )


def undo(desk: Desk, user: str, dataset: str, given: Given) -> None:
    """Take a label back, and put what stood there before in its place.

    Raises `Unusable`, and changes nothing, when the label is another one by now, or of somebody
    else than the user whom a proxy names.
    """
    label, before = given.label, given.before
    _own_name(user, user if label.annotator == user + SETTLED else label.annotator)
    if not delete_label(desk.project, dataset, label):
        raise Unusable(
            f"row {label.row_id}: its label was changed elsewhere since, so that nothing was undone"
        )
    if before is not None:
        put_labels(desk.project, dataset, [before])
    note(
        desk,
        user,
        "undo label",
        f"{dataset}/{label.row_id}",
        target=label.target,
        value=None if before is None else before.value,
        before=label.value,
        annotator=label.annotator,
    )


def write_note(
    desk: Desk, user: str, dataset: str, row_id: str, target: str, annotator: str, text: str
) -> None:
    """Keep an annotator's note on a row; a blank one takes it away.

    Errors as `put_note`, and `Unusable` for a name that is not the user's where a proxy names users.
    """
    _own_name(user, annotator)
    put_note(desk.project, dataset, row_id, target, annotator, text)
    note(desk, user, "note on a row", f"{dataset}/{row_id}", target=target, chars=len(text.strip()))


def _own_name(user: str, annotator: str) -> None:
    # Pages offer no other name then; this holds for what comes around them.
    if not speaks_for(user, annotator):
        raise Unusable(
            f"{user} is signed in, and labels and notes are kept under that name, not {annotator!r}"
        )


def own_of(labels: Sequence[Label], target: str, annotator: str) -> Label | None:
    """What an annotator says of a target: what they settled goes before what they said first."""
    mine = {one.annotator: one for one in labels if one.target == target}
    return mine.get(annotator + SETTLED) or mine.get(annotator)


def labels_on(connection: duckdb.DuckDBPyConnection, dataset: str, row_id: str) -> list[Label]:
    """All labels of a row as given, by target, the latest last."""
    found = connection.execute(
        'SELECT row_id, target, value, annotator, "at", drawn, score_visible, adjudicated'
        ' FROM label WHERE dataset = ? AND row_id = ? ORDER BY target, "at", annotator',
        [dataset, row_id],
    ).fetchall()
    return [Label(*values) for values in found]


def guideline(desk: Desk, target: str) -> str:
    """What annotators are told of a target; '' for nothing yet."""
    found = desk.settings().get(GUIDELINE + target, "")
    return found if isinstance(found, str) else ""


def write_guideline(desk: Desk, user: str, target: str, text: str, *, seen: str) -> None:
    """Keep a target's guideline.

    Raises `Unusable`, and keeps the old one: somebody changed it since it was `seen`, or it is too
    long.
    """
    text = text.strip()
    if len(text) > MAX_GUIDELINE_CHARS:
        raise Unusable(
            f"the guideline has {len(text):,} characters and may have {MAX_GUIDELINE_CHARS:,}"
        )
    found = guideline(desk, target)
    if found == text:
        return
    if found != seen:
        raise Unusable(
            "somebody else changed this guideline meanwhile; nothing was overwritten. Copy your text,"
            " reload the page and put the two together"
        )
    desk.set(**{GUIDELINE + target: text})
    note(desk, user, "guideline", target, chars=len(text))


def counted(desk: Desk, dataset: str, target: str, split: str | None) -> Counting:
    """How many labels of a target a promise may count."""
    with desk.project.open(write=False) as connection:
        return counting(connection, dataset, target, split)


@dataclass(frozen=True, slots=True)
class Needed:
    """Labels that a promise of a share takes at least, and how many are there.

    Attributes:
        flawless, one_wrong: rows that have to be counted when none errs, and when one does.
        holds: counted rows where the target holds; a promise of recall counts these.
        rows: counted rows; a promise of precision counts those of them that a cut flags.
    """

    value: float
    delta: float
    flawless: int
    one_wrong: int
    holds: int
    rows: int


def needed(found: Counting, value: float, delta: float = 0.05) -> Needed:
    """What a promise of a share takes, see `spinf_serve.evals.cuts`."""
    return Needed(
        value,
        delta,
        minimum_rows(value, delta),
        labels_needed(value, 1, delta),
        found.values.get(YES, 0),
        found.counted,
    )


def as_json(given: Given) -> dict[str, object]:
    """A given label as a queue keeps it."""
    return {"label": _told(given.label), "before": _told(given.before)}


def of_json(told: dict[str, object]) -> Given:
    """The opposite of `as_json`."""
    label = _label(told["label"])
    if label is None:
        raise ValueError("a given label without a label")
    return Given(label, _label(told["before"]))


def _told(label: Label | None) -> dict[str, object] | None:
    if label is None:
        return None
    return {
        name: getattr(label, name)
        for name in (
            "row_id",
            "target",
            "value",
            "annotator",
            "drawn",
            "score_visible",
            "adjudicated",
        )
    } | {"at": label.at.isoformat()}


def _label(told: object) -> Label | None:
    if not isinstance(told, dict):
        return None
    return Label(**{**told, "at": datetime.fromisoformat(told["at"])})
