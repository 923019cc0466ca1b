"""Kept scores that are removed, with whatever nothing is kept of any more."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import duckdb

from spinf_serve.evals.project import Project
from spinf_serve.evals.score_tables import column, identity_of, ids_of


@dataclass(frozen=True, slots=True)
class Pruned:
    """How much was, or would be, removed."""

    scores: int
    floors: int
    refusals: int


def prune(
    project: Project,
    *,
    bits: str | None = None,
    keep_prompts: Collection[str] | None = None,
    refused: bool = False,
    dry_run: bool = False,
) -> Pruned:
    """Remove what is kept: all that every condition given holds for.

    Args:
        bits: of this model, by its digest or the beginning of one; None for all models.
        keep_prompts: digests of prompts whose scores stay; None keeps no prompt.
        refused: remove refusals only, so that they are asked again.
        dry_run: count, and remove nothing.

    Raises `Unusable` when there is no such model.
    """
    with project.open(write=not dry_run) as connection:
        models = None
        if bits is not None:
            whole = identity_of(connection, bits).bits
            models = column(connection, "SELECT id FROM model WHERE bits = $1", [whole])
        held = (
            None
            if keep_prompts is None
            else list(ids_of(connection, "prompt", keep_prompts).values())
        )
        where = (
            "($1::BIGINT[] IS NULL OR list_contains($1::BIGINT[], model)) AND"
            " ($2::BIGINT[] IS NULL OR NOT list_contains($2::BIGINT[], prompt))"
        )
        counts = []
        for table in ("score", "floor", "refusal"):
            only = table == "refusal" or not refused
            query = f"SELECT count(*) FROM {table} WHERE {where}"
            counts.append(column(connection, query, [models, held])[0] if only else 0)
            if only and not dry_run:
                connection.execute(f"DELETE FROM {table} WHERE {where}", [models, held])
        if not dry_run:
            connection.execute(_CUTS_OF_NOTHING)
            _tidy(connection)
    return Pruned(*counts)


_CUTS_OF_NOTHING: Final = """
    DELETE FROM cut WHERE (model, content) NOT IN (
        SELECT (model, content) FROM (SELECT model, content, unnest(parts) AS part FROM cut)
        WHERE (model, part) IN (
            SELECT (model, content) FROM score UNION SELECT (model, content) FROM refusal
        )
    )
"""


def _tidy(connection: duckdb.DuckDBPyConnection) -> None:
    """Drops models, contents and prompts that nothing is kept of."""
    for table in ("content", "prompt", "model"):
        tables = ["score", "refusal", "cut" if table == "content" else "floor"]
        used = " UNION ".join(f"SELECT {table} FROM {one}" for one in tables)
        if table == "content":
            used += " UNION SELECT unnest(parts) FROM cut"
        connection.execute(f"DELETE FROM {table} WHERE id NOT IN ({used})")
