"""Waiting for what comes about on another thread or in another process."""

import time
from collections.abc import Callable


def until(holds: Callable[[], object], seconds: float = 20.0, pause: float = 0.01) -> None:
    """Return as soon as something holds; an assertion fails when it does not come about.

    Args:
        pause: seconds between two looks.
    """
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"it did not come about within {seconds:.0f} s"
        time.sleep(pause)
