"""Rows on their way into a project: a DuckDB file of their own, filled in batches.

Beside the project, so that it lies on a disk that has room for the data; gone afterwards.
"""

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import IO, Any

import duckdb
import numpy as np

from spinf_serve.evals.data.columns import Taken
from spinf_serve.evals.data.near import NearFinder
from spinf_serve.evals.data.report import Tally
from spinf_serve.evals.disk import disk_words, is_of_disk
from spinf_serve.evals.project import MEMORY, Project
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import shown

_SUFFIX = ".staging"
_HELD = ".held"
"""Ends the name of the file whose lock says that an import goes on."""

_TABLES = """
    CREATE TABLE known (number BIGINT, row_id VARCHAR, grp VARCHAR);
    CREATE TABLE taken (
        number BIGINT, line BIGINT, row_id VARCHAR, text VARCHAR, context VARCHAR,
        parameters VARCHAR, slices VARCHAR, grp VARCHAR, weight DOUBLE, listed BOOLEAN,
        media VARCHAR
    );
    CREATE TABLE said (number BIGINT, target VARCHAR, value VARCHAR);
    CREATE TABLE near (number BIGINT, first BIGINT);
"""


class Staging:
    """Rows that are taken, numbered behind those that the dataset has already.

    Attributes:
        path: of the file.
        count: rows so far, with the dataset's own.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self._near = NearFinder()
        spill = f"{path}.tmp"
        self._connection = duckdb.connect(
            str(path), config={"memory_limit": MEMORY, "temp_directory": spill, "threads": 2}
        )
        self._connection.execute("SET enable_progress_bar = false")
        self._connection.execute(_TABLES)

    def know(self, rows: Sequence[tuple[str, str | None, str]]) -> None:
        """Rows of the dataset as they are: id, group, likeness."""
        batch = {
            "number": self._numbers(len(rows)),
            "row_id": _objects([row_id for row_id, _, _ in rows]),
            "grp": _objects([group for _, group, _ in rows]),
        }
        self._insert("known", "number, row_id, grp", batch)
        self._near.add([text for _, _, text in rows])

    def add(self, rows: Sequence[Taken]) -> None:
        """Rows to come."""
        if not rows:
            return
        numbers = self._numbers(len(rows))
        batch: dict[str, Any] = {
            "number": numbers,
            "line": np.array([row.line for row in rows], np.int64),
            "row_id": _objects([row.row_id for row in rows]),
            "text": _objects([row.text for row in rows]),
            "context": _objects([row.context for row in rows]),
            "parameters": _objects([row.parameters for row in rows]),
            "slices": _objects([row.slices for row in rows]),
            "grp": _objects([row.group for row in rows]),
            "weight": np.array([row.weight for row in rows], np.float64),
            "listed": np.array([row.listed for row in rows]),
            "media": _objects([row.media for row in rows]),
        }
        self._insert("taken", ", ".join(batch), batch)
        said = [
            (number, *label)
            for number, row in zip(numbers.tolist(), rows, strict=True)
            for label in row.labels
        ]
        if said:
            batch = {
                "number": np.array([number for number, _, _ in said], np.int64),
                "target": _objects([target for _, target, _ in said]),
                "value": _objects([value for _, _, value in said]),
            }
            self._insert("said", "number, target, value", batch)
        self._near.add([row.likeness for row in rows])

    def finish(self, tally: Tally) -> None:
        """Refuse rows whose id is not their own, and find out which belong together."""
        again = self._connection.execute(
            """
            WITH all_rows AS (
                SELECT number, 0 AS line, row_id FROM known
                UNION ALL SELECT number, line, row_id FROM taken
            ), more AS (
                SELECT row_id, min(number) AS first, arg_min(line, number) AS line FROM all_rows
                GROUP BY row_id HAVING count(*) > 1
            )
            SELECT taken.number, taken.line, row_id, more.line FROM taken JOIN more USING (row_id)
            WHERE taken.number > more.first ORDER BY taken.number
            """
        ).fetchall()
        for _, line, row_id, first in again:
            has = "a row of the dataset has" if first == 0 else f"line {first:,} has"
            tally.refuse(line, row_id, f"{has} this id already; ids are unique")
        if again:
            gone = {"number": np.array([number for number, *_ in again], np.int64)}
            self._connection.register("gone", gone)
            for table in ("taken", "said"):
                self._connection.execute(
                    f"DELETE FROM {table} WHERE number IN (SELECT number FROM gone)"
                )
        groups = self._near.groups()
        alone = np.ones(len(groups), bool)
        alone[[number for number, *_ in again]] = False
        sizes = np.bincount(groups[alone], minlength=len(groups))
        together = np.flatnonzero(alone & (sizes[groups] > 1))
        self._insert("near", "number, first", {"number": together, "first": groups[together]})

    def close(self) -> None:
        """Have everything in the file."""
        self._connection.close()

    def _numbers(self, more: int) -> Any:
        self.count += more
        return np.arange(self.count - more, self.count)

    def _insert(self, table: str, columns: str, batch: dict[str, Any]) -> None:
        self._connection.register("batch", batch)
        self._connection.execute(f"INSERT INTO {table} SELECT {columns} FROM batch")
        self._connection.unregister("batch")


@contextmanager
def staging(project: Project) -> Iterator[Staging]:
    """A staging file that is gone afterwards. Raises `Unusable` when the disk cannot take it.

    Those of imports that were killed are taken away first.
    """
    whole = project.path.resolve()
    _sweep(whole)
    path = whole.with_name(f".{whole.name}.{os.getpid()}-{secrets.token_hex(4)}{_SUFFIX}")
    try:
        # DuckDB's own lock ends when the rows are in the file, before they are in the project.
        with _made(_held(path)) as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            made = Staging(path)
            try:
                yield made
            finally:
                made.close()
    except duckdb.Error as error:
        if not is_of_disk(error) and not isinstance(error, duckdb.OutOfMemoryException):
            raise
        raise Unusable(
            f"the rows cannot be kept beside {shown(project.path)}: {disk_words(error)}"
        ) from None
    finally:
        _remove(path)


def _made(path: Path) -> IO[bytes]:
    try:
        return path.open("wb")
    except OSError as error:
        folder = shown(path.parent)
        raise Unusable(f"rows cannot be kept in {folder} on their way: {error.strerror}") from None


def _sweep(project: Path) -> None:
    """Removes staging files of the project that no process holds any more."""
    for path in project.parent.glob(f".{escape(project.name)}.*{_SUFFIX}"):
        if path.name.startswith(f".{project.name}.{os.getpid()}-"):
            # DuckDB keeps processes apart, and threads not.
            continue
        try:
            duckdb.connect(str(path)).close()
        except duckdb.IOException as error:
            if "Could not set lock" in str(error):
                continue
        except duckdb.Error:
            # It was killed before there was a database in it.
            pass
        if not _goes_on(path):
            _remove(path)


def _goes_on(path: Path) -> bool:
    """Whether a process holds the lock beside a staging file."""
    try:
        with _held(path).open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _held(path: Path) -> Path:
    return path.with_name(f"{path.name}{_HELD}")


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.with_name(f"{path.name}.wal").unlink(missing_ok=True)
    shutil.rmtree(f"{path}.tmp", ignore_errors=True)
    _held(path).unlink(missing_ok=True)


def _objects(values: Sequence[Any]) -> Any:
    made = np.empty(len(values), object)
    made[:] = values
    return made
