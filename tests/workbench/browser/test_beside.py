"""The command line beside an open page on one project: both write, nothing is lost, nothing breaks."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from spinf_serve.workbench.actions.labelling import labels_on, own_of
from spinf_serve.workbench.desk import open_desk
from tests.support.processes import start_process
from tests.workbench.browser.conftest import ROOT, Workbench

TARGET = "case"
SECONDS = 120


@pytest.fixture
def bench(browser: Workbench) -> Workbench:
    open_desk(browser.folder).set(user="ann", tour={"closed": True})
    return browser


def labelling(folder: Path, row: str, value: str, by: str) -> "subprocess.Popen[str]":
    words = ["data", "label", str(folder / "project.duckdb"), "messages", row, f"{TARGET}={value}"]
    return start_process(ROOT, [sys.executable, "-m", "spinf_serve", *words, "--annotator", by])


def done(process: "subprocess.Popen[str]") -> str:
    out, log = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, log
    assert "Traceback" not in log
    return out


def choice(page: Page, value: str) -> Locator:
    buttons: Any = page.get_by_test_id("stButtonGroup").last
    found: Locator = buttons.get_by_role("radio", name=value, exact=True)
    return found


def said(bench: Workbench, row: str) -> str | None:
    """What Ann says of a row."""
    with open_desk(bench.folder).project.open(write=False) as connection:
        own = own_of(labels_on(connection, "messages", row), TARGET, "ann")
    return None if own is None else own.value


def opened(page: Page) -> None:
    page.get_by_text("Set the label of").wait_for()
    expect(choice(page, "yes")).to_be_visible()


def test_labels_of_both_are_kept_and_shown_and_a_conflict_is_told(bench: Workbench) -> None:
    with bench.tab("data", part="rows", row="t0004") as page:
        opened(page)
        # Somebody says otherwise behind the page's back.
        done(labelling(bench.folder, "t0004", "yes", "ann"))
        choice(page, "no").click()
        expect(page.get_by_text(re.compile("changed elsewhere meanwhile")).first).to_be_visible()
        assert said(bench, "t0004") == "yes"
        page.reload()
        opened(page)
        expect(choice(page, "yes")).to_be_checked()
        # At the same time: the command for another row, the page for this one.
        beside = labelling(bench.folder, "t0006", "yes", "ann")
        choice(page, "no").click()
        done(beside)
        page.reload()
        opened(page)
        expect(choice(page, "no")).to_be_checked()
        assert (said(bench, "t0004"), said(bench, "t0006")) == ("no", "yes")
        assert page.get_by_test_id("stException").count() == 0


def test_the_command_on_the_page_judges_as_the_page_does(bench: Workbench) -> None:
    with bench.tab("report") as page:
        verdict = page.get_by_text(re.compile("exit code \\d")).first
        measure = page.get_by_role("button", name=re.compile("Measure")).first
        # Labels were changed above, so that what was measured is of rows before that.
        verdict.or_(measure).first.wait_for()
        if measure.is_visible():
            measure.click()
        told = verdict.inner_text()
        command = page.get_by_test_id("stCode").filter(has_text="spinf-serve eval").first
        words = shlex.split(command.inner_text())
        bits = page.get_by_text(re.compile("--bits [0-9a-f]{12}")).first.inner_text()
    assert words[:2] == ["spinf-serve", "eval"]
    # As the caption says: the scores of the page, so that no model is asked.
    given = re.findall("--bits ([0-9a-f]{12})", bits)
    ran = subprocess.run(
        [sys.executable, "-m", "spinf_serve", *words[1:], "--bits", given[0]],
        check=False,
        cwd=bench.folder,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert f"exit code {ran.returncode}" in told, ran.stderr
    assert "Traceback" not in ran.stderr
    assert (bench.folder / "report.xml").is_file()
