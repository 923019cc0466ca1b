"""Labels one at a time: nothing is lost, nothing is overwritten unseen, and `drawn` says what is so."""

import json

import pytest

from spinf_serve.evals.data.labels import Label, now, put_labels
from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench.actions import labelling
from spinf_serve.workbench.audit import events
from tests.workbench.data_desks import example, large, pack_of


@pytest.fixture
def desk(tmp_path):
    return large(tmp_path / "p", 40)


def answer(desk, row_id, value, who="ann", **more):
    given = {"chosen": None, "score_visible": False, "seen": None} | more
    return labelling.answer(desk, "screen", "big", row_id, "angry", value, annotator=who, **given)


def labels(desk, row_id):
    with desk.project.open(write=False) as connection:
        found = labelling.labels_on(connection, "big", row_id)
    return [(one.annotator, one.value, one.drawn, one.adjudicated) for one in found]


def counted(desk):
    return labelling.counted(desk, "big", "angry", None)


def test_a_label_is_stored_at_once_and_told(desk):
    answer(desk, "r1", "yes")
    assert labels(desk, "r1") == [("ann", "yes", "random", False)]
    event = events(desk)[0]
    assert (event.user, event.action, event.subject) == ("screen", "label", "big/r1")
    assert event.details == {"target": "angry", "value": "yes", "before": None, "annotator": "ann"}


def test_two_fast_edits_are_both_kept(desk):
    """T-O2: of one row and of two, whoever comes second finds the first."""
    answer(desk, "r1", "yes")
    answer(desk, "r2", "no")
    answer(desk, "r1", "no", seen="yes")
    assert labels(desk, "r1")[0][1] == "no" and labels(desk, "r2")[0][1] == "no"


def test_a_label_that_changed_elsewhere_is_not_overwritten(desk):
    answer(desk, "r1", "yes")
    with pytest.raises(Unusable, match="changed elsewhere.*'yes'.*nothing was overwritten"):
        answer(desk, "r1", "no")
    assert labels(desk, "r1") == [("ann", "yes", "random", False)]


def test_a_random_row_out_of_a_queue_counts_for_no_promise(desk):
    before = counted(desk).counted
    answer(desk, "r1", "yes", chosen="queue")
    assert (counted(desk).counted, counted(desk).chosen) == (before, 1)
    answer(desk, "r2", "yes")
    assert counted(desk).counted == before + 1


def test_a_correction_leaves_a_random_row_a_random_row(desk):
    before = counted(desk)
    labelling.correct(
        desk, "u", "big", "r0", "angry", "no", annotator="import", score_visible=True, seen="yes"
    )
    assert labels(desk, "r0") == [("import", "no", "random", False)]
    assert counted(desk).counted == before.counted
    assert counted(desk).values["yes"] == before.values["yes"] - 1


def test_who_settles_a_dispute_keeps_what_they_said_first(desk):
    answer(desk, "r0", "no")
    assert counted(desk).disputed == 1
    answer(desk, "r0", "yes", seen="no", settle=True, chosen="queue")
    assert labels(desk, "r0") == [
        ("import", "yes", "random", False),
        ("ann", "no", "random", False),
        ("ann (settled)", "yes", "random", True),
    ]
    assert counted(desk).disputed == 0
    # What they settled is what the next screen shows as theirs.
    answer(desk, "r0", "no", seen="yes", settle=True, chosen="queue")
    assert labels(desk, "r0")[-1] == ("ann (settled)", "no", "random", True)


def test_a_row_picked_by_hand_counts_for_no_promise(desk):
    before = counted(desk).counted
    labelling.correct(
        desk, "u", "big", "r1", "angry", "yes", annotator="ann", score_visible=False, seen=None
    )
    assert labels(desk, "r1") == [("ann", "yes", "import", False)]
    assert counted(desk).counted == before


@pytest.mark.parametrize("first", [None, "yes"])
def test_undo_puts_back_what_was_there(desk, first):
    if first is not None:
        answer(desk, "r1", first)
    given = answer(desk, "r1", "no", seen=first)
    labelling.undo(
        desk, "u", "big", labelling.of_json(json.loads(json.dumps(labelling.as_json(given))))
    )
    assert labels(desk, "r1") == ([] if first is None else [("ann", first, "random", False)])
    with pytest.raises(Unusable, match="changed elsewhere since"):
        labelling.undo(desk, "u", "big", given)


def test_undo_leaves_a_later_label_alone(desk):
    given = answer(desk, "r1", "no")
    put_labels(desk.project, "big", [Label("r1", "angry", "yes", "ann", now(), None)])
    with pytest.raises(Unusable):
        labelling.undo(desk, "u", "big", given)
    assert labels(desk, "r1") == [("ann", "yes", "random", False)]


def test_labels_from_the_command_line_beside_it_are_seen(desk, root):
    """T-O1: another process writes while this one has the project's folder open."""
    import subprocess
    import sys

    answer(desk, "r1", "yes")
    command = ["data", "label", str(desk.file), "big", "r2", "angry=no", "--annotator", "ann"]
    done = subprocess.run(
        [sys.executable, "-m", "spinf_serve", *command],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with pytest.raises(Unusable, match="changed elsewhere"):
        answer(desk, "r2", "yes")
    answer(desk, "r2", "yes", seen="no")
    assert labels(desk, "r2") == [("ann", "yes", "random", False)]


def test_what_the_annotator_saw_stays_with_the_label(desk):
    answer(desk, "r1", "yes", score_visible=True)
    answer(desk, "r1", "no", seen="yes")
    with desk.project.open(write=False) as connection:
        assert labelling.labels_on(connection, "big", "r1")[0].score_visible


def test_nobody_is_no_annotator_and_a_row_that_is_gone_is_told(desk):
    with pytest.raises(Unusable, match="Labelling as"):
        answer(desk, "r1", "yes", who=" ")
    with pytest.raises(Unusable, match="not in dataset"):
        answer(desk, "gone", "yes")


def test_a_guideline_is_not_overwritten_unseen(desk):
    labelling.write_guideline(desk, "u", "angry", " Swearing is. ", seen="")
    assert labelling.guideline(desk, "angry") == "Swearing is."
    with pytest.raises(Unusable, match="somebody else"):
        labelling.write_guideline(desk, "u", "angry", "Shouting is.", seen="")
    labelling.write_guideline(desk, "u", "angry", "", seen="Swearing is.")
    assert labelling.guideline(desk, "angry") == ""
    with pytest.raises(Unusable, match="may have"):
        labelling.write_guideline(desk, "u", "angry", "x" * 20_001, seen="")


def test_notes_are_kept_beside_the_label(desk):
    labelling.write_note(desk, "u", "big", "r1", "angry", "ann", "irony?")
    from spinf_serve.workbench.actions.rows import detail

    found = detail(desk.project, "big", "r1")
    assert found is not None
    assert [(one.annotator, one.text) for one in found.notes] == [("ann", "irony?")]


def test_targets_are_those_of_the_pack_and_of_the_labels(tmp_path):
    pack = pack_of(example(tmp_path))
    found = {one.target: one for one in labelling.targets_of(pack, ["case", "own", "question:old"])}
    assert list(found)[: len(pack.categories)] == list(pack.categories)
    assert found["own"].values == ("yes", "no")
    assert found["question:topic"].values[0] == "payment"
    assert "question:old" in found
    assert [one.target for one in labelling.targets_of(None, ["angry"])] == ["angry"]


def test_what_a_promise_takes_at_least(desk):
    found = labelling.needed(counted(desk), 0.9)
    assert (found.flawless, found.one_wrong) == (29, 46)
    assert (found.rows, found.holds) == (4, 2)
