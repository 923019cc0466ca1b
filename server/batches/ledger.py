"""The SQLite file that says which files and batches there are and how far each batch has come.

One connection, which holds the file alone: a second server on the same folder is refused, and the
lock ends with the process, however it ends. Calls take milliseconds, since what they write is on
the disk when they return; keep them off the event loop. Knows no other file and no HTTP.
"""

import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from spinf_serve.packs.errors import Unusable
from spinf_serve.server.auth import Caller
from spinf_serve.server.batches.records import (
    ENDED,
    UNFINISHED,
    Batch,
    Flaw,
    KeptFile,
    Progress,
)

_VERSION = 1
_TABLES = """
CREATE TABLE files (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, owner TEXT NOT NULL,
    filename TEXT NOT NULL, purpose TEXT NOT NULL, size_bytes INTEGER NOT NULL,
    created_at INTEGER NOT NULL, expires_at INTEGER NOT NULL
);
CREATE TABLE batches (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, owner TEXT NOT NULL,
    caller TEXT NOT NULL, endpoint TEXT NOT NULL, input_file_id TEXT NOT NULL,
    output_file_id TEXT NOT NULL, error_file_id TEXT NOT NULL, completion_window TEXT NOT NULL,
    metadata TEXT NOT NULL, output_seconds INTEGER NOT NULL, created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL, status TEXT NOT NULL, times TEXT NOT NULL, total INTEGER,
    input_bytes INTEGER NOT NULL, output_bytes INTEGER NOT NULL, error_bytes INTEGER NOT NULL,
    completed INTEGER NOT NULL, failed INTEGER NOT NULL, flaws TEXT NOT NULL
);
CREATE INDEX batches_status ON batches (status);
"""
_FILE = "id, owner, filename, purpose, size_bytes, created_at, expires_at"
_BATCH = (
    "id, caller, endpoint, input_file_id, output_file_id, error_file_id, completion_window, "
    "metadata, output_seconds, created_at, expires_at, status, times, total, input_bytes, "
    "output_bytes, error_bytes, completed, failed, flaws"
)
# Whose an entry must be: anybody's where the owner is NULL.
_OWNED = "(:owner IS NULL OR owner = :owner)"


class Ledger:
    """The entries of a folder. Any thread; `owner` None stands for all owners."""

    def __init__(self, path: Path) -> None:
        """Opens the file or makes it. Raises `Unusable` when it is in use or no ledger of ours."""
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(
            path, timeout=1, isolation_level=None, check_same_thread=False
        )
        try:
            self._open()
        except (sqlite3.Error, Unusable) as fault:
            self._connection.close()
            raise Unusable(f"--batch-dir: {path} cannot be used: {_why_not(fault)}") from fault

    def close(self) -> None:
        """Lets go of the file."""
        with self._lock:
            self._connection.close()

    # --- files

    def add_file(self, file: KeptFile) -> None:
        """Enters a file."""
        with self._writing() as at:
            _insert_file(at, file)

    def file(self, id: str, owner: str | None) -> KeptFile | None:
        """A file; None when there is none of that id and owner."""
        found = self._rows(
            f"SELECT {_FILE} FROM files WHERE id = :id AND {_OWNED}", id=id, owner=owner
        )
        return KeptFile(*found[0]) if found else None

    def files(
        self, owner: str | None, purpose: str | None, after: str | None, limit: int, oldest: bool
    ) -> list[KeptFile]:
        """Up to `limit` files behind the one called `after`, the newest or the oldest first."""
        found = self._rows(
            f"SELECT {_FILE} FROM files WHERE {_OWNED} "
            "AND (:purpose IS NULL OR purpose = :purpose) "
            f"AND (:after IS NULL OR {_behind('files', oldest)}) "
            f"ORDER BY seq {'ASC' if oldest else 'DESC'} LIMIT :limit",
            owner=owner,
            purpose=purpose,
            after=after,
            limit=limit,
        )
        return [KeptFile(*row) for row in found]

    def remove_file(self, id: str) -> bool:
        """Strikes a file out, unless an unfinished batch reads it; whether it did."""
        with self._writing() as at:
            count = at.execute(
                "DELETE FROM files WHERE id = :id AND NOT EXISTS (SELECT 1 FROM batches WHERE "
                f"input_file_id = :id AND status IN {_words(UNFINISHED)})",
                {"id": id},
            ).rowcount
        return count > 0

    def expired_files(self, now: int) -> list[str]:
        """Ids of files whose time is over."""
        found = self._rows("SELECT id FROM files WHERE expires_at <= :now", now=now)
        return [id for (id,) in found]

    def size_bytes(self) -> int:
        """Bytes of all files and of what unfinished batches have written."""
        [(files,)] = self._rows("SELECT coalesce(sum(size_bytes), 0) FROM files")
        [(written,)] = self._rows(
            "SELECT coalesce(sum(output_bytes + error_bytes), 0) FROM batches "
            f"WHERE status IN {_words(UNFINISHED)}"
        )
        return int(files) + int(written)

    def named_files(self) -> set[str]:
        """Ids of all files in the folder that are accounted for, seen by callers or not yet."""
        found = self._rows(
            "SELECT id FROM files "
            f"UNION SELECT output_file_id FROM batches WHERE status IN {_words(UNFINISHED)} "
            f"UNION SELECT error_file_id FROM batches WHERE status IN {_words(UNFINISHED)}"
        )
        return {id for (id,) in found}

    # --- batches

    def add_batch(self, batch: Batch, most_of_owner: int) -> bool:
        """Enters a batch; whether it did.

        It does not where the input file is gone, or where the owner has `most_of_owner` batches that
        have not ended.
        """
        values = _batch_values(batch) | {"owner": batch.caller.name}
        names = ", ".join(values)
        places = ", ".join(f":{name}" for name in values)
        with self._writing() as at:
            count = at.execute(
                f"INSERT INTO batches ({names}) SELECT {places} "
                "WHERE EXISTS (SELECT 1 FROM files WHERE id = :input_file_id) AND (SELECT count(*) "
                f"FROM batches WHERE owner = :owner AND status IN {_words(UNFINISHED)}) < :most",
                values | {"most": most_of_owner},
            ).rowcount
        return count > 0

    def batch(self, id: str, owner: str | None = None) -> Batch | None:
        """A batch; None when there is none of that id and owner."""
        found = self._rows(
            f"SELECT {_BATCH} FROM batches WHERE id = :id AND {_OWNED}", id=id, owner=owner
        )
        return _batch(found[0]) if found else None

    def batches(self, owner: str | None, after: str | None, limit: int) -> list[Batch]:
        """Up to `limit` batches behind the one called `after`, the newest first."""
        found = self._rows(
            f"SELECT {_BATCH} FROM batches WHERE {_OWNED} "
            f"AND (:after IS NULL OR {_behind('batches', oldest=False)}) "
            "ORDER BY seq DESC LIMIT :limit",
            owner=owner,
            after=after,
            limit=limit,
        )
        return [_batch(row) for row in found]

    def unfinished(self) -> list[str]:
        """Ids of the batches that have not ended, the oldest first."""
        found = self._rows(
            f"SELECT id FROM batches WHERE status IN {_words(UNFINISHED)} ORDER BY seq"
        )
        return [id for (id,) in found]

    def states(self) -> dict[str, int]:
        """How many batches are kept in each state, those with none included."""
        found = dict(self._rows("SELECT status, count(*) FROM batches GROUP BY status"))
        return {state: found.get(state, 0) for state in (*UNFINISHED, *ENDED)}

    def move(
        self,
        id: str,
        status: str,
        now: int,
        *,
        before: Sequence[str],
        total: int | None = None,
        flaws: Sequence[Flaw] = (),
        files: Sequence[KeptFile] = (),
    ) -> bool:
        """Brings a batch into a state, if it is in one of `before`; whether it did.

        Args:
            total: its rows, once they are counted.
            flaws: why it failed.
            files: its output and error file, which callers see from now on.
        """
        with self._writing() as at:
            count = at.execute(
                "UPDATE batches SET status = :status, "
                "times = json_set(times, '$.' || :status, :now), "
                "total = coalesce(:total, total), flaws = :flaws "
                f"WHERE id = :id AND status IN {_words(before)}",
                {
                    "id": id,
                    "status": status,
                    "now": now,
                    "total": total,
                    "flaws": json.dumps([asdict(flaw) for flaw in flaws]),
                },
            ).rowcount
            if count:
                for file in files:
                    _insert_file(at, file)
        return count > 0

    def advance(self, id: str, progress: Progress) -> None:
        """Notes how far a batch has come."""
        with self._writing() as at:
            at.execute(
                "UPDATE batches SET input_bytes = :input_bytes, output_bytes = :output_bytes, "
                "error_bytes = :error_bytes, completed = :completed, failed = :failed "
                "WHERE id = :id",
                asdict(progress) | {"id": id},
            )

    def remove_batches(self, ended_before: int) -> int:
        """Strikes out batches that ended before a time; how many."""
        with self._writing() as at:
            return at.execute(
                f"DELETE FROM batches WHERE status IN {_words(ENDED)} "
                "AND json_extract(times, '$.' || status) < :then",
                {"then": ended_before},
            ).rowcount

    def _open(self) -> None:
        with closing(self._connection.cursor()) as at:
            at.execute("PRAGMA locking_mode = EXCLUSIVE")
            at.execute("PRAGMA journal_mode = WAL")
            at.execute("PRAGMA synchronous = FULL")
            # Takes the lock, which this connection then keeps.
            at.execute("BEGIN IMMEDIATE")
            [version] = at.execute("PRAGMA user_version").fetchone()
            if version == 0:
                for statement in filter(str.strip, _TABLES.split(";")):
                    at.execute(statement)
                at.execute(f"PRAGMA user_version = {_VERSION}")
            at.execute("COMMIT")
        if version not in (0, _VERSION):
            raise Unusable(
                f"it has form {version}, and this version of spinf-serve reads {_VERSION}"
            )

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Cursor]:
        """A transaction: all of it is on the disk at the end of the block, or none."""
        with self._lock, closing(self._connection.cursor()) as at:
            at.execute("BEGIN IMMEDIATE")
            try:
                yield at
                at.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    at.execute("ROLLBACK")

    def _rows(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        with self._lock, closing(self._connection.cursor()) as at:
            return at.execute(query, values).fetchall()


def _words(states: Sequence[str]) -> str:
    return "(" + ", ".join(f"'{state}'" for state in states) + ")"


def _behind(table: str, oldest: bool) -> str:
    return f"seq {'>' if oldest else '<'} (SELECT seq FROM {table} WHERE id = :after)"


def _insert_file(at: sqlite3.Cursor, file: KeptFile) -> None:
    places = ", ".join(f":{name.strip()}" for name in _FILE.split(","))
    at.execute(f"INSERT INTO files ({_FILE}) VALUES ({places})", asdict(file))


def _batch_values(batch: Batch) -> dict[str, Any]:
    """A batch as the columns of its row, `_BATCH`."""
    values = asdict(batch)
    values |= values.pop("progress")
    for name in ("caller", "metadata", "times", "flaws"):
        values[name] = json.dumps(values[name])
    return values


def _batch(row: tuple[Any, ...]) -> Batch:
    values = dict(zip(map(str.strip, _BATCH.split(",")), row, strict=True))
    progress = {name: values.pop(name) for name in Progress.__dataclass_fields__}
    values["progress"] = Progress(**progress)
    values["caller"] = Caller(**json.loads(values["caller"]))
    values["metadata"] = json.loads(values["metadata"])
    values["times"] = json.loads(values["times"])
    values["flaws"] = tuple(Flaw(**flaw) for flaw in json.loads(values["flaws"]))
    return Batch(**values)


def _why_not(fault: Exception) -> str:
    locked = isinstance(fault, sqlite3.OperationalError) and "locked" in str(fault)
    return "another server holds it; give each one a folder of its own" if locked else str(fault)
