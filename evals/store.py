"""Kept scores: what is asked once is never asked again.

Scores stand in a project's tables by the digest of model and machine (`bits`), of the content as the
model reads it, and of the filled template; an edited question is simply not found. Logprobs are
natural logs in float64, as they came. Asks nobody; `spinf_serve.evals.runner` does.
"""

import json
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import duckdb
import numpy as np
from numpy.typing import NDArray

from spinf_serve.evals.project import Project
from spinf_serve.evals.score_tables import (
    Cut,
    Identity,
    Whole,
    column,
    cuts_of,
    floors,
    identity_of,
    ids_of,
    known,
    stored,
)
from spinf_serve.packs.digests import content_digest, prompt_digest
from spinf_serve.packs.errors import Refused, Unusable
from spinf_serve.packs.files import shown
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.present import halves
from spinf_serve.packs.question import Question
from spinf_serve.packs.recording import Header, Recording

PROMPT_STYLE = "plain"
"""How models want a text put before them; the one style there is."""

WINDOW_ROWS = 10_000
"""Rows that are read in one operation."""

_OF_SPLIT = "dataset = $1 AND ($2::VARCHAR IS NULL OR split = $2)"


@dataclass(frozen=True, slots=True)
class Item:
    """A row as far as it is asked about.

    Attributes:
        number: its place in the dataset, from 1.
        id: its id.
        content: its text with the pack's context around it; the refusal where that cannot be made.
        text_digest: of its text alone.
        context: characters of the content before and after the text.
    """

    number: int
    id: str
    content: str | Refused
    text_digest: str
    context: tuple[int, int] = (0, 0)

    @property
    def digest(self) -> str | None:
        """Of its content."""
        return content_digest(self.content) if isinstance(self.content, str) else None

    def halved(self) -> tuple[str, str, str]:
        """The text, and what the context puts before and after it; of a row that is presented."""
        content = str(self.content)
        before, after = self.context
        end = len(content) - after
        return content[before:end], content[:before], content[end:]

    def parts(self, digest: str, cuts: Mapping[Whole, Cut]) -> tuple[str, ...]:
        """Digests of what is read for it: its own, or those of the chunks it was cut in.

        Args:
            digest: of its content.
            cuts: those that count for the pack, see `cuts_for`.
        """
        cut = cuts.get((digest, *self.context))
        return (digest,) if cut is None else cut.parts


@dataclass(frozen=True, slots=True)
class Matrix:
    """A pack's kept scores as arrays.

    Attributes:
        rows: ids of the dataset's rows, N, in its order.
        logprobs: prompt digest -> [M, K] float64, natural logs; NaN where nothing is kept. M is N,
            and more when rows were read in chunks.
        floors: prompt digest -> [K] float64; prompts without one are left out.
        refused: row id -> error code, also of rows that cannot be presented.
        starts: [N] int64, where each row begins in M; None when each row was read at once.
    """

    rows: tuple[str, ...]
    logprobs: Mapping[str, NDArray[np.float64]]
    floors: Mapping[str, NDArray[np.float64]]
    refused: Mapping[str, str]
    starts: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of one model: counts.

    Attributes:
        refused: error code -> contents.
    """

    identity: Identity
    contents: int
    prompts: int
    scores: int
    floors: int
    refused: Mapping[str, int]


def prompts(questions: Sequence[Question]) -> dict[str, tuple[int, int]]:
    """Digest of every filled template -> its question and its place there.

    Templates that two questions share are one; options in another order make it another.
    """
    found: dict[str, tuple[int, int]] = {}
    for number, question in enumerate(questions):
        for place in range(len(question.prompts)):
            found.setdefault(digest_of(question, place), (number, place))
    return found


def digest_of(question: Question, place: int = 0) -> str:
    """Digest of one filled template of a question, by which its scores are kept."""
    return prompt_digest(
        question.prompts[place].text, question.options, question.case_insensitive, PROMPT_STYLE
    )


def asked_about(pack: Pack, wanted: Collection[str], *, floors: bool) -> tuple[Question, ...]:
    """The pack's questions cut down to some of their filled templates.

    Args:
        wanted: digests of prompts of the pack; answers come in the order of `in_order`.
        floors: whether their floors are asked for too.
    """
    known_prompts = prompts(pack.questions)
    places: dict[int, list[int]] = {}
    for prompt in in_order(known_prompts, wanted):
        number, place = known_prompts[prompt]
        places.setdefault(number, []).append(place)
    return tuple(
        replace(
            question := pack.questions[number],
            prompts=tuple(question.prompts[place] for place in chosen),
            empty_floor=floors,
        )
        for number, chosen in places.items()
    )


def in_order(places: Mapping[str, tuple[int, int]], wanted: Collection[str]) -> list[str]:
    """Digests in the order in which `asked_about` asks; `places` as from `prompts`."""
    return sorted(wanted, key=places.__getitem__)


def count_rows(connection: duckdb.DuckDBPyConnection, dataset: str, split: str | None) -> int:
    """How many rows a dataset has, of one split or all. Raises `Unusable` when it is not there."""
    if not column(connection, "SELECT name FROM dataset WHERE name = $1", [dataset]):
        names = column(connection, "SELECT name FROM dataset ORDER BY name", [])
        has = f"it has {', '.join(names)}" if names else "it has none: import one"
        raise Unusable(f"the project has no dataset {dataset!r}; {has}")
    query = f"SELECT count(*) FROM item WHERE {_OF_SPLIT}"
    return int(column(connection, query, [dataset, split])[0])


def items(
    connection: duckdb.DuckDBPyConnection,
    dataset: str,
    pack: Pack,
    *,
    split: str | None = None,
    after: int = 0,
    count: int = WINDOW_ROWS,
) -> list[Item]:
    """The next rows of a dataset behind the row `after`, as a pack presents them."""
    query = (
        "SELECT number, row_id, text, context, parameters, content_digest, media FROM item"
        f" WHERE {_OF_SPLIT} AND number > $3 ORDER BY number LIMIT $4"
    )
    found = []
    for number, id, text, context, parameters, text_digest, media in connection.execute(
        query, [dataset, split, after, count]
    ).fetchall():
        if media is not None:
            found.append(Item(number, id, _no_media(media), text_digest))
            continue
        try:
            ahead, behind = halves(pack, context, json.loads(parameters))
        except Refused as refused:
            found.append(Item(number, id, refused, text_digest))
        else:
            lengths = len(ahead), len(behind)
            found.append(Item(number, id, ahead + text + behind, text_digest, lengths))
    return found


def _no_media(media: str) -> Refused:
    return Refused(
        "media_not_supported",
        f"the row is about the file {shown(media)}, and no model reads media here yet; it stays in"
        " every denominator",
        "media",
    )


def cuts_for(
    connection: duckdb.DuckDBPyConnection,
    identity: Identity,
    pack: Pack,
    contents: Collection[str],
) -> dict[Whole, Cut]:
    """How long contents were read for a pack, by digests; none for a pack that refuses them."""
    return {} if pack.on_long == "refuse" else cuts_of(connection, identity, contents)


def recording(
    project: Project, dataset: str, pack: Pack, bits: str, *, split: str | None = None
) -> Recording:
    """A pack's kept scores of a dataset, as `spinf_serve.packs` evaluates them.

    Args:
        bits: whose; the whole digest or the beginning of it.

    Rows that were read in chunks are not in it: a recording knows contents that are read at once.
    Raises `Unusable`: there is no such dataset, or nothing of that model.
    """
    wanted = prompts(pack.questions)
    with project.open(write=False) as connection:
        count_rows(connection, dataset, split)
        identity = identity_of(connection, bits)
        header = Header(identity.served, identity.model, identity.bits, pack.id, pack.version)
        result = Recording(header, PROMPT_STYLE, floors=floors(connection, identity, wanted))
        after = 0
        while window := items(connection, dataset, pack, split=split, after=after):
            after = window[-1].number
            digests = {digest for item in window if (digest := item.digest) is not None}
            for size, asked in by_options(pack, wanted).items():
                found = stored(connection, identity, digests, asked, size)
                kept = [result.scores.get(one, {}) for one in found.content_digests]
                logprobs = zip(*found.values.T.tolist(), strict=True)
                places = zip(found.contents.tolist(), found.prompts.tolist(), strict=True)
                for (content, prompt), values in zip(places, logprobs, strict=True):
                    kept[content][found.prompt_digests[prompt]] = values
                result.scores |= {
                    one: scores
                    for one, scores in zip(found.content_digests, kept, strict=True)
                    if scores
                }
    return result


def matrix(
    project: Project, dataset: str, pack: Pack, bits: str, *, split: str | None = None
) -> Matrix:
    """A pack's kept scores of a dataset as arrays, one per filled template.

    A row that was cut has its chunks one behind the other, see `Matrix.starts`. Arguments and errors
    as for `recording`.
    """
    wanted = prompts(pack.questions)
    sizes = by_options(pack, wanted)
    with project.open(write=False) as connection:
        count_rows(connection, dataset, split)
        identity = identity_of(connection, bits)
        windows: dict[str, list[NDArray[np.float64]]] = {digest: [] for digest in wanted}
        rows: list[str] = []
        starts: list[int] = []
        refused: dict[str, str] = {}
        after = before = 0
        while window := items(connection, dataset, pack, split=split, after=after):
            after = window[-1].number
            # Counted from the window's first: a row's chunks, or its content, at each place.
            places, first_at, count = _places(connection, identity, pack, window)
            starts += [before + at for at in first_at]
            before += count
            arrays = {
                digest: np.full((count, size), np.nan)
                for size, digests in sizes.items()
                for digest in digests
            }
            rows += [item.id for item in window]
            held = known(connection, identity, places, wanted)
            refused |= {
                item.id: item.content.code for item in window if isinstance(item.content, Refused)
            }
            refused |= {
                window[bisect_right(first_at, at) - 1].id: held.refused[key]
                for key in held.refused
                for at in places[key]
            }
            for size, digests in sizes.items():
                found = stored(connection, identity, places, digests, size)
                first = np.array([places[key][0] for key in found.content_digests], np.int64)
                order = np.argsort(found.prompts, kind="stable")
                ends = np.cumsum(np.bincount(found.prompts, minlength=len(found.prompt_digests)))
                parts = np.split(order, ends[:-1])
                for digest, of in zip(found.prompt_digests, parts, strict=True):
                    arrays[digest][first[found.contents[of]]] = found.values[of]
            # Rows with equal texts are one content.
            for at, *others in places.values():
                for array in arrays.values() if others else ():
                    array[others] = array[at]
            for digest, array in arrays.items():
                windows[digest].append(array)
        kept_floors = floors(connection, identity, wanted)
    whole = {
        digest: np.concatenate(parts) if parts else np.empty((0, size))
        for size, digests in sizes.items()
        for digest in digests
        for parts in [windows.pop(digest)]
    }
    floor_arrays = {digest: np.array(values) for digest, values in kept_floors.items()}
    cut = np.array(starts) if before > len(rows) else None
    return Matrix(tuple(rows), whole, floor_arrays, refused, cut)


def _places(
    connection: duckdb.DuckDBPyConnection, identity: Identity, pack: Pack, window: Sequence[Item]
) -> tuple[dict[str, list[int]], list[int], int]:
    """Where contents stand that are read for rows: content digest -> places; the place of each
    row's first; and how many places there are.
    """
    digests = [item.digest for item in window]
    cuts = cuts_for(connection, identity, pack, {one for one in digests if one is not None})
    places: dict[str, list[int]] = {}
    starts = []
    at = 0
    for item, digest in zip(window, digests, strict=True):
        starts.append(at)
        # A row that cannot be presented has a place too, where nothing is kept.
        parts = ("",) if digest is None else item.parts(digest, cuts)
        for place, part in enumerate(parts, at):
            if digest is not None:
                places.setdefault(part, []).append(place)
        at += len(parts)
    return places, starts, at


def by_options(pack: Pack, wanted: Mapping[str, tuple[int, int]]) -> dict[int, list[str]]:
    """Number of options -> digests of the prompts that have so many."""
    found: dict[int, list[str]] = {}
    for digest, (number, _) in wanted.items():
        found.setdefault(len(pack.questions[number].options), []).append(digest)
    return found


def kept(project: Project) -> list[Kept]:
    """What is kept, model by model."""
    found = []
    with project.open(write=False) as connection:
        for id, model, bits, served, rounded, facts in connection.execute(
            "SELECT id, model, bits, served, rounded, facts FROM model ORDER BY id"
        ).fetchall():
            contents, asked, scores, empty = connection.execute(
                "SELECT count(DISTINCT content), count(DISTINCT prompt), count(*),"
                " (SELECT count(*) FROM floor WHERE model = $1) FROM score WHERE model = $1",
                [id],
            ).fetchall()[0]
            refused = connection.execute(
                "SELECT code, count(DISTINCT content) FROM refusal WHERE model = $1"
                " GROUP BY code ORDER BY code",
                [id],
            ).fetchall()
            identity = Identity(model, bits, served, rounded, json.loads(facts))
            found.append(Kept(identity, contents, asked, scores, empty, dict(refused)))
    return found


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
