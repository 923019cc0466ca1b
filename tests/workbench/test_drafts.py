"""Drafts: nothing typed is lost, and nothing of another is overwritten."""

import pytest

from spinf_serve.evals.project import create
from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench import audit
from spinf_serve.workbench.actions import drafts
from spinf_serve.workbench.actions.drafts import FileMoved, Moved, draft_of, keep, redo, save, undo
from spinf_serve.workbench.desk import Desk

BEGIN = "pack: a/b\nversion: 1.0.0\n"


@pytest.fixture
def desk(tmp_path):
    create(tmp_path / "project.duckdb")
    (tmp_path / "pack.yaml").write_text(BEGIN)
    return Desk(tmp_path, tmp_path / "project.duckdb")


@pytest.fixture
def file(desk):
    return desk.folder / "pack.yaml"


def test_a_draft_begins_with_the_file_and_changes_nothing(desk, file):
    draft = draft_of(desk, file)
    assert (draft.text, draft.revision, draft.unsaved) == (BEGIN, 0, False)
    kept = keep(desk, file, BEGIN + "name: x\n", draft.revision)
    assert (kept.text, kept.revision, kept.unsaved) == (BEGIN + "name: x\n", 1, True)
    assert file.read_text() == BEGIN
    # Another process, or the same after a restart, goes on with it.
    assert draft_of(Desk(desk.folder, desk.file), file) == kept
    assert drafts.unsaved_files(desk) == [file]
    assert drafts.revision_of(desk, file) == 1


def test_undo_and_redo_outlive_the_page(desk, file):
    texts = [BEGIN + "x: " + "y" * n for n in range(1, 4)]
    for number, text in enumerate(texts):
        keep(desk, file, text, number)
    back = [undo(desk, file, draft_of(desk, file).revision).text for _ in range(4)]
    assert back == [texts[1], texts[0], BEGIN, BEGIN]
    assert redo(desk, file, draft_of(desk, file).revision).text == texts[0]
    draft = draft_of(desk, file)
    assert (draft.undo, draft.redo) == (1, 2)
    keep(desk, file, "new", draft.revision)
    assert draft_of(desk, file).redo == 0
    # What was undone and then typed over can still be had.
    digests = {step.digest for step in drafts.steps(desk, file)}
    assert texts[2] in {drafts.text_of(desk, file, digest) for digest in digests}


def test_what_the_editor_undid_by_itself_is_one_step_back(desk, file):
    keep(desk, file, "one", 0, writer="a")
    keep(desk, file, "two", 1, writer="a")
    draft = keep(desk, file, "one", 2, writer="a")
    assert (draft.undo, draft.redo) == (1, 1)
    assert undo(desk, file, draft.revision).text == BEGIN
    # What is put in its place by a button can be undone like everything else.
    keep(desk, file, "three", 4)
    draft = keep(desk, file, BEGIN, 5, what="restored")
    assert undo(desk, file, draft.revision).text == "three"


def test_another_tabs_change_is_not_overwritten(desk, file):
    keep(desk, file, "theirs", 0)
    with pytest.raises(Moved) as moved:
        keep(desk, file, "mine", 0)
    assert (moved.value.draft.text, moved.value.draft.revision) == ("theirs", 1)
    assert draft_of(desk, file).text == "theirs"
    # The same text is no conflict, and no step.
    assert keep(desk, file, "theirs", 0).revision == 1
    assert keep(desk, file, "mine", 1).text == "mine"
    with pytest.raises(Moved):
        undo(desk, file, 1)


def test_a_tab_may_be_ahead_of_what_it_was_told_but_not_over_another(desk, file):
    keep(desk, file, "one", 0, writer="a")
    keep(desk, file, "two", 0, writer="a")
    assert keep(desk, file, "three", 1, writer="a").revision == 3
    with pytest.raises(Moved):
        keep(desk, file, "four", 2, writer="b")
    keep(desk, file, "of b", 3, writer="b")
    with pytest.raises(Moved):
        keep(desk, file, "five", 3, writer="a")
    undo(desk, file, 4)
    with pytest.raises(Moved):
        keep(desk, file, "six", 4, writer="b")


def test_what_is_set_aside_changes_nothing_and_can_be_had_again(desk, file):
    keep(desk, file, "theirs", 0)
    drafts.set_aside(desk, file, "mine", user="ann")
    step = drafts.steps(desk, file)[0]
    assert (step.user, step.what) == ("ann", "set aside")
    assert drafts.text_of(desk, file, step.digest) == "mine"
    assert draft_of(desk, file).text == "theirs"


def test_saving_writes_the_file_and_a_line_of_the_trail(desk, file):
    draft = keep(desk, file, BEGIN + "# é\n", 0)
    saved = save(desk, "ann", file, draft)
    assert file.read_text() == BEGIN + "# é\n"
    assert not saved.unsaved and saved.undo == 1
    event = audit.events(desk)[0]
    assert (event.user, event.action, event.subject) == ("ann", "save pack", "pack.yaml")
    assert event.details["before"] == draft.base_digest
    assert event.details["after"] == saved.base_digest
    # Nothing changed: nothing is written, nothing told.
    save(desk, "ann", file, saved)
    assert len(audit.events(desk)) == 1
    with pytest.raises(Moved):
        save(desk, "ann", file, draft)
    # Saving is no wall: one goes back behind it.
    assert undo(desk, file, saved.revision).text == BEGIN


def test_a_file_that_changed_on_disk_is_not_overwritten(desk, file):
    draft = keep(desk, file, "mine", 0)
    file.write_text("of the command line")
    assert draft_of(desk, file).moved
    with pytest.raises(FileMoved):
        save(desk, "ann", file, draft)
    assert file.read_text() == "of the command line"
    mine = drafts.rebase(desk, file, draft.revision, mine=True)
    assert (mine.text, mine.unsaved, mine.moved) == ("mine", True, False)
    save(desk, "ann", file, mine)
    assert file.read_text() == "mine"


def test_the_files_text_can_be_taken_instead(desk, file):
    draft = keep(desk, file, "mine", 0)
    file.write_text("of the command line")
    taken = drafts.rebase(desk, file, draft.revision, mine=False)
    assert (taken.text, taken.unsaved) == ("of the command line", False)
    assert undo(desk, file, taken.revision).text == "mine"


def test_an_unedited_draft_follows_the_file(desk, file):
    draft_of(desk, file)
    file.write_text("of the command line")
    draft = draft_of(desk, file)
    assert (draft.text, draft.unsaved, draft.revision) == ("of the command line", False, 1)


def test_line_ends_and_byte_order_mark_come_back(desk, file):
    file.write_bytes(b"\xef\xbb\xbfpack: a/b\r\nversion: 1\r\n")
    draft = draft_of(desk, file)
    assert draft.text == "pack: a/b\nversion: 1\n" and not draft.unsaved
    save(desk, "ann", file, keep(desk, file, draft.text + "name: é\n", draft.revision))
    assert file.read_bytes() == (b"\xef\xbb\xbfpack: a/b\r\nversion: 1\r\nname: \xc3\xa9\r\n")


def test_a_file_that_is_no_text_is_told(desk, file):
    file.write_bytes(b"pack: \xff\n")
    with pytest.raises(Unusable, match="not UTF-8"):
        draft_of(desk, file)


def test_history_stays_bounded_and_what_is_in_it_is_kept(desk, file, monkeypatch):
    monkeypatch.setattr(drafts, "MOST_STEPS", 5)
    for number in range(20):
        keep(desk, file, f"text {number}", number)
    found = drafts.steps(desk, file)
    assert [drafts.text_of(desk, file, step.digest) for step in found] == [
        f"text {number}" for number in range(19, 14, -1)
    ]
    kept = list((desk.private / "drafts").rglob("texts/*"))
    assert len(kept) <= 8
    for _ in range(5):
        undo(desk, file, draft_of(desk, file).revision)
    assert draft_of(desk, file).text == "text 14"


def test_a_state_cut_by_a_full_disk_is_set_aside(desk, file):
    keep(desk, file, "mine", 0)
    state = next((desk.private / "drafts").rglob("draft.json"))
    state.write_bytes(state.read_bytes()[:20])
    assert draft_of(desk, file).text == BEGIN
    aside = list((desk.private / "drafts").glob("*-broken/texts/*"))
    assert "mine" in [path.read_text() for path in aside]
