"""Says on a terminal's stderr what takes long: nothing in the first two seconds, then the time."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

QUIET_SECONDS = 2.0
TERMINAL_EVERY_SECONDS = 0.5
LINES_EVERY_SECONDS = 10.0


@contextmanager
def progress(doing: str, stream: TextIO | None = None) -> Iterator[Callable[[int, int], None]]:
    """Reports while its block runs; yields a function that takes how much is done, of how much.

    A terminal shows one line that changes, anything else gets a plain line now and then.
    """
    out = sys.stderr if stream is None else stream
    begun = time.monotonic()
    count = ""
    over = threading.Event()
    shown = False

    def report(done: int, of: int) -> None:
        nonlocal count
        count = f" {done} of {of}"

    def tick() -> None:
        nonlocal shown
        wait = QUIET_SECONDS
        while not over.wait(wait):
            line = f"{doing}:{count} {time.monotonic() - begun:.0f} s"
            try:
                out.write(f"\r{line}\x1b[K" if out.isatty() else f"{line}\n")
                out.flush()
            except OSError:
                # Nobody reads it; what takes long goes on.
                return
            shown = True
            wait = TERMINAL_EVERY_SECONDS if out.isatty() else LINES_EVERY_SECONDS

    ticker = threading.Thread(target=tick, daemon=True)
    ticker.start()
    try:
        yield report
    finally:
        over.set()
        ticker.join()
        if shown and out.isatty():
            out.write("\r\x1b[K")
            out.flush()
