"""Queues: an order that stays, a place for each annotator, and rows that count where they may."""

import numpy as np
import pytest

from spinf_serve.evals.data.labels import Label, now, put_labels
from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench.actions import labelling, queues
from spinf_serve.workbench.actions.queues import Progress
from spinf_serve.workbench.desk import Desk
from tests.workbench.data_desks import example, large, pack_of, view_on


@pytest.fixture
def desk(tmp_path):
    return large(tmp_path / "p", 60)


def make(desk, order="random", who="ann", dataset="big", target="angry", **more):
    return queues.make(desk, who, dataset, target, order, annotator=who, **more)


def order_of(desk, queue):
    return [queues.shown(desk, queue, place).row_id for place in range(queue.rows)]


def say(desk, row_id, value, who="ann", dataset="big", target="angry", **more):
    put_labels(
        desk.project, dataset, [Label(row_id, target, value, who, now(), **{"drawn": None} | more)]
    )


def test_a_random_queue_has_every_unlabelled_row_once_and_keeps_its_order(desk):
    queue = make(desk)
    order = order_of(desk, queue)
    assert sorted(order) == sorted(f"r{i}" for i in range(60) if i % 10)
    assert order != sorted(order, key=lambda one: int(one[1:]))
    say(desk, order[3], "yes")
    again = queues.queue(Desk(desk.folder, desk.file), queue.id)
    assert order_of(desk, again) == order
    assert order_of(desk, make(desk)) != order


def test_rows_that_a_queue_by_score_took_are_met_again_by_chance(desk):
    """Without them, what chance leaves would lack just the rows that are hard."""
    say(desk, "r1", "yes", drawn="queue")
    assert "r1" in order_of(desk, make(desk))
    assert make(desk).chosen is None


def test_a_split_bounds_a_queue(desk):
    with desk.project.open(write=True) as connection:
        connection.execute("UPDATE item SET split = 'test' WHERE number <= 12")
    assert sorted(order_of(desk, make(desk, split="test"))) == sorted(
        f"r{i}" for i in range(12) if i % 10
    )


def test_each_annotator_has_a_place_that_survives(desk):
    queue = make(desk)
    given = labelling.answer(
        desk, "ann", "big", order_of(desk, queue)[0], "angry", "yes",
        annotator="ann", chosen=queue.chosen, score_visible=False, seen=None,
    )  # fmt: skip
    queues.go(desk, queue.id, "ann", Progress(1, ((0, given),)))
    assert queues.progress(desk, queue.id, "ann") == Progress(1, ((0, given),))
    assert queues.progress(desk, queue.id, "bob") == Progress()
    assert queues.open_places(desk, queue, "ann") == (queue.rows - 1, 1)
    assert queues.open_places(desk, queue, "bob") == (queue.rows, 0)


def test_a_damaged_place_begins_anew(desk):
    queue = make(desk)
    queues.go(desk, queue.id, "ann", Progress(4))
    next(desk.below("queues").glob(f"{queue.id}-*.json")).write_text("{")
    assert queues.progress(desk, queue.id, "ann") == Progress()


def test_a_second_look_has_what_others_labelled_and_adds_no_random_row(desk):
    say(desk, "r1", "yes", drawn="queue")
    say(desk, "r2", "yes", "bob")
    queue = make(desk, "second", "bob")
    order = order_of(desk, queue)
    assert "r1" in order and "r2" not in order and len(order) == 7
    before = labelling.counted(desk, "big", "angry", None).counted
    for row_id in order:
        labelling.answer(
            desk, "bob", "big", row_id, "angry", "yes",
            annotator="bob", chosen=queue.chosen, score_visible=False, seen=None,
        )  # fmt: skip
    found = labelling.counted(desk, "big", "angry", None)
    # r1 was chosen by its score, and a second look does not change that.
    assert found.chosen == 1
    assert found.counted + found.disputed == before


def test_who_differs_comes_into_conflicts_and_leaves_by_being_settled(desk):
    with pytest.raises(Unusable, match="no annotators differ"):
        make(desk, "conflict")
    say(desk, "r10", "yes", "ann")
    queue = make(desk, "conflict")
    assert order_of(desk, queue) == ["r10"] and queue.settles
    labelling.answer(
        desk, "ann", "big", "r10", "angry", "no",
        annotator="ann", chosen=queue.chosen, score_visible=False, seen="yes", settle=True,
    )  # fmt: skip
    with pytest.raises(Unusable, match="no annotators differ"):
        make(desk, "conflict")


def test_without_scores_nothing_is_ordered_by_them(desk):
    for order in ("uncertainty", "lift"):
        with pytest.raises(Unusable, match="take the rows at random"):
            make(desk, order)
    with pytest.raises(Unusable, match="no dataset"):
        make(desk, dataset="none")


def test_a_queue_that_is_gone_is_told(desk):
    queue = make(desk)
    queues.remove(desk, "ann", queue.id)
    assert queues.queues(desk, "big") == []
    for id in (queue.id, "../x", ".x", ""):
        with pytest.raises(Unusable, match="gone"):
            queues.queue(desk, id)


def test_a_row_that_was_deleted_leaves_its_place_empty(desk):
    from spinf_serve.evals.data.rows import delete_rows

    queue = make(desk)
    first = order_of(desk, queue)[0]
    delete_rows(desk.project, "big", [first])
    found = queues.shown(desk, queue, 0)
    assert (found.row_id, found.row) == (first, None)
    assert queues.shown(desk, queue, queue.rows).row_id is None


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """The example with half of the labels of `billing` taken away."""
    desk = example(tmp_path_factory.mktemp("scored"))
    with desk.project.open(write=True) as connection:
        connection.execute(
            "DELETE FROM label WHERE target = 'billing' AND row_id IN (SELECT row_id FROM item"
            " WHERE number % 2 = 0)"
        )
    pack = pack_of(desk)
    return desk, pack, view_on(desk, pack)


def scores_of(view, queue_rows, name="score:billing"):
    found = view.columns(["row_id", name])
    by_row = dict(zip(found["row_id"].tolist(), found[name].tolist(), strict=True))
    return np.array([by_row[row] for row in queue_rows])


def test_the_least_certain_come_first(scored):
    desk, pack, view = scored
    queue = make(desk, "uncertainty", dataset="messages", target="billing", view=view, pack=pack)
    assert queue.rows + queue.left_out == 300 and queue.chosen == "queue"
    cut = queue.cut if queue.cut is not None else 0.5
    distance = np.abs(scores_of(view, order_of(desk, queue)) - cut)
    assert (np.diff(distance) >= 0).all() and distance[0] < distance[-1]
    assert queues.shown(desk, queue, 0).score == scores_of(view, order_of(desk, queue)[:1])[0]


def test_what_stands_out_comes_first(scored):
    desk, pack, view = scored
    queue = make(desk, "lift", dataset="messages", target="billing", view=view, pack=pack)
    assert (np.diff(scores_of(view, order_of(desk, queue), "macro:billing")) <= 0).all()
    queue = make(desk, "lift", dataset="messages", target="question:topic", view=view, pack=pack)
    assert queue.rows == 600


def test_labels_against_their_scores_are_conflicts(scored):
    desk, pack, view = scored
    queue = make(desk, "conflict", dataset="messages", target="billing", view=view, pack=pack)
    order = order_of(desk, queue)
    flagged = scores_of(view, order, "flagged:billing")
    with desk.project.open(write=False) as connection:
        said = dict(
            connection.execute(
                "SELECT row_id, value FROM label WHERE target = 'billing'"
            ).fetchall()
        )
    assert 0 < len(order) < 300
    assert all((said[row] == "yes") != bool(flag) for row, flag in zip(order, flagged, strict=True))
    if queue.cut is not None:
        distance = np.abs(scores_of(view, order) - queue.cut)
        assert (np.diff(distance) <= 0).all()


def test_a_million_rows_stay_in_the_database(tmp_path):
    """No list of rows is made here: 200,000 rows are enough to see each query work at size."""
    desk = large(tmp_path / "p", 200_000)
    queue = make(desk)
    assert queue.rows == 180_000
    assert queues.shown(desk, queue, 179_999).row is not None
    assert queues.open_places(desk, queue, "ann") == (180_000, 0)
