"""Makes the file of a view: what one pack's answers of one model say of a dataset, a line a row.

By windows, so that a million rows take no more memory than a thousand. Knows neither labels nor a
screen; `spinf_serve.workbench.views` is what others call.
"""

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spinf_serve.evals.asking import Item, count_rows, digest_of, items, prompts
from spinf_serve.evals.measuring import NOT_SCORED
from spinf_serve.evals.project import Project
from spinf_serve.evals.score_tables import Identity, floors
from spinf_serve.evals.scored import (
    Answers,
    Place,
    arranged,
    outcomes,
    question_values,
    residual,
    residual_of,
    score,
)
from spinf_serve.evals.store import Matrix, part
from spinf_serve.packs.decision import DecisionCall, thresholds
from spinf_serve.packs.evaluate import Evaluation
from spinf_serve.packs.pack import Constants, Pack
from spinf_serve.packs.reason import reason

WINDOW_CELLS: Final = 200_000
"""Logprobs that are in memory at once, as far as `LEAST_WINDOW` rows are fewer."""

LEAST_WINDOW: Final = 100

Progress = Callable[[int, int], None]
"""Told how many rows of how many are done; ends the work by raising."""


def column_of(kind: str, place: Place, option: int | None = None) -> str:
    """Name of a column of a filled template: `p:topic#0/2`, `residual:topic#0`."""
    name = f"{kind}:{place[0]}#{place[1]}"
    return name if option is None else f"{name}/{option}"


def options_kept(count: int) -> range:
    """Options of a filled template that have a column: the second of two is what the first leaves."""
    return range(1 if count == 2 else count)


@dataclass(frozen=True, slots=True)
class Subject:
    """What a view is of."""

    pack: Pack
    constants: Constants | None
    dataset: str
    identity: Identity


def make(
    project: Project,
    subject: Subject,
    path: Path,
    *,
    connection: duckdb.DuckDBPyConnection | None = None,
    progress: Progress = lambda done, of: None,
) -> None:
    """Write a view's Parquet file, and what is to be known of it as JSON beside.

    Args:
        connection: open for reading, to see the project at one moment; None opens it anew for each
            window, so that others may write meanwhile.

    Raises `Unusable`, `Fault`; then nothing is left.
    """

    @contextmanager
    def opened() -> Iterator[duckdb.DuckDBPyConnection]:
        if connection is not None:
            yield connection
        else:
            with project.open(write=False) as own:
                yield own

    pack, about = subject.pack, path.with_suffix(".json")
    window_rows = max(LEAST_WINDOW, min(10_000, WINDOW_CELLS // _width(pack)))
    beside = path.with_name(f".{secrets.token_hex(8)}.part")
    schema = _schema(subject)
    try:
        with opened() as reading:
            of = count_rows(reading, subject.dataset, None)
            empty = floors(reading, subject.identity, prompts(pack.questions))
        with pq.ParquetWriter(beside, schema, compression="zstd") as writer:
            done = after = answered = 0
            while True:
                progress(done, of)
                with opened() as reading:
                    window = items(reading, subject.dataset, pack, after=after, count=window_rows)
                    if not window:
                        break
                    found = part(reading, subject.identity, pack, window)
                after = window[-1].number
                done += len(window)
                columns = _columns(subject, window, found)
                answered += columns[schema.get_field_index("refused")].null_count
                writer.write_table(pa.Table.from_arrays(columns, schema=schema))
        on_empty = {digest: np.array(values) for digest, values in empty.items()}
        told = _about(subject, on_empty) | {"rows": done, "answered": answered}
        # The Parquet file comes last: where it is, both are.
        words = about.with_name(f".{secrets.token_hex(8)}.part")
        words.write_text(json.dumps(told, ensure_ascii=False), "utf-8")
        words.replace(about)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _width(pack: Pack) -> int:
    return sum(len(question.options) * len(question.prompts) for question in pack.questions)


def _places(pack: Pack) -> Iterator[tuple[Place, int, str]]:
    """Every filled template: its place, number of options, digest."""
    for question in pack.questions:
        for index in range(len(question.prompts)):
            yield (question.id, index), len(question.options), digest_of(question, index)


def _schema(subject: Subject) -> Any:
    fields = [("number", pa.int64()), ("row_id", pa.string()), ("refused", pa.string())]
    fields.append(("chunks", pa.int64()))
    for place, count, _ in _places(subject.pack):
        fields += [(column_of("p", place, option), pa.float64()) for option in options_kept(count)]
        fields.append((column_of("residual", place), pa.float64()))
    if subject.constants is not None:
        for id in subject.pack.categories:
            fields += [(f"{kind}:{id}", pa.float64()) for kind in ("macro", "score", "calibrated")]
            fields += [(f"flagged:{id}", pa.bool_()), (f"band:{id}", pa.string())]
        fields += [("unsafe", pa.bool_()), ("decided", pa.float64()), ("band", pa.string())]
        fields += [("route", pa.string()), ("reason", pa.string())]
    return pa.schema(fields)


def _columns(subject: Subject, window: list[Item], found: Matrix) -> list[Any]:
    """The columns of `_schema` for some rows."""
    pack, constants = subject.pack, subject.constants
    whole, at = arranged(pack, found.logprobs, {}, found.starts)
    refused = [found.refused.get(row, NOT_SCORED) for row in found.rows]
    answered = np.zeros(len(window), dtype=bool)
    answered[at] = True
    answered &= np.array([row not in found.refused for row in found.rows], dtype=bool)
    starts = np.arange(len(window)) if found.starts is None else found.starts
    read = len(next(iter(found.logprobs.values()), window))
    chunks = np.diff(starts, append=read)
    columns: list[Any] = [
        pa.array([item.number for item in window]),
        pa.array(found.rows),
        pa.array(
            [None if ok else code for ok, code in zip(answered.tolist(), refused, strict=True)],
            pa.string(),
        ),
        pa.array(chunks),
    ]
    for place, count, digest in _places(pack):
        columns += _answers(found.logprobs[digest][starts], place, count, chunks == 1)
    if constants is None:
        return columns
    return columns + _verdicts(pack, constants, whole, at, len(window), answered)


def _answers(logprobs: Any, place: Place, count: int, whole: Any) -> list[Any]:
    """p and residual of one filled template where it was answered, whatever else was."""
    known = np.flatnonzero(whole & ~np.isnan(logprobs).any(axis=1))
    answers = Answers(len(known), {place: logprobs[known]}, {})
    p = np.full((len(logprobs), count), np.nan)
    p[known] = question_values(answers, place).p
    rest = np.full(len(logprobs), np.nan)
    rest[known] = residual(answers, place)
    kept = [pa.array(p[:, option], from_pandas=True) for option in options_kept(count)]
    return [*kept, pa.array(rest, from_pandas=True)]


def _verdicts(
    pack: Pack, constants: Constants, whole: Answers, at: Any, rows: int, answered: Any
) -> list[Any]:
    """Categories, decision and route where every question was answered, nothing elsewhere."""
    scored = score(pack, constants, whole)
    found = outcomes(pack, constants, scored)
    places = at.tolist()
    ok = answered[at].tolist()
    call = DecisionCall()

    def spread(values: Any, kind: Any) -> Any:
        column: list[Any] = [None] * rows
        for place, good, value in zip(places, ok, values, strict=True):
            if good:
                column[place] = value
        return pa.array(column, kind)

    columns = []
    nothing = [None] * len(places)
    for id in pack.categories:
        by_map = scored.calibrated.get(id)
        columns += [
            spread(scored.macros[id].tolist(), pa.float64()),
            spread(scored.scores[id].tolist(), pa.float64()),
            spread(nothing if by_map is None else by_map.tolist(), pa.float64()),
            spread([one.categories[id].flagged for one in found], pa.bool_()),
            spread([one.categories[id].band for one in found], pa.string()),
        ]
    reasons = [
        reason(pack, constants, call, Evaluation({}, {}, one.categories, one.verdict, one.route))
        for one in found
    ]
    return [
        *columns,
        spread([one.verdict.unsafe for one in found], pa.bool_()),
        spread([one.verdict.score for one in found], pa.float64()),
        spread([one.verdict.band for one in found], pa.string()),
        spread([None if one.route is None else one.route.choice for one in found], pa.string()),
        spread(reasons, pa.string()),
    ]


def _about(subject: Subject, empty: dict[str, Any]) -> dict[str, Any]:
    """What is to be known of a view, as JSON."""
    pack, constants = subject.pack, subject.constants
    floor_p, rest = {}, {}
    for place, _, digest in _places(pack):
        if digest in empty:
            logprobs = empty[digest][None]
            answers = Answers(1, {place: logprobs}, {place: empty[digest]})
            found = question_values(answers, place).floor_p
            if found is None:
                raise AssertionError(f"{place} has a floor and no floor_p")
            floor_p[f"{place[0]}#{place[1]}"] = found.tolist()
            rest[f"{place[0]}#{place[1]}"] = float(residual_of(logprobs)[0])
    cuts = None if constants is None else thresholds(pack, constants, DecisionCall())
    return {
        "pack": f"{pack.id}@{pack.version}",
        "pack_digest": pack.digest,
        "dataset": subject.dataset,
        "model": subject.identity.served,
        "bits": subject.identity.bits,
        "fitted": constants is not None,
        "thresholds": cuts,
        "floors": floor_p,
        "floor_residuals": rest,
    }
