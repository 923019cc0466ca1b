"""The editor in a real browser: nothing that is typed is lost, and what it offers can be taken."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from spinf_serve.workbench.actions.drafts import draft_of
from spinf_serve.workbench.desk import Desk

WAIT_MS = 30_000


@pytest.fixture(autouse=True)
def _patience() -> None:
    expect.set_options(timeout=WAIT_MS)


def name_of(browser, file: Path) -> str:
    return file.relative_to(browser.folder).as_posix()


def draft(browser, file: Path) -> str:
    return draft_of(Desk(browser.folder, browser.folder / "project.duckdb"), file).text


def content(page: Page):
    return page.locator(".cm-content")


def text_in(page: Page) -> str:
    """All of the editor's text, also what is scrolled away."""
    found: str = page.evaluate(
        "() => document.querySelector('.cm-content').cmTile.view.state.doc.toString()"
    )
    return found


def until(page: Page, words: str) -> None:
    """Wait until the editor says so."""
    expect(page.locator(".spinf-editor-status")).to_have_text(re.compile(words))


def go_to(page: Page, words: str, *, end: bool = True) -> None:
    """Put the cursor behind the first place with such words, with the keyboard."""
    content(page).click()
    page.keyboard.press("Control+Home")
    page.keyboard.press("Control+f")
    page.keyboard.type(words)
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    expect(page.locator(".cm-search")).to_have_count(0)
    page.keyboard.press("ArrowRight" if end else "ArrowLeft")


def test_typed_text_becomes_the_draft_and_is_saved_with_the_keyboard(browser):
    file = browser.pack("typed")
    before = file.read_text()
    with browser.tab(pack=name_of(browser, file)) as page:
        go_to(page, "name: Support triage")
        page.keyboard.type(" desk")
        until(page, "Draft kept")
        after = before.replace("name: Support triage", "name: Support triage desk", 1)
        assert draft(browser, file) == after
        assert file.read_text() == before
        page.keyboard.type("s")
        page.keyboard.press("Control+s")
        until(page, "^Saved")
        assert file.read_text() == after.replace("triage desk", "triage desks", 1)


def test_a_slip_is_underlined_and_its_fix_taken(browser):
    file = browser.pack("slip")
    with browser.tab(pack=name_of(browser, file)) as page:
        go_to(page, "category: urgent")
        page.keyboard.press("Backspace")
        squiggle = page.locator(".cm-lintRange-error")
        expect(squiggle).to_have_text("urgen")
        expect(page.get_by_text("did you mean urgent?")).to_be_visible()
        expect(page.get_by_text("1 fault", exact=True)).to_be_visible()
        squiggle.hover()
        page.locator(".cm-diagnosticAction").click()
        expect(squiggle).to_have_count(0)
        until(page, "Saved")
        expect(page.get_by_text("this is a valid pack")).to_be_visible()
    assert draft(browser, file) == file.read_text()


def test_the_list_of_faults_jumps_and_mends(browser):
    file = browser.pack(
        "listed", lambda text: text.replace("category: angry", "category: angri", 1)
    )
    with browser.tab(pack=name_of(browser, file)) as page:
        expect(page.locator(".cm-gutters")).to_be_visible()
        page.get_by_role("button", name=re.compile("^error Line|Line \\d+, column")).first.click()
        expect(page.locator(".cm-activeLine")).to_contain_text("angri")
        page.get_by_role("button", name="Write angry").click()
        expect(page.locator(".cm-activeLine")).to_contain_text("category: angry")
        until(page, "Draft kept")
    assert "angri" not in draft(browser, file)


def test_fields_and_names_are_offered(browser):
    file = browser.pack("offered")
    with browser.tab(pack=name_of(browser, file)) as page:
        go_to(page, "category: angry")
        page.keyboard.press("Enter")
        page.keyboard.type("neg")
        expect(page.locator(".cm-tooltip-autocomplete li").first).to_contain_text("negates")
        expect(page.locator(".cm-completionInfo")).to_contain_text("this one denies")
        # Enter means a new line while the list has only just come up.
        page.wait_for_timeout(300)
        page.keyboard.press("Enter")
        page.keyboard.press("Control+Space")
        listed = page.locator(".cm-tooltip-autocomplete li")
        expect(listed.first).to_be_visible()
        page.keyboard.type("sent")
        expect(listed.first).to_contain_text("sentiment")
        page.wait_for_timeout(300)
        page.keyboard.press("Enter")
        until(page, "Draft kept")
    assert "category: angry\n      negates: sentiment\n" in draft(browser, file)


def test_a_reload_in_the_middle_of_a_word_loses_nothing(browser):
    file = browser.pack("reload")
    before = file.read_text()
    with browser.tab(pack=name_of(browser, file)) as page:
        go_to(page, "name: Support")
        page.keyboard.type(" XY", delay=1)
        page.reload()
        until(page, "Draft kept")
        expect(page.locator(".cm-line", has_text="name: Support XY")).to_have_count(1)
        assert text_in(page) == draft(browser, file) == before.replace("Support", "Support XY", 1)
        # What the editor no longer knows can still be undone.
        content(page).click()
        page.keyboard.press("Control+z")
        expect(page.locator(".cm-line", has_text="name: Support XY")).to_have_count(0)
        until(page, "Saved")
    assert draft(browser, file) == before


def test_fast_typing_over_many_pauses_arrives_whole(browser):
    file = browser.pack("fast")
    with browser.tab(pack=name_of(browser, file)) as page:
        go_to(page, "license: Apache-2.0")
        words = "\n# " + " ".join(f"word{number}" for number in range(60))
        for part in re.findall(".{1,40}", words, re.DOTALL):
            page.keyboard.type(part, delay=4)
            # Longer than the pause at which it is sent, so that runs overlap with typing.
            page.wait_for_timeout(450)
        until(page, "Draft kept")
        assert words in text_in(page)
    assert words in draft(browser, file)


def test_two_tabs_do_not_overwrite_each_other(browser):
    file = browser.pack("two")
    name = name_of(browser, file)
    with browser.tab(pack=name) as one, browser.tab(pack=name) as two:
        expect(content(two)).to_be_visible()
        go_to(one, "name: Support")
        one.keyboard.type(" ONE")
        until(one, "Draft kept")
        # The other tab, in which nothing was typed, follows by itself.
        expect(two.locator(".cm-line", has_text="Support ONE")).to_have_count(1)
        # Both type before either hears of the other: the later one is told, and chooses.
        go_to(two, "description: Which")
        one.keyboard.type("!")
        two.keyboard.type(" TWO")
        asked = re.compile("Nothing was overwritten")
        late = one if _is_asked(one, two, asked) == "one" else two
        early = two if late is one else one
        kept = draft(browser, file)
        assert ("Support ONE!" in kept) != ("Which TWO" in kept)
        # What was typed stays where it was typed until its author chooses.
        until(late, "Changed elsewhere")
        assert ("Which TWO" if late is two else "Support ONE!") in text_in(late)
        late.get_by_role("button", name="Go on with what I typed").click()
        expect(late.get_by_text(asked)).to_have_count(0)
        until(late, "Draft kept")
        mine = text_in(late)
        assert draft(browser, file) == mine and mine != kept
        # The early one takes it over, since nothing else was typed there.
        expect(
            early.locator(".cm-line", has_text="Which TWO" if late is two else "ONE!")
        ).to_have_count(1)
        assert text_in(early) == mine


def _is_asked(one: Page, two: Page, words: re.Pattern[str]) -> str:
    """Which of two tabs has to choose."""
    for _ in range(150):
        for name, page in (("one", one), ("two", two)):
            if page.get_by_text(words).count():
                return name
        one.wait_for_timeout(200)
    raise AssertionError("neither tab was told")
