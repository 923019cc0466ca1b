"""Rows handed out in batches, digests, deletion everywhere, and export with and without text."""

import csv
import json
from datetime import datetime
from hashlib import sha256

import duckdb
import pytest

from spinf_serve.evals.data.columns import Columns, Origin
from spinf_serve.evals.data.exporting import export_labels, export_rows
from spinf_serve.evals.data.importing import import_rows
from spinf_serve.evals.data.labels import Label, put_labels
from spinf_serve.evals.data.readers import Source
from spinf_serve.evals.data.rows import _windows, data_digest, delete_rows, rows
from spinf_serve.evals.project import create
from spinf_serve.packs.errors import Unusable
from tests.workbench.score_desks import scored

SECRET = "a-text-that-must-be-gone"


@pytest.fixture
def project(tmp_path):
    made = create(tmp_path / "p.duckdb")
    path = tmp_path / "a.csv"
    path.write_text(
        "id,text,t,language\n"
        + "".join(
            f"r{n},text {n * 7919} of mine,{'yes' if n % 3 else 'no'},de\n" for n in range(25)
        )
        + f"gone,{SECRET},yes,\n"
    )
    columns = Columns("text", "id", {"t": "t", 'it\'s "u"': "t"}, slices=("language",))
    for name in ("d", "other"):
        import_rows(made, name, Source(path), columns, Origin())
    return made


def put_split(project, where, split):
    with project.open(write=True) as connection:
        connection.execute(f"UPDATE item SET split = ? WHERE {where}", [split])


@pytest.mark.parametrize("batch", [1, 7, 25, 26, 100])
def test_batches_do_not_matter_and_whoever_reads_may_write(project, batch):
    wanted = list(rows(project, "d"))
    assert [row.id for row in wanted] == [*(f"r{n}" for n in range(25)), "gone"]
    assert wanted[1].labels == {"t": True, 'it\'s "u"': True}
    found = []
    for row in rows(project, "d", batch=batch):
        found.append(row)
        if len(found) % 10 == 1:
            put_split(project, "false", "never")
    assert found == wanted


def test_one_split_only(project):
    put_split(project, "dataset = 'd' AND number % 2 = 0", "test")
    assert [row.id for row in rows(project, "d", split="test", batch=3)] == [
        *(f"r{n}" for n in range(1, 25, 2)), "gone"
    ]  # fmt: skip
    assert list(rows(project, "d", split="none")) == []
    assert list(rows(project, "other", split="test")) == []
    with pytest.raises(Unusable, match="there is no dataset 'e' in the project; it has d, other"):
        next(rows(project, "e"))


def test_the_digest_follows_what_a_fit_follows(project):
    first = data_digest(project, "d")
    assert first == data_digest(project, "other")
    changes = (
        "UPDATE item SET split = 'x' WHERE row_id = 'r1'",
        "UPDATE item SET grp = 'x' WHERE row_id = 'r1'",
        "UPDATE item SET weight = 2 WHERE row_id = 'r1'",
        "UPDATE item SET drawn = 'queue' WHERE row_id = 'r1'",
        "UPDATE label SET value = 'unsure' WHERE row_id = 'r1' AND target = 't'",
    )
    seen = {first}
    for change in changes:
        with project.open(write=True) as connection:
            connection.execute(f"{change} AND dataset = 'd'")
        seen.add(data_digest(project, "d"))
    assert len(seen) == 1 + len(changes)
    assert data_digest(project, "other") == first
    assert data_digest(project, "d", split="x") != data_digest(project, "d")
    with project.open(write=True) as connection:
        connection.execute("UPDATE item SET slices = MAP {}, number = number + 100")
    assert data_digest(project, "other") == first


def test_a_row_is_deleted_everywhere(project):
    digest = sha256(SECRET.encode()).hexdigest()
    with project.open(write=True) as connection:
        connection.execute(
            "INSERT INTO content (id, digest, text_digest) VALUES (1, 'w1', ?), (2, 'w2', ?),"
            " (3, 'w3', 'another')",
            [digest, digest],
        )
        connection.execute(
            "INSERT INTO score SELECT 1, content, 1, [0.0] FROM range(1, 4) t(content)"
        )
        connection.execute(
            "INSERT INTO refusal SELECT 1, content, 1, 'c', 'm' FROM range(1, 4) t(content)"
        )

    def counts():
        with project.open(write=False) as connection:
            return [
                connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]
                for table in ("item", "label", "content", "score", "refusal")
            ]

    assert counts() == [52, 104, 3, 3, 3]
    assert SECRET.encode() in project.path.read_bytes()
    before = data_digest(project, "d")
    assert delete_rows(project, "d", ["gone", "gone"]) == 1
    # The other dataset has the text still, and needs its scores.
    assert counts() == [51, 102, 3, 3, 3]
    assert delete_rows(project, "other", ["gone"]) == 1
    assert counts() == [50, 100, 1, 1, 1]
    assert SECRET.encode() not in project.path.read_bytes()
    assert data_digest(project, "d") != before
    assert [row.id for row in rows(project, "d", batch=5)] == [f"r{n}" for n in range(25)]
    with pytest.raises(Unusable, match="no row 'gone' in 'd'; nothing was deleted"):
        delete_rows(project, "d", ["r1", "gone"])
    assert counts() == [50, 100, 1, 1, 1]


def test_export_without_text(project, tmp_path):
    path = tmp_path / "out.csv"
    assert export_rows(project, "d", path, text=False) == 26
    assert SECRET not in path.read_text()
    with path.open() as file:
        found = list(csv.DictReader(file))
    assert found[-1]["id"] == "gone"
    assert found[-1]["content_digest"] == sha256(SECRET.encode()).hexdigest()
    assert found[0]['label.it\'s "u"'] == "no"
    assert (found[0]["slice.language"], found[-1]["slice.language"]) == ("de", "")


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl", "out.parquet"])
def test_what_is_exported_comes_back_the_same(project, tmp_path, name):
    put_split(project, "number < 9", "fit")
    path = tmp_path / name
    assert export_rows(project, "d", path, text=True) == 26
    columns = Columns("text", "id", {"t": "label.t", "it's \"u\"": "label.it's \"u\""},
                      slices=("slice.language",))  # fmt: skip
    import_rows(project, "back", Source(path), columns, Origin())
    for one, other in zip(rows(project, "d"), rows(project, "back"), strict=True):
        assert (one.id, one.text, one.labels) == (other.id, other.text, other.labels)
        assert list(one.slices.values()) == list(other.slices.values())


def test_a_disputed_label_is_exported_as_blank(project, tmp_path):
    with project.open(write=True) as connection:
        connection.execute(
            "INSERT INTO label SELECT dataset, row_id, target, 'unsure', 'bob', \"at\", drawn,"
            " false, false FROM label WHERE dataset = 'd' AND row_id = 'r1' AND target = 't'"
        )
    path = tmp_path / "out.jsonl"
    export_rows(project, "d", path, text=False)
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["label.t"] for row in found[:3]] == ["no", None, "yes"]
    assert "text" not in found[0]


def test_labels_are_exported_as_they_were_given_and_without_text(project, tmp_path):
    at = datetime(2026, 11, 30, 8, 15)
    put_labels(project, "d", [Label("r1", "t", "no", "bob", at, "queue", True, True)])
    path = tmp_path / "labels.jsonl"
    assert export_labels(project, "d", path) == 2 * 26 + 1
    found = [json.loads(line) for line in path.read_text().splitlines()]
    mine = [one for one in found if (one["id"], one["target"]) == ("r1", "t")]
    assert mine[0] == {
        "id": "r1", "target": "t", "value": "no", "annotator": "bob", "at": "2026-11-30 08:15:00",
        "drawn": "queue", "score_visible": True, "adjudicated": True,
    }  # fmt: skip
    assert (mine[1]["annotator"], mine[1]["value"], mine[1]["drawn"]) == ("import", "yes", "import")
    assert SECRET not in path.read_text()


def test_a_file_that_cannot_be_written_is_said_and_the_old_one_stays(project, tmp_path):
    with pytest.raises(Unusable, match="ends in .csv, .jsonl, .parquet"):
        export_rows(project, "d", tmp_path / "out.doc", text=True)
    with pytest.raises(Unusable, match="cannot be written"):
        export_rows(project, "d", tmp_path / "none" / "out.csv", text=True)
    (tmp_path / "out.csv").mkdir()
    with pytest.raises(Unusable, match="cannot be written"):
        export_rows(project, "d", tmp_path / "out.csv", text=True)
    assert not list(tmp_path.glob(".*.part"))
    duckdb.connect(str(project.path), read_only=True).close()


def test_the_digest_is_the_same_however_many_rows_are_read_at_once(tmp_path, monkeypatch):
    desk = scored(tmp_path / "desk", 333, questions=2)
    for split in (None, "fit"):
        at_once = data_digest(desk.project, "d", split)
        with monkeypatch.context() as patched:
            patched.setattr("spinf_serve.evals.data.rows._DIGESTED", 50)
            with desk.project.open(write=False) as connection:
                assert len(_windows(connection, "d")) > 3
            assert data_digest(desk.project, "d", split) == at_once
