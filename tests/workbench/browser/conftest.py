"""A workbench in a process of its own, seen with chromium: `browser` gives its address and folder.

Skipped, with the reason, where there is no chromium or no Playwright to drive it.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlencode

import pytest

from tests.support.processes import start_process

ROOT = Path(__file__).resolve().parents[3]
START_SECONDS = 120.0
WAIT_MS = 30_000
"""How long a page may take on a machine that does other things; nothing waits so long by itself."""

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
)


@dataclass
class Workbench:
    """A workbench that runs, and the browser that looks at it.

    Attributes:
        url: its address, without a slash at the end.
        folder: of its project, which holds the example at first.
        chromium: the browser, of `playwright.sync_api`.
        pid: of its process.
        faults: errors of pages' scripts; a test that ends with one fails.
    """

    url: str
    folder: Path
    chromium: Any
    pid: int
    faults: list[str] = field(default_factory=list)

    @contextmanager
    def tab(self, path: str = "", *, dark: bool = False, width: int = 1400, **params: str) -> Any:
        """A new tab, with nothing of other tabs, on a page of the workbench.

        Args:
            path: of the page in addresses; empty for Pack.
            params: of the address.
        """
        context = self.chromium.new_context(
            viewport={"width": width, "height": 1000}, color_scheme="dark" if dark else "light"
        )
        context.set_default_timeout(WAIT_MS)
        try:
            page = context.new_page()
            page.on("pageerror", lambda error: self.faults.append(str(error)))
            page.goto(f"{self.url}/{path}" + (f"?{urlencode(params)}" if params else ""))
            yield page
        finally:
            context.close()

    def pack(self, name: str, change: Any = None) -> Path:
        """A copy of the example's pack under another name, for a test of its own.

        Args:
            change: its text -> what the copy holds.
        """
        text = (self.folder / "packs" / "triage" / "pack.yaml").read_text("utf-8")
        file = self.folder / "packs" / name / "pack.yaml"
        file.parent.mkdir(parents=True)
        text = text.replace("pack: example/triage", f"pack: example/{name}", 1)
        file.write_text(change(text) if change else text, "utf-8")
        return file


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """The browser, of a file's tests: as long as it runs, nobody else's event loop can."""
    if find_spec("playwright") is None:
        _absent("no browser tests: Playwright is not installed (pip install playwright)")
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        _absent("no browser tests: no chromium is found (apt-get install chromium)")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield opened
        opened.close()


def _absent(reason: str) -> NoReturn:
    """Skips, or fails where a browser has to be there, as in CI."""
    if os.environ.get("REQUIRE_BROWSER"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def workbench(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    """One workbench for the tests of a file, with the example as its project."""
    with running(tmp_path_factory.mktemp("bench") / "project", chromium) as found:
        yield found


@contextmanager
def running(folder: Path, chromium: Any, *more: str) -> Iterator[Workbench]:
    """A workbench on a folder, until the end of the block.

    Args:
        more: of its command line.
    """
    port = _free_port()
    process = start_process(ROOT, command(folder, port, *more))
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_for(url, process)
        yield Workbench(url, folder, chromium, process.pid)
    finally:
        process.terminate()
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


@pytest.fixture
def browser(workbench: Workbench) -> Iterator[Workbench]:
    """The file's workbench; errors of its pages' scripts fail the test."""
    workbench.faults.clear()
    yield workbench
    assert workbench.faults == []


def command(folder: Path, port: int, *more: str) -> list[str]:
    """What starts a workbench."""
    return [
        sys.executable,
        "-m",
        "spinf_serve",
        "workbench",
        str(folder),
        "--port",
        str(port),
        "--offline",
        *more,
    ]


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


def _wait_for(url: str, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            out, log = process.communicate()
            raise AssertionError(f"the workbench ended: {out}{log}")
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"no workbench at {url} within {START_SECONDS:.0f} s")
