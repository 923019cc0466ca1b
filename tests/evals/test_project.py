"""The project file: turns between processes and threads, one transaction a write, old and new files."""

import random
import subprocess
import sys
import threading
import time

import duckdb
import pytest

from spinf_serve.evals.project import Project, create
from spinf_serve.packs.errors import Unusable
from tests.support.processes import start_process

WRITER = """
import sys
from pathlib import Path
from spinf_serve.evals.project import Project
project, name = Project(Path(sys.argv[1])), sys.argv[2]
for number in range(int(sys.argv[3])):
    with project.open(write=True) as connection:
        connection.execute("INSERT INTO prompt (digest, options) VALUES (?, 2)", [f"{name}{number}"])
"""
HOLDER = """
import sys, time
from pathlib import Path
from spinf_serve.evals.project import Project
with Project(Path(sys.argv[1])).open(write=sys.argv[2] == "write"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def project(tmp_path):
    return create(tmp_path / "p.duckdb")


def digests(project):
    with project.open(write=False) as connection:
        return [one for (one,) in connection.execute("SELECT digest FROM prompt").fetchall()]


def add(project, digest):
    with project.open(write=True) as connection:
        connection.execute("INSERT INTO prompt (digest, options) VALUES (?, 2)", [digest])


def test_two_processes_and_a_reader_lose_no_write(project, root):
    command = [sys.executable, "-c", WRITER, str(project.path)]
    writers = [start_process(root, [*command, name, "25"]) for name in ("a", "b")]
    seen = [len(digests(project)) for _ in range(20)]
    for writer in writers:
        assert writer.communicate(timeout=100)[1] == ""
        assert writer.returncode == 0
    assert seen == sorted(seen)
    wanted = sorted(f"{name}{number}" for name in "ab" for number in range(25))
    assert sorted(digests(project)) == wanted
    with project.open(write=False) as connection:
        ids = connection.execute("SELECT count(DISTINCT id) FROM prompt").fetchall()
    assert ids == [(50,)]


def test_threads_of_one_process_write_one_after_another(project):
    def work():
        for _ in range(3):
            # What is read in a write is still so when it commits.
            with project.open(write=True) as connection:
                (count,) = connection.execute("SELECT count(*) FROM prompt").fetchall()[0]
                time.sleep(0.01)
                connection.execute(
                    "INSERT INTO prompt (digest, options) VALUES (?, 2)", [str(count)]
                )
            digests(project)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, digests(project))) == list(range(12))


@pytest.mark.parametrize(("theirs", "mine"), [("write", False), ("write", True), ("read", True)])
def test_who_waits_too_long_is_told_for_whom(project, root, theirs, mine):
    holder = start_process(root, [sys.executable, "-c", HOLDER, str(project.path), theirs])
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        began = time.monotonic()
        with (
            pytest.raises(Unusable, match="in use") as raised,
            Project(project.path, 0.3).open(write=mine),
        ):
            pass
        assert 0.3 <= time.monotonic() - began < 10
        if (theirs, mine) != ("write", True):
            assert f"process {holder.pid}" in str(raised.value)
        if theirs == "read":
            assert digests(project) == []
    finally:
        holder.kill()
        holder.communicate()
    # What a killed process held is free, and its file sound.
    add(project, "later")
    assert digests(project) == ["later"]


def test_a_write_that_fails_leaves_nothing(project):
    add(project, "before")
    with pytest.raises(KeyError), project.open(write=True) as connection:
        connection.execute("DELETE FROM prompt")
        raise KeyError
    with pytest.raises(duckdb.ConstraintException), project.open(write=True) as connection:
        connection.execute("INSERT INTO prompt (digest, options) VALUES ('x', 2)")
        connection.execute("INSERT INTO prompt VALUES (1, 'again', 2)")
    assert digests(project) == ["before"]


def test_reading_cannot_write(project):
    with pytest.raises(duckdb.InvalidInputException), project.open(write=False) as connection:
        connection.execute("DELETE FROM prompt")


def test_what_is_no_project_is_said(tmp_path):
    def said(path, write=False):
        with pytest.raises(Unusable) as raised, Project(path).open(write=write):
            pass
        return str(raised.value)

    assert "is not there; make one with" in said(tmp_path / "none")
    assert "is no file" in said(tmp_path)
    (tmp_path / "text").write_text("text" * 5000)
    assert "not a DuckDB file" in said(tmp_path / "text")
    with duckdb.connect(str(tmp_path / "other")) as other:
        other.execute("CREATE TABLE mine (a INTEGER)")
    assert "something else" in said(tmp_path / "other")
    assert "something else" in said(tmp_path / "other", write=True)
    with create(tmp_path / "new").open(write=True) as connection:
        connection.execute("UPDATE spinf_project SET version = 99")
    assert "newer spinf-serve" in said(tmp_path / "new")


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.json"])
@pytest.mark.parametrize("write", [False, True])
def test_a_table_in_another_format_is_no_project(tmp_path, name, write):
    path = tmp_path / name
    path.write_text("id,text\n1,hello\n")
    with pytest.raises(Unusable, match="no project"), Project(path).open(write=write):
        pass
    assert path.read_text() == "id,text\n1,hello\n"


def test_damage_is_said_when_it_is_opened_and_when_it_is_read(project):
    text = random.Random(0).randbytes(2000).hex()  # What repeats is kept compressed.
    add(project, text)
    whole = project.path.read_bytes()
    header, first_block = 4096, 3 * 4096
    row = whole.rindex(text[1000:1040].encode())
    for place in (header + 100, first_block + 100, row):
        project.path.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        with pytest.raises(Unusable, match="is damaged: Corrupt database file.*a new project"):
            digests(project)
    with pytest.raises(Unusable, match="is damaged"):
        project.rewrite()
    project.path.write_bytes(whole)
    assert digests(project) == [text]


def test_an_empty_database_becomes_a_project_by_reading(tmp_path):
    duckdb.connect(str(tmp_path / "p")).close()
    assert digests(Project(tmp_path / "p")) == []


def test_creating_replaces_nothing_and_leaves_nothing_else(tmp_path):
    (tmp_path / "there").write_text("mine")
    with pytest.raises(Unusable, match="there already"):
        create(tmp_path / "there")
    with pytest.raises(Unusable, match="cannot be made"):
        create(tmp_path / "none" / "p")
    create(tmp_path / "p")
    assert {one.name for one in tmp_path.iterdir()} == {"there", "p"}


def test_rewriting_keeps_everything_but_what_was_deleted(project):
    for name in ("kept", "secret-that-was-deleted"):
        add(project, name)
    with project.open(write=True) as connection:
        connection.execute("DELETE FROM prompt WHERE digest LIKE 'secret%'")
    assert b"secret-that-was-deleted" in project.path.read_bytes()
    project.rewrite()
    assert b"secret-that-was-deleted" not in project.path.read_bytes()
    add(project, "more")
    with project.open(write=False) as connection:
        found = connection.execute("SELECT id, digest FROM prompt ORDER BY id").fetchall()
    assert found == [(1, "kept"), (3, "more")]
    assert [one.name for one in project.path.parent.iterdir()] == ["p.duckdb"]


def test_a_body_s_own_time_out_is_not_taken_for_a_busy_project(project):
    with pytest.raises(TimeoutError, match="mine"), project.open(write=True):
        raise TimeoutError("mine")


def test_loading_evals_data_needs_no_torch(root):
    code = "import sys, spinf_serve.evals.data.importing; print('torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, check=True)
    assert ran.stdout == b"False\n"


@pytest.mark.parametrize(("theirs", "mine"), [("write", False), ("write", True)])
def test_who_waits_is_told_meanwhile(project, root, monkeypatch, theirs, mine):
    monkeypatch.setattr("spinf_serve.evals.project.TELL_SECONDS", 0.2)
    holder = start_process(root, [sys.executable, "-c", HOLDER, str(project.path), theirs])
    lines: list[str] = []
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with (
            pytest.raises(Unusable, match="in use"),
            Project(project.path, wait_seconds=1.0, say=lines.append).open(write=mine),
        ):
            pass
    finally:
        holder.kill()
        holder.communicate()
    assert len(lines) == 1
    assert f"process {holder.pid} " in lines[0] and "waiting for project" in lines[0]
