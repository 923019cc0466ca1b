"""What a project holds, and how one of its datasets stands."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from spinf_serve.evals.data.importing import balance_of, contradictions_of
from spinf_serve.evals.data.labels import Disagreement, check_dataset, disagreements
from spinf_serve.evals.data.report import Balance, Contradiction, warnings_of
from spinf_serve.evals.data.splits import Part, groups_apart, parts_of
from spinf_serve.evals.project import Project


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
class Standing:
    """How a dataset stands.

    Attributes:
        parts: its splits.
        balance: target -> labels as given.
        drawn: how labels' rows were drawn -> labels.
        contradictions, contradiction_count: same text, other label.
        disagreements: rows that wait for adjudication.
        apart: groups with rows in more than one split.
        warnings: what to look at before fitting.
    """

    parts: tuple[Part, ...]
    balance: Mapping[str, Balance]
    drawn: Mapping[str, int]
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
        contradictions, count = contradictions_of(connection, dataset)
        apart = groups_apart(connection, dataset)
    return Standing(
        parts,
        balance,
        drawn,
        contradictions,
        count,
        tuple(disagreements(project, dataset)),
        apart,
        tuple(warnings_of(balance, {}, sum(part.rows for part in parts))),
    )
