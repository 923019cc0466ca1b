"""The project file: one DuckDB file with labelled data, kept scores and what was promised on them.

Knows its tables, how they came to be, and how processes take turns. A connection is opened for one
operation and closed: DuckDB lets one process write, or several read. Not what the rows mean.
"""

import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import duckdb

from spinf_serve.evals.disk import disk_words, holder, is_damage, is_of_disk, unreadable
from spinf_serve.packs.atomic import locked
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import is_regular, is_there, shown

WAIT_SECONDS: Final = 60.0
"""How long an operation waits for another process."""

TELL_SECONDS: Final = 2.0
"""How long it waits before it says for whom."""

MEMORY: Final = "400MB"
"""What DuckDB may hold in memory; beyond it goes into a folder beside the file."""

_RETRY_SECONDS: Final = 0.02

_MIGRATIONS: Final = (
    """
    CREATE TABLE dataset (
        name VARCHAR PRIMARY KEY,
        created TIMESTAMP NOT NULL,         -- UTC, as all times here
        source VARCHAR NOT NULL,            -- the name of the file or the query it came from
        digest VARCHAR NOT NULL             -- of rows and labels at the last import, split or deletion
    );
    CREATE TABLE item (
        dataset VARCHAR NOT NULL,
        row_id VARCHAR NOT NULL,
        number BIGINT NOT NULL,             -- order of import, from 1, unique in its dataset
        text VARCHAR NOT NULL,
        content_digest VARCHAR NOT NULL,    -- SHA-256 of the text alone
        context VARCHAR,                    -- which of a pack's contexts presents it; NULL: the first
        parameters JSON NOT NULL,           -- object of strings that fill the context
        slices MAP(VARCHAR, VARCHAR) NOT NULL,
        grp VARCHAR,                        -- rows of one group never part; NULL: alone
        split VARCHAR,
        drawn VARCHAR NOT NULL CHECK (drawn IN ('random', 'queue', 'import')),
        weight DOUBLE CHECK (weight > 0),   -- inverse probability of being drawn; NULL: not known
        PRIMARY KEY (dataset, row_id)
    );
    CREATE TABLE label (
        dataset VARCHAR NOT NULL,
        row_id VARCHAR NOT NULL,
        target VARCHAR NOT NULL,            -- a category or question
        value VARCHAR NOT NULL,             -- 'yes', 'no', 'unsure' or a class
        annotator VARCHAR NOT NULL,
        "at" TIMESTAMP NOT NULL,
        drawn VARCHAR NOT NULL CHECK (drawn IN ('random', 'queue', 'import')),
        score_visible BOOLEAN NOT NULL,     -- whether the score was shown when it was given
        adjudicated BOOLEAN NOT NULL        -- whether it settles what annotators disagree on
    );
    CREATE SEQUENCE content_id;
    CREATE TABLE content (
        id BIGINT PRIMARY KEY DEFAULT nextval('content_id'),
        digest VARCHAR NOT NULL,            -- of the wrapped content, as the model reads it
        text_digest VARCHAR                 -- the item's content_digest, by which it is deleted
    );
    CREATE SEQUENCE prompt_id;
    CREATE TABLE prompt (
        id BIGINT PRIMARY KEY DEFAULT nextval('prompt_id'),
        digest VARCHAR NOT NULL,
        options INTEGER NOT NULL
    );
    CREATE SEQUENCE model_id;
    CREATE TABLE model (
        id BIGINT PRIMARY KEY DEFAULT nextval('model_id'),
        bits VARCHAR NOT NULL,              -- digest of what moves a score's last bit
        model VARCHAR NOT NULL,             -- digest that a pack's proof names
        served VARCHAR NOT NULL,
        rounded BOOLEAN NOT NULL,           -- whether its logprobs were rounded on the way
        facts JSON NOT NULL
    );
    CREATE TABLE score (
        model BIGINT NOT NULL,
        content BIGINT NOT NULL,
        prompt BIGINT NOT NULL,
        logprobs DOUBLE[] NOT NULL
    );
    CREATE TABLE floor (model BIGINT NOT NULL, prompt BIGINT NOT NULL, logprobs DOUBLE[] NOT NULL);
    CREATE TABLE refusal (
        model BIGINT NOT NULL,
        content BIGINT NOT NULL,
        prompt BIGINT NOT NULL,
        code VARCHAR NOT NULL,
        message VARCHAR NOT NULL
    );
    CREATE TABLE spent (
        dataset VARCHAR NOT NULL,
        split VARCHAR,
        target VARCHAR NOT NULL,
        delta DOUBLE NOT NULL,
        kind VARCHAR NOT NULL,
        "at" TIMESTAMP NOT NULL,
        "by" VARCHAR NOT NULL,
        note VARCHAR NOT NULL
    );
    CREATE TABLE fitted (
        pack VARCHAR NOT NULL,
        version VARCHAR NOT NULL,
        "at" TIMESTAMP NOT NULL,
        "by" VARCHAR NOT NULL,
        data_digest VARCHAR NOT NULL,
        report JSON NOT NULL
    );
    """,
    """
    CREATE TABLE cut (                      -- how contents were read that may be longer than a read
        model BIGINT NOT NULL,
        content BIGINT NOT NULL,            -- the whole
        "before" BIGINT NOT NULL,           -- characters of the context before and after the text
        "after" BIGINT NOT NULL,
        most_tokens BIGINT NOT NULL,        -- of a read
        parts BIGINT[] NOT NULL             -- contents that were read for it, in order
    );
    """,
    # Path or URL of what a row is about in place of a text, which is '' then.
    "ALTER TABLE item ADD COLUMN media VARCHAR",
    """
    CREATE TABLE note (                     -- what an annotator wrote beside a label, or in its place
        dataset VARCHAR NOT NULL,
        row_id VARCHAR NOT NULL,
        target VARCHAR NOT NULL,
        annotator VARCHAR NOT NULL,
        "at" TIMESTAMP NOT NULL,
        text VARCHAR NOT NULL
    );
    """,
)
"""What each version adds to the tables of the one before; never changed once released."""


@dataclass(frozen=True, slots=True)
class Project:
    """A project file by its path; nothing is open between operations.

    Attributes:
        path: of the DuckDB file.
        wait_seconds: how long an operation waits for others before it gives up.
        say: told in a line whom an operation waits for, once it has waited `TELL_SECONDS`.
    """

    path: Path
    wait_seconds: float = WAIT_SECONDS
    say: Callable[[str], None] = field(default=lambda _: None, compare=False, repr=False)

    @contextmanager
    def open(self, *, write: bool) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection for one operation.

        A write is one transaction: committed at the end, rolled back on any exception. Do not open
        inside another `open` of the same project: it would wait for itself.

        Raises `Unusable`: there is no such project, it is none, a newer version made it, the disk
        fails, or another process held it for longer than `wait_seconds`; the message names which.
        """
        _check_path(self.path)
        if not is_regular(self.path):
            what = "is no file" if is_there(self.path) else "is not there"
            name = shown(self.path)
            raise Unusable(f"project {name} {what}; make one with `spinf-serve data new {name}`")
        until = time.monotonic() + self.wait_seconds
        if write:
            with self._turn(until), self._connected(until, write=True) as connection:
                yield connection
            return
        while True:
            with self._connected(until, write=False) as connection:
                if self._version(connection) == len(_MIGRATIONS):
                    yield connection
                    return
            with self._turn(until), self._connected(until, write=True):
                pass  # Opening for writing brings the tables up to date.

    def rewrite(self) -> None:
        """Copy everything into a new file that takes this one's place.

        What was deleted stays readable in a DuckDB file's blocks until then. Raises `Unusable`.
        """
        until = time.monotonic() + self.wait_seconds
        path = self.path.resolve()
        beside = path.with_name(f".{secrets.token_hex(8)}.part")
        with self._turn(until):
            connection = self._connect(until, write=True)
            try:
                connection.execute("ATTACH " + _quoted(str(beside), "'") + " AS fresh")
                found = connection.execute("SELECT current_database()").fetchall()
                name = _quoted(found[0][0], '"')
                connection.execute(f"COPY FROM DATABASE {name} TO fresh")
                connection.execute("DETACH fresh")
                beside.rename(path)
            except OSError as error:
                raise Unusable(
                    f"project {shown(self.path)} cannot be written anew: {error}"
                ) from None
            except duckdb.Error as error:
                if is_of_disk(error):
                    raise Unusable(
                        f"project {shown(self.path)} cannot be written anew: {disk_words(error)}"
                    ) from None
                if not is_damage(error):
                    raise
                raise Unusable(unreadable(self.path, error)) from None
            finally:
                connection.close()
                _remove(beside)

    @contextmanager
    def _connected(self, until: float, *, write: bool) -> Iterator[duckdb.DuckDBPyConnection]:
        connection = self._connect(until, write)
        try:
            if not write:
                yield connection
                return
            connection.begin()
            try:
                _migrate(connection, self._version(connection))
                yield connection
                connection.commit()
            except BaseException:
                # A commit that failed has rolled back already, and there is nothing left to undo.
                with suppress(duckdb.TransactionException):
                    connection.rollback()
                raise
        except duckdb.OutOfMemoryException as error:
            raise Unusable(
                f"project {shown(self.path)}: this needs more than {MEMORY} of memory and the disk"
                f" beside the file cannot take the rest: {disk_words(error)}"
            ) from error
        except duckdb.Error as error:
            if is_of_disk(error):
                raise Unusable(f"project {shown(self.path)}: {disk_words(error)}") from error
            # Blocks are checked when they are read, which may be in the midst of an operation.
            if not is_damage(error):
                raise
            raise Unusable(unreadable(self.path, error)) from error
        finally:
            connection.close()

    @contextmanager
    def _turn(self, until: float) -> Iterator[None]:
        """Writers one after another, in threads of one process too, which DuckDB lets in together."""
        name, path = shown(self.path), self.path.resolve()
        with ExitStack() as stack:
            try:
                left = max(0.0, until - time.monotonic())
                try:
                    stack.enter_context(locked(path, min(left, TELL_SECONDS)))
                except TimeoutError:
                    self._tell(self._writer())
                    stack.enter_context(locked(path, max(0.0, until - time.monotonic())))
            except TimeoutError:
                raise _busy(self, self._writer()) from None
            except OSError as error:
                raise Unusable(f"project {name} cannot be written: {error.strerror}") from None
            yield

    def _writer(self) -> str:
        """Who is writing, as far as DuckDB tells it."""
        try:
            duckdb.connect(str(self.path), read_only=True).close()
        except duckdb.Error as error:
            if "Could not set lock" in str(error):
                return holder(str(error))
        return "another process or thread is writing"

    def _tell(self, who: str) -> None:
        self.say(f"waiting for project {shown(self.path)}: {who}")

    def _connect(self, until: float, write: bool) -> duckdb.DuckDBPyConnection:
        # Spilled rows of two readers must not meet in one folder.
        spill = f"{self.path}.{os.getpid()}.tmp"
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": MEMORY,
            "temp_directory": spill,
            "threads": 2,
        }
        tell_at: float | None = time.monotonic() + TELL_SECONDS
        while True:
            try:
                connection = duckdb.connect(str(self.path), read_only=not write, config=settings)
                break
            except duckdb.ConnectionException as error:
                # This process has it open in the other way.
                if "different configuration" not in str(error):
                    raise
                who = "this process has it open in another thread"
            except duckdb.IOException as error:
                if "Could not set lock" not in str(error):
                    raise Unusable(unreadable(self.path, error)) from None
                who = holder(str(error))
            except duckdb.Error as error:
                raise Unusable(unreadable(self.path, error)) from None
            now = time.monotonic()
            if now > until:
                raise _busy(self, who)
            if tell_at is not None and now > tell_at:
                self._tell(who)
                tell_at = None
            time.sleep(_RETRY_SECONDS)
        # It would be drawn on stdout, where commands print what others read.
        connection.execute("SET enable_progress_bar = false")
        return connection

    def _version(self, connection: duckdb.DuckDBPyConnection) -> int:
        """Of the tables, 0 for none. Raises `Unusable` for a newer one, or another's file."""
        names = {
            name
            for (name,) in connection.execute(
                "SELECT table_name FROM information_schema.tables"
            ).fetchall()
        }
        if "spinf_project" not in names:
            if names:
                raise Unusable(
                    f"{shown(self.path)} is a DuckDB file of something else: it has no project in it"
                )
            return 0
        # To its end: a connection with a result that is not read whole takes nothing else.
        found = connection.execute("SELECT version FROM spinf_project").fetchall()
        version = int(found[0][0]) if found else 0
        if version > len(_MIGRATIONS):
            raise Unusable(
                f"project {shown(self.path)} was made by a newer spinf-serve (tables {version}, this"
                f" one knows {len(_MIGRATIONS)}); update spinf-serve"
            )
        return version


def create(path: Path) -> Project:
    """A new project without datasets. Raises `Unusable`: something is there, or it cannot be written."""
    _check_path(path)
    beside = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with locked(path, WAIT_SECONDS):
            if is_there(path):
                raise Unusable(f"{shown(path)} is there already; nothing was written")
            try:
                with duckdb.connect(str(beside)) as connection:
                    _migrate(connection, 0)
                beside.rename(path)
            finally:
                _remove(beside)
    except OSError as error:
        raise Unusable(f"{shown(path)} cannot be made: {error.strerror}") from None
    except duckdb.Error as error:
        if not is_of_disk(error):
            raise
        raise Unusable(f"{shown(path)} cannot be made: {disk_words(error)}") from None
    return Project(path)


def _remove(beside: Path) -> None:
    """Takes a file that did not come to its place away, with what was still to be put into it."""
    beside.unlink(missing_ok=True)
    beside.with_name(f"{beside.name}.wal").unlink(missing_ok=True)


def _check_path(path: Path) -> None:
    # DuckDB takes names as text, and fails without words at others.
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError:
        raise Unusable(
            f"project {shown(path.absolute())}: a name on its path is not UTF-8; rename it"
        ) from None


def _migrate(connection: duckdb.DuckDBPyConnection, version: int) -> None:
    if version == len(_MIGRATIONS):
        return
    for statements in _MIGRATIONS[version:]:
        connection.execute(statements)
    connection.execute("CREATE TABLE IF NOT EXISTS spinf_project (version INTEGER NOT NULL)")
    connection.execute("DELETE FROM spinf_project")
    connection.execute("INSERT INTO spinf_project VALUES (?)", [len(_MIGRATIONS)])


def _quoted(value: str, mark: str) -> str:
    return mark + value.replace(mark, 2 * mark) + mark


def _busy(project: Project, who: str) -> Unusable:
    return Unusable(
        f"project {shown(project.path)} is in use: {who}; waited {project.wait_seconds:g} s."
        " Try again when it is done"
    )
