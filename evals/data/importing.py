"""Imports rows of a file or query into a dataset, streamed, with a report of all that was found.

Rows wait in a file of their own, so that the project is held for the last step only, which is one
transaction: an import is there whole or not at all.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import duckdb

from spinf_serve.evals.data.columns import Columns, Origin, Taker, likeness_of
from spinf_serve.evals.data.labels import RESOLVED, now
from spinf_serve.evals.data.readers import Source, batches, open_source
from spinf_serve.evals.data.report import (
    EXAMPLES,
    Balance,
    Contradiction,
    Doubles,
    ImportReport,
    Tally,
    alike,
    warnings_of,
)
from spinf_serve.evals.data.rows import digest_of, rows
from spinf_serve.evals.data.splits import groups_apart
from spinf_serve.evals.data.staging import Staging, staging
from spinf_serve.evals.project import Project
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import shown

_MEMBERS: Final = 20


class _Undone(Exception):
    """Takes back what a dry run wrote."""


def import_rows(
    project: Project,
    dataset: str,
    source: Source,
    columns: Columns,
    origin: Origin,
    *,
    append: bool = False,
    strict: bool = False,
    dry_run: bool = False,
    done: Callable[[int], None] | None = None,
) -> ImportReport:
    """Read a source into a dataset.

    A row that cannot be taken is refused with its line and reason, and the others go in. Texts that
    are near to each other become one group where no group is given.

    Args:
        project, dataset: where to.
        source: the file or query.
        columns: which column means what.
        origin: how the labels came about.
        append: whether the dataset is there already and gets more rows.
        strict: whether one refused row keeps all out.
        dry_run: whether to tell what would be and write nothing.
        done: told how many rows were read, now and then.

    Raises `Unusable`: the source cannot be read, a column is missing, the dataset is there already
    (or is not, for `append`), or nothing could be taken.
    """
    columns.check()
    if not dataset.strip():
        raise Unusable("a dataset's name is not blank")
    if shown(dataset) != dataset:
        raise Unusable(f"dataset {shown(dataset)!r}: its name is no text in UTF-8; write another")
    _check_name(project, dataset, append)
    opened = open_source(source, columns.wanted())
    tally = Tally()
    taker = Taker(columns, opened.columns, tally)
    with staging(project) as stage:
        if append:
            _know(project, dataset, stage)
        for batch in batches(opened.lines):
            stage.add([row for line in batch if (row := taker.take(line)) is not None])
            if done is not None:
                done(tally.read)
        stage.finish(tally)
        stage.close()
        taken = tally.read - tally.refused_count
        if not taken:
            first = (
                f"; line {tally.refused[0].line:,}: {tally.refused[0].reason}" if tally.read else ""
            )
            raise Unusable(f"{source.name}: none of {tally.read:,} rows can be taken{first}")
        keep = not dry_run and not (strict and tally.refused_count)
        written = _Written(stage, dataset, source.name, columns, origin, sorted(taker.listed))
        try:
            with project.open(write=True) as connection:
                _check_absent(connection, dataset, append)
                found = written.into(connection)
                if not keep:
                    raise _Undone
        except _Undone:
            pass
    balance, doubles, contradictions, contradiction_count, digest = found
    warned = warnings_of(balance, tally.missing, tally.read) + alike(taker.listed)
    if written.apart:
        warned.append(
            f"{written.apart:,} groups of rows that belong together lie in more than one split;"
            " split the dataset anew"
        )
    if doubles.parted:
        warned.append(
            f"{doubles.parted:,} groups of rows with equal or nearly equal texts lie in several groups"
            " of the group column, so that a split may part them and they count as independent: give"
            " such rows one group"
        )
    if tally.refused_count and not keep and not dry_run:
        warned.append("--strict: rows were refused, and nothing was written")
    return ImportReport(
        dataset,
        source.name,
        opened.encoding,
        opened.notes,
        tally.read,
        taken if keep else 0,
        tuple(tally.refused),
        tally.refused_count,
        dict(tally.missing),
        {target: dict(counts.most_common()) for target, counts in tally.unknown.items()},
        doubles,
        contradictions,
        contradiction_count,
        balance,
        tuple(warned),
        digest,
    )


def _check_name(project: Project, dataset: str, append: bool) -> None:
    with project.open(write=False) as connection:
        _check_absent(connection, dataset, append)


def _check_absent(connection: duckdb.DuckDBPyConnection, dataset: str, append: bool) -> None:
    there = connection.execute("SELECT 1 FROM dataset WHERE name = ?", [dataset]).fetchone()
    if there is not None and not append:
        raise Unusable(f"dataset {dataset!r} is there already; --append adds rows to it")
    if there is None and append:
        raise Unusable(f"there is no dataset {dataset!r} to --append to")


def _know(project: Project, dataset: str, stage: Staging) -> None:
    part: list[tuple[str, str | None, str]] = []
    for row in rows(project, dataset):
        part.append((row.id, row.group, likeness_of(row.text, row.media)))
        if len(part) == 5_000:
            stage.know(part)
            part = []
    if part:
        stage.know(part)


class _Written:
    """The last step: rows out of the staging file into the project's tables.

    Attributes:
        apart: groups with rows in more than one split, once it is done.
    """

    def __init__(
        self,
        stage: Staging,
        dataset: str,
        source: str,
        columns: Columns,
        origin: Origin,
        listed: Sequence[str],
    ) -> None:
        self._path = stage.path
        self._dataset = dataset
        self._source = source
        self._columns = columns
        self._origin = origin
        self._listed = listed
        self.apart = 0

    def into(
        self, connection: duckdb.DuckDBPyConnection
    ) -> tuple[dict[str, Balance], Doubles, tuple[Contradiction, ...], int, str]:
        """Insert, and say what is there now; the digest comes last."""
        at = now()
        connection.execute(
            "ATTACH '" + str(self._path).replace("'", "''") + "' AS stage (READ_ONLY)"
        )
        connection.execute(_NAMED)
        connection.execute(
            "INSERT INTO dataset SELECT ?, ?, ?, '' WHERE NOT EXISTS (FROM dataset WHERE name = ?)",
            [self._dataset, at, self._source, self._dataset],
        )
        last = connection.execute(
            "SELECT coalesce(max(number), 0) FROM item WHERE dataset = ?", [self._dataset]
        ).fetchone()
        connection.execute(
            _ITEMS,
            {
                "dataset": self._dataset,
                "last": 0 if last is None else last[0],
                "drawn": self._origin.drawn,
            },
        )
        # A row of an older import may be near to a new one.
        connection.execute(
            "UPDATE item SET grp = named.grp FROM stage.near JOIN stage.known USING (number)"
            " JOIN named USING (first) WHERE item.dataset = ? AND item.row_id = known.row_id"
            " AND (item.grp IS NULL OR starts_with(item.grp, 'near:'))",
            [self._dataset],
        )
        said = {
            "dataset": self._dataset,
            "annotator": self._origin.annotator,
            "at": at,
            "drawn": self._origin.drawn,
            "visible": self._origin.score_visible,
        }
        connection.execute(_LABELS, said)
        if self._columns.lists is not None:
            connection.execute(_UNNAMED, {**said, "targets": list(self._listed)})
        digest = digest_of(connection, self._dataset)
        connection.execute("UPDATE dataset SET digest = ? WHERE name = ?", [digest, self._dataset])
        contradictions, count = contradictions_of(connection, self._dataset)
        doubles = self._doubles(connection)
        balance = balance_of(connection, self._dataset)
        connection.execute("DROP TABLE named")
        self.apart = groups_apart(connection, self._dataset)
        return balance, doubles, contradictions, count, digest

    def _doubles(self, connection: duckdb.DuckDBPyConnection) -> Doubles:
        connection.execute(
            """
            CREATE TEMP TABLE together AS
            SELECT near.first, item.number, item.row_id, item.content_digest, item.grp
            FROM (
                SELECT number, row_id FROM stage.known
                UNION ALL SELECT number, row_id FROM stage.taken
            ) AS staged JOIN stage.near USING (number)
            JOIN item ON item.dataset = ? AND item.row_id = staged.row_id
            """,
            [self._dataset],
        )
        counts = connection.execute(
            """
            SELECT
                coalesce(sum(size - texts), 0), coalesce(sum(texts - 1), 0), count(*),
                count(*) FILTER (groups > 1)
            FROM (
                SELECT first, count(*) AS size, count(DISTINCT content_digest) AS texts,
                    count(DISTINCT grp) AS groups
                FROM together GROUP BY first
            )
            """
        ).fetchone()
        examples = connection.execute(
            "SELECT list(row_id ORDER BY number)[:?] FROM together"
            " GROUP BY first ORDER BY first LIMIT ?",
            [_MEMBERS, EXAMPLES],
        ).fetchall()
        connection.execute("DROP TABLE together")
        exact, near, groups, parted = (0, 0, 0, 0) if counts is None else map(int, counts)
        return Doubles(exact, near, groups, parted, tuple(tuple(ids) for (ids,) in examples))


def contradictions_of(
    connection: duckdb.DuckDBPyConnection, dataset: str
) -> tuple[tuple[Contradiction, ...], int]:
    """Texts with different labels for one target, as resolved per row: the first, and how many."""
    connection.execute(_CONTRADICTIONS, {"dataset": dataset})
    count = connection.execute("SELECT count(*) FROM contradicting").fetchall()[0][0]
    found: list[Any] = connection.execute(
        "SELECT target, said FROM contradicting ORDER BY number, target LIMIT ?", [EXAMPLES]
    ).fetchall()
    connection.execute("DROP TABLE contradicting")
    return tuple(
        Contradiction(target, tuple((one["row_id"], one["value"]) for one in said[:_MEMBERS]))
        for target, said in found
    ), int(count)


def balance_of(connection: duckdb.DuckDBPyConnection, dataset: str) -> dict[str, Balance]:
    """The labels of each target of a dataset, as given: one per row and annotator."""
    total = connection.execute("SELECT count(*) FROM item WHERE dataset = ?", [dataset]).fetchall()[
        0
    ][0]
    found = connection.execute(
        """
        SELECT target, list({'value': value, 'count': count} ORDER BY count DESC, value), any_value(rows)
        FROM (
            SELECT target, value, count(*) AS count FROM label WHERE dataset = $dataset
            GROUP BY target, value
        ) JOIN (
            SELECT target, count(DISTINCT row_id) AS rows FROM label WHERE dataset = $dataset
            GROUP BY target
        ) USING (target) GROUP BY target ORDER BY target
        """,
        {"dataset": dataset},
    ).fetchall()
    return {
        target: Balance({one["value"]: one["count"] for one in values}, total - rows)
        for target, values, rows in found
    }


_CONTRADICTIONS: Final = f"""
    CREATE TEMP TABLE contradicting AS
    WITH twice AS (
        SELECT content_digest FROM item WHERE dataset = $dataset
        GROUP BY content_digest HAVING count(*) > 1
    ), same AS (
        SELECT row_id, number, content_digest FROM item SEMI JOIN twice USING (content_digest)
        WHERE dataset = $dataset
    ), held AS ({
    RESOLVED.replace(
        "FROM label", "FROM label SEMI JOIN same USING (row_id) WHERE dataset = $dataset"
    )
})
    SELECT
        target, min(number) AS number,
        list({{'row_id': row_id, 'value': value}} ORDER BY number) AS said
    FROM same JOIN held USING (row_id) WHERE value <> 'unsure'
    GROUP BY content_digest, target HAVING count(DISTINCT value) > 1
"""
_NAMED: Final = """
    CREATE TEMP TABLE named AS
    SELECT
        first,
        coalesce(
            min(grp) FILTER (NOT starts_with(grp, 'near:')), min(grp),
            'near:' || arg_min(row_id, number)
        ) AS grp
    FROM (
        SELECT number, row_id, grp FROM stage.known
        UNION ALL SELECT number, row_id, grp FROM stage.taken
    ) JOIN stage.near USING (number)
    GROUP BY first
"""
_ITEMS: Final = """
    INSERT INTO item
    SELECT
        $dataset, row_id, $last + row_number() OVER (ORDER BY number), text,
        sha256(CASE WHEN media IS NULL THEN text ELSE 'media:' || media END), context,
        parameters, CAST(CAST(slices AS JSON) AS MAP(VARCHAR, VARCHAR)),
        coalesce(taken.grp, named.grp), NULL, $drawn,
        CASE WHEN NOT isnan(weight) THEN weight END, media
    FROM stage.taken LEFT JOIN stage.near USING (number) LEFT JOIN named USING (first)
"""
_LABELS: Final = """
    INSERT INTO label
    SELECT $dataset, row_id, target, value, $annotator, $at, $drawn, $visible, false
    FROM stage.said JOIN stage.taken USING (number)
"""
_UNNAMED: Final = """
    INSERT INTO label
    SELECT $dataset, row_id, target, 'no', $annotator, $at, $drawn, $visible, false
    FROM (SELECT number, row_id, unnest($targets) AS target FROM stage.taken WHERE listed)
    ANTI JOIN stage.said USING (number, target)
"""
