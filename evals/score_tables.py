"""Kept scores in a project's tables: the statements that find and add them.

Models are found by the digest of model and machine (`bits`), contents and prompts by theirs; tables
hold numbers for all three. A pair of content and prompt has one score or one refusal of a model, never
both. Knows no pack and asks nobody; `spinf_serve.evals.store` is what others call.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.recording import Logprobs

OF_PAIRS = (
    "model = $1 AND content IN (SELECT unnest($2::BIGINT[]))"
    " AND prompt IN (SELECT unnest($3::BIGINT[])) AND content BETWEEN $4 AND $5"
)
"""A condition: model $1, contents $2, prompts $3, and contents between $4 and $5.

Contents get numbers in the order of asking, so that most row groups are passed over unread.
"""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who answers.

    Attributes:
        model: digest of weights, scheme, dtype and numerics, 64 hex digits; empty when a server does
            not tell it.
        bits: digest that also tells machines apart, 64 hex digits: equal bits, equal scores.
        served: the model's id.
        rounded: whether logprobs come rounded, and floors without any.
        facts: what else is known of it.
    """

    model: str
    bits: str
    served: str
    rounded: bool = False
    facts: Mapping[str, str] = field(default_factory=dict)


Whole = tuple[str, int, int]
"""A content that may be longer than a read: its digest, and how many characters of it stand before
and after the text, which a cut leaves alone."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How such a content is read.

    Attributes:
        most_tokens: of a read, when it was cut.
        parts: digests of what is read for it, in order; its own when it fits.
    """

    most_tokens: int
    parts: tuple[str, ...]


@dataclass(slots=True)
class Findings:
    """What was answered and is not kept yet.

    Attributes:
        scores: (content digest, prompt digest) -> logprobs of the options, in order.
        floors: prompt digest -> the same on empty content.
        refusals: (content digest, prompt digest) -> error code and message.
        texts: content digest -> digest of the row's text alone, by which its scores are deleted.
        cuts: of contents that may be longer than a read; they take the place of earlier ones.
    """

    scores: dict[tuple[str, str], Logprobs] = field(default_factory=dict)
    floors: dict[str, Logprobs] = field(default_factory=dict)
    refusals: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    cuts: dict[Whole, Cut] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.scores or self.floors or self.refusals or self.cuts)


@dataclass(frozen=True, slots=True)
class Known:
    """What is kept of some contents and all prompts of interest.

    Attributes:
        prompts: content digest -> digests of the prompts that were answered or refused.
        refused: content digest -> code of a refusal.
        floors: prompts whose floor is kept.
    """

    prompts: Mapping[str, frozenset[str]]
    refused: Mapping[str, str]
    floors: frozenset[str]


def known(
    connection: duckdb.DuckDBPyConnection,
    identity: Identity,
    contents: Collection[str],
    wanted: Collection[str],
) -> Known:
    """What is kept of contents and prompts, by digests."""
    model = model_id(connection, identity)
    named = ids_of(connection, "prompt", wanted)
    texts = ids_of(connection, "content", contents)
    if model is None or not named:
        return Known({}, {}, frozenset())
    by_id = {id: digest for digest, id in named.items()}
    places = {id: digest for digest, id in texts.items()}
    floors = column(
        connection,
        "SELECT prompt FROM floor WHERE model = $1 AND list_contains($2::BIGINT[], prompt)",
        [model, list(by_id)],
    )
    held = frozenset(by_id[id] for id in floors)
    if not texts:
        return Known({}, {}, held)
    # Ids are given in the order of asking: row groups of other contents are not even opened.
    limits = [model, list(places), list(by_id), min(places), max(places)]
    counted = connection.execute(
        f"SELECT content, count(*) FROM (SELECT content, prompt FROM score WHERE {OF_PAIRS}"
        f" UNION ALL SELECT content, prompt FROM refusal WHERE {OF_PAIRS}) GROUP BY content",
        limits,
    ).fetchall()
    whole = frozenset(named)
    found = {places[content]: whole for content, count in counted if count == len(named)}
    partly = [content for content, count in counted if count < len(named)]
    if partly:
        lists = connection.execute(
            "SELECT content, list(prompt) FROM (SELECT content, prompt FROM score WHERE"
            f" {OF_PAIRS} UNION ALL SELECT content, prompt FROM refusal WHERE {OF_PAIRS})"
            " GROUP BY content",
            [model, partly, list(by_id), min(partly), max(partly)],
        ).fetchall()
        found |= {places[at]: frozenset(by_id[id] for id in ids) for at, ids in lists}
    refused = connection.execute(
        f"SELECT content, min(code) FROM refusal WHERE {OF_PAIRS} GROUP BY content", limits
    ).fetchall()
    return Known(found, {places[content]: code for content, code in refused}, held)


def keep(
    connection: duckdb.DuckDBPyConnection,
    identity: Identity,
    lengths: Mapping[str, int],
    found: Findings,
) -> None:
    """Keep what was found, as far as it is not kept yet. A score takes a refusal's place.

    Args:
        connection: open for writing.
        lengths: prompt digest -> number of options.
    """
    model = model_id(connection, identity)
    if model is None:
        model = column(
            connection,
            "INSERT INTO model (bits, model, served, rounded, facts) VALUES ($1, $2, $3, $4, $5)"
            " RETURNING id",
            [
                identity.bits,
                identity.model,
                identity.served,
                identity.rounded,
                json.dumps(dict(identity.facts)),
            ],
        )[0]
    pairs = [*found.scores, *found.refusals]
    named = dict.fromkeys(content for content, _ in pairs)
    named |= dict.fromkeys(one for cut in found.cuts.values() for one in cut.parts)
    named |= dict.fromkeys(whole for whole, _, _ in found.cuts)
    contents = _made(connection, "content", {one: found.texts.get(one) for one in named})
    _keep_cuts(connection, model, contents, found.cuts)
    asked = dict.fromkeys([prompt for _, prompt in pairs] + list(found.floors))
    places = _made(connection, "prompt", {prompt: lengths[prompt] for prompt in asked})
    if found.scores:
        scored = [[contents[content] for content, _ in found.scores]]
        scored += [[places[prompt] for _, prompt in found.scores]]
        limits = [model, min(scored[0]), max(scored[0])]
        connection.execute(
            "INSERT INTO score SELECT $1, content, prompt, logprobs FROM (SELECT"
            " unnest($4::BIGINT[]) AS content, unnest($5::BIGINT[]) AS prompt,"
            f" unnest($6::DOUBLE[][]) AS logprobs) AS new WHERE NOT {_held('score')}",
            [*limits, *scored, [list(logprobs) for logprobs in found.scores.values()]],
        )
        connection.execute(
            "DELETE FROM refusal USING (SELECT unnest($2::BIGINT[]) AS content,"
            " unnest($3::BIGINT[]) AS prompt) AS new WHERE refusal.model = $1"
            " AND refusal.content = new.content AND refusal.prompt = new.prompt",
            [model, *scored],
        )
    if found.refusals:
        refused: list[list[Any]] = [[contents[content] for content, _ in found.refusals]]
        refused += [[places[prompt] for _, prompt in found.refusals]]
        limits = [model, min(refused[0]), max(refused[0])]
        connection.execute(
            "INSERT INTO refusal SELECT $1, content, prompt, code, message FROM (SELECT"
            " unnest($4::BIGINT[]) AS content, unnest($5::BIGINT[]) AS prompt,"
            " unnest($6::VARCHAR[]) AS code, unnest($7::VARCHAR[]) AS message) AS new"
            f" WHERE NOT {_held('score')} AND NOT {_held('refusal')}",
            [*limits, *refused, *map(list, zip(*found.refusals.values(), strict=True))],
        )
    for prompt, logprobs in found.floors.items():
        connection.execute(
            "INSERT INTO floor SELECT $1, $2, $3::DOUBLE[] WHERE NOT EXISTS"
            " (SELECT 1 FROM floor WHERE model = $1 AND prompt = $2)",
            [model, places[prompt], list(logprobs)],
        )


def cuts_of(
    connection: duckdb.DuckDBPyConnection, identity: Identity, contents: Collection[str]
) -> dict[Whole, Cut]:
    """How contents were read that may be longer than a read; those that never were are left out."""
    wholes = {id: digest for digest, id in ids_of(connection, "content", contents).items()}
    found = connection.execute(
        """
        SELECT content, "before", "after", most_tokens, list(named.digest ORDER BY place)
        FROM (
            SELECT content, "before", "after", most_tokens, unnest(parts) AS part,
                generate_subscripts(parts, 1) AS place
            FROM cut WHERE model = $1 AND content IN (SELECT unnest($2::BIGINT[]))
        ) AS each JOIN content AS named ON named.id = part
        GROUP BY content, "before", "after", most_tokens
        """,
        [model_id(connection, identity), list(wholes)],
    ).fetchall()
    return {
        (wholes[whole], before, after): Cut(most, tuple(parts))
        for whole, before, after, most, parts in found
    }


def identity_of(connection: duckdb.DuckDBPyConnection, bits: str) -> Identity:
    """The model whose scores are kept under a digest, or the beginning of one.

    Unrounded scores go before rounded ones. Raises `Unusable`: none or several are meant.
    """
    found = connection.execute(
        "SELECT model, bits, served, rounded, facts FROM model WHERE starts_with(bits, $1)"
        " ORDER BY rounded, id",
        [bits],
    ).fetchall()
    if len({row[1] for row in found}) == 1 and bits:
        model, whole, served, rounded, facts = found[0]
        return Identity(model, whole, served, rounded, json.loads(facts))
    what = "no model of these bits" if not found else "several models of bits that begin so"
    raise Unusable(
        f"the store has {what}: {bits[:64] or 'none given'}; `spinf-serve store list` tells which"
    )


def identities(connection: duckdb.DuckDBPyConnection) -> list[Identity]:
    """The models that any score is kept of, the latest first; those behind that answered little.

    A run that was stopped early must not stand for a model that answered everything.
    """
    found = connection.execute(
        "SELECT model.model, bits, served, rounded, facts FROM model JOIN (SELECT model AS id,"
        " count(*) AS scores FROM score GROUP BY model) AS kept USING (id)"
        " ORDER BY 2 * scores < max(scores) OVER (), id DESC"
    ).fetchall()
    return [
        Identity(model, bits, served, rounded, json.loads(facts))
        for model, bits, served, rounded, facts in found
    ]


@dataclass(frozen=True, slots=True)
class Stored:
    """Kept scores of prompts with equally many options, n of them.

    Attributes:
        contents, prompts: [n] int64, places in `content_digests` and `prompt_digests`.
        values: [n, K] float64, logprobs.
    """

    contents: NDArray[np.int64]
    prompts: NDArray[np.int64]
    values: NDArray[np.float64]
    content_digests: tuple[str, ...]
    prompt_digests: tuple[str, ...]


def stored(
    connection: duckdb.DuckDBPyConnection,
    identity: Identity,
    contents: Collection[str],
    wanted: Collection[str],
    options: int,
) -> Stored:
    """What is kept of contents, and of prompts that all have so many options."""
    named = sorted((id, digest) for digest, id in ids_of(connection, "prompt", wanted).items())
    texts = sorted((id, digest) for digest, id in ids_of(connection, "content", contents).items())
    prompt_ids, content_ids = (
        np.array([id for id, _ in each], np.int64) for each in (named, texts)
    )
    columns = ", ".join(f"logprobs[{place}] AS o{place}" for place in range(1, options + 1))
    least, most = (texts[0][0], texts[-1][0]) if texts else (0, 0)
    found = connection.execute(
        f"SELECT content, prompt, {columns} FROM score WHERE {OF_PAIRS}",
        [model_id(connection, identity), content_ids.tolist(), prompt_ids.tolist(), least, most],
    ).fetchnumpy()
    values = [np.asarray(found[f"o{place}"], np.float64) for place in range(1, options + 1)]
    return Stored(
        np.searchsorted(content_ids, np.asarray(found["content"], np.int64)),
        np.searchsorted(prompt_ids, np.asarray(found["prompt"], np.int64)),
        np.stack(values, axis=1),
        tuple(digest for _, digest in texts),
        tuple(digest for _, digest in named),
    )


def floors(
    connection: duckdb.DuckDBPyConnection, identity: Identity, wanted: Collection[str]
) -> dict[str, Logprobs]:
    """Prompt digest -> logprobs on empty content, of those that are kept."""
    named = {id: digest for digest, id in ids_of(connection, "prompt", wanted).items()}
    found = connection.execute(
        "SELECT prompt, logprobs FROM floor WHERE model = $1"
        " AND list_contains($2::BIGINT[], prompt)",
        [model_id(connection, identity), list(named)],
    ).fetchall()
    return {named[prompt]: tuple(logprobs) for prompt, logprobs in found}


def _keep_cuts(
    connection: duckdb.DuckDBPyConnection,
    model: int,
    contents: Mapping[str, int],
    cuts: Mapping[Whole, Cut],
) -> None:
    for (whole, before, after), cut in cuts.items():
        key = [model, contents[whole], before, after]
        connection.execute(
            'DELETE FROM cut WHERE model = $1 AND content = $2 AND "before" = $3 AND "after" = $4',
            key,
        )
        parts = [contents[one] for one in cut.parts]
        connection.execute(
            "INSERT INTO cut VALUES ($1, $2, $3, $4, $5, $6::BIGINT[])",
            [*key, cut.most_tokens, parts],
        )


def _held(table: str) -> str:
    """Whether a table holds a row `new` already; its contents lie between $2 and $3."""
    return (
        f"EXISTS (SELECT 1 FROM {table} AS old WHERE old.model = $1"
        " AND old.content BETWEEN $2 AND $3"
        " AND old.content = new.content AND old.prompt = new.prompt)"
    )


def model_id(connection: duckdb.DuckDBPyConnection, identity: Identity) -> int | None:
    """Number of a model; None when nothing of it is kept."""
    found = column(
        connection,
        "SELECT id FROM model WHERE bits = $1 AND rounded = $2",
        [identity.bits, identity.rounded],
    )
    return int(found[0]) if found else None


def ids_of(
    connection: duckdb.DuckDBPyConnection, table: str, digests: Collection[str]
) -> dict[str, int]:
    """Digest -> id, of those that are there."""
    found = connection.execute(
        f"SELECT digest, id FROM {table} WHERE digest IN (SELECT unnest($1::VARCHAR[]))",
        [list(digests)],
    ).fetchall()
    return dict(found)


def _made(
    connection: duckdb.DuckDBPyConnection, table: str, digests: Mapping[str, int | str | None]
) -> dict[str, int]:
    """Digest -> id; those that are not there are added, with a prompt's number of options or the
    digest of a content's text.
    """
    found = ids_of(connection, table, digests)
    new = [digest for digest in digests if digest not in found]
    if not new:
        return found
    beside, kind = ("text_digest", "VARCHAR") if table == "content" else ("options", "INTEGER")
    connection.execute(
        f"INSERT INTO {table} (digest, {beside})"
        f" SELECT unnest($1::VARCHAR[]), unnest($2::{kind}[])",
        [new, [digests[digest] for digest in new]],
    )
    return found | ids_of(connection, table, new)


def column(connection: duckdb.DuckDBPyConnection, query: str, given: Sequence[Any]) -> list[Any]:
    """The first column of what a statement gives."""
    return [row[0] for row in connection.execute(query, list(given)).fetchall()]
