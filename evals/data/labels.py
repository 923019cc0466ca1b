"""Labels: who said what of a row, when, and what follows where several said something.

Per row and target: what was adjudicated last holds; else what all annotators say; where they differ
nothing holds, and the row is listed. Knows no scores.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

import duckdb
import numpy as np

from spinf_serve.evals.project import Project
from spinf_serve.packs.errors import Unusable

Drawn = Literal["random", "queue", "import"]

DRAWN: Final[tuple[Drawn, ...]] = ("random", "queue", "import")
"""How a row was chosen for labelling: blindly, by its score, or nobody said."""

YES: Final = "yes"
NO: Final = "no"
UNSURE: Final = "unsure"

RESOLVED: Final = """
    SELECT
        dataset,
        row_id,
        target,
        CASE
            WHEN bool_or(adjudicated) THEN arg_max(value, "at") FILTER (WHERE adjudicated)
            WHEN count(DISTINCT value) = 1 THEN min(value)
        END AS value,
        bool_or(drawn = 'random') AS blindly,
        bool_or(drawn = 'queue') AS queued
    FROM label
    GROUP BY dataset, row_id, target
"""
"""SQL of one row per labelled (dataset, row_id, target); value is NULL where annotators differ."""

CHOSEN: Final = "(NOT blindly AND (item.drawn = 'random' OR (queued AND item.drawn <> 'queue')))"
"""SQL of `RESOLVED` beside `item`: whether a row that was drawn blindly, or with a known chance, was
chosen for its label by its score or nobody knows how."""


@dataclass(frozen=True, slots=True)
class Label:
    """What one annotator said of one row.

    Attributes:
        row_id: of the row in its dataset.
        target: a category or question.
        value: `yes`, `no`, `unsure` or a class.
        annotator: a name.
        at: when, UTC without zone.
        drawn: how the row came to be labelled; None, in a label that is to be stored, as it was
            drawn.
        score_visible: whether the annotator saw the score.
        adjudicated: whether this settles what others disagree on.
    """

    row_id: str
    target: str
    value: str
    annotator: str
    at: datetime
    drawn: Drawn | None
    score_visible: bool = False
    adjudicated: bool = False


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A row whose annotators differ and that nobody adjudicated.

    Attributes:
        row_id: the row.
        target: on what.
        said: (annotator, value), by annotator.
    """

    row_id: str
    target: str
    said: tuple[tuple[str, str], ...]


def now() -> datetime:
    """The time as it is stored: UTC, without zone."""
    return datetime.now(UTC).replace(tzinfo=None)


def check_dataset(connection: duckdb.DuckDBPyConnection, dataset: str) -> None:
    """Raises `Unusable` when a project has no such dataset."""
    names = [name for (name,) in connection.execute("SELECT name FROM dataset").fetchall()]
    if dataset not in names:
        has = f"it has {', '.join(sorted(names))}" if names else "it has none; import one"
        raise Unusable(f"there is no dataset {dataset!r} in the project; {has}")


def put_labels(project: Project, dataset: str, labels: Sequence[Label]) -> None:
    """Store labels; the same annotator's earlier one on the same row and target is replaced.

    Of several by one annotator in `labels`, the last counts. Raises `Unusable`, and nothing is
    stored, when the dataset or a row is not there.
    """
    last = {(label.row_id, label.target, label.annotator): label for label in labels}
    if not last:
        return
    columns = {
        name: np.array([getattr(label, name) for label in last.values()], dtype=object)
        for name in ("row_id", "target", "value", "annotator", "drawn")
    }
    batch = {
        **columns,
        "at": np.array([label.at for label in last.values()], dtype="datetime64[us]"),
        "score_visible": np.array([label.score_visible for label in last.values()]),
        "adjudicated": np.array([label.adjudicated for label in last.values()]),
    }
    with project.open(write=True) as connection:
        check_dataset(connection, dataset)
        connection.register("given", batch)
        missing = connection.execute(
            "SELECT DISTINCT row_id FROM given WHERE row_id NOT IN"
            " (SELECT row_id FROM item WHERE dataset = ?) ORDER BY row_id",
            [dataset],
        ).fetchall()
        if missing:
            shown = ", ".join(repr(row_id) for (row_id,) in missing[:5])
            raise Unusable(
                f"{len(missing):,} of the rows are not in dataset {dataset!r}: {shown}"
                f"{', …' if len(missing) > 5 else ''}; no label was stored"
            )
        connection.execute(
            "DELETE FROM label USING given WHERE label.dataset = ? AND label.row_id = given.row_id"
            " AND label.target = given.target AND label.annotator = given.annotator",
            [dataset],
        )
        connection.execute(
            'INSERT INTO label SELECT dataset, row_id, target, value, annotator, "at",'
            " coalesce(CAST(given.drawn AS VARCHAR), item.drawn), score_visible, adjudicated"
            " FROM given JOIN item USING (row_id) WHERE dataset = ?",
            [dataset],
        )
        connection.unregister("given")


def delete_label(project: Project, dataset: str, label: Label) -> bool:
    """Take a label back that was stored; False, and nothing is done, when it is another one by now."""
    with project.open(write=True) as connection:
        found = connection.execute(
            "DELETE FROM label WHERE dataset = ? AND row_id = ? AND target = ? AND annotator = ?"
            ' AND value = ? AND "at" = ? RETURNING 1',
            [dataset, label.row_id, label.target, label.annotator, label.value, label.at],
        ).fetchall()
    return bool(found)


def disagreements(project: Project, dataset: str) -> list[Disagreement]:
    """Rows whose labels are not used until someone adjudicates them, by row and target."""
    with project.open(write=False) as connection:
        check_dataset(connection, dataset)
        found = connection.execute(
            f"WITH open AS (SELECT * FROM ({RESOLVED}) WHERE dataset = ? AND value IS NULL)"
            " SELECT row_id, target, list(annotator ORDER BY annotator, value),"
            " list(value ORDER BY annotator, value)"
            " FROM label SEMI JOIN open USING (dataset, row_id, target)"
            " GROUP BY row_id, target ORDER BY row_id, target",
            [dataset],
        ).fetchall()
    return [
        Disagreement(row_id, target, tuple(zip(who, said, strict=True)))
        for row_id, target, who, said in found
    ]


def annotations(
    project: Project, dataset: str, target: str, *, annotators: Collection[str] | None = None
) -> Iterator[Label]:
    """Every stored label of a target as it was given, by row and annotator; for agreement."""
    with project.open(write=False) as connection:
        check_dataset(connection, dataset)
        found = connection.execute(
            'SELECT row_id, target, value, annotator, "at", drawn, score_visible, adjudicated'
            " FROM label WHERE dataset = ? AND target = ? ORDER BY row_id, annotator",
            [dataset, target],
        ).fetchall()
    for values in found:
        label = Label(*values)
        if annotators is None or label.annotator in annotators:
            yield label
