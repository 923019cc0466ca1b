"""The log of a running server: hears of every request that ends, and writes on a thread of its own.

A request never waits for it and never fails through it: what waits is bounded, what finds no room is
counted as lost, and a disk that fails is tried again. Knows no route.
"""

import logging
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from spinf_serve.engine.api import Engine
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import shown
from spinf_serve.packs.pack import Pack
from spinf_serve.server.decision_log.entries import Entry, Identity, PackFacts
from spinf_serve.server.decision_log.making import Keeping, entries_of, facts_of
from spinf_serve.server.decision_log.tables import connect, create
from spinf_serve.server.decision_log.writing import give_back, prune, write
from spinf_serve.server.exchange import Ended, Scored

logger = logging.getLogger(__name__)

WAITING_BYTES: Final = 128 * 1024 * 1024
"""What requests that wait to be written may take in memory, as `_bytes` reckons."""

_REQUEST_BYTES: Final = 4_096
_OPTION_BYTES: Final = 300
RETRY_SECONDS: Final = 1.0
PRUNE_SECONDS: Final = 600.0
DAY_SECONDS: Final = 86_400
_BATCH_REQUESTS: Final = 64
_STOP_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class LogCounts:
    """How the log stands.

    Attributes:
        written: contents written since the start.
        lost: contents that were not written, for want of room or at the end.
        waiting: requests that wait to be written.
        failing: whether the last try to write failed.
    """

    written: int
    lost: int
    waiting: int
    failing: bool


class DecisionLog:
    """An observer that writes what it hears of. `start` before, `stop` after.

    Attributes:
        path: the file.
        keeping: what of a request is kept.
    """

    def __init__(
        self,
        path: Path,
        keeping: Keeping,
        engine: Callable[[], Engine],
        *,
        days: int | None = None,
        draw: Callable[[], float] | None = None,
    ) -> None:
        """Makes the file where there is none.

        Args:
            engine: the engine that answers; asked on the log's thread once something was answered.
            days: how long an entry stays; None for ever.
            draw: see `entries_of`; None draws by chance.

        Raises `Unusable`: the file cannot be made, or is something else.
        """
        create(path)
        self.path = path
        self.keeping = keeping
        self._engine = engine
        self._days = days
        self._draw = draw or Random().random
        self._changed = threading.Condition()
        self._waiting: deque[tuple[Ended, int]] = deque()
        self._waiting_bytes = 0
        self._stopping = False
        self._written = 0
        self._lost = 0
        self._failing = False
        self._lost_before = 0
        self._packs: dict[str, Pack] = {}
        self._connection: sqlite3.Connection | None = None
        self._file: os.stat_result | None = None
        self._prune_at = 0.0
        self._thread = threading.Thread(target=self._run, name="decision-log", daemon=True)

    def start(self) -> None:
        """Begins to write."""
        self._thread.start()

    def stop(self) -> None:
        """Writes what waits and ends; what cannot be written then is lost."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join(_STOP_SECONDS)

    def ended(self, request: Ended) -> None:
        """As in `Observer`. What was not answered decided nothing and is not kept."""
        scored = request.scored
        if scored is None:
            return
        size = _bytes(scored)
        with self._changed:
            # One that is larger than all the room comes in alone.
            if self._waiting and self._waiting_bytes + size > WAITING_BYTES:
                self._lose(scored.usage.inputs)
                return
            self._waiting.append((request, size))
            self._waiting_bytes += size
            self._changed.notify()

    def counts(self) -> LogCounts:
        """How it stands. Any thread."""
        with self._changed:
            return LogCounts(self._written, self._lost, len(self._waiting), self._failing)

    def _lose(self, contents: int) -> None:
        if not self._lost and not self._failing:
            logger.error(
                "decisions come faster than the decision log %s is written; some are lost, and"
                " counted",
                shown(self.path),
            )
        self._lost += contents

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._waiting or self._stopping, timeout=self._idle_seconds()
                )
                batch = [self._waiting[n] for n in range(min(_BATCH_REQUESTS, len(self._waiting)))]
                if self._stopping and not batch:
                    break
            entries = [entry for request, _ in batch for entry in self._entries(request)]
            self._packs = {
                used.pack.digest: used.pack
                for request, _ in batch
                for used in ([] if request.asked is None else request.asked.call.packs)
            }
            if not self._put(entries):
                break
            self._prune(time.time())
            with self._changed:
                for _, size in batch:
                    self._waiting.popleft()
                    self._waiting_bytes -= size
                self._written += len(entries)
        self._close()

    def _idle_seconds(self) -> float | None:
        if self._days is None:
            return None
        return max(0.0, self._prune_at - time.monotonic())

    def _entries(self, request: Ended) -> list[Entry]:
        scored = request.scored
        if scored is None:
            raise AssertionError("a request that was not answered is never taken in")
        try:
            engine = self._engine()
            identity = Identity(engine.served.id, engine.fingerprint.model, engine.fingerprint.bits)
            return list(entries_of(request, scored, identity, self.keeping, self._draw))
        except Exception:
            # Whatever it is about one request, the log goes on with the next.
            logger.exception("a request's decision could not be put in words for the decision log")
            with self._changed:
                self._lost += scored.usage.inputs
            return []

    def _facts(self, digest: str) -> PackFacts:
        return facts_of(self._packs[digest])

    def _put(self, entries: list[Entry]) -> bool:
        """Write entries, trying until it works; False when the end came first, and they are lost."""
        while True:
            try:
                if entries:
                    write(self._open(), entries, self._facts)
                    self._works()
                return True
            except (sqlite3.Error, OSError, Unusable) as fault:
                self._fails(fault)
            with self._changed:
                if self._changed.wait_for(lambda: self._stopping, timeout=RETRY_SECONDS):
                    left = sum(_contents(request) for request, _ in self._waiting)
                    self._lost += left
                    logger.error("%d decisions were not written to the decision log", left)
                    return False

    def _open(self) -> sqlite3.Connection:
        """The connection; a new one when the file was taken away, or another is in its place."""
        there: os.stat_result | None = None
        with suppress(OSError):
            there = os.stat(self.path)
        if self._connection is not None and self._file is not None:
            if there is not None and os.path.samestat(there, self._file):
                return self._connection
            self._close()
        create(self.path)
        self._file = os.stat(self.path)
        self._connection = connect(self.path)
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None

    def _works(self) -> None:
        if self._failing:
            logger.warning(
                "the decision log %s is written again; %d contents were lost meanwhile",
                shown(self.path),
                self._lost - self._lost_before,
            )
        self._failing = False

    def _fails(self, fault: Exception) -> None:
        self._close()
        if not self._failing:
            self._lost_before = self._lost
            logger.error(
                "the decision log %s cannot be written and is tried again every %g s: %s",
                shown(self.path),
                RETRY_SECONDS,
                fault,
            )
        self._failing = True

    def _prune(self, now: float) -> None:
        """Deletes what is too old, some at a time, when it is time to."""
        if self._days is None or time.monotonic() < self._prune_at:
            return
        try:
            connection = self._open()
            gone = prune(connection, int(now) - self._days * DAY_SECONDS)
            if not gone:
                give_back(connection)
        except (sqlite3.Error, OSError, Unusable) as fault:
            self._fails(fault)
            gone = 0
        self._prune_at = time.monotonic() + (0.0 if gone else PRUNE_SECONDS)


def _bytes(scored: Scored) -> int:
    """About what a request keeps in memory: its contents and a probability of every option."""
    call = scored.asked.call
    answers = sum(
        len(question.prompts) * len(question.options)
        for entry in call.inputs
        for question in entry.questions
    )
    characters = sum(len(entry.content) for entry in call.inputs)
    return _REQUEST_BYTES + answers * _OPTION_BYTES + 2 * characters


def _contents(request: Ended) -> int:
    return 0 if request.scored is None else request.scored.usage.inputs
