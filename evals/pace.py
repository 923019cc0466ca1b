"""The pace of a run: how many contents are asked together, and what is told of rate and time left."""

import time
from collections.abc import Callable
from dataclasses import dataclass

BATCH_ROWS = 256
"""Most contents that are asked together."""

BATCH_SECONDS = 2.0
"""How long a batch may take before the next one is smaller: no more is lost when a run is killed."""

SAY_SECONDS = 5.0
QUIET_SECONDS = 2.0
"""Nothing is told of what takes less."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is.

    Attributes:
        done: contents that were asked about.
        of: contents to ask about; an estimate until all rows were looked at.
        rate: contents a second; None before the first.
        seconds_left: at that rate; None before the first.
        reused: share of the answers so far that were kept before; None while there are none.
        refused: rows with a refusal so far.
    """

    done: int
    of: int
    rate: float | None
    seconds_left: float | None
    reused: float | None
    refused: int


Watch = Callable[[Progress], None]
"""Gets the progress behind every batch; what it raises ends the run, of which nothing is lost."""


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

    def __init__(self, say: Callable[[str], None], watch: Watch | None = None) -> None:
        self.batch = 1
        self._say = say
        self._watch = watch
        self._count = self._expected = 0
        self._share = 1.0
        self._begun = self._batch_begun = time.monotonic()
        self._tell_at = self._begun + QUIET_SECONDS

    def expect(self, count: int, share: float) -> None:
        """So many more contents are to be asked, up to that share of the dataset."""
        self._expected += count
        self._share = share
        self._batch_begun = time.monotonic()

    def done(self, count: int, reused: float | None, refused: int) -> None:
        """Counts a batch; tells how far it all is, in words only now and then.

        Args:
            reused: share of the answers so far that were kept before.
            refused: rows with a refusal so far.
        """
        self._count += count
        now = time.monotonic()
        seconds = now - self._batch_begun
        self.batch = next_batch(self.batch, seconds, most=BATCH_ROWS, most_seconds=BATCH_SECONDS)
        self._batch_begun = now
        self.look(reused, refused)
        if now < self._tell_at:
            return
        self._tell_at = now + SAY_SECONDS
        at = self._progress(now, reused, refused)
        about = "" if self._share == 1 else "about "
        more = f"; {reused:.0%} of the answers were kept" if reused else ""
        more += f"; {refused:,} rows refused" if refused else ""
        self._say(
            f"asked {at.done:,} of {about}{at.of:,} contents, {_short(at.rate or 0.0)} a second,"
            f" {about}{at.seconds_left or 0.0:.0f} s left{more}"
        )

    def look(self, reused: float | None, refused: int) -> None:
        """Shows how far it is to whoever watches."""
        if self._watch is not None:
            self._watch(self._progress(time.monotonic(), reused, refused))

    def _progress(self, now: float, reused: float | None, refused: int) -> Progress:
        # What is missing of rows that were not looked at yet is taken to be as in those before.
        of = max(self._count, round(self._expected / self._share))
        seconds = now - self._begun
        rate = self._count / seconds if self._count and seconds else None
        left = None if rate is None else (of - self._count) / rate
        return Progress(self._count, of, rate, left, reused, refused)


def _short(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
