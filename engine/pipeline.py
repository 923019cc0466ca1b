"""Passes on their way over a device: packed, started while others run, finished in order.

The host is ahead of the device: while one pass runs, the next is packed, laid out and launched, and
the one before is assembled. Knows no works; what becomes of a tree's columns is the engine's.
"""

import logging
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from spinf_serve.engine.schedule import Schedule
from spinf_serve.engine.stats import DeviceMemory, Stats
from spinf_serve.engine.tree.packing import PackedPass
from spinf_serve.engine.tree.plan import IntArray
from spinf_serve.engine.trunk_cache import TrunkCache

logger = logging.getLogger(__name__)

_LITTLE = 16
"""What part of a pass is little. Texts become rows some fifty times faster than a large card reads
them: while a sixteenth of a pass runs, a whole one is compiled, packed and launched."""

_WORTH = 4
"""What part of a pass is worth launching while more is being compiled. Launching takes the host as long
as the card takes for an eighth of a pass, and nothing is compiled meanwhile: a smaller pass would be
followed by another small one, and so on."""


@dataclass(frozen=True, slots=True, eq=False)
class ReadBack:
    """What was read of a pass: C columns, T reads with the most probable tokens.

    Attributes:
        logprobs: [C] float32 log-probabilities of the columns.
        top_ids: [T, top] tokens by falling log-probability, equal ones by rising id; `top` is at
            most the vocabulary's size.
        top_logprobs: [T, top] float32, theirs.
    """

    logprobs: np.ndarray
    top_ids: IntArray = field(default_factory=lambda: np.zeros((0, 0), np.int32))
    top_logprobs: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.float32))


class OutOfDeviceMemory(Exception):
    """A pass needs more of the device's memory than is free. What it held is free again."""


class Started(Protocol):
    """A pass that was launched, as its forward keeps it until it is finished.

    Attributes:
        layout_seconds: host time that its layout took.
        device_seconds: how long it ran; known once it is finished.
    """

    layout_seconds: float
    device_seconds: float


class Forward(Protocol):
    """A model on a device: passes in, wanted log-probabilities out.

    Passes run one after another in the order of `start`, and are finished in that order. `start`
    and `finish` may raise anything: the pass is lost then, and no other.

    Attributes:
        ahead: passes that may be in flight while another is prepared; 0 where `start` computes.
    """

    ahead: int

    def start(self, packed: PackedPass) -> Started:
        """Lays a pass out and launches it, without waiting for a device.

        Raises:
            OutOfDeviceMemory: and frees what it had taken.
        """
        ...

    def done(self, started: Started) -> bool:
        """Whether `finish` would not wait."""
        ...

    def finish(self, started: Started) -> ReadBack:
        """What was read of a pass, once it is there.

        The arrays stay as they are, whatever runs later. Raises `OutOfDeviceMemory` like `start`.
        """
        ...

    def memory(self) -> DeviceMemory | None:
        """The device's memory now; None where it is the host's own. Any thread."""
        ...

    def release(self, key: int) -> None:
        """Forgets the keys and values kept under a key; unknown keys are no error.

        Takes effect behind what was started: passes in flight still find them.
        """
        ...

    def room_bytes(self, tokens: int) -> int | None:
        """Bytes that the keys and values of a trunk take; None where they never fit."""
        ...

    def reserve(self, key: int, tokens: int) -> bool:
        """Room for the keys and values of a trunk, until `release`; False when none is free."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Returned:
    """A pass that came back, and what was read of it."""

    packed: PackedPass
    found: ReadBack


@dataclass(frozen=True, slots=True, eq=False)
class Lost:
    """A pass that failed, and why in words for those who asked."""

    packed: PackedPass
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class _Flight:
    """A started pass. Holding `started` keeps all alive that the device may still read."""

    packed: PackedPass
    started: Started

    @property
    def rows(self) -> int:
        return len(self.packed.plan.tokens)


class Pipeline:
    """Waiting trees and passes in flight of one forward. Belongs to one thread."""

    def __init__(
        self, forward: Forward, token_budget: int, stats: Stats, trunks: TrunkCache
    ) -> None:
        self._forward = forward
        self._trunks = trunks
        self._token_budget = token_budget
        self._little_rows = max(1, token_budget // _LITTLE)
        self._stats = stats
        self.schedule = Schedule()
        self._flights: deque[_Flight] = deque()

    @property
    def in_flight(self) -> int:
        """Passes that were started and are not finished."""
        return len(self._flights)

    @property
    def has_room(self) -> bool:
        """Whether another pass may be started."""
        return self.in_flight <= self._forward.ahead

    @property
    def oldest_is_done(self) -> bool:
        """Whether there is a pass in flight that can be finished without waiting."""
        return bool(self._flights) and self._forward.done(self._flights[0].started)

    @property
    def should_start(self) -> bool:
        """Whether to start a pass now, although more trees are about to come.

        So when a whole pass waits, or when what still runs is little: a pass that is smaller than
        it could be costs the device less than standing idle until there is more. Never where
        `start` itself waits for the pass.
        """
        if not (self._forward.ahead and self.has_room and self.schedule):
            return False
        return self.schedule.rows >= self._token_budget or self._running < self._little_rows

    @property
    def should_start_early(self) -> bool:
        """The same while this thread has more to compile: not for what is hardly worth a launch."""
        return self.should_start and self.schedule.rows * _WORTH >= self._token_budget

    @property
    def _running(self) -> int:
        """Rows of the passes that the device has not ended."""
        done = self._forward.done
        return sum(flight.rows for flight in self._flights if not done(flight.started))

    def fill(self) -> Lost | None:
        """Starts passes while there is room and something waits; a failing one ends it.

        Whatever waits goes, be it much less than a pass: held back it would gain little for the
        device, and those who wait for it would lose the time until a running pass ends.
        """
        while self.has_room and self.schedule:
            lost = self.start_next()
            if lost is not None:
                return lost
        return None

    def start_next(self) -> Lost | None:
        """Packs and starts one pass, if anything waits; what it comes to when that fails."""
        start = time.perf_counter()
        packed = self.schedule.next_pass(self._token_budget, self._trunks)
        packed_at = time.perf_counter()
        self._stats.pack_seconds += packed_at - start
        if packed is None:
            return None
        try:
            started = self._forward.start(packed)
        except OutOfDeviceMemory as full:
            # Known to happen: there is nothing to look for in a trace.
            logger.error("a forward of %d rows failed to start: %s", len(packed.plan.tokens), full)
            return _lost(packed, full)
        except Exception as fault:
            # The one place that knows which pass a failing forward belongs to.
            logger.exception("a forward of %d rows failed to start", len(packed.plan.tokens))
            return _lost(packed, fault)
        self._flights.append(_Flight(packed, started))
        self._stats.layout_seconds += started.layout_seconds
        self._stats.forward_seconds += time.perf_counter() - packed_at - started.layout_seconds
        for part in packed.plan.slices:
            # At once, so that what is kept does not grow with the passes in flight.
            if not part.keep:
                self._forward.release(part.key)
        self._trunks.started(packed)
        return None

    def finish_oldest(self) -> Returned | Lost:
        """Waits for the oldest pass in flight; there must be one."""
        flight = self._flights.popleft()
        start = time.perf_counter()
        try:
            found = self._forward.finish(flight.started)
        except OutOfDeviceMemory as full:
            logger.error("a forward of %d rows failed: %s", flight.rows, full)
            return _lost(flight.packed, full)
        except Exception as fault:
            logger.exception("a forward of %d rows failed", flight.rows)
            return _lost(flight.packed, fault)
        finally:
            self._stats.forward_seconds += time.perf_counter() - start
        self._stats.device_seconds += flight.started.device_seconds
        self._stats.passes += 1
        self._stats.rows += flight.rows
        self._stats.reads += len(flight.packed.plan.read_rows)
        return Returned(flight.packed, found)


def _lost(packed: PackedPass, fault: Exception) -> Lost:
    rows = len(packed.plan.tokens)
    if isinstance(fault, OutOfDeviceMemory):
        return Lost(
            packed,
            f"the GPU ran out of memory in a pass of {rows} tokens; "
            "lower token_budget or free memory on the card",
        )
    return Lost(packed, f"the forward failed: {type(fault).__name__}")
