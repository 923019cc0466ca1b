"""Splits a dataset into parts, by group and balanced by label, the same for the same seed.

Rows of one group never part. Knows nothing of what the parts are for.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import duckdb
import numpy as np

from spinf_serve.evals.data.labels import RESOLVED, check_dataset
from spinf_serve.evals.data.rows import digest_of
from spinf_serve.evals.project import Project
from spinf_serve.packs.errors import Unusable

_TOLERANCE: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a dataset.

    Attributes:
        name: of the split.
        rows: how many.
        groups: of how many groups, a row without one being its own.
        held: target -> rows where it holds.
    """

    name: str
    rows: int
    groups: int
    held: Mapping[str, int]


def split_rows(
    project: Project,
    dataset: str,
    shares: Mapping[str, float],
    *,
    seed: int = 0,
    by: Sequence[str] | None = None,
) -> list[Part]:
    """Put every row of a dataset into one part, in place of the part it was in.

    Groups with the same labels are spread over the parts by their shares, in an order that the seed
    and their names alone decide: adding a row of another group moves few of them, and importing in
    another order none. A part's share is met to within its largest group.

    Args:
        project, dataset: the rows.
        shares: part -> share of the rows, above 0, together 1.
        seed: another one gives another split.
        by: targets to balance; None for all. A group holds a target when one of its rows does.

    Raises `Unusable`: shares that are none, no such dataset, or a target that nobody labelled.
    """
    _check(shares, seed)
    with project.open(write=True) as connection:
        check_dataset(connection, dataset)
        _check_targets(connection, dataset, by)
        connection.execute(
            f"""
            CREATE TEMP TABLE ordered AS
            WITH grouped AS (
                SELECT row_id, CASE WHEN grp IS NULL THEN 'r' || row_id ELSE 'g' || grp END AS grp
                FROM item WHERE dataset = $dataset
            ), held AS (
                SELECT grp, list(DISTINCT [target, value] ORDER BY [target, value]) AS labels
                FROM ({RESOLVED}) JOIN grouped USING (row_id)
                WHERE dataset = $dataset AND value NOT IN ('no', 'unsure')
                    AND ($targets IS NULL OR list_contains($targets, target))
                GROUP BY grp
            ), sized AS (SELECT grp, count(*) AS size FROM grouped GROUP BY grp)
            SELECT
                grp, size,
                row_number() OVER (ORDER BY labels, sha256($seed || ' ' || grp), grp) - 1 AS place
            FROM sized LEFT JOIN held USING (grp)
            """,
            {"dataset": dataset, "seed": str(seed), "targets": None if by is None else list(by)},
        )
        sizes = [
            int(size)
            for (size,) in connection.execute("SELECT size FROM ordered ORDER BY place").fetchall()
        ]
        names = list(shares)
        parts = _dealt(sizes, [shares[name] for name in names])
        connection.register(
            "dealt", {"place": np.arange(len(sizes)), "part": np.array(parts, np.int64)}
        )
        connection.execute(
            "UPDATE item SET split = $names[dealt.part + 1] FROM ordered JOIN dealt USING (place)"
            " WHERE item.dataset = $dataset AND ordered.grp ="
            " CASE WHEN item.grp IS NULL THEN 'r' || item.row_id ELSE 'g' || item.grp END",
            {"dataset": dataset, "names": names},
        )
        connection.unregister("dealt")
        connection.execute("DROP TABLE ordered")
        connection.execute(
            "UPDATE dataset SET digest = ? WHERE name = ?",
            [digest_of(connection, dataset), dataset],
        )
        return parts_of(connection, dataset)


def parts_of(connection: duckdb.DuckDBPyConnection, dataset: str) -> list[Part]:
    """The parts of a dataset by name; rows that are in none count under the empty name."""
    held: dict[str, dict[str, int]] = {}
    for split, target, count in connection.execute(
        f"SELECT coalesce(split, ''), target, count(*) FROM ({RESOLVED})"
        " JOIN item USING (dataset, row_id) WHERE dataset = ? AND value = 'yes'"
        " GROUP BY ALL ORDER BY ALL",
        [dataset],
    ).fetchall():
        held.setdefault(split, {})[target] = count
    found = connection.execute(
        "SELECT coalesce(split, '') AS split, count(*), count(DISTINCT grp) + count(*) FILTER"
        " (grp IS NULL) FROM item WHERE dataset = ? GROUP BY split ORDER BY split",
        [dataset],
    ).fetchall()
    return [Part(split, rows, groups, held.get(split, {})) for split, rows, groups in found]


def groups_apart(connection: duckdb.DuckDBPyConnection, dataset: str) -> int:
    """How many groups have rows in more than one part, after rows were added; split anew then."""
    found = connection.execute(
        "SELECT count(*) FROM (SELECT grp FROM item WHERE dataset = ? AND grp IS NOT NULL"
        " AND split IS NOT NULL GROUP BY grp HAVING count(DISTINCT split) > 1)",
        [dataset],
    ).fetchone()
    return 0 if found is None else int(found[0])


def _dealt(sizes: Sequence[int], shares: Sequence[float]) -> list[int]:
    """For each group in order the part that lacks most rows of what it should have by then."""
    given = [0] * len(shares)
    total = 0
    parts = []
    for size in sizes:
        total += size
        lacks = [share * total - rows for share, rows in zip(shares, given, strict=True)]
        part = lacks.index(max(lacks))
        given[part] += size
        parts.append(part)
    return parts


def _check(shares: Mapping[str, float], seed: int) -> None:
    if len(shares) < 2:
        raise Unusable("a split has two parts or more, such as fit=0.6 test=0.4")
    for name, share in shares.items():
        if not name.strip() or not (math.isfinite(share) and share > 0):
            raise Unusable(f"part {name!r} has the share {share:g}; write a name and one above 0")
    total = math.fsum(shares.values())
    if abs(total - 1) > _TOLERANCE:
        raise Unusable(f"the shares add up to {total:g}; they are parts of 1")
    if seed < 0:
        raise Unusable(f"seed {seed} is below 0")


def _check_targets(
    connection: duckdb.DuckDBPyConnection, dataset: str, by: Sequence[str] | None
) -> None:
    known = {
        target
        for (target,) in connection.execute(
            "SELECT DISTINCT target FROM label WHERE dataset = ?", [dataset]
        ).fetchall()
    }
    for target in by or ():
        if target not in known:
            has = ", ".join(sorted(known)) or "none"
            raise Unusable(f"nobody labelled {target!r} in {dataset!r}; labelled are {has}")
