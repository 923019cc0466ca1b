"""Imports: what is taken, what is refused with which line, and what the report says of the rest."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from spinf_serve.evals.data.columns import Columns, Origin
from spinf_serve.evals.data.importing import import_rows
from spinf_serve.evals.data.readers import Source
from spinf_serve.evals.data.rows import data_digest, rows
from spinf_serve.evals.project import create
from spinf_serve.packs.errors import Unusable
from tests.support.processes import start_process

TEXTS = (
    "Please send the invoice of last month once more",
    "My printer does not answer since the update of Monday",
    "Where can I change the address that you deliver to?",
    "The colour is not what the picture in the shop shows",
    "Thank you for the quick help with my account",
    "Is there a discount for schools and libraries?",
    "I was charged twice for the same order in May",
    "The app closes itself when I open the settings",
)


@pytest.fixture
def project(tmp_path):
    return create(tmp_path / "p.duckdb")


@pytest.fixture
def take(project, tmp_path):
    """Imports CSV text with columns of its own."""

    def run(text, /, *, name="a.csv", dataset="d", origin=None, encoding="utf-8", **options):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        given = {key: options.pop(key) for key in ("append", "strict", "dry_run") if key in options}
        options.setdefault("text", "text")
        columns = Columns(**options)
        return import_rows(project, dataset, Source(path), columns, origin or Origin(), **given)

    return run


def stored(project, dataset="d"):
    return {row.id: row for row in rows(project, dataset)}


def test_a_mark_semicolons_and_a_quoted_line_break_come_in_whole(project, take):
    report = take(
        '\ufeffid;text;ok\r\n1;"one\r\ntwo; three";yes\r\n2;é;no\r\n', id="id", labels={"ok": "ok"}
    )
    assert (report.rows_read, report.rows_taken, report.encoding) == (2, 2, "utf-8-sig")
    found = stored(project)
    assert {id: row.text for id, row in found.items()} == {"1": "one\r\ntwo; three", "2": "é"}
    assert {id: row.labels for id, row in found.items()} == {"1": {"ok": True}, "2": {"ok": False}}


WORDS = ("yes", "no", "TRUE", "", "NA", "None", " billing ", "Billing")


def words(of=WORDS):
    return "id,text,label\n" + "".join(
        f'r{at},{TEXTS[at]},"{word}"\n' for at, word in enumerate(of)
    )


def test_labels_that_are_no_words_are_listed_with_counts_and_refused(project, take):
    report = take(words(), id="id", labels={"t": "label"})
    assert report.unknown == {"t": {"NA": 1, "None": 1, "billing": 1, "Billing": 1}}
    assert report.refused_count == 4
    assert [(one.line, one.row_id) for one in report.refused] == [
        (6, "r4"), (7, "r5"), (8, "r6"), (9, "r7")
    ]  # fmt: skip
    assert "'NA' is no label; write yes" in report.refused[0].reason
    # Blank is missing, and the row is there without a label.
    assert {id: row.labels for id, row in stored(project).items()} == {
        "r0": {"t": True}, "r1": {"t": False}, "r2": {"t": True}, "r3": {}
    }  # fmt: skip
    assert report.missing == {"label": 1}
    assert report.balance["t"].values == {"yes": 2, "no": 1}
    assert report.balance["t"].missing == 1


def test_classes_by_declaration_keep_any_text_and_warn_of_spellings(project, take):
    report = take(words(), id="id", labels={"t": "label"}, classes=frozenset({"t"}))
    assert report.refused_count == 0
    assert report.unknown == {}
    assert stored(project)["r5"].classes == {"t": "None"}
    assert stored(project)["r6"].classes == {"t": "billing"}
    assert stored(project)["r3"].classes == {}
    assert report.balance["t"].missing == 1
    assert any("'Billing' and 'billing' differ only in case" in one for one in report.warnings)


def test_spellings_of_yes_and_no(project, take):
    said = ("TRUE", "true", " Yes", "1", "1.0", "False", "0", "UNSURE")
    report = take(words(said), id="id", labels={"t": "label"})
    assert report.balance["t"].values == {"yes": 5, "no": 2, "unsure": 1}
    assert stored(project)["r7"].labels == {}


def test_one_class_a_weight_that_is_nan_and_words_in_capitals(project, take):
    report = take(
        f"id,text,t,w\na,{TEXTS[0]},TRUE,2.5\nb,{TEXTS[1]},true,nan\nc,{TEXTS[2]},true,-1\nd,{TEXTS[3]},true,\n",
        id="id",
        labels={"t": "t"},
        weight="w",
    )
    assert [(one.row_id, one.line) for one in report.refused] == [("b", 3), ("c", 4)]
    assert "'nan' is no number above 0" in report.refused[0].reason
    assert any("t: one class only, all 2 labels are 'yes'" in one for one in report.warnings)
    assert {id: row.weight for id, row in stored(project).items()} == {"a": 2.5, "d": None}


def test_doubles_and_conflicts_are_listed_and_grouped(project, take):
    given = [TEXTS[0]] * 5 + [TEXTS[1], TEXTS[1], TEXTS[2], TEXTS[3], f"{TEXTS[3]}!"]
    labels = ["yes"] * 5 + ["yes", "no", "yes", "no", "yes"]
    report = take(
        "id,text,t\n" + "".join(
            f"{at},{text},{label}\n" for at, (text, label) in enumerate(zip(given, labels, strict=True))
        ),
        id="id",
        labels={"t": "t"},
    )  # fmt: skip
    assert (report.doubles.exact, report.doubles.near, report.doubles.groups) == (5, 1, 3)
    assert report.doubles.examples == (("0", "1", "2", "3", "4"), ("5", "6"), ("8", "9"))
    assert report.contradiction_count == 1
    assert report.contradictions[0].said == (("5", "yes"), ("6", "no"))
    assert report.rows_taken == 10
    groups = [row.group for row in stored(project).values()]
    assert groups == ["near:0"] * 5 + ["near:5"] * 2 + [None] + ["near:8"] * 2


def test_a_group_column_wins_and_what_it_parts_is_counted(project, take):
    text = f"id,text,g\n1,{TEXTS[0]},a\n2,{TEXTS[0]},b\n3,{TEXTS[0]},\n4,{TEXTS[1]},b\n"
    report = take(text, id="id", group="g")
    assert [row.group for row in stored(project).values()] == ["a", "b", "a", "b"]
    assert (report.doubles.exact, report.doubles.parted) == (2, 1)
    assert any("lie in several groups of the group column" in one for one in report.warnings)
    report = take(f"id,text,g\n1,{TEXTS[0]},a\n2,{TEXTS[0]},a\n", dataset="e", id="id", group="g")
    assert not any("several groups" in one for one in report.warnings)


def lists(project, take, cells, **options):
    text = "id,text,labels\n" + "".join(
        f"{at},{TEXTS[at]},{cell}\n" for at, cell in enumerate(cells)
    )
    report = take(text, id="id", lists="labels", **options)
    return report, [row.labels for row in stored(project).values()]


def test_lists_of_labels(project, take):
    report, labels = lists(project, take, ["billing|refund", " refund |", "", "spam"])
    assert labels == [
        {"billing": True, "refund": True, "spam": False},
        {"billing": False, "refund": True, "spam": False},
        {},
        {"billing": False, "refund": False, "spam": True},
    ]
    assert report.balance["billing"].values == {"no": 2, "yes": 1}
    assert report.balance["billing"].missing == 1


def test_lists_with_another_separator_declared_targets_and_blank_for_none(project, take):
    report, labels = lists(
        project, take, ["billing;refund", "", "typo"],
        separator=";", targets=frozenset({"billing", "refund", "spam"}), blank_is_none=True,
    )  # fmt: skip
    assert labels == [
        {"billing": True, "refund": True, "spam": False},
        {"billing": False, "refund": False, "spam": False},
    ]
    assert report.unknown == {"labels": {"typo": 1}}
    assert "none of the targets declared" in report.refused[0].reason


def test_a_separator_that_is_wrong_shows(project, take):
    many = [f"{at}|".join("ab") for at in range(3)]
    _, labels = lists(project, take, many, separator=";")
    assert set(labels[0]) == set(many)
    text = "id,text,labels\n" + "".join(f"{at},text {at},{at} a\n" for at in range(1_100))
    with pytest.raises(Unusable, match="names more than 1,000 labels; is --separator"):
        take(text, id="id", lists="labels", dataset="e")


def test_json_lines_with_lists_objects_and_broken_characters(project, take):
    lines = [
        {"id": 1, "text": TEXTS[0], "labels": ["a", "b"], "lang": "en"},
        {"id": 2, "text": TEXTS[1], "labels": {"a": False, "b": None}},
        {"id": 3, "text": TEXTS[2], "labels": []},
        {"id": 4, "text": "half \ud800", "labels": ["a"]},
        {"id": 5, "text": ["a"], "labels": ["a"]},
        {"id": 6, "text": TEXTS[3], "labels": "a"},
    ]
    report = take(
        "".join(json.dumps(line) + "\n" for line in lines),
        name="a.jsonl", id="id", lists="labels", slices=("lang",),
    )  # fmt: skip
    assert [(one.line, one.row_id) for one in report.refused] == [(4, "4"), (5, "5")]
    assert "surrogate" in report.refused[0].reason
    found = stored(project)
    assert {id: row.labels for id, row in found.items()} == {
        "1": {"a": True, "b": True},
        "2": {"a": False},
        "3": {"a": False, "b": False},
        "6": {"a": True, "b": False},
    }
    assert found["1"].slices == {"lang": "en"}
    assert found["2"].slices == {}


def test_ids_are_unique_and_lines_where_there_are_none(project, take):
    report = take(
        f"id,text\n1,{TEXTS[0]}\n2,{TEXTS[1]}\n1,{TEXTS[2]}\n,{TEXTS[3]}\n5,  \n", id="id"
    )
    assert [(one.line, one.row_id, one.reason) for one in report.refused] == [
        (5, "", "column 'id' is blank; a row has id"),
        (6, "5", "column 'text' is blank; a row has text"),
        (4, "1", "line 2 has this id already; ids are unique"),
    ]
    assert stored(project)["1"].text == TEXTS[0]
    take(f"text\n{TEXTS[0]}\n\n{TEXTS[1]}\n", dataset="e")
    assert list(stored(project, "e")) == ["2", "4"]


def test_everything_else_of_a_row(project, take):
    report = take(
        f"id,text,c,who,lang\n1,{TEXTS[0]}, forum ,Ann,en\n2,{TEXTS[1]},,,\n",
        id="id", context="c", parameters={"name": "who"}, slices=("lang",),
        labels={}, origin=Origin("me", "random", True),
    )  # fmt: skip
    one, two = stored(project).values()
    assert (one.context, one.parameters, one.slices, one.drawn) == (
        "forum", {"name": "Ann"}, {"lang": "en"}, "random",
    )  # fmt: skip
    assert (two.context, two.parameters, two.slices) == (None, {}, {})
    assert report.missing == {"c": 1, "who": 1, "lang": 1}


def test_labels_remember_how_they_came_about(project, take):
    before = datetime.now(UTC).replace(tzinfo=None)
    take(words(["yes"]), id="id", labels={"t": "label"}, origin=Origin("ann", "queue", True))
    with project.open(write=False) as connection:
        found = connection.execute("FROM label").fetchall()
    (dataset, row_id, target, value, annotator, at, drawn, visible, adjudicated) = found[0]
    assert (dataset, row_id, target, value, annotator) == ("d", "r0", "t", "yes", "ann")
    assert (drawn, visible, adjudicated) == ("queue", True, False)
    assert before <= at <= datetime.now(UTC).replace(tzinfo=None)


def test_appended_rows_join_the_groups_that_are_there(project, take):
    take(f"id,text\n1,{TEXTS[0]}\n2,{TEXTS[1]}\n", id="id")
    before = data_digest(project, "d")
    with project.open(write=True) as connection:
        connection.execute("UPDATE item SET split = 'test'")
    report = take(f"id,text\n2,{TEXTS[2]}\n3,{TEXTS[0]}!\n", id="id", append=True)
    assert report.refused[0].reason == "a row of the dataset has this id already; ids are unique"
    found = stored(project)
    assert list(found) == ["1", "2", "3"]
    assert {id: row.group for id, row in found.items()} == {"1": "near:1", "2": None, "3": "near:1"}
    assert report.digest == data_digest(project, "d") != before
    with pytest.raises(Unusable, match="there already; --append"):
        take("text\nx\n")
    with pytest.raises(Unusable, match="no dataset 'e' to --append to"):
        take("text\nx\n", dataset="e", append=True)


def test_a_dry_run_and_a_strict_one_write_nothing(project, take):
    text = f"id,text,t\n1,{TEXTS[0]},yes\n2,{TEXTS[0]},maybe\n"
    dry = take(text, id="id", labels={"t": "t"}, dry_run=True)
    assert (dry.rows_taken, dry.refused_count, dry.balance["t"].values) == (0, 1, {"yes": 1})
    strict = take(text, id="id", labels={"t": "t"}, strict=True)
    assert strict.rows_taken == 0
    assert "--strict: rows were refused, and nothing was written" in strict.warnings
    with project.open(write=False) as connection:
        for table in ("dataset", "item", "label"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchall() == [(0,)]
    assert take(text, id="id", labels={"t": "t"}).rows_taken == 1
    assert [one.suffix for one in project.path.parent.iterdir() if one.suffix == ".part"] == []


def test_nothing_to_take_is_an_error_and_a_column_of_texts_is_no_label(project, take):
    with pytest.raises(Unusable, match="none of 1 rows can be taken; line 2: it has 1 cells"):
        take("id,text\n1\n", id="id")
    with pytest.raises(Unusable, match="none of 0 rows can be taken"):
        take("id,text\n", id="id")
    many = "id,text,t\n" + "".join(f"{at},text {at},class {at}\n" for at in range(1_001))
    with pytest.raises(Unusable, match="more than 1,000 classes; is it a label"):
        take(many, id="id", labels={"t": "t"}, classes=frozenset({"t"}))
    with pytest.raises(Unusable, match="--classes other: there is no --label other"):
        take(words(), id="id", labels={"t": "label"}, classes=frozenset({"other"}))
    with project.open(write=False) as connection:
        assert connection.execute("SELECT count(*) FROM item").fetchall() == [(0,)]


def test_a_file_in_another_encoding_says_so(project, take):
    report = take("id,text\n1,für alle\n", id="id", encoding="cp1252")
    assert "read as Windows-1252" in report.notes[0]
    assert stored(project)["1"].text == "für alle"


def test_two_processes_import_into_one_project(project, tmp_path, root):
    (tmp_path / "a.csv").write_text(
        "id,text\n" + "".join(f"{n},text {n * 7919}\n" for n in range(500))
    )

    def start(dataset):
        command = [
            sys.executable,
            "-m",
            "spinf_serve",
            "data",
            "import",
            str(project.path),
            dataset,
        ]
        return start_process(root, [*command, str(tmp_path / "a.csv"), "--id", "id"])

    started = [start(dataset) for dataset in ("same", "same", "other")]
    ended = [(*process.communicate(timeout=100), process.returncode) for process in started]
    assert sorted(code for *_, code in ended[:2]) == [0, 2]
    refused = next(err for _, err, code in ended if code)
    assert refused.endswith("error: dataset 'same' is there already; --append adds rows to it\n")
    assert ended[2][2] == 0
    assert [len(stored(project, dataset)) for dataset in ("same", "other")] == [500, 500]


STAGED = """
import sys, time
import duckdb
connection = duckdb.connect(sys.argv[1])
print("held", flush=True)
time.sleep(60)
"""


def test_what_killed_imports_left_is_taken_away_and_others_files_stay(project, take, root):
    folder, name = project.path.parent, project.path.name
    left = folder / f".{name}.1-aa.staging"
    duckdb.connect(str(left)).close()
    broken = folder / f".{name}.1-bb.staging"
    broken.write_bytes(b"half a header")
    (folder / f".{name}.1-aa.staging.wal").write_bytes(b"")
    (folder / f".{name}.1-aa.staging.tmp").mkdir()
    other = folder / ".other.duckdb.1-aa.staging"
    other.write_bytes(b"")
    running = folder / f".{name}.1-cc.staging"
    holder = start_process(root, [sys.executable, "-c", STAGED, str(running)])
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        take(f"id,text\n1,{TEXTS[0]}\n", id="id")
    finally:
        holder.kill()
        holder.communicate()
    assert sorted(path.name for path in folder.glob(".*.staging*")) == sorted(
        [other.name, running.name]
    )


WAITING = """
import sys, time
from pathlib import Path
from spinf_serve.evals.data.staging import staging
from spinf_serve.evals.project import Project
with staging(Project(Path(sys.argv[1]))) as stage:
    stage.close()
    print(stage.path, flush=True)
    time.sleep(60)
"""


def test_an_import_that_waits_for_its_turn_keeps_its_file(project, take, root):
    waiting = start_process(root, [sys.executable, "-c", WAITING, str(project.path)])
    try:
        assert waiting.stdout is not None
        file = Path(waiting.stdout.readline().strip())
        assert file.exists()
        take(f"id,text\n1,{TEXTS[0]}\n", id="id")
        assert file.exists()
    finally:
        waiting.kill()
        waiting.communicate()
    take(f"id,text\n2,{TEXTS[1]}\n", id="id", append=True)
    assert not list(project.path.parent.glob(".*.staging*"))


def test_a_row_may_be_about_a_file_in_place_of_a_text(project, take):
    report = take(
        "id,text,image,t\n"
        f"1,,https://host/a/img_0001.png,yes\n2,,https://host/a/img_0002.png,no\n"
        f"3,{TEXTS[0]},,yes\n4,,,no\n5,{TEXTS[1]},b.png,no\n6,,https://host/a/img_0001.png,yes\n",
        id="id",
        media="image",
        labels={"t": "t"},
    )
    assert (report.rows_read, report.rows_taken) == (6, 4)
    assert [one.row_id for one in report.refused] == ["4", "5"]
    assert "'text' and 'image' are blank" in report.refused[0].reason
    assert "both filled" in report.refused[1].reason
    found = stored(project)
    assert [(row.text, row.media) for row in found.values()] == [
        ("", "https://host/a/img_0001.png"),
        ("", "https://host/a/img_0002.png"),
        (TEXTS[0], None),
        ("", "https://host/a/img_0001.png"),
    ]
    # Neighbours by name have nothing in common; the same file is the same.
    assert [row.group for row in found.values()] == ["near:1", None, None, "near:1"]
    more = take("id,image\n7,https://host/a/img_0002.png\n", id="id", text=None, media="image",
                append=True)  # fmt: skip
    assert more.doubles.groups == 2
    assert stored(project)["7"].group == stored(project)["2"].group == "near:2"


def test_a_dataset_without_any_column_of_contents_is_refused(take):
    with pytest.raises(Unusable, match="neither --text nor --media"):
        take("id\n1\n", id="id", text=None)
