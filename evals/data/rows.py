"""Rows of a dataset handed out, and deleted everywhere.

Reading goes by batches with a connection each, so that whoever handles rows may write meanwhile.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

import duckdb

from spinf_serve.evals.data.labels import CHOSEN, NO, RESOLVED, UNSURE, YES, Drawn, check_dataset
from spinf_serve.evals.project import Project
from spinf_serve.packs.errors import Unusable

UNDETERMINED: Final = "und"
"""The tag of a language that nobody named."""

_FETCHED: Final = 10_000

_DIGESTED: Final = 25_000
"""Rows whose labels are gathered at once for a digest, about: so many hold its memory down."""


@dataclass(frozen=True, slots=True)
class Row:
    """One content and what is known of it.

    Attributes:
        id: unique in its dataset.
        text: the content.
        context: which of a pack's contexts presents it; None for the first.
        parameters: what fills the context.
        slices: name -> value, of what reports are broken down by.
        group: rows of one group are in one split; None for alone.
        split: its part of the dataset; None before splitting.
        drawn: `random`, `queue` or `import`.
        weight: inverse of the probability with which the row was drawn; None when not known.
        labels: target -> whether it holds; unsure, missing or disputed targets are absent.
        classes: target -> class, for targets that are not yes or no.
        media: path or URL of what it is about, in place of a text, which is '' then.
        chosen: targets for whose labels the row was chosen otherwise than it was drawn: out of a
            queue, or nobody knows how.
    """

    id: str
    text: str
    context: str | None
    parameters: Mapping[str, str]
    slices: Mapping[str, str]
    group: str | None
    split: str | None
    drawn: Drawn
    weight: float | None
    labels: Mapping[str, bool]
    classes: Mapping[str, str] = field(default_factory=dict)
    media: str | None = None
    chosen: frozenset[str] = frozenset()


def rows(
    project: Project, dataset: str, *, split: str | None = None, batch: int = _FETCHED
) -> Iterator[Row]:
    """The rows of a dataset, or of one split of it, in the order of import.

    Each batch is read at once; what others write between two batches shows in the later one.
    Raises `Unusable` when there is no such dataset.
    """
    after = 0
    while True:
        with project.open(write=False) as connection:
            if not after:
                check_dataset(connection, dataset)
            last = _last(connection, dataset)
            found = _items(connection, dataset, split, after, after + batch) if last > after else []
            labels = _labels(connection, dataset, after, after + batch) if found else {}
        for item in found:
            yield _row(item, labels)
        after += batch
        if after >= last:
            return


def data_digest(project: Project, dataset: str, split: str | None = None) -> str:
    """SHA-256 over rows by id: texts, how they are presented and drawn, groups, splits, labels.

    The order of import and slices do not count. Raises `Unusable` when there is no such dataset.
    """
    with project.open(write=False) as connection:
        check_dataset(connection, dataset)
        return digest_of(connection, dataset, split)


def digest_of(connection: duckdb.DuckDBPyConnection, dataset: str, split: str | None = None) -> str:
    """As `data_digest`, on a connection that is open."""
    whole = sha256()
    for low, high in _windows(connection, dataset):
        found = connection.execute(
            f"""
            WITH part AS (
                FROM item WHERE dataset = $dataset AND ($low IS NULL OR row_id >= $low)
                AND ($high IS NULL OR row_id < $high)
            ), said AS (
                SELECT row_id, list(
                    [target, coalesce(value, '') || CASE WHEN {CHOSEN} THEN ', chosen' ELSE '' END]
                    ORDER BY target
                ) AS labels
                FROM ({RESOLVED}) JOIN item USING (dataset, row_id) WHERE dataset = $dataset
                AND ($low IS NULL OR row_id >= $low) AND ($high IS NULL OR row_id < $high)
                GROUP BY row_id
            )
            SELECT sha256(CAST(to_json([
                row_id, content_digest, context, CAST(parameters AS VARCHAR), grp, split, drawn,
                CAST(weight AS VARCHAR), CAST(to_json(labels) AS VARCHAR)
            ]) AS VARCHAR))
            FROM part LEFT JOIN said USING (row_id)
            WHERE $split IS NULL OR split = $split
            ORDER BY row_id
            """,
            {"dataset": dataset, "split": split, "low": low, "high": high},
        )
        while part := found.fetchmany(_FETCHED):
            whole.update("".join(digest for (digest,) in part).encode())
    return whole.hexdigest()


def _windows(
    connection: duckdb.DuckDBPyConnection, dataset: str
) -> list[tuple[str | None, str | None]]:
    """Ranges of row ids, from and below, that hold about `_DIGESTED` rows each and all together."""
    step = max(1, _DIGESTED // 50)
    some = [
        id
        for (id,) in connection.execute(
            "SELECT row_id FROM item WHERE dataset = ? AND number % ? = 0 ORDER BY row_id",
            [dataset, step],
        ).fetchall()
    ]
    # The middle of a range of 50 among some of the ids, so that few rows are one range.
    ends: list[str | None] = list(dict.fromkeys(some[50::50]))
    return list(zip([None, *ends], [*ends, None], strict=True))


def delete_rows(project: Project, dataset: str, row_ids: Sequence[str]) -> int:
    """Delete rows with their labels and notes, and every score of a content that no other row has.

    The file is then written anew, since DuckDB leaves what was deleted in its blocks. Returns how
    many rows there were. Raises `Unusable` when a row is not there, and deletes nothing.
    """
    with project.open(write=True) as connection:
        check_dataset(connection, dataset)
        connection.execute("CREATE TEMP TABLE gone AS SELECT unnest(?) AS row_id", [list(row_ids)])
        absent = connection.execute(
            "SELECT row_id FROM gone WHERE row_id NOT IN (SELECT row_id FROM item WHERE dataset = ?)",
            [dataset],
        ).fetchone()
        if absent is not None:
            raise Unusable(f"there is no row {absent[0]!r} in {dataset!r}; nothing was deleted")
        connection.execute(
            """
            CREATE TEMP TABLE gone_content AS SELECT content.id FROM content
            WHERE text_digest IN (
                SELECT content_digest FROM item WHERE dataset = $dataset AND row_id IN (FROM gone)
            ) AND text_digest NOT IN (
                SELECT content_digest FROM item
                WHERE NOT (dataset = $dataset AND row_id IN (FROM gone))
            )
            """,
            {"dataset": dataset},
        )
        for table in ("score", "refusal"):
            connection.execute(f"DELETE FROM {table} WHERE content IN (FROM gone_content)")
        # Another row may share a chunk that is gone: it is cut and asked again.
        connection.execute(
            "DELETE FROM cut WHERE content IN (FROM gone_content)"
            " OR list_has_any(parts, (SELECT list(id) FROM gone_content))"
        )
        connection.execute("DELETE FROM content WHERE id IN (FROM gone_content)")
        for table in ("label", "note", "item"):
            connection.execute(
                f"DELETE FROM {table} WHERE dataset = ? AND row_id IN (FROM gone)", [dataset]
            )
        connection.execute(
            "UPDATE dataset SET digest = ? WHERE name = ?",
            [digest_of(connection, dataset), dataset],
        )
        for table in ("gone", "gone_content"):
            connection.execute(f"DROP TABLE {table}")
    project.rewrite()
    return len(set(row_ids))


def _last(connection: duckdb.DuckDBPyConnection, dataset: str) -> int:
    found = connection.execute(
        "SELECT coalesce(max(number), 0) FROM item WHERE dataset = ?", [dataset]
    ).fetchone()
    return 0 if found is None else int(found[0])


def _items(
    connection: duckdb.DuckDBPyConnection, dataset: str, split: str | None, after: int, until: int
) -> list[tuple[Any, ...]]:
    return connection.execute(
        "SELECT row_id, text, context, parameters, slices, grp, split, drawn, weight, media"
        " FROM item WHERE dataset = $dataset AND number > $after AND number <= $until"
        " AND ($split IS NULL OR split = $split) ORDER BY number",
        {"dataset": dataset, "split": split, "after": after, "until": until},
    ).fetchall()


def _labels(
    connection: duckdb.DuckDBPyConnection, dataset: str, after: int, until: int
) -> dict[str, list[tuple[str, str, bool]]]:
    # The join comes first, so that labels of other rows are never grouped.
    here = RESOLVED.replace(
        "FROM label",
        "FROM label SEMI JOIN (SELECT dataset, row_id FROM item WHERE dataset = $dataset"
        " AND number > $after AND number <= $until) USING (dataset, row_id)",
    )
    labels: dict[str, list[tuple[str, str, bool]]] = {}
    for row_id, target, value, chosen in connection.execute(
        f"SELECT row_id, target, value, {CHOSEN} FROM ({here}) JOIN item USING (dataset, row_id)"
        " WHERE value IS NOT NULL ORDER BY target",
        {"dataset": dataset, "after": after, "until": until},
    ).fetchall():
        labels.setdefault(row_id, []).append((target, value, chosen))
    return labels


def _row(item: tuple[Any, ...], labels: Mapping[str, list[tuple[str, str, bool]]]) -> Row:
    id, text, context, parameters, slices, group, split, drawn, weight, media = item
    said = labels.get(id, [])
    return Row(
        id,
        text,
        context,
        json.loads(parameters),
        slices,
        group,
        split,
        drawn,
        weight,
        {target: value == YES for target, value, _ in said if value in (YES, NO)},
        {target: value for target, value, _ in said if value not in (YES, NO, UNSURE)},
        media,
        frozenset(target for target, _, chosen in said if chosen),
    )
