"""The pace of a run: how many contents are asked together, and what is told of rate and time left."""

import time
from collections.abc import Callable

BATCH_ROWS = 256
"""Most contents that are asked together."""

BATCH_SECONDS = 2.0
"""How long a batch may take before the next one is smaller: no more is lost when a run is killed."""

SAY_SECONDS = 5.0
QUIET_SECONDS = 2.0
"""Nothing is told of what takes less."""


def next_batch(batch: int, seconds: float, *, most: int, most_seconds: float) -> int:
    """Contents of the next batch, after one of `batch` took so long: it doubles while that is quick."""
    if seconds < most_seconds / 2:
        return min(2 * batch, most)
    return max(1, batch // 2) if seconds > most_seconds else batch


class Pace:
    """How fast a run is, how many contents go into the next batch, and what is told of it.

    Attributes:
        batch: contents of the next batch.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self.batch = 1
        self._say = say
        self._count = self._expected = 0
        self._share = 1.0
        self._begun = self._batch_begun = time.monotonic()
        self._tell_at = self._begun + QUIET_SECONDS

    def expect(self, count: int, share: float) -> None:
        """So many more contents are to be asked, up to that share of the dataset."""
        self._expected += count
        self._share = share
        self._batch_begun = time.monotonic()

    def done(self, count: int, more: str) -> None:
        """Counts a batch; tells rate and time left now and then, and `more` behind it."""
        self._count += count
        now = time.monotonic()
        seconds = now - self._batch_begun
        self.batch = next_batch(self.batch, seconds, most=BATCH_ROWS, most_seconds=BATCH_SECONDS)
        self._batch_begun = now
        if now < self._tell_at:
            return
        self._tell_at = now + SAY_SECONDS
        rate = self._count / (now - self._begun)
        # What is missing of rows that were not looked at yet is taken to be as in those before.
        of = max(self._count, round(self._expected / self._share))
        about = "" if self._share == 1 else "about "
        self._say(
            f"asked {self._count:,} of {about}{of:,} contents, {_short(rate)} a second,"
            f" {about}{(of - self._count) / rate:.0f} s left{more}"
        )


def _short(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
