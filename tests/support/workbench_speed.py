"""How quick the workbench is: `python -m tests.support.workbench_speed FILE` writes figures.

Projects of 100,000 and of 1,000,000 rows are made in SQL, the workbench is started on them, and chromium
opens its pages: first paint, change of page until nothing moves any more, memory of the process.
"""

import json
import shutil
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from playwright.sync_api import sync_playwright

from spinf_serve.engine.bench.machine import commit, processor_name
from spinf_serve.workbench.page_list import PAGES
from tests.workbench.browser.conftest import FLAGS, NAMES, running
from tests.workbench.score_desks import scored

ROWS, MANY = 100_000, 1_000_000
REPEATS = 5
WAIT_MS = 600_000
QUIET = """() => {
    const app = document.querySelector('[data-testid="stApp"]');
    return app && app.getAttribute('data-test-script-state') === 'notRunning';
}"""


def first_paint(browser: Any, url: str) -> float:
    """Seconds until the first page's title is on the screen, in a browser that knows nothing."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    start = time.perf_counter()
    page.goto(url)
    page.locator("h1").first.wait_for()
    seconds = time.perf_counter() - start
    context.close()
    return seconds


def change(page: Any, title: str) -> float:
    """Seconds from the click in the navigation until the page is drawn whole."""
    start = time.perf_counter()
    page.get_by_test_id("stSidebarNav").get_by_role("link", name=title, exact=True).click()
    page.locator("h1", has_text=title).first.wait_for()
    page.wait_for_function(QUIET)
    return time.perf_counter() - start


def changes(browser: Any, url: str, process: psutil.Process) -> tuple[dict[str, Any], float]:
    """Page -> seconds; and the most memory that the process held, in MiB."""
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    page.goto(f"{url}/scores")
    # The first look makes the view, in a job.
    page.get_by_role("heading", name="Texts").wait_for()
    titles = [one.title for one in PAGES]
    seconds: dict[str, list[float]] = {title: [] for title in titles}
    memory = 0.0
    for _ in range(REPEATS):
        for title in titles:
            seconds[title].append(change(page, title))
            memory = max(memory, process.memory_info().rss / 2**20)
    context.close()
    told = {
        title: {"median": round(statistics.median(all_of), 3), "first": round(all_of[0], 3)}
        for title, all_of in seconds.items()
    }
    return told, round(memory)


def measured(rows: int = ROWS, many: int = MANY) -> dict[str, Any]:
    """All figures."""
    path = next(found for name in NAMES if (found := shutil.which(name)))
    result: dict[str, Any] = {
        "command": f"python -m tests.support.workbench_speed {' '.join(sys.argv[1:])}".strip(),
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "processor": processor_name(),
    }
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        for name, count in (("rows", rows), ("many", many)):
            if not count:
                continue
            desk = scored(Path(folder) / name, count)
            with running(desk.folder, browser) as bench:
                url, process = bench.url, psutil.Process(bench.pid)
                paints = [first_paint(browser, url) for _ in range(REPEATS)]
                pages, memory = changes(browser, url, process)
            result[name] = {
                "rows": count,
                "first_paint_seconds": {
                    "median": round(statistics.median(paints), 3),
                    "first": round(paints[0], 3),
                },
                "page_change_seconds": pages,
                "memory_mib": memory,
            }
        browser.close()
    return result


def main(arguments: list[str]) -> None:
    """Write the figures, or print them; further arguments are the numbers of rows."""
    found = measured(*map(int, arguments[1:]))
    told = json.dumps(found, indent=1) + "\n"
    if arguments and arguments[0] != "-":
        Path(arguments[0]).write_text(told, encoding="utf-8")
    else:
        print(told)


if __name__ == "__main__":
    main(sys.argv[1:])
