"""Entries out of the log's file for good. Any failure is SQLite's own error."""

import sqlite3
from dataclasses import dataclass

from spinf_serve.server.decision_log.reading import Wanted, condition, count
from spinf_serve.server.decision_log.writing import give_back, prune


@dataclass(frozen=True, slots=True)
class Removed:
    """What was removed, or would be.

    Attributes:
        entries: contents of requests, with all that was decided on them.
        samples: those of them that were of the random sample.
        overwritten: whether nothing of them is left in any file; else some of it stays in the WAL
            until the server that writes there next empties it.
    """

    entries: int
    samples: int
    overwritten: bool


def remove(connection: sqlite3.Connection, wanted: Wanted, *, dry_run: bool = False) -> Removed:
    """Remove entries; what is wanted has at least one condition.

    Raises ValueError without any condition.
    """
    if wanted == Wanted():
        raise ValueError("without a condition everything would go")
    where, values = condition(wanted)
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = count(connection, wanted)
        samples = connection.execute(
            f"SELECT count(*) FROM asked WHERE {where} AND drawn", values
        ).fetchone()[0]
        if not dry_run:
            connection.execute(f"DELETE FROM asked WHERE {where}", values)
            _forget(connection)
        connection.execute("ROLLBACK" if dry_run else "COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return Removed(found, int(samples), not dry_run and give_back(connection))


def remove_older(connection: sqlite3.Connection, before: int, *, dry_run: bool = False) -> Removed:
    """Remove the entries of before a time, unix seconds, in small steps."""
    old = Wanted(until=before)
    where, values = condition(old)
    samples = connection.execute(
        f"SELECT count(*) FROM asked WHERE {where} AND drawn", values
    ).fetchone()[0]
    if dry_run:
        return Removed(count(connection, old), int(samples), False)
    total = 0
    while gone := prune(connection, before):
        total += gone
    return Removed(total, int(samples), give_back(connection))


def _forget(connection: sqlite3.Connection) -> None:
    """Remove packs and models that no entry speaks of any more."""
    connection.execute("DELETE FROM pack WHERE id NOT IN (SELECT pack FROM decided)")
    connection.execute("DELETE FROM model WHERE id NOT IN (SELECT model FROM asked)")
