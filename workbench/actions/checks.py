"""How a dataset stands: doubles, conflicts, disagreements, splits. Knows no screen."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from spinf_serve.evals.data.labels import Disagreement
from spinf_serve.evals.data.overview import Alike, Standing, agreements_of, standing
from spinf_serve.evals.data.report import Balance, Contradiction
from spinf_serve.evals.data.splits import Part, split_rows
from spinf_serve.evals.project import Project
from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench.audit import note
from spinf_serve.workbench.desk import Desk
from spinf_serve.workbench.job_kinds import Report

if TYPE_CHECKING:
    import pandas as pd

MOST_AT_ONCE: Final = 500_000
"""Rows and labels of a dataset up to which a page looks at all of them; more are a job's work."""

MOST_CHARS: Final = 1_000
"""Of a text that stands for others: pages mask it before they cut it shorter."""


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


def size_of(project: Project, dataset: str) -> int:
    """Rows and labels of a dataset together."""
    with project.open(write=False) as connection:
        found = connection.execute(
            "SELECT (SELECT count(*) FROM item WHERE dataset = $1)"
            " + (SELECT count(*) FROM label WHERE dataset = $1)",
            [dataset],
        ).fetchone()
    return 0 if found is None else int(found[0])


def check_job(desk: Desk, arguments: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """The job `check`: how a large dataset stands. Argument `state` says of when."""
    dataset = arguments["dataset"]
    report.progress(0, 3, "looking at labels and splits")
    found = checked(desk.project, dataset)
    report.progress(1, 3, "looking for doubles")
    both = together(desk.project, dataset)
    return {"standing": asdict(found), "together": asdict(both)}


def of_job(told: Mapping[str, Any]) -> tuple[Standing, Together]:
    """What the job `check` found."""
    given = dict(told["standing"])
    given["parts"] = tuple(Part(**one) for one in given["parts"])
    given["balance"] = {name: Balance(**one) for name, one in given["balance"].items()}
    given["agreements"] = tuple(
        Alike(
            one["target"],
            (one["annotators"][0], one["annotators"][1]),
            one["rows"],
            one["same"],
            one["kappa"],
            None if one["interval"] is None else (one["interval"][0], one["interval"][1]),
        )
        for one in given["agreements"]
    )
    given["contradictions"] = tuple(
        Contradiction(one["target"], tuple((id, value) for id, value in one["said"]))
        for one in given["contradictions"]
    )
    given["disagreements"] = tuple(
        Disagreement(
            one["row_id"], one["target"], tuple((who, value) for who, value in one["said"])
        )
        for one in given["disagreements"]
    )
    given["warnings"] = tuple(given["warnings"])
    return Standing(**given), Together(**told["together"])


def groups(project: Project, dataset: str, first: int, most: int) -> "pd.DataFrame":
    """Groups of two rows and more, the largest first: group, rows, texts, splits, an example."""
    with project.open(write=False) as connection:
        return connection.execute(
            'SELECT grp AS "group", count(*) AS rows, count(DISTINCT content_digest)'
            " AS \"different texts\", array_to_string(list(DISTINCT split ORDER BY split), ', ')"
            f' AS splits, arg_min(text, number)[:{MOST_CHARS}] AS "first text" FROM item WHERE dataset = ?'
            " AND grp IS NOT NULL GROUP BY grp HAVING count(*) > 1"
            " ORDER BY rows DESC, grp LIMIT ? OFFSET ?",
            [dataset, most, first],
        ).df()


def doubles(project: Project, dataset: str, first: int, most: int) -> "pd.DataFrame":
    """Texts that several rows have, the most frequent first: rows, text, digest."""
    with project.open(write=False) as connection:
        return connection.execute(
            f"SELECT count(*) AS rows, any_value(coalesce(media, text[:{MOST_CHARS}])) AS text,"
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
