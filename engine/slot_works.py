"""Works with slots: which of them are under way, and their steps among what else waits.

What a step continues lies in the device's memory until the last one, so only so many works are under
way at a time; further ones wait, by priority, scoring before texts, and then in the order of their
coming. Knows no answers.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from spinf_serve.engine.decoding import Decoding, Places
from spinf_serve.engine.extraction.answers import SlotAnswers
from spinf_serve.engine.extraction.search import Effort
from spinf_serve.engine.schedule import Schedule
from spinf_serve.engine.scoring.job import Job
from spinf_serve.engine.stats import Stats
from spinf_serve.engine.tree.packing import Tree
from spinf_serve.engine.turn import Priority, Turn

PASSES_UNDER_WAY: Final = 8
"""Works with slots are under way as long as their trees have the rows of so many passes."""

_SAVED_PASSES: Final = 2
_LEAST_SAVED: Final = 8192
"""And as long as they cannot save more rows than so many passes have, or so many where those are small.
Rows that were saved once keep their memory."""

_BESIDE: Final = 4
"""What part of that there is besides for works that go before those that have it: these are not
read meanwhile, and would keep their room for as long as others keep them waiting."""

Lane = tuple[Priority, bool]


@dataclass(slots=True, eq=False)
class _Running:
    """A work with slots.

    Attributes:
        decoding: once it is under way.
        step: what is read next for its slots.
        opened_at: when its tree was read, in seconds; None before.
        ended_at: when its last slot ended.
        most_saved: rows that it may have saved at a time.
    """

    job: Job
    turn: Turn
    most_saved: int
    decoding: Decoding | None = None
    step: Tree | None = None
    opened_at: float | None = None
    ended_at: float | None = None


class SlotWorks:
    """Belongs to the engine's thread."""

    def __init__(
        self,
        schedule: Schedule,
        stats: Stats,
        pass_tokens: int,
        vocab_size: int,
        next_key: Callable[[], int],
    ) -> None:
        """`next_key` names trees, each otherwise; tokens of slots are below `vocab_size`."""
        self._schedule = schedule
        self._stats = stats
        self._most_rows = PASSES_UNDER_WAY * pass_tokens
        self._most_saved = max(_SAVED_PASSES * pass_tokens, _LEAST_SAVED)
        self._vocab_size = vocab_size
        self._next_key = next_key
        self._places = Places()
        self._running: dict[int, _Running] = {}
        self._by_step: dict[int, _Running] = {}
        self._waiting: list[_Running] = []
        self._rows: Counter[Lane] = Counter()
        self._may_save: Counter[Lane] = Counter()

    @property
    def saved_rows(self) -> int:
        """Rows that are saved now."""
        return self._places.taken

    def put(self, job: Job, turn: Turn) -> None:
        """Queues a work, now or when others have ended."""
        running = _Running(job, turn, _most_saved(job))
        self._running[job.tree.key] = running
        self._waiting.append(running)
        self._admit()

    def job_of(self, step: Tree) -> Job | None:
        """The work that a step is of; None for other trees."""
        running = self._by_step.get(step.key)
        return None if running is None else running.job

    def step_key(self, job: Job) -> int | None:
        """Key of the step that a work waits for."""
        running = self._running.get(job.tree.key)
        return None if running is None or running.step is None else running.step.key

    def is_through(self, job: Job) -> bool:
        """Whether all slots of a work whose tree was read have ended; begins with them if need be."""
        running = self._running[job.tree.key]
        if running.opened_at is None and running.decoding is not None:
            running.opened_at = time.perf_counter()
            running.decoding.opened()
            self._continue(running)
        return running.ended_at is not None

    def take(self, step: Tree) -> None:
        """A step was read, and what came of it is numbers."""
        running = self._by_step.pop(step.key)
        if running.decoding is None:
            raise AssertionError("a step of a work that is not under way")
        running.decoding.take(step)
        self._continue(running)

    def answers(self, job: Job) -> tuple[list[SlotAnswers], float]:
        """What the slots of a work gave that is through, and how many seconds it took."""
        running = self._running[job.tree.key]
        if running.decoding is None or running.opened_at is None or running.ended_at is None:
            raise AssertionError("a work is answered before its slots have ended")
        return running.decoding.answers, running.ended_at - running.opened_at

    def drop(self, job: Job) -> None:
        """Nobody waits for a work any more; one without slots is no error."""
        running = self._running.pop(job.tree.key, None)
        if running is None:
            return
        if running.decoding is None:
            self._waiting.remove(running)
            return
        running.decoding.end()
        self._rows[running.turn.lane] -= job.tree.packed_tokens
        self._may_save[running.turn.lane] -= running.most_saved
        if running.step is not None:
            self._by_step.pop(running.step.key, None)
            self._schedule.drop(running.step)
            running.step.cancelled = True
        self._admit()

    def _continue(self, running: _Running) -> None:
        if running.decoding is None:
            return
        step = running.step = running.decoding.step(self._next_key())
        if step is None:
            running.ended_at = time.perf_counter()
            return
        self._stats.decode_rows += len(step.trie.tokens)
        self._by_step[step.key] = running
        self._schedule.put(step, running.turn)

    def _admit(self) -> None:
        """Begins with works that wait while there is room for them."""
        while self._waiting:
            first = min(self._waiting, key=lambda one: one.turn.lane)
            if not self._has_room(first):
                return
            tree, lane = first.job.tree, first.turn.lane
            self._waiting.remove(first)
            self._rows[lane] += tree.packed_tokens
            self._may_save[lane] += first.most_saved
            openings = first.job.forest.openings
            first.decoding = Decoding(
                tree, openings, first.job.slots, self._places, self._vocab_size
            )
            self._schedule.put(tree, first.turn)

    def _has_room(self, work: _Running) -> bool:
        """Whether a work may begin; one always may where nothing is under way but what it precedes."""
        tokens, lane = work.job.tree.packed_tokens, work.turn.lane
        rows, may_save = _up_to(lane, self._rows), _up_to(lane, self._may_save)
        is_first = not rows
        fits_beside = (
            _BESIDE * (rows + tokens) <= self._most_rows
            and _BESIDE * (may_save + work.most_saved) <= self._most_saved
        )
        fits = (
            self._rows.total() + tokens <= self._most_rows
            and self._may_save.total() + work.most_saved <= self._most_saved
        )
        return is_first or fits_beside or fits


def _up_to(lane: Lane, counted: Counter[Lane]) -> int:
    """What is counted of a lane and of those that go before it."""
    return sum(count for one, count in counted.items() if one <= lane)


def _most_saved(job: Job) -> int:
    """Rows between the trunk and the slots, and as many as continuations may have at most."""
    openings = job.forest.openings
    prompts = sum(int(job.tree.trie.depth[opening.node]) + 1 for opening in openings)
    beams = Effort().beams
    written = sum(
        slot.max_tokens * (beams if slot.sampling is None else slot.sampling.n) * len(slot.prompts)
        for slot in job.work.slots
    )
    return len(job.tree.chain) + prompts + written
