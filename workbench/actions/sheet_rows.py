"""The rows of a decided sheet as pages show them: flagged ones first, a page of them at a time."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import pandas as pd

from spinf_serve.evals.sheets import Sheet, Wanted
from spinf_serve.workbench.jobs import Job

ROWS: Final = "rows.parquet"


_SHOWN: Final = ("decision", "route", "band", "reason", "flagged", "error")


def make_table(decided: Sheet, wanted: Wanted, prefix: str, folder: Path) -> None:
    """Write the decided rows so that a page of them is read at once.

    Args:
        decided: the sheet with the added columns of `wanted`, whose names begin with `prefix`.
        folder: of the job.
    """
    names = [column.name for column in wanted.added]
    shown_names = [name for name in _SHOWN if prefix + name in names]
    reading = Wanted(wanted.text, tuple(names), ())
    lines = folder / "rows.jsonl"
    with lines.open("w", encoding="utf-8") as file:
        for number, row in enumerate(decided.rows(reading)):
            told: dict[str, Any] = {
                name: row.more.get(prefix + name) or None for name in shown_names
            }
            rank = 0 if told["decision"] == "unsafe" else 1 if told["error"] else 2
            file.write(
                json.dumps(
                    {"number": number, "rank": rank, "row": row.place, "text": row.text, **told},
                    ensure_ascii=False,
                )
                + "\n"
            )
    columns = {"number": "BIGINT", "rank": "INTEGER", "row": "VARCHAR", "text": "VARCHAR"}
    columns |= dict.fromkeys(shown_names, "VARCHAR")
    kinds = ", ".join(f"'{name}': '{kind}'" for name, kind in columns.items())
    part = folder / f".{ROWS}.part"
    with duckdb.connect() as connection:
        connection.execute("SET memory_limit = '200MB'; SET enable_progress_bar = false")
        connection.execute(
            f"COPY (SELECT * FROM read_json({_quoted(lines)}, format = 'newline_delimited',"
            f" columns = {{{kinds}}}, maximum_object_size = 67108864) ORDER BY rank, number)"
            f" TO {_quoted(part)} (FORMAT parquet, ROW_GROUP_SIZE 10000)"
        )
    part.replace(folder / ROWS)
    lines.unlink()


def _quoted(path: Path) -> str:
    """A path in a statement that takes no parameter there."""
    return "'" + str(path).replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a decided sheet, of which a page at a time is read.

    Attributes:
        only: `unsafe`, `safe` or `refused`; None for all, flagged ones first, then refused ones.
    """

    file: Path
    only: str | None = None

    def count(self) -> int:
        """How many there are."""
        with duckdb.connect() as connection:
            found = connection.execute(
                f"SELECT count(*) FROM read_parquet($1) WHERE {self._where}", [str(self.file)]
            ).fetchone()
        return 0 if found is None else int(found[0])

    def fetch(self, offset: int, count: int) -> pd.DataFrame:
        """Some of them, in order."""
        with duckdb.connect() as connection:
            return connection.execute(
                f"SELECT * EXCLUDE (rank, number) FROM read_parquet($1) WHERE {self._where}"
                " ORDER BY rank, number LIMIT $2 OFFSET $3",
                [str(self.file), count, offset],
            ).df()

    @property
    def _where(self) -> str:
        return {
            "unsafe": "decision = 'unsafe'",
            "safe": "decision = 'safe'",
            "refused": "error IS NOT NULL",
        }.get(self.only or "", "true")


def table_of(job: Job, only: str | None = None) -> Table:
    """The rows of a sheet that was decided."""
    return Table(job.folder / ROWS, only)
