"""The one thread that owns the engine: opens it, runs its passes, hands results back.

Works that arrive together share passes: before each step of the engine it gets everything that
waits. An engine that runs passes ahead starts the next one in a step before it waits for the one
that runs, however little there is for it: so nobody waits longer than the rest of a pass and one
more before their own begins. Knows no requests; whoever asks gives a function that is called with
the outcome.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue

from spinf_serve.engine.api import Engine, Finished, Job, Turn
from spinf_serve.engine.work import Result
from spinf_serve.packs.errors import Busy, Fault, SpinfError, Unusable
from spinf_serve.server.pace import Pace
from spinf_serve.server.yielding import give_way

logger = logging.getLogger(__name__)

WARMING_UP_RETRY_SECONDS = 10
UNAVAILABLE_RETRY_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Answered:
    """Results of all works of a ticket, in order, and seconds of its way.

    Attributes:
        queue_seconds: from the asking until the engine had the works.
        score_seconds: from then until the last result, or until all but slots was read.
        busy_seconds: from taking the works up to the last result, how long the engine was at work or
            waited for a pass, this ticket's or another's.
        decode_seconds: from the end of `score_seconds` until the last result; None without slots.
        forwards: passes that came back between taking the works up and the last result, this
            ticket's or another's.
    """

    results: tuple[Result, ...]
    queue_seconds: float
    score_seconds: float
    busy_seconds: float
    decode_seconds: float | None = None
    forwards: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """The first work of a ticket that failed, and why; the others were dropped."""

    index: int
    error: SpinfError


Outcome = Answered | Failed


@dataclass(eq=False, slots=True)
class Ticket:
    """Works that are answered together. All but `jobs` belongs to the worker.

    Attributes:
        jobs: the compiled works.
        done: called once with the outcome, on the worker's thread; never after a cancel.
        turn: when it is their turn.
        has_slots: whether answers are found or written for it, besides what is read.
        read_at: when all else was read, once it was.
    """

    jobs: tuple[Job, ...]
    done: Callable[[Outcome], None]
    turn: Turn
    asked_at: float
    begun_at: float = 0.0
    busy_before: float = 0.0
    forwards_before: int = 0
    read_at: float | None = None
    has_slots: bool = False
    results: dict[Job, Result] = field(default_factory=dict)


class Worker:
    """Owner of an engine.

    Attributes:
        load_error: why the engine could not be opened, if so. It is logged, unless it is an
            `Unusable`: then it is for whoever started the server to show.
        load_seconds: how long opening took, once it is done.
        pace: how fast the engine reads.
    """

    def __init__(
        self, open_engine: Callable[[], Engine], loaded: Callable[[], None] = lambda: None
    ) -> None:
        """`loaded` is called on the worker's thread when the opening ended, well or not."""
        self.load_error: Exception | None = None
        self.load_seconds = 0.0
        self.pace = Pace()
        self._open = open_engine
        self._loaded = loaded
        self._engine: Engine | None = None
        self._owners: dict[Job, Ticket] = {}
        self._unread: dict[Ticket, None] = {}
        self._inbox: SimpleQueue[Callable[[Engine], None]] = SimpleQueue()
        self._busy_seconds = 0.0
        self._step_began: float | None = None
        self._stopping = False
        # A daemon, since the opening of a large model cannot be interrupted.
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Begins to open the engine."""
        self._thread.start()

    @property
    def engine(self) -> Engine:
        """The engine, for `compile` and its descriptions.

        Raises:
            Busy: it is being opened, could not be opened, or its thread died.
        """
        if self._engine is not None and self.ready:
            return self._engine
        if self._engine is None and self.load_error is None:
            raise Busy("warming_up", "the model is still loading", WARMING_UP_RETRY_SECONDS)
        raise Busy(
            "model_unavailable",
            "the model could not be loaded or has stopped; the server's log says why",
            UNAVAILABLE_RETRY_SECONDS,
        )

    @property
    def ready(self) -> bool:
        """Whether works are answered now."""
        return self._engine is not None and self.alive

    @property
    def alive(self) -> bool:
        """Whether the thread runs; after `stop`, whether it was left behind.

        Python's own end would then abort the process, since a thread inside torch cannot be ended.
        """
        return self._thread.is_alive()

    @property
    def step_seconds(self) -> float:
        """How long the step of the engine that runs now has taken so far; 0 between steps."""
        began = self._step_began
        return 0.0 if began is None else time.perf_counter() - began

    def ask(self, jobs: tuple[Job, ...], done: Callable[[Outcome], None], turn: Turn) -> Ticket:
        """Has works of a request answered; the outcome goes to `done`. Any thread."""
        ticket = Ticket(jobs, done, turn, asked_at=time.perf_counter())
        self._inbox.put(partial(self._begin, ticket))
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """Drops a ticket that nobody waits for any more. Any thread."""
        self._inbox.put(partial(self._drop, ticket))

    def stop(self, timeout_seconds: float) -> None:
        """Ends the thread when everything that was asked is answered, or leaves it behind then.

        An opening cannot be interrupted, so one that goes on is left behind at once.
        """
        self._inbox.put(self._end)
        if self._engine is not None:
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        give_way()
        start = time.perf_counter()
        try:
            engine = self._open()
        except Exception as fault:
            # Whatever it is, the server goes on to say that it has no model.
            self.load_error = fault
            if not isinstance(fault, Unusable):
                logger.error("the model could not be loaded", exc_info=fault)
            self._loaded()
            return
        self.load_seconds = time.perf_counter() - start
        self._engine = engine
        self._loaded()
        try:
            while not (self._stopping and not self._owners):
                self._take(engine)
                if self._owners:
                    self._step(engine)
        except Exception as fault:
            # Nobody may wait for a thread that is gone; /livez tells the rest.
            logger.critical("the engine's thread died", exc_info=fault)
            for ticket in dict.fromkeys(self._owners.values()):
                ticket.done(Failed(0, _as_fault(fault)))

    def _take(self, engine: Engine) -> None:
        """Carries out what waits in the inbox; waits for something when there is no work."""
        if not self._owners:
            self._inbox.get()(engine)
        while True:
            try:
                self._inbox.get_nowait()(engine)
            except Empty:
                return

    def _end(self, _: Engine) -> None:
        self._stopping = True

    def _begin(self, ticket: Ticket, engine: Engine) -> None:
        ticket.begun_at = time.perf_counter()
        ticket.has_slots = any(job.work.slots for job in ticket.jobs)
        if ticket.has_slots:
            self._unread[ticket] = None
        ticket.busy_before = self._busy_seconds
        ticket.forwards_before = engine.stats.passes
        for index, job in enumerate(ticket.jobs):
            self._owners[job] = ticket
            try:
                engine.submit(job, ticket.turn)
            except Exception as fault:
                logger.exception("the engine did not take a work")
                self._fail(engine, ticket, index, _as_fault(fault))
                return

    def _drop(self, ticket: Ticket, engine: Engine) -> None:
        self._unread.pop(ticket, None)
        for job in ticket.jobs:
            if self._owners.pop(job, None) is not None:
                engine.cancel(job)

    def _step(self, engine: Engine) -> None:
        start = self._step_began = time.perf_counter()
        rows = engine.stats.rows
        try:
            finished = engine.step()
            if not finished and not engine.pending:
                raise AssertionError("the engine holds no work, but has not answered all")
        except Exception as fault:
            # The engine does not say whose works were in that pass, so all that it holds fail;
            # those that still wait in the inbox are answered by the next pass.
            logger.exception("a pass failed")
            for ticket in dict.fromkeys(self._owners.values()):
                self._fail(engine, ticket, 0, _as_fault(fault))
            return
        finally:
            self._step_began = None
        seconds = time.perf_counter() - start
        self._busy_seconds += seconds
        self.pace.add(engine.stats.rows - rows, seconds)
        self._note_read(finished)
        for job, outcome in finished:
            owner = self._owners.get(job)
            if owner is None:
                continue
            if isinstance(outcome, SpinfError):
                self._fail(engine, owner, owner.jobs.index(job), outcome)
                continue
            del self._owners[job]
            owner.results[job] = outcome
            if len(owner.results) == len(owner.jobs):
                owner.done(self._answered(owner, engine))

    def _note_read(self, finished: list[Finished]) -> None:
        """Remembers when all that tickets with slots ask was read, but for the slots."""
        ended = {job for job, _ in finished} if self._unread else set()
        for ticket in list(self._unread):
            if all(
                job in ticket.results or job in ended or job.tree.finished for job in ticket.jobs
            ):
                ticket.read_at = time.perf_counter()
                del self._unread[ticket]

    def _answered(self, ticket: Ticket, engine: Engine) -> Answered:
        now = time.perf_counter()
        read_at = now if ticket.read_at is None else ticket.read_at
        return Answered(
            results=tuple(ticket.results[job] for job in ticket.jobs),
            queue_seconds=ticket.begun_at - ticket.asked_at,
            score_seconds=read_at - ticket.begun_at,
            busy_seconds=self._busy_seconds - ticket.busy_before,
            decode_seconds=now - read_at if ticket.has_slots else None,
            forwards=engine.stats.passes - ticket.forwards_before,
        )

    def _fail(self, engine: Engine, ticket: Ticket, index: int, error: SpinfError) -> None:
        try:
            self._drop(ticket, engine)
        finally:
            ticket.done(Failed(index, error))


def _as_fault(fault: Exception) -> SpinfError:
    if isinstance(fault, SpinfError):
        return fault
    return Fault("the engine failed on this request; the server's log says why")
