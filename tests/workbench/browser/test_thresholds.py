"""The page Thresholds in a browser: a cut is read where the pointer is, and set by a click or a drag."""

import re

import pytest

from tests.workbench.browser.conftest import WAIT_MS

CHART = "[data-testid=stVegaLiteChart] svg.marks"
QUIET = (
    "() => document.querySelector('[data-testid=\"stApp\"]')"
    ".getAttribute('data-test-script-state') === 'notRunning'"
)


def cut_of(page) -> float:
    found = re.search(r"[?&]at=([^&]+)", page.url)
    assert found is not None
    return float(found[1])


def told(page) -> str:
    """What stands beside the pointer."""
    found: str = page.locator(f"{CHART} text", has_text="False alarms").first.inner_html()
    return found


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_cut_is_read_while_the_pointer_is_held_and_set_when_it_is_let_go(
    browser, theme, tmp_path
):
    with browser.tab("thresholds", dark=theme == "dark", cut="case", part="look") as page:
        chart = page.locator(CHART).first
        # The first look at a pack lays out its answers and computes every cut's intervals.
        chart.wait_for(timeout=4 * WAIT_MS)
        chart.scroll_into_view_if_needed()
        page.wait_for_function(QUIET)
        page.wait_for_timeout(1_000)
        box = chart.bounding_box()
        before, down = cut_of(page), box["y"] + box["height"] * 0.6
        page.mouse.move(box["x"] + box["width"] * 0.3, down)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.35, down, steps=3)
        page.locator(f"{CHART} text", has_text="False alarms").first.wait_for()
        first = told(page)
        for word in ("Cut", "Flagged", "of 1,000", "Precision", "False alarms", "Misses"):
            assert word in first
        page.mouse.move(box["x"] + box["width"] * 0.7, down, steps=5)
        page.wait_for_timeout(300)
        second = told(page)
        page.screenshot(path=tmp_path / f"held-{theme}.png")
        # Held and moved: the words follow, and the page was not asked for anything.
        assert second != first and cut_of(page) == before
        page.mouse.up()
        page.wait_for_function(f"() => !location.href.includes('at={before!r}')")
        dragged = cut_of(page)
        assert f"{dragged:.4g}" in second
        page.wait_for_function(QUIET)
        page.wait_for_timeout(500)
        page.mouse.click(box["x"] + box["width"] * 0.4, down)
        page.wait_for_function(f"() => !location.href.includes('at={dragged!r}')")
        assert cut_of(page) < dragged
