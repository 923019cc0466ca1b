"""What a project holds, and how one of its datasets stands."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import duckdb

from spinf_serve.evals.data.importing import balance_of, contradictions_of
from spinf_serve.evals.data.labels import (
    CHOSEN,
    RESOLVED,
    UNSURE,
    Disagreement,
    check_dataset,
    disagreements,
)
from spinf_serve.evals.data.report import Balance, Contradiction, warnings_of
from spinf_serve.evals.data.splits import Part, groups_apart, parts_of
from spinf_serve.evals.project import Project

PAIRS: Final = 20
"""Most pairs of annotators whose agreement is told."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """One dataset of a project.

    Attributes:
        name, source: as imported.
        created: UTC without zone.
        rows, labels: how many.
        digest: of its rows and labels.
    """

    name: str
    source: str
    created: datetime
    rows: int
    labels: int
    digest: str


@dataclass(frozen=True, slots=True)
class Alike:
    """How far two annotators say the same of a target; nobody's `unsure` is counted.

    Attributes:
        rows: that both labelled.
        same: of these, with the same label.
        kappa: Cohen's, with its 95 % interval by the bootstrap; None when both gave one same label
            throughout, or where the rows do not tell.
    """

    target: str
    annotators: tuple[str, str]
    rows: int
    same: int
    kappa: float | None
    interval: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Standing:
    """How a dataset stands.

    Attributes:
        parts: its splits.
        balance: target -> labels as given.
        drawn: how labels' rows were drawn -> labels.
        chosen: target -> rows whose label no promise counts, since they were drawn at random or with
            a known chance, and then chosen for that label otherwise.
        visible: labels whose annotator saw the score.
        agreements: of two annotators on the same rows, those of the most rows first.
        contradictions, contradiction_count: same text, other label.
        disagreements: rows that wait for adjudication.
        apart: groups with rows in more than one split.
        warnings: what to look at before fitting.
    """

    parts: tuple[Part, ...]
    balance: Mapping[str, Balance]
    drawn: Mapping[str, int]
    chosen: Mapping[str, int]
    visible: int
    agreements: tuple[Alike, ...]
    contradictions: tuple[Contradiction, ...]
    contradiction_count: int
    disagreements: tuple[Disagreement, ...]
    apart: int
    warnings: tuple[str, ...]


def datasets(project: Project) -> list[Dataset]:
    """All datasets by name."""
    with project.open(write=False) as connection:
        found = connection.execute(
            """
            SELECT name, source, created,
                (SELECT count(*) FROM item WHERE dataset = name),
                (SELECT count(*) FROM label WHERE dataset = name), digest
            FROM dataset ORDER BY name
            """
        ).fetchall()
    return [Dataset(*values) for values in found]


def standing(project: Project, dataset: str) -> Standing:
    """How a dataset stands. Raises `Unusable` when it is not there."""
    with project.open(write=False) as connection:
        check_dataset(connection, dataset)
        parts = tuple(parts_of(connection, dataset))
        balance = balance_of(connection, dataset)
        drawn = dict(
            connection.execute(
                "SELECT drawn, count(*) FROM label WHERE dataset = ? GROUP BY drawn ORDER BY drawn",
                [dataset],
            ).fetchall()
        )
        chosen = dict(
            connection.execute(
                f"SELECT target, count(*) FROM ({RESOLVED}) JOIN item USING (dataset, row_id)"
                f" WHERE dataset = ? AND value IS NOT NULL AND {CHOSEN}"
                " GROUP BY target ORDER BY target",
                [dataset],
            ).fetchall()
        )
        visible = connection.execute(
            "SELECT count(*) FROM label WHERE dataset = ? AND score_visible", [dataset]
        ).fetchall()[0][0]
        agreements = agreements_of(connection, dataset)
        contradictions, count = contradictions_of(connection, dataset)
        apart = groups_apart(connection, dataset)
    return Standing(
        parts,
        balance,
        drawn,
        chosen,
        visible,
        agreements,
        contradictions,
        count,
        tuple(disagreements(project, dataset)),
        apart,
        tuple(warnings_of(balance, {}, sum(part.rows for part in parts))),
    )


def agreements_of(
    connection: duckdb.DuckDBPyConnection, dataset: str, target: str | None = None
) -> tuple[Alike, ...]:
    """How far annotators agree, of one target or all: the `PAIRS` pairs of the most rows."""
    pairs = connection.execute(
        """
        SELECT a.target, a.annotator, b.annotator,
            list(a.value ORDER BY row_id), list(b.value ORDER BY row_id)
        FROM label a JOIN label b USING (dataset, row_id, target)
        WHERE dataset = $dataset AND a.annotator < b.annotator
            AND NOT a.adjudicated AND NOT b.adjudicated
            AND a.value <> $unsure AND b.value <> $unsure
            AND ($target IS NULL OR target = $target)
        GROUP BY a.target, a.annotator, b.annotator
        ORDER BY count(*) DESC, a.target, a.annotator, b.annotator LIMIT $pairs
        """,
        {"dataset": dataset, "target": target, "unsure": UNSURE, "pairs": PAIRS},
    ).fetchall()
    if not pairs:
        return ()
    # Heavy, and most datasets have one annotator.
    from spinf_serve.evals.metrics.agreement import kappa

    found = []
    for name, one, other, first, second in pairs:
        measured = kappa(first, second)
        value = None if measured is None else measured.kappa
        interval = None
        if measured is not None and measured.interval is not None:
            interval = measured.interval.low, measured.interval.high
        same = sum(a == b for a, b in zip(first, second, strict=True))
        found.append(Alike(name, (one, other), len(first), same, value, interval))
    return tuple(found)
