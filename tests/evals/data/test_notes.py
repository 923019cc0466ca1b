"""Notes of annotators: kept by row, target and annotator, gone with the row."""

import pytest

from spinf_serve.evals.data.notes import MAX_NOTE_CHARS, notes_on, put_note
from spinf_serve.evals.data.rows import delete_rows
from spinf_serve.evals.project import create
from spinf_serve.packs.errors import Unusable


@pytest.fixture
def project(tmp_path):
    made = create(tmp_path / "p.duckdb")
    with made.open(write=True) as connection:
        connection.execute("INSERT INTO dataset VALUES ('d', now()::TIMESTAMP, 's', '')")
        connection.execute(
            "INSERT INTO item SELECT 'd', 'r' || i, i, 't', 'x' || i, NULL, '{}', MAP {}, NULL,"
            " NULL, 'random', NULL, NULL FROM range(1, 3) t(i)"
        )
    return made


def notes(project, row_id="r1"):
    with project.open(write=False) as connection:
        return [(one.target, one.annotator, one.text) for one in notes_on(connection, "d", row_id)]


def test_a_note_takes_the_place_of_the_same_annotator_s(project):
    put_note(project, "d", "r1", "spam", "ann", " first ")
    put_note(project, "d", "r1", "spam", "bob", "other")
    put_note(project, "d", "r1", "spam", "ann", "second")
    assert notes(project) == [("spam", "ann", "second"), ("spam", "bob", "other")]
    put_note(project, "d", "r1", "spam", "ann", "  ")
    assert notes(project) == [("spam", "bob", "other")]


def test_a_note_goes_with_its_row_alone(project):
    put_note(project, "d", "r1", "spam", "ann", "one")
    put_note(project, "d", "r2", "spam", "ann", "two")
    delete_rows(project, "d", ["r1"])
    assert (notes(project), notes(project, "r2")) == ([], [("spam", "ann", "two")])


def test_what_cannot_be_kept_is_said(project):
    with pytest.raises(Unusable, match="no row 'gone'"):
        put_note(project, "d", "gone", "spam", "ann", "x")
    with pytest.raises(Unusable, match="shorten"):
        put_note(project, "d", "r1", "spam", "ann", "x" * (MAX_NOTE_CHARS + 1))
    assert notes(project) == []
