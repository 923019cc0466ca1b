"""The log's file: its tables, how it is opened, and how processes get along on it.

Knows no server. In WAL mode a server writes while commands read; deleting waits its turn. What is
deleted is overwritten (`secure_delete`), and its pages go back to the disk.
"""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import is_regular, is_there, shown

APPLICATION_ID: Final = 0x53504C47
"""Stands in the file's header and says what kind of file it is: "SPLG"."""

VERSION: Final = 1
"""Of the tables; a file of a later one is refused."""

WAIT_SECONDS: Final = 10.0
"""How long an operation waits for another process."""

_SIGNS_BYTES: Final = 100
_MAGIC: Final = b"SQLite format 3\x00"
_APPLICATION_AT: Final = 68

_TABLES: Final = """
    CREATE TABLE model (
        id INTEGER PRIMARY KEY,
        served TEXT NOT NULL,
        model TEXT NOT NULL,
        bits TEXT NOT NULL,
        UNIQUE (served, model, bits)
    );
    CREATE TABLE pack (
        id INTEGER PRIMARY KEY,
        pack TEXT NOT NULL,
        version TEXT NOT NULL,
        digest TEXT NOT NULL UNIQUE,
        facts TEXT NOT NULL             -- JSON: contexts, categories and reads with their questions
    );
    CREATE TABLE asked (                -- one content of one request
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        request TEXT NOT NULL,
        input TEXT NOT NULL,
        at INTEGER NOT NULL,            -- unix seconds
        caller TEXT NOT NULL,
        route TEXT NOT NULL,
        endpoint TEXT,
        model INTEGER NOT NULL REFERENCES model,
        digest TEXT NOT NULL,           -- SHA-256 of the content
        text TEXT,                      -- NULL where it is not kept
        parameters TEXT NOT NULL,       -- JSON object
        chunks INTEGER NOT NULL,
        drawn INTEGER NOT NULL,         -- 1: of the random sample
        rate REAL NOT NULL,             -- the chance that it had
        answers TEXT                    -- JSON list, of questions that are no pack's
    );
    CREATE INDEX asked_at ON asked (at);
    CREATE INDEX asked_digest ON asked (digest);
    CREATE INDEX asked_request ON asked (request);
    CREATE TABLE decided (              -- what one pack said of it
        asked INTEGER NOT NULL REFERENCES asked ON DELETE CASCADE,
        place INTEGER NOT NULL,
        pack INTEGER NOT NULL REFERENCES pack,
        context TEXT NOT NULL,
        state TEXT NOT NULL,
        unsafe INTEGER,                 -- NULL for a draft, which decides nothing
        band TEXT,
        reason TEXT,
        call TEXT NOT NULL,             -- JSON, as the others
        decision TEXT NOT NULL,
        route TEXT NOT NULL,
        categories TEXT NOT NULL,
        reads TEXT NOT NULL,
        PRIMARY KEY (asked, place)
    ) WITHOUT ROWID;
"""


def create(path: Path) -> None:
    """Make a log where there is none, readable by its owner only; else see that it is one.

    Raises `Unusable`: it cannot be made, or something else is there.
    """
    if not is_there(path):
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            pass  # Another process was faster and makes its tables now.
        except (OSError, ValueError) as fault:
            why = fault.strerror if isinstance(fault, OSError) else fault
            raise Unusable(f"the decision log {shown(path)} cannot be made: {why}") from None
    if not is_regular(path):
        raise Unusable(f"the decision log {shown(path)} is no regular file; name another")
    if path.stat().st_size:
        connect(path).close()
        return
    try:
        with closing(_connection(path)) as connection:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            # All at once, and in the file itself: what is in a WAL shows in no header.
            connection.execute("BEGIN EXCLUSIVE")
            if not _version(connection):
                for statement in filter(str.strip, _TABLES.split(";\n")):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("COMMIT")
            connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.Error as fault:
        raise Unusable(f"the decision log {shown(path)} cannot be made: {fault}") from None


def connect(path: Path, *, write: bool = True) -> sqlite3.Connection:
    """A connection to a log that is there; close it.

    Raises `Unusable`: it is not there, is none, or a newer version made it.
    """
    if not is_regular(path):
        what = "is no file" if is_there(path) else "is not there"
        raise Unusable(
            f"decision log {shown(path)} {what}; `spinf-serve serve --decision-log FILE` writes one"
        )
    if not is_decision_log(path):
        raise Unusable(f"{shown(path)} is no decision log")
    try:
        connection = _connection(path)
        version = _version(connection)
        if not write:
            connection.execute("PRAGMA query_only = ON")
    except sqlite3.Error as fault:
        raise unreadable(path, fault) from None
    if version != VERSION:
        connection.close()
        raise Unusable(
            f"decision log {shown(path)} has tables of version {version}; this version of"
            f" spinf-serve reads {VERSION}: use a newer one"
        )
    return connection


def is_decision_log(path: Path) -> bool:
    """Whether a file is a log, by its header; False where there is none."""
    try:
        with path.open("rb") as file:
            head = file.read(_SIGNS_BYTES)
    except (OSError, ValueError):
        return False
    found = head[_APPLICATION_AT : _APPLICATION_AT + 4]
    return head.startswith(_MAGIC) and found == APPLICATION_ID.to_bytes(4, "big")


def unreadable(path: Path, fault: sqlite3.Error) -> Unusable:
    """What to say of a log that SQLite could not read or write."""
    return Unusable(f"decision log {shown(path)}: {fault}")


def _connection(path: Path) -> sqlite3.Connection:
    # Autocommit: transactions are begun where they are meant.
    connection = sqlite3.connect(
        path.resolve().as_uri() + "?mode=rw", uri=True, timeout=WAIT_SECONDS, isolation_level=None
    )
    try:
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA foreign_keys = ON")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
