"""Every page in a browser, light and dark: it comes up, says no error, and fetches nothing elsewhere.

The pictures of docs/images are made here: `python -m pytest tests/workbench/browser/test_pages.py
--screenshots docs/images`.
"""

import io
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from PIL import Image

from spinf_serve.workbench.desk import open_desk
from spinf_serve.workbench.page_list import PAGES

SETTLED = "() => !document.querySelector('[data-stale=\"true\"], [data-testid=stStatusWidget], [data-testid=stSkeleton]')"


SHOWN = {
    "scores": {"target": "case", "question": "category:case"},
}
"""Page -> its address, where another one is better to look at."""


FILLED = {
    "try_it": "nobody was asked now",
    "run": "whose scores the sidebar shows",
    "compare": "Look at",
    "report": "exit code",
}
"""Page -> what stands on it at a first visit, where something could have to be asked for first."""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("entry", PAGES, ids=lambda entry: entry.path)
def test_a_page_comes_up(browser, entry, theme, request, tmp_path):
    elsewhere = []
    # The tour stands above the first page only, so that pictures show the pages.
    open_desk(browser.folder).set(tour={"closed": entry.path != PAGES[0].path})
    with browser.tab(entry.path, dark=theme == "dark", **SHOWN.get(entry.path, {})) as page:
        page.on(
            "request",
            lambda made: (
                elsewhere.append(made.url)
                if urlsplit(made.url).scheme in ("http", "https", "ws", "wss")
                and urlsplit(made.url).netloc != urlsplit(browser.url).netloc
                else None
            ),
        )
        page.reload()
        page.wait_for_selector("h1")
        page.wait_for_function(SETTLED)
        # Charts and editors draw themselves after the page has come.
        page.wait_for_timeout(1_000)
        assert page.locator("h1").first.inner_text() == entry.title
        assert page.locator("[data-testid=stException]").count() == 0
        if entry.path in FILLED:
            page.get_by_text(FILLED[entry.path]).first.wait_for()
        background = page.evaluate(
            "() => getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor"
        )
        red = int(background.split("(")[1].split(",")[0])
        assert (red < 128) is (theme == "dark")
        picture = page.screenshot()
    assert elsewhere == []
    folder = request.config.getoption("--screenshots")
    _keep(picture, (Path(folder) if folder else tmp_path) / f"{entry.path}-{theme}.png")


def _keep(picture: bytes, path: Path) -> None:
    """A palette of 128 colours is plenty for a page, at a third of the bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    assert image.size == (1400, 1000)
    image.quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)
