"""Whether a log's file is whole, and whether what it says comes out again when it is asked again."""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from spinf_serve.packs.errors import Unusable
from spinf_serve.server.decision_log.asking_again import differences, request_of
from spinf_serve.server.decision_log.entries import Entry, content_digest
from spinf_serve.server.decision_log.reading import Wanted, entries

_FINGERPRINT: Final = "fp_"
_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Asked:
    """What came of asking some entries again.

    Attributes:
        asked: entries that were asked again under the bits that they were decided under.
        different: (entry, what differs), of those.
        other: entries of another model or machine, whose numbers may differ rightly: not compared.
        refused: (entry, code and message) of those that got no answer.
    """

    asked: int
    different: tuple[tuple[int, str], ...]
    other: int
    refused: tuple[tuple[int, str], ...]


def damage(connection: sqlite3.Connection) -> Iterator[str]:
    """What is wrong with a file, a sentence each: its structure, and texts that are not theirs."""
    for (line,) in connection.execute("PRAGMA integrity_check(10)").fetchall():
        if line != "ok":
            yield str(line)
    found = connection.execute("SELECT id, digest, text FROM asked WHERE text IS NOT NULL")
    while rows := found.fetchmany(_AT_ONCE):
        for id, digest, text in rows:
            if content_digest(text) != digest:
                yield f"the text of entry {id} is not the one that its digest was made from"


def askable(connection: sqlite3.Connection, rows: int, seed: int) -> list[Entry]:
    """Up to so many entries, drawn at random, whose text is kept and that a pack decided on."""
    found = connection.execute(
        "SELECT id FROM asked WHERE text IS NOT NULL"
        " AND EXISTS (SELECT 1 FROM decided WHERE decided.asked = asked.id)"
    )
    ids = [id for (id,) in found.fetchall()]
    # Sorted, so that a seed draws the same ones whatever order they came in.
    drawn = Random(seed).sample(sorted(ids), min(rows, len(ids)))
    return [next(entries(connection, Wanted(ids=[id]))) for id in sorted(drawn)]


def ask_again(found: Sequence[Entry], ask: Callable[[bytes], tuple[int, Any]]) -> Asked:
    """Ask entries again, and compare bits.

    Args:
        found: entries with texts and packs.
        ask: from a body of /v1/score to the status and the body of its answer.
    """
    compared = other = 0
    different: list[tuple[int, str]] = []
    refused: list[tuple[int, str]] = []
    for entry in found:
        if entry.id is None:
            raise ValueError("an entry that was never in a file is asked again")
        body = request_of(entry)
        # Whoever answers may serve the same model by another name; the fingerprint tells.
        del body["model"]
        status, answer = ask(json.dumps(body).encode())
        if status != 200:
            refused.append((entry.id, _refusal(status, answer)))
            continue
        try:
            short = answer["system_fingerprint"]
            if not entry.identity.bits.startswith(short.removeprefix(_FINGERPRINT)):
                other += 1
                continue
            lines = differences(entry, answer)
        except (KeyError, IndexError, TypeError, AttributeError) as fault:
            raise Unusable(f"what answers is no spinf-serve: its answer lacks {fault}") from None
        compared += 1
        different += [(entry.id, line) for line in lines]
    return Asked(compared, tuple(different), other, tuple(refused))


def _refusal(status: int, answer: Any) -> str:
    error = answer.get("error") if isinstance(answer, dict) else None
    if not isinstance(error, dict):
        return f"HTTP {status}"
    return f"{error.get('code')}: {error.get('message')}"
