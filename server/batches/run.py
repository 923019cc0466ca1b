"""One batch on its way to its end: its file checked, its rows asked, their lines written in order.

Rows are asked side by side and written in the order of the input, so that how far a batch has come
is one place in it: whatever ends the process, the next run begins there.
"""

import asyncio
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from spinf_serve.packs.errors import Refused
from spinf_serve.server.batches.asking import ask
from spinf_serve.server.batches.folder import BatchFolder
from spinf_serve.server.batches.records import (
    CANCELLED,
    CANCELLING,
    COMPLETED,
    EXPIRED,
    EXPIRING,
    FAILED,
    FINALIZING,
    IN_PROGRESS,
    OUTPUT_PURPOSE,
    UNFINISHED,
    VALIDATING,
    Batch,
    Flaw,
    KeptFile,
)
from spinf_serve.server.batches.rows import Row, check_file, read_rows
from spinf_serve.server.batches.spool import Line, Spool, given_up
from spinf_serve.server.service import Service

_READY_SECONDS = 0.1
# Rows that may be asked before the line of a slow one is written, times those in work at once.
_AHEAD = 4
_GIVEN_UP_ROWS = 1000
_ENDS = {FINALIZING: COMPLETED, EXPIRING: EXPIRED, CANCELLING: CANCELLED}
_WHY = {
    CANCELLING: ("batch_cancelled", "the batch was cancelled before this row was answered"),
    EXPIRING: ("batch_expired", "the batch expired before this row was answered"),
}

# A row, and the asking of it.
_Pair = tuple[Row, asyncio.Task[Line]]
_Asked = asyncio.Queue[_Pair | None]


@dataclass(frozen=True, slots=True)
class Shared:
    """What all runs of a server share.

    Attributes:
        folder: where the files are.
        service: what answers rows.
        slots: one for each row that may be in work; first come, first served, so that batches
            take turns row by row.
        checks: one for each file that may be checked at once.
    """

    folder: BatchFolder
    service: Service
    slots: asyncio.Semaphore
    checks: asyncio.Semaphore


class Run:
    """A batch that runs. Belongs to the event loop's thread.

    Attributes:
        batch_id: which.
    """

    def __init__(self, batch_id: str, shared: Shared) -> None:
        self.batch_id = batch_id
        self._shared = shared
        self._ledger = shared.folder.ledger
        self._ending: str | None = None
        self._stopping = False
        self._asked: set[asyncio.Task[Line]] = set()

    def cancel(self) -> None:
        """Lets go of rows in work; the ledger says already that the batch is to be cancelled."""
        self._end_early(CANCELLING)

    def stop(self) -> None:
        """Lets go of rows in work; the batch goes on with them when the server runs again."""
        self._stopping = True
        self._let_go()

    async def go(self) -> None:
        """Brings the batch to its end, or until `stop`.

        Raises OSError and `sqlite3.Error` when the folder cannot be written; begin again then.
        """
        async with self._shared.checks:
            batch = await self._checked()
        if batch is None:
            return
        path = self._shared.folder.files
        with await asyncio.to_thread(Spool, path, self._ledger, batch) as spool:
            try:
                if batch.status == IN_PROGRESS:
                    await self._in_time(batch, spool)
                if not self._stopping:
                    await asyncio.to_thread(self._conclude, spool)
            except Refused as refused:
                # The rows were fine when they were checked.
                flaw = Flaw.of(refused, None)
                await asyncio.to_thread(self._end, FAILED, UNFINISHED, spool, (flaw,))

    # --- checking

    async def _checked(self) -> Batch | None:
        """The batch once its file is checked; None when it has ended, or is to be left alone."""
        batch = await asyncio.to_thread(self._ledger.batch, self.batch_id)
        if batch is not None and batch.status == VALIDATING and not self._stopping:
            await asyncio.to_thread(self._check, batch)
            batch = await asyncio.to_thread(self._ledger.batch, self.batch_id)
        if batch is None or not batch.unfinished or self._stopping:
            return None
        if batch.total is None:
            # Cancelled before its rows were counted, so that it has none.
            self._move(CANCELLED, (CANCELLING,))
            return None
        return batch

    def _check(self, batch: Batch) -> None:
        total, flaws = check_file(
            self._shared.folder.path(batch.input_file_id),
            batch.endpoint,
            self._shared.service.config.max_body_bytes,
            stopped=lambda: self._stopping or self._ending is not None,
        )
        if self._stopping or self._ending is not None:
            return
        if flaws:
            self._move(FAILED, (VALIDATING,), flaws=flaws)
        else:
            self._move(IN_PROGRESS, (VALIDATING,), total=total)

    # --- answering

    async def _in_time(self, batch: Batch, spool: Spool) -> None:
        """Has rows answered until all are, or the batch expires."""
        if batch.expires_at <= time.time():
            await self._expire(batch.expires_at)
            return
        expiry = asyncio.create_task(self._expire(batch.expires_at))
        try:
            await self._answer(batch, spool)
        finally:
            expiry.cancel()

    async def _expire(self, expires_at: int) -> None:
        await asyncio.sleep(expires_at - time.time())
        if await asyncio.to_thread(self._move, EXPIRING, (IN_PROGRESS,)):
            self._end_early(EXPIRING)

    async def _answer(self, batch: Batch, spool: Spool) -> None:
        asked: _Asked = asyncio.Queue()
        ahead = asyncio.Semaphore(_AHEAD * self._shared.service.config.batch_rows)
        feeder = asyncio.create_task(self._feed(batch, spool.progress.input_bytes, asked, ahead))
        try:
            await self._collect(spool, asked, ahead)
            await feeder
        finally:
            feeder.cancel()
            self._let_go()
            await asyncio.gather(feeder, *self._asked, return_exceptions=True)

    async def _feed(
        self,
        batch: Batch,
        start_bytes: int,
        asked: _Asked,
        ahead: asyncio.Semaphore,
    ) -> None:
        """Begins to ask one row after the other; ends its queue with None."""
        service = self._shared.service
        try:
            with self._shared.folder.path(batch.input_file_id).open("rb") as file:
                file.seek(start_bytes)
                rows = read_rows(file, batch.endpoint)
                while True:
                    await ahead.acquire()
                    while (service.draining or not service.worker.ready) and not self._halted:
                        await asyncio.sleep(_READY_SECONDS)
                    row = await self._next(rows)
                    if row is None:
                        return
                    asking = asyncio.create_task(ask(service, row, batch.endpoint, batch.caller))
                    self._asked.add(asking)
                    asking.add_done_callback(self._asked.discard)
                    asking.add_done_callback(lambda _: self._shared.slots.release())
                    asked.put_nowait((row, asking))
                    if self._halted:
                        asking.cancel()
        finally:
            asked.put_nowait(None)

    async def _next(self, rows: Iterator[Row]) -> Row | None:
        """The next row, with a slot held for it; None, with none held, when none is to be asked."""
        await self._shared.slots.acquire()
        row = None
        try:
            if not self._halted:
                row = await asyncio.to_thread(next, rows, None)
        finally:
            if row is None:
                self._shared.slots.release()
        return row

    async def _collect(self, spool: Spool, asked: _Asked, ahead: asyncio.Semaphore) -> None:
        """Writes lines in the order of their rows, as many at once as are there."""
        waiting: deque[_Pair] = deque()
        fed = False
        while waiting or not fed:
            if not waiting:
                fed = not _take(await asked.get(), waiting)
                continue
            await asyncio.wait([waiting[0][1]])
            while not asked.empty():
                fed = not _take(asked.get_nowait(), waiting)
            lines = []
            while waiting and waiting[0][1].done():
                row, asking = waiting.popleft()
                if not asking.cancelled():
                    lines.append(asking.result())
                elif self._ending is not None:
                    lines.append(given_up(row, *_WHY[self._ending]))
                else:
                    # Let go of by `stop`, and asked again when the server runs again.
                    waiting.clear()
                    fed = True
                ahead.release()
            if lines:
                await asyncio.to_thread(spool.add, lines)

    @property
    def _halted(self) -> bool:
        """Whether no further row is to be asked."""
        return self._stopping or self._ending is not None

    def _end_early(self, status: str) -> None:
        self._ending = status
        self._let_go()

    def _let_go(self) -> None:
        for asking in self._asked:
            asking.cancel()

    # --- ending

    def _conclude(self, spool: Spool) -> None:
        """Gives rows up that have no line, and shows the files."""
        self._move(FINALIZING, (IN_PROGRESS,))
        batch = self._ledger.batch(self.batch_id)
        if batch is None:
            raise AssertionError(f"{self.batch_id} is struck out before its end")
        if batch.status in _WHY:
            with self._shared.folder.path(batch.input_file_id).open("rb") as file:
                file.seek(spool.progress.input_bytes)
                rows = read_rows(file, batch.endpoint)
                while block := list(islice(rows, _GIVEN_UP_ROWS)):
                    spool.add([given_up(row, *_WHY[batch.status]) for row in block])
        self._end(_ENDS[batch.status], (batch.status,), spool)

    def _end(
        self, status: str, before: Sequence[str], spool: Spool, flaws: Sequence[Flaw] = ()
    ) -> None:
        """Ends the batch and shows what was written."""
        batch = self._ledger.batch(self.batch_id)
        if batch is None:
            raise AssertionError(f"{self.batch_id} is struck out before its end")
        now = int(time.time())
        written = (
            (batch.output_file_id, "output", spool.progress.output_bytes),
            (batch.error_file_id, "error", spool.progress.error_bytes),
        )
        files = [
            KeptFile(
                id=id,
                owner=batch.caller.name,
                filename=f"{batch.id}_{what}.jsonl",
                purpose=OUTPUT_PURPOSE,
                size_bytes=size_bytes,
                created_at=now,
                expires_at=now + batch.output_seconds,
            )
            for id, what, size_bytes in written
            if size_bytes
        ]
        self._move(status, before, flaws=flaws, files=files)
        for id, _, size_bytes in written:
            if not size_bytes:
                self._shared.folder.path(id).unlink(missing_ok=True)

    def _move(
        self,
        status: str,
        before: Sequence[str],
        *,
        total: int | None = None,
        flaws: Sequence[Flaw] = (),
        files: Sequence[KeptFile] = (),
    ) -> bool:
        now = int(time.time())
        return self._ledger.move(
            self.batch_id, status, now, before=before, total=total, flaws=flaws, files=files
        )


def _take(asked: _Pair | None, waiting: deque[_Pair]) -> bool:
    """Puts a row that is being asked behind others; False at the end of rows."""
    if asked is not None:
        waiting.append(asked)
    return asked is not None
