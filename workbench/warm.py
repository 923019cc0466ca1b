"""Loads what pages need while nobody waits for it: a page's first visit then costs what later ones do.

Knows no project and draws nothing.
"""

import logging
import threading
import time
from importlib import import_module
from typing import Final

from spinf_serve.workbench.page_list import PAGES

AFTER_SECONDS: Final = 4.0
"""The first page is drawn by then."""

PAUSE_SECONDS: Final = 0.3
"""Between two modules, so that whoever uses a page meanwhile waits for one at most."""

_LIBRARIES: Final = (
    "pandas",
    "altair",
    "scipy.stats",
    "sklearn.metrics",
    "sklearn.model_selection",
)

_LOG: Final = logging.getLogger(__name__)


def warm_up(after: float = AFTER_SECONDS, pause: float = PAUSE_SECONDS) -> threading.Thread:
    """Import the pages' modules in a thread of its own, which ends with the process.

    Args:
        after: seconds until it begins.
        pause: seconds between two modules.

    What fails is logged: the page says it when it is opened.
    """
    names = (*_LIBRARIES, *(f"spinf_serve.workbench.pages.{page.path}" for page in PAGES))

    def load() -> None:
        wait = after
        for name in names:
            time.sleep(wait)
            try:
                import_module(name)
            except Exception:  # noqa: BLE001 (a page that is broken says so itself)
                _LOG.warning("%s was not loaded ahead", name, exc_info=True)
            wait = pause

    thread = threading.Thread(target=load, name="warm-up", daemon=True)
    thread.start()
    return thread
