"""Runs every batch that has not ended, from start-up to shutdown, and deletes what is old."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Coroutine
from typing import Any

from spinf_serve.packs.errors import Busy, Refused
from spinf_serve.server.batches.folder import BatchFolder
from spinf_serve.server.batches.records import CANCELLING, IN_PROGRESS, VALIDATING, Batch
from spinf_serve.server.batches.run import Run, Shared
from spinf_serve.server.service import Service

logger = logging.getLogger(__name__)

MAX_UNFINISHED = 100
"""Batches that may run at once; each holds a few files open."""

MAX_UNFINISHED_OF_ONE = 50
"""Those of one caller, so that none takes the places of all others."""

_CHECKS = 2
_REST_SECONDS = 30
_SWEEP_SECONDS = 60 * 60
_RETRY_SECONDS = 60


class Runner:
    """The batches of a server. Belongs to the event loop's thread.

    Attributes:
        folder: where they are.
    """

    def __init__(self, folder: BatchFolder, service: Service) -> None:
        self.folder = folder
        self._shared = Shared(
            folder=folder,
            service=service,
            slots=asyncio.Semaphore(service.config.batch_rows),
            checks=asyncio.Semaphore(_CHECKS),
        )
        self._runs: dict[str, Run] = {}
        self._adding = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = asyncio.Event()

    async def start(self) -> None:
        """Goes on with the batches that a server before has left."""
        self._spawn(self._sweep())
        for batch_id in await asyncio.to_thread(self.folder.ledger.unfinished):
            self._begin(batch_id)

    async def stop(self) -> None:
        """Leaves all batches where they are and lets go of the folder."""
        self._stopped.set()
        for run in self._runs.values():
            run.stop()
        await asyncio.gather(*self._tasks)
        await asyncio.to_thread(self.folder.close)

    async def add(self, batch: Batch) -> None:
        """Begins a new batch.

        Raises:
            Busy: `concurrency_limit`, too many have not ended.
            Refused: `unknown_file`, its input file is gone.
        """
        unfinished = len(self._runs) + self._adding
        if unfinished >= MAX_UNFINISHED:
            raise _full(f"{unfinished} batches have not ended, the most that run at once")
        ledger = self.folder.ledger
        # Others are asked for while this one is being written down.
        self._adding += 1
        try:
            added = await asyncio.to_thread(ledger.add_batch, batch, MAX_UNFINISHED_OF_ONE)
        finally:
            self._adding -= 1
        if not added:
            if await asyncio.to_thread(ledger.file, batch.input_file_id, None) is not None:
                raise _full(
                    f"{MAX_UNFINISHED_OF_ONE} batches of this caller have not ended, the most that "
                    "one may have"
                )
            raise Refused("unknown_file", f"no file {batch.input_file_id} is kept", "input_file_id")
        self._begin(batch.id)

    async def cancel(self, batch_id: str) -> bool:
        """Has a batch cancelled; False when it is beyond that."""
        moved = await asyncio.to_thread(
            self.folder.ledger.move,
            batch_id,
            CANCELLING,
            int(time.time()),
            before=(VALIDATING, IN_PROGRESS),
        )
        run = self._runs.get(batch_id)
        if moved and run is not None:
            run.cancel()
        return moved

    def _begin(self, batch_id: str) -> None:
        run = self._runs[batch_id] = Run(batch_id, self._shared)
        self._spawn(self._keep_going(run))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _keep_going(self, run: Run) -> None:
        """Runs a batch to its end; whatever goes wrong, it goes on from where its files stand."""
        try:
            while not self._stopped.is_set():
                try:
                    await run.go()
                    return
                except Exception:
                    logger.exception("batch %s rests for %d s", run.batch_id, _REST_SECONDS)
                await self._rest(_REST_SECONDS)
        finally:
            del self._runs[run.batch_id]

    async def _sweep(self) -> None:
        while not self._stopped.is_set():
            try:
                await asyncio.to_thread(self.folder.sweep)
            except Exception:
                logger.exception("old batch files could not be deleted; the next try is later")
            await self._rest(_SWEEP_SECONDS)

    async def _rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), seconds)


def _full(problem: str) -> Busy:
    return Busy(
        "concurrency_limit", f"{problem}; ask again in {_RETRY_SECONDS} seconds", _RETRY_SECONDS
    )
