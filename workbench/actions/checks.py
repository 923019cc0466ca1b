"""How a dataset stands: doubles, conflicts, disagreements, splits. Knows no screen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spinf_serve.evals.data.overview import Alike, Standing, agreements_of, standing
from spinf_serve.evals.data.splits import Part, split_rows
from spinf_serve.evals.project import Project
from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench.audit import note
from spinf_serve.workbench.desk import Desk

if TYPE_CHECKING:
    import pandas as pd

MOST_AT_ONCE: Final = 2_000_000
"""Rows and labels of a dataset up to which a page looks at all of them when it is opened."""


def checked(project: Project, dataset: str) -> Standing:
    """How a dataset stands, see `evals.data.overview`. Raises `Unusable` when it is not there."""
    return standing(project, dataset)


@dataclass(frozen=True, slots=True)
class Together:
    """Rows that belong together, of a dataset.

    Attributes:
        same: texts that several rows have.
        same_rows: rows that have a text which an earlier one has.
        groups: groups of two rows and more.
        near: of these, made since their texts are nearly the same.
    """

    same: int
    same_rows: int
    groups: int
    near: int


def together(project: Project, dataset: str) -> Together:
    """How many rows are there twice, or belong together."""
    with project.open(write=False) as connection:
        same = connection.execute(
            "SELECT count(*), coalesce(sum(size - 1), 0) FROM (SELECT count(*) AS size FROM item"
            " WHERE dataset = ? GROUP BY content_digest HAVING count(*) > 1)",
            [dataset],
        ).fetchall()[0]
        groups = connection.execute(
            "SELECT count(*), count(*) FILTER (starts_with(grp, 'near:')) FROM (SELECT grp FROM item"
            " WHERE dataset = ? AND grp IS NOT NULL GROUP BY grp HAVING count(*) > 1)",
            [dataset],
        ).fetchall()[0]
    return Together(*map(int, (*same, *groups)))


def groups(project: Project, dataset: str, first: int, most: int) -> "pd.DataFrame":
    """Groups of two rows and more, the largest first: group, rows, texts, splits, an example."""
    with project.open(write=False) as connection:
        return connection.execute(
            'SELECT grp AS "group", count(*) AS rows, count(DISTINCT content_digest)'
            " AS \"different texts\", array_to_string(list(DISTINCT split ORDER BY split), ', ')"
            ' AS splits, arg_min(text, number)[:200] AS "first text" FROM item WHERE dataset = ?'
            " AND grp IS NOT NULL GROUP BY grp HAVING count(*) > 1"
            " ORDER BY rows DESC, grp LIMIT ? OFFSET ?",
            [dataset, most, first],
        ).df()


def doubles(project: Project, dataset: str, first: int, most: int) -> "pd.DataFrame":
    """Texts that several rows have, the most frequent first: rows, text, digest."""
    with project.open(write=False) as connection:
        return connection.execute(
            "SELECT count(*) AS rows, any_value(coalesce(media, text[:200])) AS text,"
            " content_digest AS digest FROM item WHERE dataset = ? GROUP BY content_digest"
            " HAVING count(*) > 1 ORDER BY rows DESC, min(number) LIMIT ? OFFSET ?",
            [dataset, most, first],
        ).df()


def split(
    desk: Desk,
    user: str,
    dataset: str,
    shares: Mapping[str, float],
    seed: int,
    by: Sequence[str] | None,
) -> list[Part]:
    """Split a dataset anew; says so in the audit trail. Errors as `evals.data.splits.split_rows`."""
    parts = split_rows(desk.project, dataset, shares, seed=seed, by=by)
    note(
        desk,
        user,
        "split",
        dataset,
        shares=dict(shares),
        seed=seed,
        by=None if by is None else list(by),
    )
    return parts


def shares_of(text: str) -> dict[str, float]:
    """Shares as people write them: `fit=60 test=40`, in parts of 100 or of 1.

    Raises `Unusable` with what is wrong.
    """
    found: dict[str, float] = {}
    for one in text.replace(",", " ").split():
        name, mark, value = one.partition("=")
        try:
            share = float(value.removesuffix("%"))
        except ValueError:
            share = -1.0
        if not mark or not name or share <= 0:
            raise Unusable(f"{one!r} is no part; write a name and a share, such as fit=60 test=40")
        if name in found:
            raise Unusable(f"the part {name!r} stands there twice")
        found[name] = share
    total = sum(found.values())
    if abs(total - 100) < 1e-6:
        return {name: share / 100 for name, share in found.items()}
    return found


def agreements(project: Project, dataset: str, target: str) -> tuple[Alike, ...]:
    """How far annotators agree on a target."""
    with project.open(write=False) as connection:
        return agreements_of(connection, dataset, target)
