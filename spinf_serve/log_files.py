"""A decision log's file as commands take and open it, and how they print."""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from spinf_serve.outputs import write_stdout

LogFile = Annotated[Path, typer.Argument(metavar="LOG", help="the log's file", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]


@contextmanager
def opened(file: Path, *, write: bool = False) -> Iterator[sqlite3.Connection]:
    """A connection for a block. Raises `Unusable`: there is no such log, or SQLite failed."""
    from spinf_serve.server.decision_log.tables import connect, unreadable

    with closing(connect(file, write=write)) as connection:
        try:
            yield connection
        except sqlite3.Error as fault:
            raise unreadable(file, fault) from None


def print_told(told: dict[str, Any] | Iterable[str]) -> None:
    """Print an object as JSON, or lines."""
    lines = [json.dumps(told, ensure_ascii=False, indent=1)] if isinstance(told, dict) else told
    text = "".join(f"{line}\n" for line in lines)
    # Texts and ids of callers may hold anything.
    write_stdout(text.encode(errors="backslashreplace"))
