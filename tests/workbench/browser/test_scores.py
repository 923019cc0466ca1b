"""The page Scores in a browser: a click on the chart opens a text, its label is fixed there and then."""

import re
from typing import Any

from playwright.sync_api import expect

from spinf_serve.workbench.actions.labelling import labels_on
from spinf_serve.workbench.desk import open_desk
from tests.workbench.browser.conftest import Workbench


def labels(bench: Workbench, row: str, target: str) -> dict[str, str]:
    """Annotator -> what they say."""
    with open_desk(bench.folder).project.open(write=False) as connection:
        return {
            one.annotator: one.value
            for one in labels_on(connection, "messages", row)
            if one.target == target
        }


def point(page: Any, row: str) -> Any:
    """The point of a row on the chart."""
    return page.locator(f'svg.marks path[aria-label*="row: {row};"]')


def middle(found: Any) -> tuple[float, float]:
    box = found.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def quiet(page: Any) -> None:
    """Waits until the page has run to its end."""
    page.wait_for_function(
        "() => document.querySelector('[data-testid=\"stApp\"]')"
        ".getAttribute('data-test-script-state') === 'notRunning'"
    )


def choose(page: Any, line: int) -> None:
    """Chooses a line of the first table by the box at its beginning."""
    quiet(page)
    table = page.get_by_test_id("stDataFrame").first.locator("canvas").first
    table.click(position={"x": 12, "y": 52 + 35 * line}, force=True)


def test_a_click_on_the_chart_opens_the_text_and_its_label_is_fixed_and_undone(browser):
    given = {"target": "urgent", "question": "category:urgent"}
    with browser.tab("scores", **given) as page:
        page.locator("svg.marks path[aria-label*='label: yes']").first.wait_for()
        # The one farthest right among `no` lies on nothing else.
        points = page.evaluate(
            """() => [...document.querySelectorAll('svg.marks path[aria-label*="label: no;"]')]
            .map(one => ({label: one.getAttribute('aria-label'),
                          x: one.getBoundingClientRect().x}))"""
        )
        last = max(points, key=lambda one: one["x"])["label"]
        row = last.split("row: ")[1].split(";")[0]
        page.mouse.click(*middle(point(page, row)))
        panel = page.locator(".st-key-scores-detail")
        panel.get_by_role("heading", name=f"Row {row}").wait_for()
        assert f"row={row}" in page.url
        before = labels(browser, row, "urgent")
        assert set(before.values()) == {"no"}
        panel.get_by_role("radio", name="yes", exact=True).click()
        page.get_by_text(f"Row {row}: urgent is yes now").wait_for()
        # The point moves to the others that say yes.
        page.locator(
            f'svg.marks path[aria-label*="label: yes;"][aria-label*="row: {row};"]'
        ).wait_for()
        after = labels(browser, row, "urgent")
        assert [value for who, value in after.items() if who not in before] == ["yes"]
        page.reload()
        page.get_by_role("button", name=f"Undo: {row} is yes").click()
        page.get_by_text(f"Row {row}: the label is as it was").wait_for()
        assert labels(browser, row, "urgent") == before


def test_dragging_over_the_chart_lists_the_texts_behind_it_and_a_row_opens_beside(browser):
    with browser.tab("scores", target="case", question="category:case") as page:
        page.locator("svg.marks path[aria-label*='label: yes']").first.wait_for()
        box = page.locator("svg.marks").first.bounding_box()
        left, top = box["x"] + box["width"] * 0.4, box["y"] + box["height"] * 0.35
        page.mouse.move(left, top)
        page.mouse.down()
        page.mouse.move(left + 80, top + 20, steps=5)
        page.mouse.up()
        page.get_by_text("Selected on the chart:").wait_for()
        told = page.get_by_text(re.compile(r"^[0-9]+ rows? of 600"))
        told.wait_for()
        assert 0 < int(told.inner_text().split(" row")[0]) < 600
        choose(page, 0)
        page.locator(".st-key-scores-detail").get_by_role("heading", name="Row ").wait_for()
        # What was dragged over stays while a row is read.
        expect(page.get_by_text("Selected on the chart:")).to_have_count(1)
        page.get_by_role("button", name="Clear the selection").click()
        page.get_by_text("Selected on the chart:").wait_for(state="detached")


def test_the_picture_and_the_data_of_a_chart_can_be_had(browser, tmp_path):
    with browser.tab("scores", target="case", question="category:case") as page:
        page.locator("svg.marks path[aria-label*='label: yes']").first.wait_for()
        with page.expect_download() as found:
            page.get_by_role("button", name="Data (CSV)").first.click()
        data = tmp_path / "data.csv"
        found.value.save_as(data)
        lines = data.read_text("utf-8").splitlines()
        assert len(lines) == 601 and "label" in lines[0] and "jitter" not in lines[0]
        page.get_by_test_id("stVegaLiteChart").first.hover()
        with page.expect_download() as found:
            # The chart's buttons move in under the pointer: a press at a place may meet the chart instead.
            page.get_by_role("button", name="Download as PNG").first.dispatch_event("click")
        picture = tmp_path / "chart.png"
        found.value.save_as(picture)
        assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_all_answers_at_once_lead_to_one_and_its_lift(browser):
    with browser.tab("scores", target="urgent") as page:
        page.get_by_text("Every answer stands at its floor").wait_for()
        page.get_by_role("radio", name="Side by side").click()
        page.get_by_text("The grey tick is the floor").wait_for()
        choose(page, 1)
        page.get_by_text("p on an empty text").wait_for()
        assert "question=read" in page.url
        page.get_by_role("radio", name="Lift", exact=True).click()
        page.locator("svg.marks path[aria-label^='Lift:']").first.wait_for()
        assert "chart=lift" in page.url
