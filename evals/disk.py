"""What DuckDB says of files that it cannot use: it has no class of its own for most of that."""

import re
from pathlib import Path

import duckdb

from spinf_serve.packs.files import shown

_FULL = ("No space left on device", "Disk quota exceeded", "File too large")
_PREFIXES = ("IO Error: ", "TransactionContext Error: ", "Failed to commit: ")


def is_of_disk(error: duckdb.Error) -> bool:
    """Whether a file could not be read or written, also at the end of a transaction."""
    if isinstance(error, duckdb.IOException):
        return True
    return "Could not write file" in str(error) or any(words in str(error) for words in _FULL)


def disk_words(error: duckdb.Error) -> str:
    """The first line of what it says, and what to do where there is no room."""
    words = str(error).splitlines()[0].rstrip(". ")
    for prefix in _PREFIXES:
        words = words.removeprefix(prefix)
    if any(full in str(error) for full in _FULL):
        return f"{words}. Nothing was changed; make room on that disk, then try again"
    return words


def holder(message: str) -> str:
    """Which process holds a file, out of what DuckDB says of its lock."""
    found = re.search(r"held in (.*) \(PID (\d+)\)", message)
    return f"process {found[2]} ({found[1]}) holds it" if found else "another process holds it"


def is_damage(error: duckdb.Error) -> bool:
    """Whether a block's checksum does not hold, for which DuckDB has no class of its own."""
    return "Corrupt database file" in str(error)


def unreadable(path: Path, error: duckdb.Error) -> str:
    """Why a project's file cannot be opened."""
    # A name such as `rows.csv` makes DuckDB look at it through a database in memory.
    if "not a valid DuckDB" in str(error) or "in-memory database" in str(error):
        return f"{shown(path)} is no project: it is not a DuckDB file"
    if is_damage(error):
        return (
            f"project {shown(path)} is damaged: {_first_line(error)}. Put a copy in its place, or"
            " import the rows into a new project"
        )
    return f"project {shown(path)} cannot be opened: {_first_line(error)}"


def _first_line(error: duckdb.Error) -> str:
    return str(error).splitlines()[0].removeprefix("IO Error: ")
