"""What annotators wrote beside the labels of a row: why it is hard, what the guideline lacks."""

from dataclasses import dataclass
from datetime import datetime

import duckdb

from spinf_serve.evals.data.labels import now
from spinf_serve.evals.project import Project
from spinf_serve.packs.errors import Unusable

MAX_NOTE_CHARS = 4_000
"""Longest note."""


@dataclass(frozen=True, slots=True)
class Note:
    """One annotator's note on one row and target; `at` is UTC without zone."""

    row_id: str
    target: str
    annotator: str
    at: datetime
    text: str


def put_note(
    project: Project, dataset: str, row_id: str, target: str, annotator: str, text: str
) -> None:
    """Store a note in place of the annotator's earlier one; a blank one takes it away.

    Raises `Unusable`, and stores nothing: the row is not there, or the note is too long.
    """
    text = text.strip()
    if len(text) > MAX_NOTE_CHARS:
        raise Unusable(
            f"the note has {len(text):,} characters and may have {MAX_NOTE_CHARS:,}; shorten it"
        )
    with project.open(write=True) as connection:
        there = connection.execute(
            "SELECT 1 FROM item WHERE dataset = ? AND row_id = ?", [dataset, row_id]
        ).fetchone()
        if there is None:
            raise Unusable(f"there is no row {row_id!r} in dataset {dataset!r}; no note was stored")
        connection.execute(
            "DELETE FROM note WHERE dataset = ? AND row_id = ? AND target = ? AND annotator = ?",
            [dataset, row_id, target, annotator],
        )
        if text:
            connection.execute(
                "INSERT INTO note VALUES (?, ?, ?, ?, ?, ?)",
                [dataset, row_id, target, annotator, now(), text],
            )


def notes_on(connection: duckdb.DuckDBPyConnection, dataset: str, row_id: str) -> list[Note]:
    """The notes on a row, by target and annotator."""
    found = connection.execute(
        'SELECT row_id, target, annotator, "at", text FROM note'
        " WHERE dataset = ? AND row_id = ? ORDER BY target, annotator",
        [dataset, row_id],
    ).fetchall()
    return [Note(*values) for values in found]
