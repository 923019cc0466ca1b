"""What DuckDB says when a disk is full or fails: it has no class of its own for all of that."""

import duckdb

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
