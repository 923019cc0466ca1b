"""Entries into the log's file, and what is too old out of it. Any failure is SQLite's own error."""

import json
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Final

from spinf_serve.server.decision_log.entries import Decided, Entry, Identity, PackFacts

PRUNED_AT_ONCE: Final = 500
"""Entries that one transaction deletes, so that nobody waits long for its turn."""


def write(
    connection: sqlite3.Connection,
    entries: Sequence[Entry],
    facts_of: Callable[[str], PackFacts],
) -> None:
    """Write entries in one transaction: all are there, or none.

    Args:
        facts_of: what is kept of the pack with a digest; asked when the file lacks it.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Deleting takes away what nothing refers to, so that numbers are looked up each time.
        models: dict[Identity, int] = {}
        packs: dict[str, int] = {}
        for entry in entries:
            if entry.identity not in models:
                models[entry.identity] = _model(connection, entry.identity)
            _write(connection, entry, models[entry.identity], packs, facts_of)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _write(
    connection: sqlite3.Connection,
    entry: Entry,
    model: int,
    packs: dict[str, int],
    facts_of: Callable[[str], PackFacts],
) -> None:
    answers = [[one.question, one.asked, dict(one.values), dict(one.p)] for one in entry.answers]
    asked = connection.execute(
        "INSERT INTO asked (request, input, at, caller, route, endpoint, model, digest, text,"
        " parameters, chunks, drawn, rate, answers) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            entry.request,
            entry.input,
            entry.at,
            entry.caller,
            entry.route,
            entry.endpoint,
            model,
            entry.digest,
            entry.text,
            _json(entry.parameters),
            entry.chunks,
            entry.drawn,
            entry.rate,
            _json(answers) if answers else None,
        ],
    ).lastrowid
    for place, one in enumerate(entry.decided):
        if one.digest not in packs:
            packs[one.digest] = _pack(connection, one, facts_of)
        decision = one.decision
        connection.execute(
            "INSERT INTO decided VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                asked,
                place,
                packs[one.digest],
                one.context,
                one.state,
                None if decision is None else decision["unsafe"],
                None if decision is None else decision["band"],
                one.reason,
                _json(one.call),
                _json(decision),
                _json(one.route),
                _json(one.categories),
                _json(one.reads),
            ],
        )


def _model(connection: sqlite3.Connection, identity: Identity) -> int:
    values = [identity.served, identity.model, identity.bits]
    connection.execute(
        "INSERT INTO model (served, model, bits) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", values
    )
    found = connection.execute(
        "SELECT id FROM model WHERE served = ? AND model = ? AND bits = ?", values
    )
    return int(found.fetchone()[0])


def _pack(
    connection: sqlite3.Connection, one: Decided, facts_of: Callable[[str], PackFacts]
) -> int:
    lookup = "SELECT id FROM pack WHERE digest = ?"
    found = connection.execute(lookup, [one.digest]).fetchone()
    if found is None:
        facts = facts_of(one.digest)
        connection.execute(
            "INSERT INTO pack (pack, version, digest, facts) VALUES (?, ?, ?, ?)",
            [facts.pack, facts.version, facts.digest, _json(facts.facts)],
        )
        found = connection.execute(lookup, [one.digest]).fetchone()
    return int(found[0])


def prune(connection: sqlite3.Connection, before: int) -> int:
    """Delete a few of the entries of before a time (unix seconds), oldest first.

    Returns how many; none once it is done.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        gone = connection.execute(
            "DELETE FROM asked WHERE id IN (SELECT id FROM asked WHERE at < ? ORDER BY at LIMIT ?)",
            [before, PRUNED_AT_ONCE],
        ).rowcount
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return gone


def give_back(connection: sqlite3.Connection) -> bool:
    """Return freed pages to the disk and empty the WAL, where deleted texts may still stand.

    Returns whether that could be done: not while another connection reads or writes.
    """
    # Every row that comes back is a page that went.
    connection.execute("PRAGMA incremental_vacuum").fetchall()
    busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy


def _json(value: Any) -> str:
    # Log records are read by other programs too; NaN would be no JSON.
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
