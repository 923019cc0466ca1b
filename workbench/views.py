"""Views: what one pack's answers of one model say of a dataset, kept as a Parquet file with a line a row.

A view is made when it is first looked at, by a job where rows are many, and anew when the pack, the
rows or their kept scores have changed. Labels and texts are not in it, since they change: who needs
them joins the project's tables by `row_id`. Columns, each but the first two may be NULL:

    number, row_id               of the row, in the order of import
    refused                      error code of a row that has no whole answer
    chunks                       in how many chunks it was read
    p:<question>#<place>/<k>     p of option k; of two options only the first; NULL in chunks
    residual:<question>#<place>  probability outside the options
    macro:, score:, calibrated:, flagged:, band:<category>
    unsafe, decided, band, route, reason    the decision, and its score where it has one

Scores are those of `spinf_serve.evals.scored`, bit for bit. Knows no screen.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb
import numpy as np
from numpy.typing import NDArray

from spinf_serve.evals.asking import count_rows, prompts
from spinf_serve.evals.score_tables import Identity, column, identity_of, ids_of, model_id
from spinf_serve.evals.scored import Place
from spinf_serve.packs.atomic import locked, write_beside
from spinf_serve.packs.digests import constants_digest
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.pack import Constants, Pack
from spinf_serve.workbench.desk import Desk, key_of
from spinf_serve.workbench.job_kinds import Report
from spinf_serve.workbench.view_file import Subject, column_of, make

if TYPE_CHECKING:
    import pandas as pd

FORMAT: Final = 2
"""Counts up when a view's columns change."""

AT_ONCE: Final = 600_000
"""Rows times filled templates that are made while a page waits; more are a job's work."""

MOST_FAMILIES: Final = 12
"""Views that are kept, the latest states of each counted once."""

MEMORY: Final = "100MB"
_LOCK_SECONDS: Final = 60.0
_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class View:
    """A view's file.

    Attributes:
        about: thresholds, floors and what it was made of.
        is_current: whether it shows the project as it is now; what is large is not made anew unasked.
    """

    path: Path
    about: Mapping[str, Any]
    is_current: bool = True

    @property
    def key(self) -> str:
        """Names the view's state: equal keys, equal numbers."""
        return self.path.stem

    @property
    def fitted(self) -> bool:
        """Whether it has categories and a decision: those of a draft are not known."""
        return bool(self.about["fitted"])

    def floor(self, place: Place) -> list[float] | None:
        """p of each option on empty content; None when that is not kept."""
        found: list[float] | None = self.about["floors"].get(f"{place[0]}#{place[1]}")
        return found

    def floor_residual(self, place: Place) -> float | None:
        """Probability outside the options on empty content; None when that is not kept."""
        found: float | None = self.about["floor_residuals"].get(f"{place[0]}#{place[1]}")
        return found

    @property
    def sql(self) -> str:
        """The view as a table in a statement."""
        return "read_parquet('" + str(self.path).replace("'", "''") + "')"

    def frame(
        self, tail: str = "", columns: str = "*", params: Sequence[Any] | None = None
    ) -> "pd.DataFrame":
        """Some of its lines.

        Args:
            tail: SQL behind `FROM view`, such as `WHERE number > $1 ORDER BY number LIMIT 50`.
            columns: SQL between `SELECT` and `FROM`; names with signs stand in double quotes.
        """
        with connected() as connection:
            try:
                return connection.execute(
                    f"SELECT {columns} FROM {self.sql} AS view {tail}", list(params or ())
                ).df()
            except duckdb.IOException:
                raise _gone() from None

    def columns(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Whole columns, [N] each, in the order of import.

        Numbers are float64 with NaN where there is none (`number` and `chunks` int64); all others are
        objects with None there.
        """
        listed = ", ".join(quoted(name) for name in names)
        with connected() as connection:
            try:
                # A file's lines come in their order.
                given = connection.execute(f"SELECT {listed} FROM {self.sql}").fetchnumpy()
            except duckdb.IOException:
                raise _gone() from None
        found = {}
        for name in names:
            values = given[name]
            if values.dtype.kind == "f":
                values = np.ma.filled(values, np.nan)
            elif values.dtype.kind != "i":
                missing = np.ma.getmaskarray(values)
                values = np.ma.getdata(values).astype(object)
                values[missing] = None
            found[name] = np.asarray(values)
        return found

    def p(self, place: Place, option: int, options: int) -> NDArray[np.float64]:
        """p of one of a filled template's options, [N]; NaN where it has no answer as a whole."""
        if options == 2 and option == 1:
            rest: NDArray[np.float64] = 1.0 - self.p(place, 0, 2)
            return rest
        name = column_of("p", place, option)
        return self.columns([name])[name]


@dataclass(frozen=True, slots=True)
class Building:
    """A view that a job has to make first.

    Attributes:
        key: of the view that is wanted.
        arguments: of the job of the kind `view`.
    """

    key: str
    rows: int
    prompts: int
    arguments: Mapping[str, Any]


def quoted(name: str) -> str:
    """A column's name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def view_of(
    desk: Desk, pack: Pack, constants: Constants | None, dataset: str, bits: str
) -> View | Building | None:
    """A pack's view of a dataset.

    Args:
        constants: what was fitted on the model; None for a draft there, which has answers only.
        bits: whose scores.

    Returns what is there, or made just now; `Building` when it takes long; None for a dataset
    without rows. An older state is given, not current, rather than none. Raises `Unusable`.
    """
    family = key_of("view", FORMAT, pack.digest, _fitted(constants), dataset, bits)
    with desk.project.open(write=False) as connection:
        rows = count_rows(connection, dataset, None)
        if not rows:
            return None
        identity = identity_of(connection, bits)
        path = _path(desk, family, _state(connection, pack, dataset, identity))
        found = _opened(path)
        if found is None and rows * len(prompts(pack.questions)) <= AT_ONCE:
            # On one connection: the view shows the project at one moment.
            found = _made(desk, Subject(pack, constants, dataset, identity), path, connection)
    if found is not None:
        return found
    for older in sorted(path.parent.glob(f"{family}-*.parquet"), key=_used, reverse=True):
        found = _opened(older)
        if found is not None:
            return View(found.path, found.about, is_current=False)
    return building(desk, pack, dataset, bits)


def building(desk: Desk, pack: Pack, dataset: str, bits: str) -> Building:
    """The job that makes a view, or makes an older one anew. The pack's bytes are kept for it."""
    with desk.project.open(write=False) as connection:
        rows = count_rows(connection, dataset, None)
    arguments = {"pack": pack.digest, "dataset": dataset, "bits": bits}
    return Building(key_of(*arguments.values()), rows, len(prompts(pack.questions)), arguments)


def keep_pack(desk: Desk, data: bytes, pack: Pack) -> None:
    """Keep a pack's bytes for the job that makes its view: the file may change meanwhile.

    Raises `Unusable` when they are not the pack's any more.
    """
    if sha256(data).hexdigest() != pack.digest:
        raise Unusable("the pack was saved anew meanwhile; open the page again")
    write_beside(_kept_pack(desk, pack.digest), data)


def _kept_pack(desk: Desk, digest: str) -> Path:
    # JSON is YAML too: what the file was called does not matter.
    return desk.below("views", "packs") / f"{digest}.yaml"


def build(desk: Desk, arguments: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """The job `view`: makes it by windows, others may write meanwhile."""
    try:
        pack = _loaded(_kept_pack(desk, arguments["pack"]).read_bytes())
    except OSError:
        raise Unusable("the pack of this view is gone; open the page again") from None
    dataset, bits = arguments["dataset"], arguments["bits"]

    def progress(done: int, of: int) -> None:
        report.progress(done, of, "reading kept scores")
        report.check()

    for _ in range(_TRIES):
        with desk.project.open(write=False) as connection:
            identity = identity_of(connection, bits)
            before = _state(connection, pack, dataset, identity)
        constants = pack.constants((identity.served,))
        family = key_of("view", FORMAT, pack.digest, _fitted(constants), dataset, bits)
        path = _path(desk, family, before)
        _made(desk, Subject(pack, constants, dataset, identity), path, None, progress)
        with desk.project.open(write=False) as connection:
            if _state(connection, pack, dataset, identity) == before:
                break
        # Scores came meanwhile. After some tries it stays as an older state, which a page tells.
    return {"view": path.name, "rows": _told(path)["rows"]}


def _loaded(data: bytes) -> Pack:
    """A pack's bytes; numbers that no longer fit its wording are left out, as pages do."""
    try:
        return read_pack(data, "pack.yaml")
    except InvalidPack:
        return read_pack(data, "pack.yaml", fitted=False)


def _fitted(constants: Constants | None) -> str:
    return "draft" if constants is None else constants_digest(constants)


def _path(desk: Desk, family: str, state: str) -> Path:
    return desk.below("views") / f"{family}-{state}.parquet"


def _state(
    connection: duckdb.DuckDBPyConnection, pack: Pack, dataset: str, identity: Identity
) -> str:
    """Changes with every row, and with every kept score of the pack's questions."""
    model = model_id(connection, identity)
    asked = list(ids_of(connection, "prompt", prompts(pack.questions)).values())
    rows = connection.execute(
        "SELECT count(*), max(number), bit_xor(hash(row_id, number, content_digest, context,"
        " CAST(parameters AS VARCHAR), media)) FROM item WHERE dataset = ?",
        [dataset],
    ).fetchone()
    counts = [
        column(
            connection,
            f"SELECT count(*) FROM {table} WHERE model = $1 AND list_contains($2::BIGINT[], prompt)",
            [model, asked],
        )[0]
        for table in ("score", "refusal", "floor")
    ]
    cuts = connection.execute(
        'SELECT bit_xor(hash(content, "before", "after", parts)) FROM cut WHERE model = ?', [model]
    ).fetchone()
    return key_of(rows, counts, cuts)


def _made(
    desk: Desk,
    subject: Subject,
    path: Path,
    connection: duckdb.DuckDBPyConnection | None,
    progress: Any = lambda done, of: None,
) -> View:
    """Make a view, unless another process has just done so."""
    try:
        with locked(path, _LOCK_SECONDS):
            if _opened(path) is None:
                make(desk.project, subject, path, connection=connection, progress=progress)
                _prune(path)
    except (OSError, TimeoutError) as error:
        raise Unusable(f"the answers cannot be laid out in {path.parent}: {error}") from None
    found = _opened(path)
    if found is None:
        raise _gone()
    return found


def _opened(path: Path) -> View | None:
    if not path.exists():
        return None
    try:
        os.utime(path)
        return View(path, _told(path))
    except (OSError, ValueError):
        return None


def _told(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.with_suffix(".json").read_bytes())
    return found


def _used(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _prune(latest: Path) -> None:
    """Take old views away: all states of a family but its two latest, and families long unused."""
    families: dict[str, int] = {}
    for path in sorted(latest.parent.glob("*.parquet"), key=_used, reverse=True):
        family = path.stem.partition("-")[0]
        families[family] = families.get(family, 0) + 1
        if families[family] > 2 or len(families) > MOST_FAMILIES:
            path.unlink(missing_ok=True)
            path.with_suffix(".json").unlink(missing_ok=True)
    for path in sorted((latest.parent / "packs").glob("*"), key=_used, reverse=True)[
        MOST_FAMILIES:
    ]:
        path.unlink(missing_ok=True)


@contextmanager
def project_open(desk: Desk) -> Iterator[duckdb.DuckDBPyConnection]:
    """The project for a page's reading, with no more memory than a page is to take."""
    with desk.project.open(write=False) as connection:
        connection.execute(f"SET memory_limit = '{MEMORY}'").fetchall()
        # Each thread has tables of its own.
        connection.execute("SET threads = 1").fetchall()
        yield connection


def connected() -> duckdb.DuckDBPyConnection:
    """A connection in memory, for views; to be closed."""
    connection = duckdb.connect(config={"memory_limit": MEMORY, "threads": 2})
    connection.execute("SET enable_progress_bar = false")
    return connection


def _gone() -> Unusable:
    return Unusable("the answers were laid out anew meanwhile; open the page again")
