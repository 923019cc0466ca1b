"""Files on their way in: kept, looked at, tried without a trace, imported, and then gone."""

import io
from dataclasses import replace

import pytest

from spinf_serve.evals.data.overview import datasets
from spinf_serve.evals.data.readers import Source
from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench.actions import importing, uploads
from spinf_serve.workbench.actions.columns_guessed import guessed, peek
from spinf_serve.workbench.actions.importing import Plan
from spinf_serve.workbench.audit import events
from spinf_serve.workbench.desk import Desk
from tests.support.decision_logs import entry, written
from tests.workbench.data_desks import large

MAILS = (
    "id,message,angry,label.refund,language,thread,tags\n"
    "1,Where is my parcel? I wait for weeks,no,no,en,a,shipping|late\n"
    "2,This is a scandal and I want my money,yes,true,en,b,money\n"
    "3,Wo ist mein Paket,no,0,de,a,\n"
    "4,Thanks a lot for the quick reply,unsure,,en,c,praise\n"
)


@pytest.fixture
def desk(tmp_path):
    return large(tmp_path / "p", 20)


def brought(desk, text=MAILS, name="mails.csv"):
    return uploads.keep_file(desk, "ann", name, io.BytesIO(text.encode()))


def plan(desk, file, **more):
    seen = peek(importing.source_of(file, Plan()))
    return replace(importing.plan_of(guessed(seen, ())), dataset="mails", **more)


def test_columns_are_known_by_what_they_hold(desk):
    found = plan(desk, brought(desk))
    assert (found.text, found.id, found.group, found.lists) == ("message", "id", "thread", "tags")
    assert found.labels == {"angry": "angry", "refund": "label.refund"}
    assert found.slices == ("language",) and found.classes == ()


def test_counts_of_labels_are_seen_before_anything_is_chosen(desk):
    seen = peek(Source(brought(desk).path))
    angry = seen.column("angry")
    tags = seen.column("tags")
    assert angry is not None and tags is not None
    assert (angry.yes, angry.no, angry.unsure, angry.blank, angry.other) == (1, 2, 1, 0, 0)
    assert tags.blank == 1 and seen.whole
    assert seen.sample[2][1] == "Wo ist mein Paket"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "text,intent\nhello there friend,greeting\nbye then friend,parting\n",
            {"intent": "intent"},
        ),
        ("text,spam\na text,maybe\nanother,yes\n", {}),
    ],
)
def test_classes_and_words_that_are_no_labels_are_told_apart(desk, text, expected):
    found = plan(desk, brought(desk, text))
    assert found.labels == expected and found.classes == tuple(expected)


def test_a_category_of_the_pack_makes_a_label_of_a_column_with_a_wrong_word(desk):
    file = brought(desk, "text,spam\na text,maybe\nanother,yes\n")
    found = guessed(peek(Source(file.path)), ["spam"])
    assert found["labels"] == {"spam": "spam"} and found["classes"] == []


def test_columns_of_jsonl_are_those_of_its_objects(desk):
    file = brought(desk, '{"text": "a", "labels": ["x"]}\n{"text": "b", "more": 1}\n', "m.jsonl")
    seen = peek(Source(file.path))
    assert seen.names == ["text", "labels", "more"]
    assert guessed(seen, ())["lists"] == "labels"


def test_a_trial_leaves_no_trace_and_is_kept_over_a_reload(desk):
    file = brought(desk)
    wanted = plan(desk, file, drawn="random")
    before = desk.file.read_bytes()
    found = importing.preview(desk, file, wanted)
    assert (found.rows_read, found.rows_taken, found.refused_count) == (4, 0, 0)
    assert dict(found.balance["angry"].values) == {"no": 2, "yes": 1, "unsure": 1}
    assert [one.name for one in datasets(desk.project)] == ["big"]
    again = Desk(desk.folder, desk.file)
    assert importing.previewed(again, uploads.upload(again, file.id), wanted) == found
    assert importing.previewed(again, file, replace(wanted, group=None)) is None
    assert len(desk.file.read_bytes()) >= len(before)


def test_a_preview_of_another_file_is_none_of_this(desk):
    file = brought(desk)
    wanted = plan(desk, file)
    importing.preview(desk, file, wanted)
    file.path.write_text(MAILS + "5,more text of a kind,no,,en,d,\n")
    assert importing.previewed(desk, file, wanted) is None


def test_refused_rows_and_unknown_words_are_told_before_anything_is_written(desk):
    file = brought(
        desk, MAILS + "5,six words of text in here,maybe,no,en,d,\n4,again,no,no,en,e,\n"
    )
    found = importing.preview(desk, file, plan(desk, file, labels={"angry": "angry"}))
    assert found.refused_count == 2
    assert {one.line for one in found.refused} == {6, 7}
    assert found.unknown == {"angry": {"maybe": 1}}


def test_rows_are_imported_once_and_the_file_is_gone(desk):
    file = brought(desk)
    found = importing.take(desk, "ann", file, plan(desk, file, drawn="random", annotator="team"))
    assert found.rows_taken == 4
    assert uploads.uploads(desk) == [] and not file.path.exists()
    with desk.project.open(write=False) as connection:
        rows = connection.execute(
            "SELECT DISTINCT annotator, label.drawn, item.drawn FROM label JOIN item USING"
            " (dataset, row_id) WHERE dataset = 'mails'"
        ).fetchall()
    assert rows == [("team", "random", "random")]
    event = events(desk)[0]
    assert (event.user, event.action, event.subject) == ("ann", "import rows", "mails")
    assert event.details["rows"] == 4
    with pytest.raises(Unusable, match="bring it again"):
        uploads.upload(desk, file.id)


def test_rows_are_added_only_where_that_is_said(desk):
    first = brought(desk)
    importing.take(desk, "ann", first, plan(desk, first))
    file = brought(desk, MAILS.replace("\n1,", "\n11,").replace("\n2,", "\n12,"))
    with pytest.raises(Unusable, match="there already"):
        importing.preview(desk, file, plan(desk, file))
    found = importing.take(desk, "ann", file, plan(desk, file, append=True))
    assert (found.rows_taken, found.refused_count) == (2, 2)
    assert found.doubles.groups >= 2


@pytest.mark.parametrize(
    ("pasted", "has_names", "columns", "rows"),
    [
        ("text\tspam\na, b\tyes\nc\tno\n", True, ["text", "spam"], [("a, b", "yes"), ("c", "no")]),
        ("a\tyes\r\nb\tno", False, ["column 1", "column 2"], [("a", "yes"), ("b", "no")]),
        ("text\nhello, you\nbye\n", True, ["text"], [("hello, you",), ("bye",)]),
        ('text\tx\n"two\nlines"\t1\n', True, ["text", "x"], [("two\nlines", "1")]),
        ("text;spam\na;yes\n", True, ["text", "spam"], [("a", "yes")]),
        ("one, two\nthree", False, ["column 1"], [("one, two",), ("three",)]),
    ],
)
def test_what_is_pasted_is_read_as_a_spreadsheet_gives_it(desk, pasted, has_names, columns, rows):
    file = uploads.keep_pasted(desk, "ann", pasted, has_names=has_names)
    seen = peek(Source(file.path))
    assert seen.names == columns
    assert list(seen.sample) == rows


def test_what_cannot_be_brought_is_said(desk):
    with pytest.raises(Unusable, match="nothing was pasted"):
        uploads.keep_pasted(desk, "ann", " \n", has_names=True)
    with pytest.raises(Unusable, match="ends in"):
        uploads.keep_file(desk, "ann", "x.exe", io.BytesIO(b""))
    with pytest.raises(Unusable, match="no file"):
        uploads.keep_path(desk, "ann", "none.csv", anywhere=True)
    with pytest.raises(Unusable, match="no file"):
        uploads.keep_path(desk, "ann", " ", anywhere=True)
    with pytest.raises(Unusable, match="the workbench's own"):
        uploads.keep_path(desk, "ann", str(brought(desk).path), anywhere=True)
    assert len(uploads.uploads(desk)) == 1
    with pytest.raises(Unusable, match="no column names"):
        peek(Source(brought(desk, "", "empty.csv").path))


def test_a_name_with_a_path_in_it_stays_in_its_folder(desk):
    file = brought(desk, MAILS, "../../evil.csv")
    assert file.path.parent.parent == desk.below("uploads")
    kept = brought(desk, MAILS, "..\\about.json.csv")
    assert uploads.upload(desk, kept.id) == kept


def test_files_outside_the_folder_are_not_for_everybody(desk, tmp_path):
    outside = tmp_path / "outside.csv"
    outside.write_text(MAILS)
    with pytest.raises(Unusable, match="outside the project's folder"):
        uploads.keep_path(desk, "ann", str(outside), anywhere=False)
    link = desk.folder / "link.csv"
    link.symlink_to(outside)
    with pytest.raises(Unusable, match="outside"):
        uploads.keep_path(desk, "ann", "link.csv", anywhere=False)
    file = uploads.keep_path(desk, "ann", str(outside), anywhere=True)
    uploads.drop(desk, file.id)
    assert outside.exists() and uploads.uploads(desk) == []


def test_the_job_tells_how_far_it_is_and_can_be_stopped(desk):
    class Told:
        folder = desk.folder

        def __init__(self, stop_at=None):
            self.said, self.stop_at = [], stop_at

        def progress(self, done, of, words="", **more):
            self.said.append((done, of))

        def say(self, line): ...

        def stopped(self):
            return self.stop_at is not None and len(self.said) >= self.stop_at

        def check(self):
            if self.stopped():
                from spinf_serve.workbench.job_kinds import Stopped

                raise Stopped

    text = "id,text\n" + "".join(f"{i},text {i * 7919} of row {i}\n" for i in range(12_000))
    file = brought(desk, text, "many.csv")
    wanted = plan(desk, file)
    told = Told()
    arguments = importing.job_arguments(file, wanted, "ann", dry_run=True)
    found = importing.import_job(desk, arguments, told)
    assert found["rows_read"] == 12_000 and told.said[0] == (0, 12_001)
    tried = importing.previewed(desk, file, wanted)
    assert tried is not None and tried.rows_read == 12_000
    with pytest.raises(Exception, match="^$"):
        importing.import_job(desk, arguments | {"dry_run": False}, Told(stop_at=2))
    assert [one.name for one in datasets(desk.project)] == ["big"]
    assert uploads.upload(desk, file.id) == file
    importing.import_job(desk, arguments | {"dry_run": False}, Told())
    assert [one.name for one in datasets(desk.project)] == ["big", "mails"]


def test_size_decides_who_reads(desk):
    assert not importing.is_large(brought(desk))
    file = brought(desk, "text\n" + "a\n" * (importing.ROWS_AT_ONCE + 1))
    assert importing.is_large(file)


def test_a_decision_log_is_known_and_keeps_its_weights(desk, tmp_path):
    path = written(
        tmp_path / "log.sqlite",
        [
            entry("first text", drawn=True, rate=0.1, text="first text"),
            entry("second text", drawn=False, rate=0.1, text="second text"),
        ],
    )
    file = uploads.keep_path(desk, "ann", str(path), anywhere=True)
    assert file.is_log
    wanted = Plan(dataset="log", annotator="ann")
    found = importing.take(desk, "ann", file, wanted)
    assert found.rows_taken == 1
    with desk.project.open(write=False) as connection:
        rows = connection.execute("SELECT drawn, weight FROM item WHERE dataset = 'log'").fetchall()
    assert rows == [("random", 10.0)]
    file = uploads.keep_path(desk, "ann", str(path), anywhere=True)
    everything = replace(wanted, log_rows="all", append=False, dataset="all")
    assert importing.take(desk, "ann", file, everything).rows_taken == 2
    with desk.project.open(write=False) as connection:
        rows = connection.execute(
            "SELECT DISTINCT drawn, weight FROM item WHERE dataset = 'all'"
        ).fetchall()
    assert rows == [("import", None)]
    assert path.exists()
