"""What a project keeps of promises: chances of error that were spent, and packs that were fitted.

A certification looks at labels, so each spends part of the chance of a wrong promise that its rows can
carry (`spinf_serve.evals.certify.allowance`). The same certification made again shows nothing new and
spends nothing. Knows no pack and no statistics.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from spinf_serve.evals.project import Project


@dataclass(frozen=True, slots=True)
class Spent:
    """One certification.

    Attributes:
        target: what was to be flagged, a category or `decision`.
        delta: the chance of a wrong promise that it took, promised or not.
        kind: what was asked for, such as `precision:0.9`.
        split: the part of the dataset whose rows it counted; None for all.
        at: when, UTC without zone.
        by: who.
        key: equal for the same certification made again.
    """

    target: str
    delta: float
    kind: str
    split: str | None
    at: datetime
    by: str
    key: str


def spent(project: Project, dataset: str, target: str, split: str | None) -> list[Spent]:
    """The certifications of a target that counted rows of a split, oldest first.

    Those on the whole dataset counted rows of every split, and every split's rows are among all.
    """
    with project.open(write=False) as connection:
        found = connection.execute(
            'SELECT target, delta, kind, split, "at", "by", note FROM spent WHERE dataset = ?'
            ' AND target = ? AND (split = ? OR split IS NULL OR ?) ORDER BY "at"',
            [dataset, target, split, split is None],
        ).fetchall()
    return [Spent(*values) for values in found]


def spend(project: Project, dataset: str, entries: Sequence[Spent]) -> None:
    """Note certifications, those left out that are noted already."""
    with project.open(write=True) as connection:
        for one in entries:
            connection.execute(
                "INSERT INTO spent SELECT $1, $2, $3, $4, $5, $6, $7, $8 WHERE NOT EXISTS"
                " (SELECT 1 FROM spent WHERE dataset = $1 AND target = $3 AND note = $8)",
                [dataset, one.split, one.target, one.delta, one.kind, one.at, one.by, one.key],
            )


def keep_fit(
    project: Project,
    pack: str,
    version: str,
    by: str,
    data_digest: str,
    report: Mapping[str, Any],
) -> None:
    """Keep the report of a fit whose numbers were saved, and who made it."""
    with project.open(write=True) as connection:
        connection.execute(
            "INSERT INTO fitted VALUES (?, ?, ?, ?, ?, ?)",
            [pack, version, now(), by, data_digest, json.dumps(report, ensure_ascii=False)],
        )


def now() -> datetime:
    """The time as it is stored: UTC, without zone."""
    return datetime.now(UTC).replace(tzinfo=None)
