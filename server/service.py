"""From the bytes of a request to the bytes of its answer: the way that all scoring routes share.

Reading, compiling and writing run on threads of their own, so that health checks never wait.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from spinf_serve.engine.api import Engine, Job, Priority, Turn
from spinf_serve.packs.errors import Busy, SpinfError
from spinf_serve.server.admission import Admission, Bounds, Slot
from spinf_serve.server.auth import Caller
from spinf_serve.server.body import Arriving
from spinf_serve.server.call_warnings import warnings_of
from spinf_serve.server.chunks import chunked
from spinf_serve.server.compiling import compile_call, located
from spinf_serve.server.config import ServerConfig
from spinf_serve.server.exchange import Asked, Ended, Observer, Scored, Timing, Wire, tell
from spinf_serve.server.features import Switches
from spinf_serve.server.served_packs import ServedPacks
from spinf_serve.server.usage import usage_of
from spinf_serve.server.waiting import while_wanted
from spinf_serve.server.wire.json_text import Document, decode
from spinf_serve.server.worker import Answered, Failed, Outcome, Worker
from spinf_serve.server.yielding import give_way

DRAINING_RETRY_SECONDS = 10
_HOST_THREADS = 2
# Decoding a body of this size takes a fraction of a millisecond, less than handing it over.
_SMALL_BODY_BYTES = 16 * 1024
_STOP_SECONDS = 30.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request as it arrived.

    Attributes:
        request_id: id of its answer.
        caller: whose it is.
        body: its bytes.
        gone: returns when the client has closed the connection.
        priority: how soon the answer is wanted.
        deadline: when nobody wants it any more, in seconds of `time.monotonic`.
        document: what the body says, where somebody has looked.
    """

    request_id: str
    caller: Caller
    body: bytes
    gone: Callable[[], Awaitable[None]]
    priority: Priority = Priority.INTERACTIVE
    deadline: float = math.inf
    document: Document | None = None


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A request that is ready for the engine."""

    asked: Asked
    jobs: tuple[Job, ...]
    seconds: float


@dataclass(slots=True)
class _Progress:
    """How far a request has come."""

    created: int
    start: float
    asked: Asked | None = None
    scored: Scored | None = None


class Service:
    """What the routes of an app share. Lives from start-up to shutdown.

    Attributes:
        config: the server's settings.
        switches: what of them may be asked.
        worker: the engine's owner.
        packs: the packs.
        admission: the slots, and what holds them.
        arriving: the memory of bodies that are not there yet.
        observers: told of every request that ends.
        draining: whether new requests are turned away: the server is to end, or was told to.
    """

    def __init__(
        self,
        config: ServerConfig,
        worker: Worker,
        packs: ServedPacks,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.config = config
        self.switches = Switches(config.extraction, config.generation)
        self.worker = worker
        self.packs = packs
        bounds = Bounds(config.queue, config.queue_bytes, config.queue_tokens)
        self.admission = Admission(bounds, lambda: worker.pace.tokens_per_second)
        self.arriving = Arriving(config.queue_bytes)
        self.observers = observers
        self.draining = False
        self._host = ThreadPoolExecutor(
            _HOST_THREADS, thread_name_prefix="host", initializer=give_way
        )

    def stop(self) -> None:
        """Ends the threads when everything in work is answered."""
        self.worker.stop(_STOP_SECONDS)
        self._host.shutdown()

    async def answer(self, arrival: Arrival, wire: Wire) -> bytes:
        """The answer to a body, read and written by a wire format.

        Raises:
            SpinfError: the request is refused, cannot be taken now, or failed.
            Gone: nobody waits for the answer any more.
        """
        progress = _Progress(created=int(time.time()), start=time.perf_counter())
        error: SpinfError | None = None
        try:
            return await self._answer(arrival, wire, progress)
        except SpinfError as fault:
            error = fault
            raise
        finally:
            ended = Ended(
                request_id=arrival.request_id,
                created=progress.created,
                route=wire.route,
                caller=arrival.caller,
                scored=progress.scored,
                error=error,
                asked=progress.asked,
            )
            tell(self.observers, ended)

    async def _answer(self, arrival: Arrival, wire: Wire, progress: _Progress) -> bytes:
        self.check_draining()
        document = arrival.document
        if document is None and len(arrival.body) <= _SMALL_BODY_BYTES:
            document = decode(arrival.body)
        engine = self.worker.engine
        with self.admission.slot(arrival.priority, len(arrival.body)) as slot:
            work = self._scored(arrival, document, wire, progress, engine, slot)
            return await while_wanted(work, arrival.gone, arrival.deadline)

    async def _scored(
        self,
        arrival: Arrival,
        document: Document | None,
        wire: Wire,
        progress: _Progress,
        engine: Engine,
        slot: Slot,
    ) -> bytes:
        """The answer to a request that holds a slot; `document` is None while it is not decoded."""
        if document is None:
            document = await self.on_host(lambda: decode(arrival.body))
        prepared = await self.on_host(
            partial(_prepare, document, engine, arrival.caller, wire, self.packs)
        )
        progress.asked = prepared.asked
        call = prepared.asked.call
        slot.weigh(
            sum(job.counts.packed_tokens for job in prepared.jobs)
            + sum(entry.slot_tokens for entry in call.inputs)
        )
        turn = Turn(arrival.caller.party, arrival.priority)
        outcome = await self._outcome(prepared.jobs, turn)
        if isinstance(outcome, Failed):
            raise located(outcome.error, call.inputs[outcome.index])
        scored, body = await self.on_host(
            lambda: _written(prepared, outcome, engine, arrival, wire, progress)
        )
        progress.scored = scored
        return body

    def check_draining(self) -> None:
        """Raises `Busy` (`model_unavailable`) while new requests are turned away."""
        if self.draining:
            raise Busy(
                "model_unavailable",
                "the server is draining and takes no new requests: ask another one, or ask again "
                f"in {DRAINING_RETRY_SECONDS} seconds",
                DRAINING_RETRY_SECONDS,
            )

    async def decoded(self, body: bytes) -> Document:
        """What a body says; a large one is decoded beside the event loop. Raises `Refused`."""
        if len(body) <= _SMALL_BODY_BYTES:
            return decode(body)
        return await self.on_host(lambda: decode(body))

    async def on_host(self, work: Callable[[], T]) -> T:
        """Runs work that takes the interpreter for a while on a thread beside the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._host, work)

    async def _outcome(self, jobs: tuple[Job, ...], turn: Turn) -> Outcome:
        """What the engine made of works; drops them when nobody waits here any more."""
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Outcome] = loop.create_future()

        def settle(value: Outcome) -> None:
            if not outcome.done():
                outcome.set_result(value)

        ticket = self.worker.ask(jobs, lambda value: _call_soon(loop, settle, value), turn)
        try:
            return await outcome
        finally:
            if outcome.cancelled():
                self.worker.cancel(ticket)


def _call_soon(
    loop: asyncio.AbstractEventLoop, function: Callable[[Outcome], None], value: Outcome
) -> None:
    # After a shutdown that could not wait, the loop is gone and nobody waits for the outcome.
    if not loop.is_closed():
        loop.call_soon_threadsafe(function, value)


def _prepare(
    document: Document, engine: Engine, caller: Caller, wire: Wire, packs: ServedPacks
) -> _Prepared:
    start = time.perf_counter()
    asked = wire.read(document, engine, caller, packs)
    asked = replace(asked, call=chunked(engine, asked.call))
    jobs = compile_call(engine, asked.call)
    return _Prepared(asked, jobs, time.perf_counter() - start)


def _written(
    prepared: _Prepared,
    answered: Answered,
    engine: Engine,
    arrival: Arrival,
    wire: Wire,
    progress: _Progress,
) -> tuple[Scored, bytes]:
    asked, results = prepared.asked, answered.results
    scored = Scored(
        asked=asked,
        results=results,
        usage=usage_of(asked.call, results),
        warnings=(*asked.warnings, *warnings_of(asked.call, results)),
        request_id=arrival.request_id,
        created=progress.created,
        timing=Timing(
            wall=1e3 * (time.perf_counter() - progress.start),
            queue=1e3 * answered.queue_seconds,
            compile=1e3 * prepared.seconds,
            score=1e3 * answered.score_seconds,
            busy=1e3 * answered.busy_seconds,
            decode=None if answered.decode_seconds is None else 1e3 * answered.decode_seconds,
        ),
        extras=arrival.caller.sees_counters,
        forwards=answered.forwards,
    )
    return scored, wire.write(scored, engine)
