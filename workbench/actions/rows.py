"""Rows of a dataset a page at a time: searched, filtered, sorted, looked at, deleted, exported.

Everything is asked in DuckDB, so that a million rows are never loaded. Knows no screen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb

from spinf_serve.evals.data.exporting import export_labels, export_rows
from spinf_serve.evals.data.labels import RESOLVED, Label, check_dataset
from spinf_serve.evals.data.notes import Note, notes_on
from spinf_serve.evals.data.rows import delete_rows
from spinf_serve.evals.project import Project
from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench.audit import note
from spinf_serve.workbench.desk import Desk
from spinf_serve.workbench.job_kinds import Report

if TYPE_CHECKING:
    import pandas as pd

SHOWN_CHARS: Final = 300
"""Characters of a text in a table."""

MOST_NAMES: Final = 200
"""Values of a slice, and targets, that are offered to filter by."""

MOST_DELETED: Final = 10_000
"""Rows that are deleted at once."""

LARGE: Final = 200_000
"""Rows of a dataset from which on an export or a deletion is a job."""

NO_LABEL: Final = "no label"
DISPUTED: Final = "disputed"
"""What is filtered by besides the values of labels."""

SORTS: Final[Mapping[str, str]] = {
    "order of import": "number",
    "id": "row_id, number",
    "text": "text, number",
    "length": "length(text), number",
    "split": "split NULLS LAST, number",
    "group": "grp NULLS LAST, number",
    "how drawn": "drawn, number",
}
"""What rows are sorted by -> SQL."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which rows, and in what order.

    Attributes:
        word: stands in the text, the id or the group, in any case; empty for all.
        target, value: whose label is that value, `NO_LABEL` or `DISPUTED`; both or none.
        slice: name and value.
        split: '' for rows in none; None for all.
        drawn: how rows were chosen.
        group: of one group.
        digest: of one content: rows with the same text.
        sort, descending: one of `SORTS`.
    """

    word: str = ""
    target: str | None = None
    value: str | None = None
    slice: tuple[str, str] | None = None
    split: str | None = None
    drawn: str | None = None
    group: str | None = None
    digest: str | None = None
    sort: str = "order of import"
    descending: bool = False

    def where(self, dataset: str) -> tuple[str, list[Any]]:
        """SQL of a condition on `item`, and its parameters."""
        parts, given = ["dataset = ?"], [dataset]
        if self.word.strip():
            # As it is written: a sign of LIKE in it is no sign.
            word = self.word.strip().replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
            like = f"%{word}%"
            parts.append(
                "(text ILIKE ? ESCAPE '\\' OR row_id ILIKE ? ESCAPE '\\'"
                " OR grp ILIKE ? ESCAPE '\\' OR media ILIKE ? ESCAPE '\\')"
            )
            given += [like] * 4
        if self.slice is not None:
            parts.append("slices[?] = ?")
            given += self.slice
        if self.split is not None:
            parts.append("coalesce(split, '') = ?")
            given.append(self.split)
        for column, value in (
            ("drawn", self.drawn),
            ("grp", self.group),
            ("content_digest", self.digest),
        ):
            if value is not None:
                parts.append(f"{column} = ?")
                given.append(value)
        if self.target is not None and self.value is not None:
            said, more = _said(dataset, self.target, self.value)
            parts.append(said)
            given += more
        return " AND ".join(parts), given

    @property
    def order(self) -> str:
        """SQL of the order."""
        terms = SORTS[self.sort].split(", ")
        return ", ".join(f"{_turned(one)}" if self.descending else one for one in terms)


def _turned(term: str) -> str:
    name, _, rest = term.partition(" NULLS")
    return f"{name} DESC" + (f" NULLS{rest}" if rest else "")


def _said(dataset: str, target: str, value: str) -> tuple[str, list[str]]:
    held = RESOLVED.replace("FROM label", "FROM label WHERE dataset = ? AND target = ?")
    if value == NO_LABEL:
        return (
            "row_id NOT IN (SELECT row_id FROM label WHERE dataset = ? AND target = ?)",
            [dataset, target],
        )
    is_it = "value IS NULL" if value == DISPUTED else "value = ?"
    more = [] if value == DISPUTED else [value]
    return f"row_id IN (SELECT row_id FROM ({held}) WHERE {is_it})", [dataset, target, *more]


@dataclass(frozen=True, slots=True)
class Names:
    """What a dataset's rows can be filtered by.

    Attributes:
        targets: target -> values that labels have.
        slices: name -> values.
        splits: '' among them where rows are in none.
        drawn: how rows were chosen.
    """

    targets: Mapping[str, tuple[str, ...]]
    slices: Mapping[str, tuple[str, ...]]
    splits: tuple[str, ...]
    drawn: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Detail:
    """One row with all that is known of it, apart from scores.

    Attributes:
        number: in the order of import.
        alike: other rows of its dataset with the same content.
        labels: all, as given; the latest last.
    """

    id: str
    number: int
    text: str
    media: str | None
    digest: str
    context: str | None
    parameters: str
    slices: Mapping[str, str]
    group: str | None
    group_rows: int
    split: str | None
    drawn: str
    weight: float | None
    alike: int
    labels: tuple[Label, ...]
    notes: tuple[Note, ...]


def names(project: Project, dataset: str) -> Names:
    """What rows can be filtered by. Raises `Unusable` when there is no such dataset."""
    with project.open(write=False) as connection:
        check_dataset(connection, dataset)

        def all_of(query: str) -> list[tuple[Any, ...]]:
            return connection.execute(query, [dataset]).fetchall()

        targets = _grouped(
            all_of(
                "SELECT target, value FROM label WHERE dataset = ? GROUP BY ALL ORDER BY target, value"
            )
        )
        slices = _grouped(
            all_of(
                "SELECT e.key, e.value FROM (SELECT unnest(map_entries(slices)) AS e FROM item"
                " WHERE dataset = ?) GROUP BY ALL ORDER BY ALL"
            )
        )
        splits = all_of(
            "SELECT DISTINCT coalesce(split, '') AS s FROM item WHERE dataset = ? ORDER BY s"
        )
        drawn = all_of("SELECT DISTINCT drawn FROM item WHERE dataset = ? ORDER BY drawn")
    return Names(targets, slices, tuple(one for (one,) in splits), tuple(one for (one,) in drawn))


def _grouped(pairs: Sequence[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        values = found.setdefault(name, [])
        if len(values) < MOST_NAMES:
            values.append(value)
    return {name: tuple(values) for name, values in list(found.items())[:MOST_NAMES]}


def count(project: Project, dataset: str, wanted: Filter) -> int:
    """How many rows a filter leaves."""
    where, given = wanted.where(dataset)
    with project.open(write=False) as connection:
        found = connection.execute(f"SELECT count(*) FROM item WHERE {where}", given).fetchone()
    return 0 if found is None else int(found[0])


def page(
    project: Project,
    dataset: str,
    wanted: Filter,
    first: int,
    most: int,
    targets: Sequence[str] = (),
) -> "pd.DataFrame":
    """Some rows of a filter from an offset on: a row a line, with a column for each target.

    Columns: id, text (its beginning, or the path of a row without), the targets with what holds,
    the slices as `name: value`, split, group, how drawn.
    """
    where, given = wanted.where(dataset)
    with project.open(write=False) as connection:
        # Only numbers are sorted: texts of the page alone are read.
        numbers = [
            number
            for (number,) in connection.execute(
                f"SELECT number FROM item WHERE {where} ORDER BY {wanted.order} LIMIT ? OFFSET ?",
                [*given, most, first],
            ).fetchall()
        ]
        data = connection.execute(
            f"SELECT row_id AS id, coalesce(media, text[:{SHOWN_CHARS}]) AS text, array_to_string("
            "list_transform(map_entries(slices), lambda e: e.key || ': ' || e.value), ', ')"
            ' AS slices, split, grp AS "group", drawn AS "how drawn" FROM item'
            " WHERE dataset = $1 AND list_contains($2::BIGINT[], number)"
            " ORDER BY list_position($2::BIGINT[], number)",
            [dataset, numbers],
        ).df()
        said = _holds(connection, dataset, numbers)
    for place, target in enumerate(targets):
        data.insert(2 + place, target, [said.get((id, target)) for id in data["id"]])
    return data


def _holds(
    connection: duckdb.DuckDBPyConnection, dataset: str, numbers: Sequence[int]
) -> dict[tuple[str, str], str]:
    """(row, target) -> what holds, `DISPUTED` where annotators differ."""
    here = RESOLVED.replace(
        "FROM label",
        "FROM label SEMI JOIN (SELECT dataset, row_id FROM item WHERE dataset = $1"
        " AND list_contains($2::BIGINT[], number)) USING (dataset, row_id)",
    )
    found = connection.execute(
        f"SELECT row_id, target, value FROM ({here})", [dataset, list(numbers)]
    ).fetchall()
    return {(row, target): value or DISPUTED for row, target, value in found}


def detail(project: Project, dataset: str, row_id: str) -> Detail | None:
    """A row with its labels and notes; None when it is not there."""
    with project.open(write=False) as connection:
        return detail_of(connection, dataset, row_id)


def detail_of(
    connection: duckdb.DuckDBPyConnection, dataset: str, row_id: str, *, beside: bool = True
) -> Detail | None:
    """As `detail`, on a connection that is open.

    Args:
        beside: whether to count the rows like it, which takes a look at all rows; else there are 0.
    """
    found = connection.execute(
        "SELECT row_id, number, text, media, content_digest, context,"
        " CAST(parameters AS VARCHAR), slices, grp, split, drawn, weight"
        " FROM item WHERE dataset = ? AND row_id = ?",
        [dataset, row_id],
    ).fetchone()
    if found is None:
        return None
    id, number, text, media, digest, context, parameters, slices, group, *rest = found
    split, drawn, weight = rest
    same = (1, 0)
    if beside:
        same = connection.execute(
            "SELECT count(*) FILTER (content_digest = $2), count(*) FILTER (grp = $3) FROM item"
            " WHERE dataset = $1 AND (content_digest = $2 OR grp = $3)",
            [dataset, digest, group],
        ).fetchall()[0]
    labels = connection.execute(
        'SELECT row_id, target, value, annotator, "at", drawn, score_visible, adjudicated'
        ' FROM label WHERE dataset = ? AND row_id = ? ORDER BY target, "at", annotator',
        [dataset, row_id],
    ).fetchall()
    return Detail(
        id,
        number,
        text,
        media,
        digest,
        context,
        parameters,
        dict(slices),
        group,
        int(same[1]),
        split,
        drawn,
        weight,
        int(same[0]) - 1,
        tuple(Label(*values) for values in labels),
        tuple(notes_on(connection, dataset, row_id)),
    )


def position(project: Project, dataset: str, wanted: Filter, row_id: str) -> int | None:
    """Place of a row in a filter's order, from 0; None where the filter leaves it out."""
    where, given = wanted.where(dataset)
    with project.open(write=False) as connection:
        found = connection.execute(
            f"SELECT place FROM (SELECT row_id, row_number() OVER (ORDER BY {wanted.order}) - 1"
            f" AS place FROM item WHERE {where}) WHERE row_id = ?",
            [*given, row_id],
        ).fetchone()
    return None if found is None else int(found[0])


def ids_of(project: Project, dataset: str, wanted: Filter, most: int, first: int = 0) -> list[str]:
    """Ids of the rows that a filter leaves, at most so many, from an offset on."""
    where, given = wanted.where(dataset)
    with project.open(write=False) as connection:
        found = connection.execute(
            f"SELECT row_id FROM item WHERE {where} ORDER BY {wanted.order} LIMIT ? OFFSET ?",
            [*given, most, first],
        ).fetchall()
    return [row_id for (row_id,) in found]


def delete(desk: Desk, user: str, dataset: str, row_ids: Sequence[str]) -> int:
    """Delete rows everywhere; says so in the audit trail. Returns how many there were.

    Raises `Unusable` when one is not there any more, and deletes nothing.
    """
    gone = delete_rows(desk.project, dataset, row_ids)
    shown = list(row_ids[:20])
    note(desk, user, "delete rows", dataset, rows=gone, ids=shown)
    return gone


def delete_job(desk: Desk, arguments: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """The job `delete`: writing a large project anew takes a while."""
    ids = arguments["ids"]
    report.progress(0, len(ids), "deleting and writing the project anew")
    return {"rows": delete(desk, arguments["user"], arguments["dataset"], ids)}


def export(desk: Desk, dataset: str, ending: str, *, text: bool, labels: bool) -> bytes:
    """A dataset, or its labels as they were given, as a file's bytes.

    Args:
        ending: `csv`, `jsonl` or `parquet`.
    """
    path = desk.below("exports") / f".{_file_name(dataset)}.{ending}"
    try:
        _export(desk, dataset, path, text=text, labels=labels)
        return path.read_bytes()
    finally:
        path.unlink(missing_ok=True)


def export_job(desk: Desk, arguments: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """The job `export`: a large dataset goes into a file in the project's folder."""
    folder = desk.folder / "exports"
    folder.mkdir(exist_ok=True)
    dataset, what = arguments["dataset"], arguments["what"]
    path = folder / f"{_file_name(dataset)}-{what}.{arguments['ending']}"
    report.progress(0, 0, f"writing {path.name}")
    rows = _export(desk, dataset, path, text=arguments["text"], labels=what == "labels")
    note(desk, arguments["user"], "export", dataset, file=path.name, rows=rows)
    return {"file": path.relative_to(desk.folder).as_posix(), "rows": rows}


def _export(desk: Desk, dataset: str, path: Path, *, text: bool, labels: bool) -> int:
    if labels:
        return export_labels(desk.project, dataset, path)
    return export_rows(desk.project, dataset, path, text=text)


def _file_name(dataset: str) -> str:
    kept = "".join(one if one.isalnum() or one in "-_." else "-" for one in dataset)
    return kept.strip(".") or "rows"


def check_deletable(count: int) -> None:
    """Raises `Unusable` for more rows than are deleted at once."""
    if count > MOST_DELETED:
        raise Unusable(
            f"{count:,} rows are more than the {MOST_DELETED:,} that are deleted at once; filter"
            " further, or import the rows to keep as a new dataset"
        )
