"""Names that are no text, and what is no file: refused with words, and nothing is waited for."""

import os
from pathlib import Path

import pytest

from spinf_serve.evals.data.columns import Columns, Origin
from spinf_serve.evals.data.decision_log import is_decision_log
from spinf_serve.evals.data.importing import import_rows
from spinf_serve.evals.data.readers import Source
from spinf_serve.evals.project import Project, create
from spinf_serve.packs.errors import Unusable


def test_a_named_pipe_is_no_decision_log_and_is_not_waited_for(tmp_path):
    pipe = tmp_path / "rows.csv"
    os.mkfifo(pipe)
    assert not is_decision_log(pipe)


def test_a_project_in_a_folder_whose_name_is_no_text(tmp_path):
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/w\xff"))
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    for use in (lambda: create(folder / "p.duckdb"), lambda: open_at(folder / "p.duckdb")):
        with pytest.raises(Unusable, match="a name on its path is not UTF-8; rename it"):
            use()


def open_at(path):
    with Project(path).open(write=False):
        pass


def test_a_dataset_whose_name_is_no_text(tmp_path):
    (tmp_path / "a.csv").write_text("text\nhello\n")
    project = create(tmp_path / "p.duckdb")
    with pytest.raises(Unusable, match="its name is no text in UTF-8"):
        import_rows(project, "b\udcff", Source(tmp_path / "a.csv"), Columns("text"), Origin())
