"""What the workbench loads ahead of the pages' first visits."""

import logging
import subprocess
import sys

import pytest

from spinf_serve.workbench import warm
from spinf_serve.workbench.page_list import PAGES

_LOADED = """
import sys
from spinf_serve.workbench.warm import warm_up
warm_up(after=0, pause=0).join()
print(*[name for name in sys.modules if name.startswith("spinf_serve.workbench.pages.")])
"""


def test_all_pages_are_loaded() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LOADED], capture_output=True, text=True, timeout=120, check=True
    )
    assert {f"spinf_serve.workbench.pages.{page.path}" for page in PAGES} <= set(
        done.stdout.split()
    )


def test_what_cannot_be_loaded_is_logged_and_the_rest_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[str] = []

    def broken(name: str) -> None:
        asked.append(name)
        raise ImportError(f"no {name}")

    monkeypatch.setattr(warm, "import_module", broken)
    with caplog.at_level(logging.WARNING):
        warm.warm_up(after=0, pause=0).join(30)
    assert len(asked) > len(PAGES)
    assert [record.getMessage() for record in caplog.records] == [
        f"{name} was not loaded ahead" for name in asked
    ]
