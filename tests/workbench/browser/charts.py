"""Marks of a chart as a test finds them: each tells, for those who cannot see it, whose it is."""

from playwright.sync_api import Page


def click_point(page: Page, row: str) -> None:
    """Click the first mark of a row on a chart."""
    point = page.locator(f'.vega-embed path[aria-label*="row: {row};"]').first
    point.scroll_into_view_if_needed()
    # Charts grow into their width.
    page.wait_for_timeout(800)
    box = point.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
