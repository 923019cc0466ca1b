"""What a run would ask, before it asks: rows, answers, and what is kept of them already.

Of a large dataset a part is looked at, evenly spread, and the rest taken to be like it. Asks nobody.
"""

from dataclasses import dataclass
from typing import Final

import duckdb

from spinf_serve.evals.asking import Item, count_rows, cuts_for, items, prompts
from spinf_serve.evals.project import Project
from spinf_serve.evals.score_tables import Identity, known
from spinf_serve.packs.pack import Pack

MOST_ROWS: Final = 10_000
"""Rows that are looked at."""

_PARTS: Final = 5


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run would do. Answers are filled templates on contents, or on chunks of long ones.

    Attributes:
        rows: of the dataset or split.
        looked: of these, looked at; with fewer than `rows` the other numbers are estimates.
        prompts: filled templates that the pack asks of a content.
        contents: contents of which something is missing; equal rows are one.
        answers: answers that are missing.
        kept: answers that are kept, or that an equal row has.
        refused: rows that the pack cannot present, or that were refused before.
    """

    rows: int
    looked: int
    prompts: int
    contents: int
    answers: int
    kept: int
    refused: int

    @property
    def is_exact(self) -> bool:
        """Whether all rows were looked at."""
        return self.looked == self.rows

    @property
    def reused(self) -> float:
        """Share of all answers that need not be asked for, 0 to 1."""
        both = self.answers + self.kept
        return self.kept / both if both else 0.0


def plan(
    project: Project,
    dataset: str,
    pack: Pack,
    identity: Identity | None,
    *,
    split: str | None = None,
    most_rows: int = MOST_ROWS,
) -> Plan:
    """What a run of a pack on a dataset would ask.

    Args:
        identity: who is going to answer; None when that is not known, so that nothing is kept.
        split: of these rows only; None asks of all.
        most_rows: looked at most.

    Raises `Unusable` when there is no such dataset.
    """
    wanted = prompts(pack.questions)
    seen: set[str] = set()
    looked = contents = answers = kept = refused = 0
    with project.open(write=False) as connection:
        total = count_rows(connection, dataset, split)
        parts = 1 if total <= most_rows else _PARTS
        size = -(-min(total, most_rows) // parts)
        for part in range(parts if total else 0):
            after = _before(connection, dataset, split, part * total // parts)
            rows = items(connection, dataset, pack, split=split, after=after, count=size)
            looked += len(rows)
            read, out = _read(connection, pack, identity, rows)
            refused += out
            held = None if identity is None else known(connection, identity, read, wanted)
            for digest in read:
                have = len(held.prompts.get(digest, ())) if held is not None else 0
                if digest in seen:
                    have = len(wanted)
                seen.add(digest)
                if held is not None and digest in held.refused:
                    refused += 1
                    continue
                kept += have
                answers += len(wanted) - have
                contents += have < len(wanted)
    times = total / looked if looked else 1.0
    counts = (round(one * times) for one in (contents, answers, kept, refused))
    return Plan(total, looked, len(wanted), *counts)


def _before(
    connection: duckdb.DuckDBPyConnection, dataset: str, split: str | None, offset: int
) -> int:
    """The number right before that of the row at an offset."""
    found = connection.execute(
        "SELECT number FROM item WHERE dataset = $1 AND ($2::VARCHAR IS NULL OR split = $2)"
        " ORDER BY number LIMIT 1 OFFSET $3",
        [dataset, split, offset],
    ).fetchone()
    return 0 if found is None else int(found[0]) - 1


def _read(
    connection: duckdb.DuckDBPyConnection,
    pack: Pack,
    identity: Identity | None,
    rows: list[Item],
) -> tuple[list[str], int]:
    """Digests of what is read for rows, as often as it is; and how many rows cannot be presented."""
    digests = [row.digest for row in rows]
    whole = {one for one in digests if one is not None}
    cuts = {} if identity is None else cuts_for(connection, identity, pack, whole)
    read: list[str] = []
    refused = 0
    for row, digest in zip(rows, digests, strict=True):
        if digest is None:
            refused += 1
        else:
            read += row.parts(digest, cuts)
    return read, refused
