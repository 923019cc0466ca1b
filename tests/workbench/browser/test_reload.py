"""Nothing is lost on a reload: what was typed and left on every page is there again."""

import re
from collections.abc import Callable
from contextlib import suppress

from playwright.sync_api import Locator, Page, expect
from playwright.sync_api import TimeoutError as TooLate

from spinf_serve.workbench.actions import queues
from spinf_serve.workbench.desk import open_desk
from tests.workbench.browser.conftest import Workbench

RUN_ENDED = (
    "() => document.querySelector('[data-testid=\"stApp\"]')"
    ".getAttribute('data-test-script-state') === 'notRunning'"
)


COUNT_RUNS = """() => {
    const app = document.querySelector('[data-testid="stApp"]')
    const isRunning = () => app.getAttribute('data-test-script-state') === 'running'
    window.runs = 0
    new MutationObserver(() => { window.runs += isRunning() })
        .observe(app, {attributes: true, attributeFilter: ['data-test-script-state']})
}"""


def take(page: Page, act: Callable[[], object]) -> None:
    """Do something that the page runs for, and wait until it has."""
    page.wait_for_function(RUN_ENDED)
    page.evaluate(COUNT_RUNS)
    act()
    # A run may be over before it is seen.
    with suppress(TooLate):
        page.wait_for_function("() => window.runs > 0", timeout=5_000)
    page.wait_for_function(RUN_ENDED)


def stays(page: Page, field: Locator, text: str) -> None:
    """Write into a field, leave it, reload: it is there again."""
    field.fill(text)
    take(page, field.blur)
    page.reload()
    expect(field).to_have_value(text)
    # A list that is opened while the page still runs is closed again.
    page.wait_for_timeout(300)
    page.wait_for_function(RUN_ENDED)


def test_a_text_to_try_and_a_pasted_sheet_stay(browser: Workbench) -> None:
    with browser.tab("try_it") as page:
        stays(page, page.get_by_role("textbox", name="Text", exact=True), "Where is my parcel?")
    with browser.tab("run", mode="sheet") as page:
        page.get_by_role("tab", name="Paste").click()
        stays(page, page.get_by_role("textbox", name="Texts"), "One\nTwo")


def test_cells_for_an_import_stay_with_their_box_open(browser: Workbench) -> None:
    with browser.tab("data", part="import") as page:
        page.get_by_text("Paste from a spreadsheet").click()
        cells = page.get_by_role("textbox", name=re.compile("Cells"))
        stays(page, cells, "id\ttext\n1\tWhere is my parcel?")


def test_an_unsaved_guideline_stays_and_goes_when_it_is_saved(browser: Workbench) -> None:
    made = queues.make(
        open_desk(browser.folder), "ann", "messages", "decision", "random", annotator="ann"
    )
    with browser.tab("data", part="label", queue=made.id) as page:
        page.get_by_text("Change the guideline").click()
        stays(page, page.get_by_role("textbox", name="Guideline"), "Shouting is.")
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_text("Shouting is.").first).to_be_visible()


def test_a_number_for_a_certification_stays(browser: Workbench) -> None:
    with browser.tab("thresholds", part="certify") as page:
        number = page.get_by_role("spinbutton", name="At least, %")
        number.fill("85")
        take(page, lambda: number.press("Tab"))
        page.reload()
        expect(number).to_have_value(re.compile("^85"))


def test_what_scores_are_looked_through_by_stands_in_the_address(browser: Workbench) -> None:
    tab = browser.tab("scores", target="case", question="category:case", verdict="miss")
    with tab as page:
        expect(page.get_by_role("combobox", name="Verdict")).to_have_value("Misses")
        stays(page, page.get_by_role("textbox", name="Search"), "parcel")
        expect(page).to_have_url(re.compile("search=parcel"))
        expect(page).to_have_url(re.compile("verdict=miss"))
        expect(page.get_by_role("combobox", name="Verdict")).to_have_value("Misses")
