"""Where a proxy names users, nobody says anything in another's name."""

from typing import Any

import pytest

from spinf_serve.evals.data.labels import Label, now, put_labels
from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench.actions import labelling, queues, scores_row
from spinf_serve.workbench.desk import key_of
from spinf_serve.workbench.started import Started, start_as
from tests.workbench.data_desks import example
from tests.workbench.support import messages, name_users, page

HOW = {"user_header": "X-User", "approvers": frozenset({"anna"})}
ROW = ("messages", "t0002", "decision")


@pytest.fixture
def desk(tmp_path):
    return example(tmp_path / "p")


@pytest.fixture
def bob(monkeypatch):
    name_users(monkeypatch, "bob")


def said(desk):
    with desk.project.open(write=False) as connection:
        return connection.execute(
            "SELECT annotator, value FROM label WHERE target = 'decision'"
        ).fetchall()


def labelled(desk, queue, who, **params):
    test = page("data", desk.folder, how=HOW, part="label", queue=queue.id, **params)
    assert not test.exception
    return test.button(key=f"say-{key_of(queue.id, who, 0)}-0").click().run()


@pytest.mark.usefixtures("bob")
def test_an_address_lets_nobody_label_as_another(desk):
    queue = queues.make(desk, "anna", "messages", "decision", "random", annotator="anna")
    test = labelled(desk, queue, "bob", **{"as": "anna"})
    assert not test.exception
    assert said(desk) == [("bob", "yes")]


@pytest.mark.usefixtures("bob")
def test_what_a_tab_held_lets_nobody_label_as_another(desk):
    queue = queues.make(desk, "anna", "messages", "decision", "random", annotator="anna")
    test = page("data", desk.folder, how=HOW, part="label", queue=queue.id)
    test.session_state["label-as"] = "anna"
    test.run()
    test.button(key=f"say-{key_of(queue.id, 'bob', 0)}-0").click().run()
    assert said(desk) == [("bob", "yes")]


@pytest.mark.usefixtures("bob")
def test_the_name_is_told_and_not_asked(desk):
    test = page("data", desk.folder, how=HOW, part="label", target="decision", **{"as": "anna"})
    assert not [one for one in test.text_input if one.label == "Labelling as"]
    assert "Labelling as **bob**" in messages(test)
    assert "as" not in test.query_params


def test_a_name_is_written_where_no_proxy_names_anybody(desk):
    how: dict[str, Any] = {}
    test = page("data", desk.folder, how=how, part="label", target="decision", **{"as": "anna"})
    assert [one.value for one in test.text_input if one.label == "Labelling as"] == ["anna"]


def test_nothing_is_kept_in_another_name(desk):
    start_as(Started(desk.folder, user_header="X-User"))
    how: dict[str, Any] = {"chosen": None, "score_visible": False, "seen": None}
    with pytest.raises(Unusable, match="bob is signed in"):
        labelling.answer(desk, "bob", *ROW, "yes", annotator="anna", **how)
    with pytest.raises(Unusable, match="bob is signed in"):
        labelling.correct(
            desk, "bob", *ROW, "yes", annotator="anna", score_visible=False, seen=None
        )
    with pytest.raises(Unusable, match="bob is signed in"):
        labelling.write_note(desk, "bob", *ROW, "anna", "hers")
    given = labelling.answer(desk, "anna", *ROW, "yes", annotator="anna", **how)
    with pytest.raises(Unusable, match="bob is signed in"):
        labelling.undo(desk, "bob", "messages", given)
    assert said(desk) == [("anna", "yes")]


def test_what_one_settled_oneself_is_undone(desk):
    start_as(Started(desk.folder, user_header="X-User"))
    put_labels(
        desk.project,
        "messages",
        [Label("t0002", "decision", value, who, now(), None) for who, value in
         (("anna", "no"), ("bob", "yes"))],
    )  # fmt: skip
    scores_row.fix(desk, "bob", *ROW, "no", seen="yes")
    assert ("bob" + labelling.SETTLED, "no") in said(desk)
    scores_row.undo_last(desk, "bob", "messages")
    assert sorted(said(desk)) == [("anna", "no"), ("bob", "yes")]
