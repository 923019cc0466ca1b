"""Kept scores: what is asked once is never asked again.

Scores stand in a project's tables by the digest of model and machine (`bits`), of the content as the
model reads it, and of the filled template, see `spinf_serve.evals.asking`. Logprobs are
natural logs in float64, as they came. Asks nobody; `spinf_serve.evals.runner` does.
"""

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
from numpy.typing import NDArray

from spinf_serve.evals.asking import (
    PROMPT_STYLE,
    Item,
    by_options,
    count_rows,
    cuts_for,
    items,
    prompts,
)
from spinf_serve.evals.project import Project
from spinf_serve.evals.score_tables import (
    Identity,
    floors,
    identity_of,
    known,
    stored,
)
from spinf_serve.packs.errors import Refused
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.recording import Header, Recording


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
        starts: list[NDArray[np.int64]] = []
        refused: dict[str, str] = {}
        after = before = 0
        while window := items(connection, dataset, pack, split=split, after=after):
            after = window[-1].number
            found = part(connection, identity, pack, window)
            rows += found.rows
            first = np.arange(len(found.rows)) if found.starts is None else found.starts
            starts.append(before + first)
            refused |= found.refused
            for digest, array in found.logprobs.items():
                windows[digest].append(array)
            before += len(next(iter(found.logprobs.values()), found.rows))
        kept_floors = floors(connection, identity, wanted)
    whole = {
        digest: np.concatenate(parts) if parts else np.empty((0, size))
        for size, digests in sizes.items()
        for digest in digests
        for parts in [windows.pop(digest)]
    }
    floor_arrays = {digest: np.array(values) for digest, values in kept_floors.items()}
    cut = np.concatenate(starts) if before > len(rows) else None
    return Matrix(tuple(rows), whole, floor_arrays, refused, cut)


def part(
    connection: duckdb.DuckDBPyConnection, identity: Identity, pack: Pack, window: Sequence[Item]
) -> Matrix:
    """The kept scores of some rows of a dataset, see `matrix`, without floors.

    Args:
        window: the rows, as `items` gives them.
    """
    wanted = prompts(pack.questions)
    places, first_at, count = _places(connection, identity, pack, window)
    arrays = {
        digest: np.full((count, size), np.nan)
        for size, digests in by_options(pack, wanted).items()
        for digest in digests
    }
    held = known(connection, identity, places, wanted)
    refused = {item.id: item.content.code for item in window if isinstance(item.content, Refused)}
    refused |= {
        window[bisect_right(first_at, at) - 1].id: held.refused[key]
        for key in held.refused
        for at in places[key]
    }
    for size, digests in by_options(pack, wanted).items():
        found = stored(connection, identity, places, digests, size)
        first = np.array([places[key][0] for key in found.content_digests], np.int64)
        order = np.argsort(found.prompts, kind="stable")
        ends = np.cumsum(np.bincount(found.prompts, minlength=len(found.prompt_digests)))
        # Of nothing asked with so many options, there is no part, not an empty one.
        parts = np.split(order, ends[:-1]) if len(ends) else []
        for digest, of in zip(found.prompt_digests, parts, strict=True):
            arrays[digest][first[found.contents[of]]] = found.values[of]
    # Rows with equal texts are one content.
    for at, *others in places.values():
        for array in arrays.values() if others else ():
            array[others] = array[at]
    starts = np.array(first_at) if count > len(window) else None
    return Matrix(tuple(item.id for item in window), arrays, {}, refused, starts)


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
