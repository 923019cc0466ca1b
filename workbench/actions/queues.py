"""Queues of rows to label: their order is fixed when they are made, and each annotator has a place.

    .workbench/queues/<id>.json            what it is
    .workbench/queues/<id>.parquet         place, row_id, score: the order
    .workbench/queues/<id>-<who>.json      where an annotator is, and what can be undone

Knows no screen.
"""

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from spinf_serve.evals.data.labels import Drawn, check_dataset
from spinf_serve.evals.score_tables import identity_of
from spinf_serve.packs.atomic import write_beside
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.loader import load_pack
from spinf_serve.packs.pack import Pack
from spinf_serve.workbench.actions.labelling import SETTLED, Given, as_json, of_json
from spinf_serve.workbench.actions.queue_orders import (
    BY_SCORE,
    ORDERS,
    Order,
    nothing,
    query,
    ranked,
)
from spinf_serve.workbench.actions.rows import Detail, detail_of
from spinf_serve.workbench.audit import note
from spinf_serve.workbench.desk import Desk, key_of
from spinf_serve.workbench.job_kinds import Report
from spinf_serve.workbench.views import View, view_of

MOST_AT_ONCE: Final = 300_000
"""Rows of which a page makes a queue; of more a job does."""

MOST_UNDO: Final = 200


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue.

    Attributes:
        order: one of `ORDERS`.
        rows: how many stand in it.
        left_out: rows that have no score, in an order by score.
        by, made: who made it, and when, ISO time.
        cut: of the score, at the time; None without one.
        scored_by: the model whose scores ordered it; None for none.
    """

    id: str
    dataset: str
    target: str
    order: Order
    split: str | None
    rows: int
    left_out: int
    by: str
    made: str
    cut: float | None = None
    scored_by: str | None = None

    @property
    def chosen(self) -> Drawn | None:
        """How its rows are chosen for labels: by their scores; None for as they were drawn."""
        return None if self.order == "random" else "queue"

    @property
    def settles(self) -> bool:
        """Whether an answer settles what others said."""
        return self.order == "conflict"

    @property
    def title(self) -> str:
        """For people."""
        return f"{ORDERS[self.order][0]}, {self.rows:,} rows"


@dataclass(frozen=True, slots=True)
class Progress:
    """Where an annotator is in a queue.

    Attributes:
        place: of the row that is shown, from 0; the queue's number of rows at its end.
        given: labels that can be undone, the latest last: (place, what was given).
    """

    place: int = 0
    given: tuple[tuple[int, Given], ...] = ()


def make(
    desk: Desk,
    user: str,
    dataset: str,
    target: str,
    order: Order,
    *,
    annotator: str,
    split: str | None = None,
    view: View | None = None,
    pack: Pack | None = None,
) -> Queue:
    """Make a queue; its order stays as it is now, whoever works through it and however often.

    Args:
        annotator: who is to label; for `second`, whose own labels are no one else's.
        split: of the rows; None for all.
        view, pack: what orders rows by score.

    Raises `Unusable`: no row stands in it, or there is no score for the target.
    """
    by_score = None if view is None or pack is None else ranked(pack, view, target)
    if order in BY_SCORE and by_score is None:
        raise Unusable(
            f"there are no scores of {target} to order rows by: ask a model on the page Run, and fit"
            " the pack; or take the rows at random"
        )
    id = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    path = _order_file(desk, id)
    beside = path.with_name(f".{path.name}.part")
    given = {
        "dataset": dataset,
        "target": target,
        "split": split,
        "annotator": annotator,
        "seed": secrets.token_hex(8),
    }
    statement = query(order, by_score, view)
    try:
        with desk.project.open(write=False) as connection:
            check_dataset(connection, dataset)
            connection.execute(
                f"CREATE TEMP TABLE standing AS {statement}", _used(statement, given)
            )
            rows, left_out = connection.execute(
                "SELECT count(*) FILTER (in_it), count(*) FILTER (NOT in_it) FROM standing"
            ).fetchall()[0]
            connection.execute(
                "COPY (SELECT row_number() OVER (ORDER BY first, key, number) - 1 AS place, row_id,"
                " score FROM standing WHERE in_it ORDER BY place) TO '"
                + str(beside).replace("'", "''")
                + "' (FORMAT parquet, ROW_GROUP_SIZE 20480)"
            )
        if not rows:
            raise Unusable(nothing(order, target, int(left_out)))
        beside.replace(path)
    except OSError as error:
        raise Unusable(f"the queue cannot be kept: {error.strerror}") from None
    finally:
        beside.unlink(missing_ok=True)
    made = Queue(
        id,
        dataset,
        target,
        order,
        split,
        int(rows),
        int(left_out) if order in BY_SCORE else 0,
        annotator,
        datetime.now(UTC).isoformat(timespec="seconds"),
        None if by_score is None else by_score.cut,
        None if view is None or order in ("random", "second") else str(view.about["model"]),
    )
    write_beside(_about_file(desk, id), json.dumps(asdict(made), indent=1).encode())
    note(desk, user, "make queue", dataset, target=target, order=order, rows=made.rows, queue=id)
    return made


def _used(statement: str, given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if f"${name}" in statement}


def queue_job(desk: Desk, arguments: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """The job `queue`: makes one over many rows.

    Args of the job: those of `make`, with `pack` a file's name and `bits` in place of a view.
    """
    report.progress(0, 0, "putting the rows in order")
    told = dict(arguments)
    file, bits = told.pop("pack"), told.pop("bits")
    pack = view = None
    if file is not None and bits is not None:
        pack = load_pack(desk.file_named(file))
        with desk.project.open(write=False) as connection:
            served = identity_of(connection, bits).served
        found = view_of(desk, pack, pack.constants((served,)), told["dataset"], bits)
        view = found if isinstance(found, View) else None
    return {"queue": make(desk, view=view, pack=pack, **told).id}


def queues(desk: Desk, dataset: str, target: str | None = None) -> list[Queue]:
    """The queues of a dataset, the latest first."""
    found = []
    for path in sorted(desk.below("queues").glob("*.parquet"), reverse=True):
        one = _read(_about_file(desk, path.stem))
        if one is not None and one.dataset == dataset and target in (None, one.target):
            found.append(one)
    return found


def queue(desk: Desk, id: str) -> Queue:
    """One queue. Raises `Unusable` when it is gone."""
    found = None
    if id == Path(id).name and not id.startswith("."):
        found = _read(_about_file(desk, id))
    if found is None or not _order_file(desk, id).is_file():
        raise Unusable("this queue is gone; make a new one")
    return found


def remove(desk: Desk, user: str, id: str) -> None:
    """Take a queue away; labels stay."""
    found = queue(desk, id)
    for path in desk.below("queues").glob(f"{id}*"):
        path.unlink(missing_ok=True)
    note(desk, user, "remove queue", found.dataset, target=found.target, queue=id)


def progress(desk: Desk, id: str, annotator: str) -> Progress:
    """Where an annotator is; at its beginning at first."""
    try:
        told = json.loads(_place_file(desk, id, annotator).read_bytes())
        given = tuple((int(place), of_json(one)) for place, one in told["given"])
        return Progress(int(told["place"]), given)
    except (OSError, ValueError, KeyError, TypeError):
        return Progress()


def go(desk: Desk, id: str, annotator: str, found: Progress) -> None:
    """Keep where an annotator is."""
    kept = [[place, as_json(given)] for place, given in found.given[-MOST_UNDO:]]
    told = {"annotator": annotator, "place": found.place, "given": kept}
    write_beside(_place_file(desk, id, annotator), json.dumps(told).encode())


@dataclass(frozen=True, slots=True)
class Shown:
    """A place of a queue.

    Attributes:
        row_id: that stands there; None behind the end.
        row: None also when it was deleted since.
        score: by which the queue was ordered; None without one.
    """

    row_id: str | None
    row: Detail | None
    score: float | None = None


def shown(desk: Desk, found: Queue, place: int) -> Shown:
    """What stands at a place of a queue."""
    if not 0 <= place < found.rows:
        return Shown(None, None)
    with desk.project.open(write=False) as connection:
        at = connection.execute(
            f"SELECT row_id, score FROM {_order(desk, found.id)} WHERE place = ?", [place]
        ).fetchone()
        if at is None:
            return Shown(None, None)
        return Shown(at[0], detail_of(connection, found.dataset, at[0], beside=False), at[1])


def open_places(desk: Desk, found: Queue, annotator: str) -> tuple[int, int | None]:
    """How many rows an annotator has not answered since it was made, and the first of them."""
    with desk.project.open(write=False) as connection:
        left, first = connection.execute(
            f"SELECT count(*), min(place) FROM {_order(desk, found.id)} AS queue WHERE NOT EXISTS"
            " (FROM label WHERE dataset = $1 AND target = $2 AND annotator IN ($3, $5)"
            ' AND "at" >= $4 AND label.row_id = queue.row_id)',
            [
                found.dataset,
                found.target,
                annotator,
                datetime.fromisoformat(found.made).replace(tzinfo=None),
                annotator + SETTLED,
            ],
        ).fetchall()[0]
    return int(left), None if first is None else int(first)


def _order(desk: Desk, id: str) -> str:
    path = _order_file(desk, id)
    if not path.is_file():
        raise Unusable("this queue is gone; make a new one")
    return "read_parquet('" + str(path).replace("'", "''") + "')"


def _order_file(desk: Desk, id: str) -> Path:
    return desk.below("queues") / f"{id}.parquet"


def _about_file(desk: Desk, id: str) -> Path:
    return desk.below("queues") / f"{id}.json"


def _place_file(desk: Desk, id: str, annotator: str) -> Path:
    return desk.below("queues") / f"{id}-{key_of(annotator)}.json"


def _read(path: Path) -> Queue | None:
    try:
        return Queue(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
