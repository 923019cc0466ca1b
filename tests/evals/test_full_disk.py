"""A disk without room: nothing is lost or torn, what is wrong is said, and work goes on afterwards."""

import pytest

from spinf_serve.evals.data.columns import Columns, Origin
from spinf_serve.evals.data.exporting import export_rows
from spinf_serve.evals.data.importing import import_rows
from spinf_serve.evals.data.readers import Source
from spinf_serve.evals.project import create
from spinf_serve.packs.errors import Unusable
from tests.support.disks import files_up_to


@pytest.fixture
def project(tmp_path):
    return create(tmp_path / "p.duckdb")


def insert(project):
    with project.open(write=True) as connection:
        connection.execute(
            "INSERT INTO dataset VALUES ('d', now()::TIMESTAMP, repeat('x', 9000), '')"
        )


def names(project):
    return sorted(path.name for path in project.path.parent.iterdir())


def count(project):
    with project.open(write=False) as connection:
        return connection.execute("SELECT count(*) FROM dataset").fetchall()[0][0]


def test_a_commit_that_finds_no_room_changes_nothing_and_says_what_to_do(project):
    with files_up_to(2_000), pytest.raises(Unusable, match="make room on that disk"):
        insert(project)
    assert count(project) == 0
    insert(project)
    assert count(project) == 1


def test_a_project_written_anew_without_room_leaves_no_texts_beside(project):
    insert(project)
    with files_up_to(2_000), pytest.raises(Unusable, match="cannot be written anew: .* make room"):
        project.rewrite()
    with files_up_to(20_000), pytest.raises(Unusable, match="cannot be written anew: .* make room"):
        project.rewrite()
    assert names(project) == ["p.duckdb"]
    assert count(project) == 1


def test_a_project_is_made_whole_or_not_at_all(tmp_path):
    for size in (0, 5_000):
        with files_up_to(size), pytest.raises(Unusable, match="make room"):
            create(tmp_path / "q.duckdb")
        assert list(tmp_path.iterdir()) == []


def test_rows_on_their_way_find_no_room(project, tmp_path):
    mails = tmp_path / "mails.csv"
    mails.write_text("text\n" + "".join(f"mail {n} {'y' * 100}\n" for n in range(3_000)))
    for size in (0, 5_000, 100_000):
        with files_up_to(size), pytest.raises(Unusable, match="rows cannot be kept|make room"):
            import_rows(project, "d", Source(mails), Columns("text"), Origin())
    assert names(project) == ["mails.csv", "p.duckdb"]
    import_rows(project, "d", Source(mails), Columns("text"), Origin())
    with files_up_to(1_000), pytest.raises(Unusable, match="cannot be written: .* make room"):
        export_rows(project, "d", tmp_path / "out.csv", text=True)
    assert names(project) == ["mails.csv", "p.duckdb"]
