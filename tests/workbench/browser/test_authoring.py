"""A new author from the first visit to a decision that a running server makes, in a real browser.

The server answers from the example's recording, so that only what is edited is asked. Once with the
text of the pack, once with forms only.
"""

import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from spinf_serve.packs.loader import load_pack
from spinf_serve.packs.pack import Pack
from spinf_serve.workbench import audit
from spinf_serve.workbench.desk import open_desk
from spinf_serve.workbench.example import WRONG
from tests.support.processes import start_process
from tests.support.recorded_engine import recording
from tests.workbench.browser.charts import click_point
from tests.workbench.browser.conftest import ROOT, Workbench, running
from tests.workbench.browser.test_editor import go_to, until

TOKEN = "a-token-for-tests"
CASE = "Support has to open a case"
QUESTIONS, PROMPTS = 33, 34
SERVED_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Desk:
    """A workbench, and the server that it asks and that serves its packs."""

    bench: Workbench
    server: str

    @property
    def file(self) -> Path:
        """Of the example's pack."""
        return self.bench.folder / "packs" / "triage" / "pack.yaml"

    def case(self, text: str) -> dict[str, Any] | None:
        """What the server says of a text; None while it does not decide by the pack."""
        body = {
            "messages": [{"role": "user", "content": text}],
            "scoring": {"packs": [{"id": "example/triage"}]},
        }
        answer = httpx.post(
            f"{self.server}/v1/score", json=body, headers={"Authorization": f"Bearer {TOKEN}"}
        )
        if answer.status_code != 200:
            return None
        found = answer.json()["results"][0]["packs"][0]
        case: dict[str, Any] | None = found.get("categories", {}).get("case")
        return case


@pytest.fixture
def desk(chromium, tmp_path: Path) -> Iterator[Desk]:
    folder = open_desk(tmp_path / "project").folder
    words = ["-m", "tests.support.recorded_server", str(folder / "packs"), TOKEN]
    server = start_process(ROOT, [sys.executable, *words])
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        with running(folder, chromium, "--server", url, "--token", TOKEN) as bench:
            yield Desk(bench, url)
            assert bench.faults == []
    finally:
        server.terminate()
        server.communicate(timeout=20)


def between(desk: Desk) -> str:
    """A text that the example's cut flags, and one at 90 % precision does not."""
    project = open_desk(desk.bench.folder).project
    with project.open(write=False) as connection:
        texts = connection.execute("SELECT text FROM item ORDER BY number LIMIT 200").fetchall()
    for (text,) in texts:
        found = desk.case(text)
        if found is not None and found["flagged"] and found["score"] < 0.7:
            return str(text)
    raise AssertionError("no text scores between the two cuts")


def run_what_is_new(page: Page) -> None:
    page.get_by_role("link", name="Run").click()
    page.get_by_role("button", name=re.compile("^play_arrow Ask|Ask .* answers")).click()
    expect(page.get_by_text("All answers are kept already")).to_be_visible()
    expect(page.get_by_text("1,200", exact=True).first).to_be_visible()
    expect(page.get_by_text("19,200", exact=True).first).to_be_visible()


def fix_the_wrong_label(page: Page) -> None:
    (row,) = (row for row, (target, _) in WRONG.items() if target == "case")
    page.get_by_role("link", name="Scores").click()
    # What the customer wants says best whether there is a case.
    page.get_by_role("combobox", name=re.compile("Look at")).click()
    page.get_by_role("option", name=re.compile("^wants")).click()
    expect(page.get_by_text("Mean p: yes, no")).to_be_visible()
    click_point(page, row)
    expect(page.get_by_text(f"Row {row}")).to_be_visible()
    label = page.get_by_test_id("stButtonGroup").filter(has_text=f"Label: {CASE}")
    label.get_by_role("radio", name="yes").or_(label.get_by_role("button", name="yes")).click()
    expect(page.get_by_text(f"Row {row}: case is yes now")).to_be_visible()
    assert f"row={row}" in page.url


def certify_and_save(page: Page) -> None:
    page.get_by_role("link", name="Thresholds").click()
    page.get_by_text("Certify", exact=True).first.click()
    page.get_by_role("button", name="Put into the table").click()
    expect(page.get_by_text("What is certified")).to_be_visible()
    page.get_by_role("button", name=re.compile("Certify$")).last.click()
    save = page.get_by_role("button", name="Save into the pack")
    expect(save).to_be_enabled(timeout=120_000)
    expect(page.get_by_text("Precision 0.9 holds at the cut")).to_be_visible()
    save.click()
    expect(page.get_by_text("The cuts are in force")).to_be_visible()


def check_the_end(desk: Desk, before: str, text: str) -> Pack:
    """What lies on the disk, and what the server decides."""
    written = desk.file.read_text()
    comments = [line for line in before.splitlines() if line.lstrip().startswith("#")]
    assert [line for line in written.splitlines() if line.lstrip().startswith("#")] == comments
    pack = load_pack(desk.file)
    constants = pack.constants((recording().header.model,))
    assert constants is not None
    cut = constants.categories["case"].threshold
    assert cut is not None and cut > 0.7
    assert constants.proof is not None
    promise = constants.proof["promises"]["case"]
    assert (promise["target"], promise["value"], promise["cut"]) == ("precision", 0.9, cut)
    until_served = time.monotonic() + SERVED_SECONDS
    while (found := desk.case(text)) is None or found["flagged"]:
        assert time.monotonic() < until_served, found
        time.sleep(0.2)
    assert 0.5 < found["score"] < cut
    done = {event.action for event in audit.events(open_desk(desk.bench.folder))}
    assert {"save pack", "start run", "start fit"} <= done
    assert any("label" in action for action in done)
    return pack


def edit_the_text(page: Page) -> None:
    go_to(page, "The caller reports an")
    page.keyboard.type(" {F}")
    expect(page.get_by_text("and no values for it; write")).to_be_visible()
    expect(page.get_by_text(re.compile("Line \\d+, column \\d+")).first).to_be_visible()
    go_to(page, "options: [emergency, order]")
    page.keyboard.press("Enter")
    page.keyboard.type("for: {F: [urgent, dangerous]}")
    expect(page.get_by_text("and no values for it; write")).to_have_count(0)
    page.keyboard.press("Control+s")
    until(page, "^Saved")


def edit_the_form(page: Page) -> None:
    page.get_by_role("tab", name="Form").click()
    page.get_by_placeholder("Search questions").fill("emergency")
    page.keyboard.press("Enter")
    expect(page.get_by_text("topic", exact=True)).to_have_count(0)
    page.get_by_text("emergency", exact=True).first.click()
    wording = page.get_by_role("textbox", name="Wording")
    expect(wording).to_have_value("The caller reports an{?}")
    wording.fill("The caller reports an {F}{?}")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("and no values for it; write").first).to_be_visible()
    page.get_by_role("textbox", name="Values of {F}").fill("urgent\ndangerous")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("and no values for it; write")).to_have_count(0)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved packs/triage/pack.yaml")).to_be_visible()


@pytest.mark.parametrize("edit", [edit_the_text, edit_the_form])
def test_from_the_first_visit_to_a_decision_in_force(desk: Desk, edit: Callable[[Page], None]):
    before = desk.file.read_text()
    text = between(desk)
    with desk.bench.tab() as page:
        edit(page)
        page.get_by_role("tab", name="Grid and cost").click()
        expect(page.get_by_text(f"{PROMPTS} filled templates")).to_be_visible()
        run_what_is_new(page)
        fix_the_wrong_label(page)
        certify_and_save(page)
    pack = check_the_end(desk, before, text)
    assert len(pack.questions) == QUESTIONS
    (question,) = (one for one in pack.questions if one.id == "emergency")
    assert [prompt.values["F"] for prompt in question.prompts] == ["urgent", "dangerous"]
