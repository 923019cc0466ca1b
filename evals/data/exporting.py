"""A dataset written to a file: its rows with what holds of them, or every label as it was given."""

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import duckdb

from spinf_serve.evals.data.labels import RESOLVED, check_dataset
from spinf_serve.evals.disk import disk_words, is_of_disk
from spinf_serve.evals.project import Project
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import shown

_FORMATS: Final[Mapping[str, str]] = {
    ".csv": "FORMAT csv, HEADER",
    ".jsonl": "FORMAT json",
    ".parquet": "FORMAT parquet",
}


def export_rows(project: Project, dataset: str, path: Path, *, text: bool) -> int:
    """Write a dataset to a CSV, JSONL or Parquet file by its name's end; returns its rows.

    Columns: id, content_digest, text (and media where a row has one) if wanted, context, parameters,
    group, split, drawn, weight, `slice.<name>`, and `label.<target>` with what holds (blank: nothing
    known or disputed).

    Raises `Unusable`: another ending, or the file cannot be written.
    """
    form = _form(path)
    with project.open(write=False) as connection:
        check_dataset(connection, dataset)
        slices, targets = (
            [name for (name,) in connection.execute(query, [dataset]).fetchall()]
            for query in (
                "SELECT DISTINCT unnest(map_keys(slices)) AS n FROM item WHERE dataset = ? ORDER BY n",
                "SELECT DISTINCT target FROM label WHERE dataset = ? ORDER BY target",
            )
        )
        columns = [
            "row_id AS id",
            "content_digest",
            *(["text", *(["media"] if _has_media(connection, dataset) else [])] if text else []),
            "context",
            "CAST(parameters AS VARCHAR) AS parameters",
            'grp AS "group"',
            "split",
            "drawn",
            "weight",
            *(f"slices[{_text(name)}] AS {_name(f'slice.{name}')}" for name in slices),
            *(f"said[{_text(name)}] AS {_name(f'label.{name}')}" for name in targets),
        ]
        query = f"""
            WITH said AS (
                SELECT row_id, map(list(target), list(value)) AS said
                FROM ({RESOLVED}) WHERE dataset = {_text(dataset)} GROUP BY row_id
            )
            SELECT {", ".join(columns)} FROM item LEFT JOIN said USING (row_id)
            WHERE dataset = {_text(dataset)} ORDER BY number
        """
        return _written(connection, query, path, form)


def export_labels(project: Project, dataset: str, path: Path) -> int:
    """Write every label of a dataset as it was given, by row, target and annotator; returns them.

    Columns: id, target, value, annotator, at (UTC), drawn, score_visible, adjudicated. There is no
    text in it. Errors as for `export_rows`.
    """
    form = _form(path)
    query = f"""
        SELECT row_id AS id, target, value, annotator, "at", label.drawn, score_visible, adjudicated
        FROM label JOIN item USING (dataset, row_id) WHERE dataset = {_text(dataset)}
        ORDER BY number, target, annotator
    """
    with project.open(write=False) as connection:
        check_dataset(connection, dataset)
        return _written(connection, query, path, form)


def _form(path: Path) -> str:
    form = _FORMATS.get(path.suffix.lower())
    if form is None:
        raise Unusable(f"{shown(path)}: a file to export to ends in {', '.join(_FORMATS)}")
    return form


def _written(connection: duckdb.DuckDBPyConnection, query: str, path: Path, form: str) -> int:
    beside = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        count = connection.execute(f"COPY ({query}) TO {_text(str(beside))} ({form})").fetchone()
        beside.replace(path)
    except OSError as error:
        raise Unusable(f"{shown(path)} cannot be written: {error.strerror}") from None
    except duckdb.Error as error:
        if not is_of_disk(error):
            raise
        raise Unusable(f"{shown(path)} cannot be written: {disk_words(error)}") from None
    finally:
        beside.unlink(missing_ok=True)
    return 0 if count is None else int(count[0])


def _has_media(connection: duckdb.DuckDBPyConnection, dataset: str) -> bool:
    query = "SELECT 1 FROM item WHERE dataset = ? AND media IS NOT NULL LIMIT 1"
    return connection.execute(query, [dataset]).fetchone() is not None


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _name(value: str) -> str:
    return '"' + value.replace('"', '""') + '"'
