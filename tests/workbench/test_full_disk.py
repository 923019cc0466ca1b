"""The workbench on a disk without room: nothing is torn, and work goes on afterwards."""

import io
import json

import pytest

from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench import audit
from spinf_serve.workbench.actions import uploads
from spinf_serve.workbench.desk import Desk
from spinf_serve.workbench.job import Running
from tests.support.disks import files_up_to


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path, tmp_path / "project.duckdb")


def test_a_line_of_the_trail_is_there_whole_or_not_at_all(desk):
    audit.note(desk, "ann", "first", "one")
    with files_up_to(200), pytest.raises(Unusable, match="The change itself"):
        audit.note(desk, "ann", "second", "x" * 1_000)
    audit.note(desk, "ann", "third", "three")
    lines = (desk.folder / audit.AUDIT_FILE).read_text().splitlines()
    assert [json.loads(line)["action"] for line in lines] == ["first", "third"]


def test_a_line_behind_one_that_was_cut_is_not_lost(desk):
    (desk.folder / audit.AUDIT_FILE).write_text('{"at": "2026-')
    audit.note(desk, "ann", "label", "row")
    assert [event.action for event in audit.events(desk)] == ["label"]


def test_a_file_that_cannot_be_kept_leaves_no_part_of_it(desk):
    for size in (0, 20, 10_000):
        with files_up_to(size), pytest.raises(Unusable, match="make room"):
            uploads.keep_file(desk, "ann", "mails.csv", io.BytesIO(b"x" * 50_000))
    with files_up_to(20), pytest.raises(Unusable, match="make room"):
        # It fits, and what is told about it does not.
        uploads.keep_file(desk, "ann", "mails.csv", io.BytesIO(b"text"))
    assert list(desk.below("uploads").iterdir()) == []


def test_settings_that_cannot_be_kept_stay_as_they_were(desk):
    desk.set(per_day=100)
    with files_up_to(5), pytest.raises(Unusable, match="settings cannot be kept"):
        desk.set(per_day=200)
    assert desk.settings() == {"per_day": 100}


def test_a_run_goes_on_when_its_progress_cannot_be_written(tmp_path):
    report = Running(tmp_path)
    with files_up_to(5):
        report.progress(1, 2, "half")
    report.write()
    assert json.loads((tmp_path / "status.json").read_text())["done"] == 1
