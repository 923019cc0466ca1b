"""Entries out of the log's file: which of them, and all that is kept of each."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spinf_serve.server.decision_log.entries import (
    Answered,
    Decided,
    Entry,
    Identity,
    PackFacts,
)

_FETCHED: Final = 500


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which entries; every condition that is given has to hold.

    Attributes:
        ids: numbers in the file.
        request, caller, route, endpoint: as in the entry.
        digests: of the content, any of them.
        since, until: unix seconds, the second not included.
        drawn: whether it is of the random sample.
        pack: id of a pack that was asked.
        unsafe, band: what a pack (that one, if `pack` is given) decided.
        category: one that was flagged, likewise.
    """

    ids: Sequence[int] | None = None
    request: str | None = None
    caller: str | None = None
    route: str | None = None
    endpoint: str | None = None
    digests: Sequence[str] | None = None
    since: int | None = None
    until: int | None = None
    drawn: bool | None = None
    pack: str | None = None
    unsafe: bool | None = None
    band: str | None = None
    category: str | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """What a log holds.

    Attributes:
        entries, drawn, with_text: numbers of all, of the random sample, and with a kept text.
        first, last: unix seconds of the oldest and the newest; None when it is empty.
    """

    entries: int
    drawn: int
    with_text: int
    first: int | None
    last: int | None


def condition(wanted: Wanted) -> tuple[str, list[Any]]:
    """SQL behind WHERE over the table `asked`, with its values."""
    parts: list[str] = ["1"]
    values: list[Any] = []
    for name, given in (
        ("request", wanted.request),
        ("caller", wanted.caller),
        ("route", wanted.route),
        ("endpoint", wanted.endpoint),
        ("drawn", wanted.drawn),
    ):
        if given is not None:
            parts.append(f"asked.{name} = ?")
            values.append(given)
    for name, several in (("id", wanted.ids), ("digest", wanted.digests)):
        if several is not None:
            parts.append(f"asked.{name} IN ({', '.join('?' * len(several))})")
            values += several
    for sign, moment in ((">=", wanted.since), ("<", wanted.until)):
        if moment is not None:
            parts.append(f"asked.at {sign} ?")
            values.append(moment)
    of_pack = ["decided.asked = asked.id"]
    for column, word in (
        ("pack.pack", wanted.pack),
        ("decided.unsafe", wanted.unsafe),
        ("decided.band", wanted.band),
    ):
        if word is not None:
            of_pack.append(f"{column} = ?")
            values.append(word)
    if wanted.category is not None:
        of_pack.append(
            "EXISTS (SELECT 1 FROM json_each(decided.categories) AS one WHERE one.key = ?"
            " AND json_extract(one.value, '$.flagged') = 1)"
        )
        values.append(wanted.category)
    if len(of_pack) > 1:
        parts.append(
            "EXISTS (SELECT 1 FROM decided JOIN pack ON pack.id = decided.pack"
            f" WHERE {' AND '.join(of_pack)})"
        )
    return " AND ".join(parts), values


def entries(
    connection: sqlite3.Connection,
    wanted: Wanted,
    *,
    newest_first: bool = True,
    limit: int | None = None,
) -> Iterator[Entry]:
    """The entries that are wanted, by time and then in the order they came in."""
    where, values = condition(wanted)
    order = "DESC" if newest_first else "ASC"
    found = connection.execute(
        "SELECT asked.id, request, input, at, caller, route, endpoint, served, model.model, bits,"
        " digest, text, parameters, chunks, drawn, rate, answers"
        f" FROM asked JOIN model ON model.id = asked.model WHERE {where}"
        f" ORDER BY at {order}, asked.id {order} LIMIT ?",
        [*values, -1 if limit is None else limit],
    )
    while rows := found.fetchmany(_FETCHED):
        for row in rows:
            yield _entry(row, _decided(connection, row[0]))


def count(connection: sqlite3.Connection, wanted: Wanted) -> int:
    """How many entries are wanted."""
    where, values = condition(wanted)
    found = connection.execute(f"SELECT count(*) FROM asked WHERE {where}", values)
    return int(found.fetchone()[0])


def standing(connection: sqlite3.Connection) -> Standing:
    """What the log holds."""
    found = connection.execute(
        "SELECT count(*), coalesce(sum(drawn), 0), count(text), min(at), max(at) FROM asked"
    ).fetchone()
    return Standing(*found)


def pack_facts(connection: sqlite3.Connection, digest: str) -> PackFacts:
    """What is kept of the pack whose file had a digest. Raises KeyError when nothing is."""
    found = connection.execute(
        "SELECT pack, version, digest, facts FROM pack WHERE digest = ?", [digest]
    ).fetchone()
    if found is None:
        raise KeyError(digest)
    pack, version, _, facts = found
    return PackFacts(pack, version, digest, json.loads(facts))


def _decided(connection: sqlite3.Connection, asked: int) -> tuple[Decided, ...]:
    found = connection.execute(
        "SELECT pack.pack, version, digest, context, state, call, decision, route, reason,"
        " categories, reads FROM decided JOIN pack ON pack.id = decided.pack"
        " WHERE asked = ? ORDER BY place",
        [asked],
    )
    return tuple(
        Decided(
            pack=row[0],
            version=row[1],
            digest=row[2],
            context=row[3],
            state=row[4],
            call=json.loads(row[5]),
            decision=json.loads(row[6]),
            route=json.loads(row[7]),
            reason=row[8],
            categories=json.loads(row[9]),
            reads=json.loads(row[10]),
        )
        for row in found.fetchall()
    )


def _entry(row: tuple[Any, ...], decided: tuple[Decided, ...]) -> Entry:
    id, request, input, at, caller, route, endpoint, served, model, bits = row[:10]
    digest, text, parameters, chunks, drawn, rate, answers = row[10:]
    return Entry(
        request=request,
        input=input,
        at=at,
        caller=caller,
        route=route,
        endpoint=endpoint,
        identity=Identity(served, model, bits),
        digest=digest,
        text=text,
        parameters=json.loads(parameters),
        chunks=chunks,
        drawn=bool(drawn),
        rate=rate,
        decided=decided,
        answers=tuple(Answered(*one) for one in json.loads(answers or "[]")),
        id=id,
    )
