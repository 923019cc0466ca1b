"""Labelling with nothing but the keyboard: fifty rows, undo, notes, a reload, a second annotator."""

import re
import time

import pytest
from playwright.sync_api import expect

from spinf_serve.workbench.actions import queues
from spinf_serve.workbench.desk import PROJECT_FILE, Desk
from tests.support.waiting import until

TARGET = "decision"
KEYS = {"y": "yes", "n": "no", "u": "unsure"}


def desk_of(browser):
    return Desk(browser.folder, browser.folder / PROJECT_FILE)


def at(page, number, of=600):
    """Waits until a row of the queue is on the screen."""
    page.get_by_text(f"Row {number:,} of {of:,}").wait_for()
    # The buttons of the row before are gone, and with them its keys.
    page.wait_for_function("() => !document.querySelector('[data-stale=\"true\"]')")


def said(browser, annotator):
    """Row -> what an annotator says of it, in the order of saying."""
    with desk_of(browser).project.open(write=False) as connection:
        return connection.execute(
            "SELECT row_id, value, drawn, score_visible FROM label WHERE target = ? AND annotator = ?"
            ' ORDER BY "at"',
            [TARGET, annotator],
        ).fetchall()


def order(browser, count):
    (queue,) = queues.queues(desk_of(browser), "messages", TARGET)
    return [queues.shown(desk_of(browser), queue, place).row_id for place in range(count)], queue.id


@pytest.fixture
def page(browser):
    with browser.tab("data", part="label", target=TARGET, **{"as": "ann"}) as opened:
        opened.get_by_role("button", name=re.compile(r"\bStart$")).wait_for()
        yield opened


def test_fifty_rows_are_labelled_with_the_keyboard_only(browser, page):
    page.get_by_role("button", name=re.compile(r"\bStart$")).focus()
    page.keyboard.press("Enter")
    at(page, 1)
    # Keys stand on the buttons, for who does not know them.
    for key in ("Y", "N", "U", "S", "Z"):
        expect(page.get_by_text(key, exact=True).first).to_be_visible()
    pressed, took = [], []
    for number in range(1, 51):
        key = "ynu"[number % 7 % 3]
        pressed.append(KEYS[key])
        began = time.monotonic()
        page.keyboard.press(key)
        page.get_by_text(f"Row {number + 1:,} of 600").wait_for()
        took.append(time.monotonic() - began)
        at(page, number + 1)
    print("seconds from key to next row:", sorted(round(one, 3) for one in took)[::7])
    rows, _ = order(browser, 51)
    found = said(browser, "ann")
    assert [row for row, *_ in found] == rows[:50]
    assert [value for _, value, *_ in found] == pressed
    # A random order over a random sample counts, and nobody saw a score.
    assert {drawn for *_, drawn, _ in found} == {"random"}
    assert not any(visible for *_, visible in found)

    # Undo, twice; then back, and another answer in place of the first.
    page.keyboard.press("z")
    at(page, 50)
    page.keyboard.press("z")
    at(page, 49)
    assert len(said(browser, "ann")) == 48
    page.keyboard.press("ArrowLeft")
    at(page, 48)
    page.keyboard.press("u")
    at(page, 49)
    assert {row: value for row, value, *_ in said(browser, "ann")}[rows[47]] == "unsure"

    # Skipping answers nothing, and a reload finds the same row again.
    page.keyboard.press("s")
    at(page, 50)
    page.reload()
    at(page, 50)
    page.keyboard.press("ArrowLeft")
    at(page, 49)
    assert len(said(browser, "ann")) == 48

    # What is written into the note is no answer; leaving the field saves it.
    note = page.get_by_label("Note")
    note.click()
    page.keyboard.type("yny unsure, is it irony?")
    page.keyboard.press("Tab")
    page.wait_for_timeout(300)
    at(page, 49)
    assert len(said(browser, "ann")) == 48
    until(lambda: _notes(browser) == [(rows[48], "yny unsure, is it irony?")], pause=0.05)

    # Keys that come faster than the rows answer nothing unseen: each goes to the row it was seen on.
    page.locator("h1").click()
    page.keyboard.press("y")
    page.keyboard.press("n")
    at_least = re.compile(r"Row 5[01] of 600")
    page.get_by_text(at_least).wait_for()
    page.wait_for_timeout(1_500)
    answers = {row: value for row, value, *_ in said(browser, "ann")}
    assert answers[rows[48]] == "yes"
    assert answers.get(rows[49]) in (None, "no")


def test_a_second_annotator_sees_the_same_rows_and_no_answers(browser):
    rows, queue = order(browser, 3)
    with browser.tab("data", part="label", queue=queue, **{"as": "bob"}) as page:
        at(page, 1)
        # What stands beside a row comes a moment after its number.
        expect(page.get_by_text(f"Row {rows[0]}")).to_have_count(1)
        expect(page.get_by_text("Show scores")).to_be_visible()
        expect(page.get_by_text("You said")).to_have_count(0)
        expect(page.get_by_text("ann says")).to_have_count(0)
        page.keyboard.press("n")
        at(page, 2)
        # With the scores in sight, the label says so.
        page.get_by_text("Show scores").click()
        page.get_by_test_id("stDataFrame").wait_for()
        page.locator("h1").click()
        page.keyboard.press("y")
        at(page, 3)
    assert [(row, value, visible) for row, value, _, visible in said(browser, "bob")] == [
        (rows[0], "no", False),
        (rows[1], "yes", True),
    ]


def test_a_label_of_another_tab_is_not_overwritten(browser):
    rows, queue = order(browser, 1)
    with (
        browser.tab("data", part="label", queue=queue, **{"as": "eve"}) as one,
        browser.tab("data", part="label", queue=queue, **{"as": "eve"}) as other,
    ):
        at(one, 1)
        at(other, 1)
        one.keyboard.press("y")
        at(one, 2)
        other.keyboard.press("n")
        other.get_by_text("changed elsewhere meanwhile").wait_for()
        at(other, 1)
        expect(other.get_by_text("You said yes")).to_have_count(1)
    assert [(row, value) for row, value, *_ in said(browser, "eve")] == [(rows[0], "yes")]


def test_a_guideline_stands_beside_the_rows_for_everybody(browser):
    _, queue = order(browser, 1)
    with browser.tab("data", part="label", queue=queue) as page:
        at(page, 1)
        page.get_by_text("Change the guideline").click()
        page.get_by_label("Guideline", exact=True).fill(
            "A case is opened when somebody has to act."
        )
        # No Enter, no leaving of the field: pressing Save is enough.
        page.get_by_role("button", name="Save", exact=True).click()
        page.locator("p", has_text="A case is opened when somebody has to act.").wait_for()
    with browser.tab("data", part="label", queue=queue, **{"as": "bob"}) as page:
        page.locator("p", has_text="A case is opened when somebody has to act.").wait_for()


def _notes(browser):
    with desk_of(browser).project.open(write=False) as connection:
        return connection.execute("SELECT row_id, text FROM note").fetchall()
