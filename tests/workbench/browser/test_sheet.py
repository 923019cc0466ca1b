"""A sheet without labels in a real browser: uploaded, decided, reloaded in the middle, downloaded."""

import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spinf_serve.workbench.desk import open_desk
from spinf_serve.workbench.jobs import Job, jobs, wait
from tests.workbench.browser.conftest import ROOT, Workbench, running

TOKEN = "trusted-1"
SECONDS = 90
STEP_SECONDS = "0.6"
"""Of a pass: slow enough that a reload falls into the middle."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a slow server on recorded answers."""
    command = [sys.executable, "-m", "tests.support.recorded_server"]
    process = subprocess.Popen(
        [*command, str(tmp_path_factory.mktemp("packs")), TOKEN, STEP_SECONDS],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where a project is made; its jobs end with the test."""
    yield tmp_path / "project"
    for one in jobs(open_desk(tmp_path / "project")):
        if one.is_live and one.pid is not None:
            os.kill(one.pid, signal.SIGKILL)


def the_job(folder: Path, done: int = 0) -> Job:
    """The one sheet's job once it has decided so many rows."""
    until = time.monotonic() + SECONDS
    while True:
        found = jobs(open_desk(folder), "sheet")
        if found and found[0].done >= done:
            return found[0]
        assert time.monotonic() < until, found
        time.sleep(0.05)


def upload(page: Any, bench: Workbench) -> None:
    page.get_by_role("heading", name="Run", exact=True).wait_for()
    sheet = bench.folder / "sheets" / "new-messages.csv"
    page.locator("input[type=file]").set_input_files(str(sheet))
    page.get_by_role("heading", name="new-messages.csv").wait_for()


def download(page: Any, to: Path) -> list[dict[str, str]]:
    with page.expect_download() as caught:
        page.get_by_role("button", name="Download new-messages.decided.csv").click()
    caught.value.save_as(to)
    return list(csv.DictReader(to.read_text().splitlines()))


def test_a_sheet_survives_a_reload_and_the_end_of_the_workbench(
    chromium: Any, server: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPINF_TOKEN", TOKEN)
    with running(folder, chromium, "--server", server) as bench:
        with bench.tab("run", mode="sheet") as page:
            upload(page, bench)
            # Uploaded, and not started: a reload has the sheet still.
            page.reload()
            page.get_by_role("heading", name="new-messages.csv").wait_for()
            page.get_by_role("button", name="Decide 77 rows").click()
            page.get_by_role("button", name="Stop the run").wait_for()
            page.reload()
            page.get_by_role("button", name="Stop the run").wait_for()
            page.get_by_text("Time left").wait_for()
            address = page.url
        begun = the_job(folder, 7)
        assert begun.is_live
        assert TOKEN not in address
        assert bench.faults == []
    # The workbench has ended; the job has not, and is found by the next one.
    assert the_job(folder).state in ("running", "done")
    with running(folder, chromium, "--server", server) as bench:
        with bench.tab("run", mode="sheet", sheet=begun.id) as page:
            page.get_by_role("button", name="Download new-messages.decided.csv").wait_for(
                timeout=SECONDS * 1000
            )
            rows = download(page, tmp_path / "down.csv")
            page.get_by_text("Not flagged").first.wait_for()
        assert bench.faults == []
    assert wait(open_desk(folder), begun.id, SECONDS).state == "done"
    sheet = folder / "sheets" / "new-messages.csv"
    before = list(csv.DictReader(sheet.read_text().splitlines()))
    assert [row["message"] for row in rows] == [row["message"] for row in before]
    assert {row["spinf_decision"] for row in rows} == {"safe", "unsafe"}
    assert all(row["spinf_reason"] and row["spinf_route"] for row in rows)


def test_a_stopped_sheet_goes_on(
    chromium: Any, server: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPINF_TOKEN", TOKEN)
    with running(folder, chromium, "--server", server) as bench:
        with bench.tab("run", mode="sheet") as page:
            upload(page, bench)
            page.get_by_role("button", name="Decide 77 rows").click()
            page.get_by_role("button", name="Stop the run").wait_for()
            the_job(folder, 3)
            page.get_by_role("button", name="Stop the run").click()
            # Also in the list of earlier runs below, where it is folded in.
            page.get_by_role("button", name="Go on").first.wait_for()
            assert the_job(folder).state == "stopped"
            page.get_by_role("button", name="Go on").first.click()
            page.get_by_role("button", name="Download new-messages.decided.csv").wait_for(
                timeout=SECONDS * 1000
            )
            assert len(download(page, tmp_path / "down.csv")) == 77
        assert bench.faults == []
    result = the_job(folder).result()
    assert result is not None and result["reused"] >= 3
