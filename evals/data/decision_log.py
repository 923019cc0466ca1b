"""A server's decision log as a source of rows and of scores. Knows its tables, and no server.

The log is an SQLite file that a server may be writing to; it is only read here.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from spinf_serve.evals.data.cells import Cell
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import read_start, shown

LogRows = Literal["sample", "queue", "all"]
"""The random sample; what a pack found unsafe or to be reviewed; or whatever there is."""

COLUMNS: Final = ("id", "text", "context", "weight", "pack", "version", "decision", "band", "state")
"""What every row has, besides `OF_REQUEST` and a column `parameter.NAME` for each parameter."""

OF_REQUEST: Final = ("route", "endpoint", "caller", "model", "day")
PARAMETER: Final = "parameter."

VERSION: Final = 1
"""Of the tables that are read here."""

_APPLICATION_ID: Final = 0x53504C47
_HEAD_BYTES: Final = 100
_FETCHED: Final = 500
_WAIT_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class LogWanted:
    """Which entries of a log.

    Attributes:
        rows: how they were chosen.
        pack: only those that this pack was asked about; None takes the first pack of each.
        since, until: unix seconds, the second not included; None for no bound.
    """

    rows: LogRows = "sample"
    pack: str | None = None
    since: int | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True)
class LogTable:
    """A log that can be read.

    Attributes:
        columns: names in order.
        notes: what was found out about it, a sentence each.
        lines: entry's number and its cells, once.
    """

    columns: tuple[str, ...]
    notes: tuple[str, ...]
    lines: Iterator[tuple[int, list[Cell]]]


@dataclass(frozen=True, slots=True, eq=False)
class LogScores:
    """What a pack said of the random sample, a content once.

    Attributes:
        pack_digests: of the pack's files that said it.
        models: digests of the models that did.
        entries: how many were drawn.
        contents: how many different contents they have, N.
        rates: the chances that they were drawn with.
        scores: category -> score of each content, [N] float64, in the order of the first drawing.
        thresholds: category -> threshold that was in force last; None without one.
    """

    pack_digests: tuple[str, ...]
    models: tuple[str, ...]
    entries: int
    contents: int
    rates: tuple[float, ...]
    scores: dict[str, NDArray[np.float64]]
    thresholds: dict[str, float | None]


def is_decision_log(path: Path) -> bool:
    """Whether a file is a decision log, by its header; False where there is none."""
    try:
        head = read_start(path, _HEAD_BYTES)
    except (OSError, ValueError):
        return False
    return head.startswith(b"SQLite format 3\x00") and head[68:72] == _APPLICATION_ID.to_bytes(4)


def parameters_of(path: Path, wanted: LogWanted) -> tuple[str, ...]:
    """Names of the parameters that fill contexts of the entries that are wanted, sorted."""
    where, values = _where(wanted)
    with _reading(path) as connection:
        found = connection.execute(
            "SELECT DISTINCT one.key FROM asked, json_each(asked.parameters) AS one"
            f" WHERE {where} ORDER BY one.key",
            values,
        )
        return tuple(name for (name,) in found.fetchall())


def meaning(path: Path, wanted: LogWanted) -> dict[str, Any]:
    """What the columns of a log mean: those arguments of `columns.Columns` that it settles."""
    return {
        "text": "text",
        "id": "id",
        "context": "context",
        # Of other rows nobody knows how likely it was that they would be here.
        "weight": "weight" if wanted.rows == "sample" else None,
        "parameters": {name: PARAMETER + name for name in parameters_of(path, wanted)},
    }


def log_table(path: Path, wanted: LogWanted) -> LogTable:
    """The entries that are wanted and whose text is kept, the oldest first.

    Raises `Unusable`: it is no log, or no wanted entry has its text.
    """
    where, values = _where(wanted)
    with _reading(path) as connection:
        found = connection.execute(f"SELECT count(*), count(text) FROM asked WHERE {where}", values)
        total, with_text = found.fetchone()
    if not with_text:
        what = {
            "sample": "entries of the random sample",
            "queue": "entries that were found unsafe or to be reviewed",
            "all": "entries",
        }[wanted.rows]
        if not total:
            by = "" if wanted.pack is None else f" that {wanted.pack} was asked about"
            raise Unusable(
                f"{shown(path)} has no {what}{by}{_between(wanted)}; `spinf-serve log list` shows"
                " what it has"
            )
        raise Unusable(
            f"{shown(path)}: none of its {total:,} {what} has its text; a server keeps those of the"
            " random sample with --log-content sample, and all with --log-content text"
        )
    notes = []
    if total > with_text:
        notes.append(f"{total - with_text:,} of {total:,} entries have no text and are left out")
    names = parameters_of(path, wanted)
    columns = (*COLUMNS, *OF_REQUEST, *(PARAMETER + name for name in names))
    return LogTable(columns, tuple(notes), _lines(path, wanted, names))


def _lines(
    path: Path, wanted: LogWanted, parameters: tuple[str, ...]
) -> Iterator[tuple[int, list[Cell]]]:
    where, values = _where(wanted)
    with _reading(path) as connection:
        found = connection.execute(
            "SELECT asked.id, request || '/' || input, text, decided.context, rate, pack.pack,"
            " pack.version, unsafe, band, state, asked.route, endpoint, caller, served,"
            " date(at, 'unixepoch'), parameters"
            " FROM asked JOIN model ON model.id = asked.model"
            # The pack that is wanted, or else the first one.
            " LEFT JOIN decided ON decided.asked = asked.id AND decided.place = ("
            "  SELECT min(place) FROM decided AS other JOIN pack ON pack.id = other.pack"
            "  WHERE other.asked = asked.id AND (? IS NULL OR pack.pack = ?))"
            " LEFT JOIN pack ON pack.id = decided.pack"
            f" WHERE {where} AND text IS NOT NULL ORDER BY at, asked.id",
            [wanted.pack, wanted.pack, *values],
        )
        while rows := found.fetchmany(_FETCHED):
            for number, id, text, context, rate, *of_pack, of_parameters in rows:
                given = json.loads(of_parameters)
                weight = repr(1 / rate) if wanted.rows == "sample" else None
                pack, version, unsafe, *rest = of_pack
                decision = None if unsafe is None else ("unsafe" if unsafe else "safe")
                cells = [id, text, context, weight, pack, version, decision, *rest]
                yield number, [*cells, *(given.get(name) for name in parameters)]


def log_scores(path: Path, wanted: LogWanted) -> LogScores:
    """A pack's scores on the random sample; `wanted` names the pack.

    A content that was drawn again counts once: what is sent a hundred times says no more about
    how contents are than what is sent once.

    Raises `Unusable` when it is no log, or the pack decided on none of the sample.
    """
    where, values = _where(wanted)
    digests: dict[str, None] = {}
    models: dict[str, None] = {}
    rates: dict[float, None] = {}
    by_content: dict[str, dict[str, float]] = {}
    thresholds: dict[str, float | None] = {}
    entries = 0
    with _reading(path) as connection:
        found = connection.execute(
            "SELECT asked.digest, asked.parameters, context, rate, model.model, pack.digest,"
            " categories FROM asked JOIN model ON model.id = asked.model"
            " JOIN decided ON decided.asked = asked.id JOIN pack ON pack.id = decided.pack"
            f" WHERE {where} AND pack.pack = ? AND decided.unsafe IS NOT NULL"
            " ORDER BY at, asked.id",
            [*values, wanted.pack],
        )
        while rows := found.fetchmany(_FETCHED):
            for digest, parameters, context, rate, model, pack_digest, categories in rows:
                entries += 1
                digests[pack_digest] = models[model] = rates[rate] = None
                told = json.loads(categories)
                thresholds = {name: one["threshold"] for name, one in told.items()}
                scores = {name: float(one["score"]) for name, one in told.items()}
                by_content.setdefault(f"{digest} {context} {parameters}", scores)
    if not entries:
        raise Unusable(
            f"{shown(path)}: {wanted.pack} decided on no entry of the random sample"
            f"{_between(wanted)}; see `spinf-serve log list --sample`"
        )
    # Versions of a pack may differ in their categories: those of the last one count.
    kept = [one for one in by_content.values() if one.keys() >= thresholds.keys()]
    return LogScores(
        tuple(digests),
        tuple(models),
        entries,
        len(kept),
        tuple(rates),
        {name: np.array([one[name] for one in kept], dtype=np.float64) for name in thresholds},
        thresholds,
    )


def _where(wanted: LogWanted) -> tuple[str, list[Any]]:
    parts = ["1"]
    values: list[Any] = []
    if wanted.rows == "sample":
        parts.append("drawn")
    for sign, moment in ((">=", wanted.since), ("<", wanted.until)):
        if moment is not None:
            parts.append(f"at {sign} ?")
            values.append(moment)
    of_pack = ["other.asked = asked.id"]
    if wanted.pack is not None:
        of_pack.append("named.pack = ?")
        values.append(wanted.pack)
    if wanted.rows == "queue":
        of_pack.append("(other.unsafe = 1 OR other.band = 'review')")
    if len(of_pack) > 1:
        parts.append(
            "EXISTS (SELECT 1 FROM decided AS other JOIN pack AS named ON named.id = other.pack"
            f" WHERE {' AND '.join(of_pack)})"
        )
    return " AND ".join(parts), values


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection for a block; what SQLite says against the file is said as `Unusable`."""
    if not is_decision_log(path):
        raise Unusable(f"{shown(path)} is no decision log")
    name = path.resolve().as_uri() + "?mode=rw"
    try:
        with closing(sqlite3.connect(name, uri=True, timeout=_WAIT_SECONDS)) as connection:
            connection.execute("PRAGMA query_only = ON")
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version != VERSION:
                raise Unusable(
                    f"decision log {shown(path)} has tables of version {version}; this version of"
                    f" spinf-serve reads {VERSION}: use a newer one"
                )
            yield connection
    except sqlite3.Error as fault:
        raise Unusable(f"decision log {shown(path)}: {fault}") from None


def _between(wanted: LogWanted) -> str:
    """The bounds of time that were asked for, in words."""
    bounds = (("since", wanted.since), ("before", wanted.until))
    return "".join(
        f" {word} {datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
        for word, at in bounds
        if at is not None
    )
