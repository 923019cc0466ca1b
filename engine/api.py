"""The engine's only door: open a model, compile works, run passes, get answers.

One thread owns an engine and calls `submit`, `step` and `cancel`; `compile` may be called from any.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial

import numpy as np

from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.counting import counting_without_weights
from spinf_serve.engine.extraction.vocabulary import Vocabulary
from spinf_serve.engine.extraction.writing import unheard
from spinf_serve.engine.fingerprint import Fingerprint
from spinf_serve.engine.models.served import ServedModel
from spinf_serve.engine.outcomes import Finished, Outcomes
from spinf_serve.engine.pipeline import (
    Forward,
    Lost,
    OutOfDeviceMemory,
    Pipeline,
    ReadBack,
    Returned,
    Started,
)
from spinf_serve.engine.schedule import Schedule
from spinf_serve.engine.scoring.generation_job import generation_job
from spinf_serve.engine.scoring.job import (
    FloorRead,
    Job,
    answer,
    compile_job,
    floor_read,
    next_key,
)
from spinf_serve.engine.scoring.question_set import Compiler, LruCache, PromptKey
from spinf_serve.engine.scoring.read import FloatArray, read_scores
from spinf_serve.engine.slot_works import SlotWorks
from spinf_serve.engine.stats import DeviceMemory, Stats
from spinf_serve.engine.text.cut import EMPTY_CUT
from spinf_serve.engine.text.tokenizer import Tokenizer
from spinf_serve.engine.tree.packing import PackedPass, Tree
from spinf_serve.engine.trunk_cache import TrunkCache
from spinf_serve.engine.turn import FIRST_COME, Priority, Turn
from spinf_serve.engine.work import Generate, Limits, Result, Work
from spinf_serve.packs.errors import Fault, SpinfError

__all__ = [
    "DeviceMemory",
    "Engine",
    "Finished",
    "Forward",
    "Job",
    "OutOfDeviceMemory",
    "Priority",
    "Started",
    "Stats",
    "Turn",
    "Work",
    "counting_without_weights",
    "open_engine",
]

logger = logging.getLogger(__name__)


class Engine:
    """One model on one device.

    Attributes:
        served: the model's names and description.
        limits: token and count limits that `compile` checks.
        fingerprint: digests of everything that can move a score.
        stats: counters and times.
    """

    def __init__(
        self,
        served: ServedModel,
        tokenizer: Tokenizer,
        forward: Forward,
        fingerprint: Fingerprint,
        config: EngineConfig,
        limits: Limits,
        context_tokens: int,
    ) -> None:
        self.served = served
        self.limits = limits
        self.fingerprint = fingerprint
        self.config = config
        self.stats = Stats()
        self._tokenizer = tokenizer
        self._forward = forward
        self._context_tokens = context_tokens
        self._vocabulary = cache(partial(Vocabulary, tokenizer))
        self._trunks = TrunkCache(
            forward, self.stats, config.pass_tokens, enabled=config.trunk_cache_bytes != 0
        )
        self.forget()
        self._pipeline = Pipeline(forward, config.pass_tokens, self.stats, self._trunks)
        self._slots = SlotWorks(
            self._pipeline.schedule,
            self.stats,
            config.pass_tokens,
            tokenizer.vocab_size,
            next_key,
        )
        self._jobs: dict[int, Job] = {}
        self._floor_reads: dict[int, FloorRead] = {}
        self._pending_floors: dict[PromptKey, FloorRead] = {}

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return self._tokenizer

    @property
    def device_memory(self) -> DeviceMemory | None:
        """The memory of the device's own now; None on the CPU. Any thread."""
        return self._forward.memory()

    @property
    def pending(self) -> int:
        """Works that were submitted and are not answered."""
        return len(self._jobs)

    def compile(self, work: Work) -> Job:
        """Tokenises a work and checks it. Any thread.

        Raises:
            Refused: with a param relative to the work, `content`, `questions.N…` or `slots.N…`.
        """
        start = time.perf_counter()
        job = compile_job(work, self._compiler, self._tokenizer, self.limits, self._context_tokens)
        self.stats.compile_seconds += time.perf_counter() - start
        return job

    def compile_generation(self, wanted: Generate, on_text: Callable[[str], None] = unheard) -> Job:
        """Tokenises a prompt behind which the model is to write. Any thread.

        The job's result has one slot with one prompt, and its one generated text. A job that is
        cancelled writes no further token.

        Args:
            on_text: gets the text piece by piece in `step`, on the engine's thread.

        Raises:
            Refused: with the param `prompt`.
        """
        return generation_job(
            wanted, self._compiler, self._tokenizer, self.limits, self._context_tokens, on_text
        )

    def generate(self, wanted: Generate) -> Iterator[str]:
        """Writes a text, piece by piece, on the calling thread.

        Raises:
            SpinfError: the refusal, or the fault that ended it.
        """
        pieces: list[str] = []
        job = self.compile_generation(wanted, pieces.append)
        self.submit(job)
        try:
            while job.tree.key in self._jobs:
                for finished, outcome in self.step():
                    if finished is job and isinstance(outcome, SpinfError):
                        raise outcome
                yield from pieces
                pieces.clear()
        finally:
            self.cancel(job)

    def forget(self) -> None:
        """Empties the caches of compiled questions, floors and contents; answers stay the same."""
        self._trunks.clear()
        self._compiler = Compiler(self._tokenizer, self.limits, self._vocabulary)
        self._floors: LruCache[PromptKey, FloatArray] = LruCache(self.config.floor_cache_size)

    def submit(self, job: Job, turn: Turn = FIRST_COME) -> None:
        """Queues a compiled work, and the floors it needs that nobody asked for before.

        Args:
            turn: the request that it is a part of, the same object for all works of one.
        """
        questions = job.question_set
        self._jobs[job.tree.key] = job
        if questions.floors is None:
            self._want_floors(job, turn)
        if job.slots:
            self._slots.put(job, turn)
        else:
            self._pipeline.schedule.put(job.tree, turn)

    def cancel(self, job: Job) -> None:
        """Drops a work that nobody waits for any more, and floors that it alone waits for.

        Its slots take no further step. No pass that starts from now on holds a row of them.
        """
        if self._jobs.pop(job.tree.key, None) is not None:
            self._pipeline.schedule.drop(job.tree)
            job.tree.cancelled = True
            for read in job.waits_for:
                read.waiting -= 1
                if not read.waiting and read.tree.key in self._floor_reads:
                    self._abandon(read)
            self._let_go(job)

    def _let_go(self, job: Job) -> None:
        """Nothing of a work is read any more."""
        self._slots.drop(job)
        self._trunks.leave(job.tree)
        self._forward.release(job.tree.key)

    def step(self) -> list[Finished]:
        """Starts passes while there is room, waits for the oldest, returns the works it completed.

        Nothing when nothing waits or is in flight. Works of a pass that could not be started are
        returned at once; those of passes in flight then follow in the next steps.
        """
        lost = self._pipeline.fill()
        if lost is not None:
            return self._fail(lost)
        if not self._pipeline.in_flight:
            return []
        oldest = self._pipeline.finish_oldest()
        # Before answers are assembled, where the device would have to wait for that.
        lost = self._pipeline.start_next() if self._pipeline.should_start else None
        finished = self._ended(oldest)
        return finished if lost is None else finished + self._fail(lost)

    def run(
        self, works: Sequence[Work], progress: Callable[[int, int], None] | None = None
    ) -> list[Result]:
        """Answers works in order, on the calling thread.

        Where passes run ahead, the first starts as soon as what is compiled is worth one. After a
        fault nothing is started any more, but the rest is compiled: a refusal comes first, however
        long passes take.

        Args:
            progress: called after every pass with the works done and the works in all.

        Raises:
            SpinfError: the first refusal; without one, the first fault.
        """
        answers = Outcomes(len(works), progress)
        jobs: list[Job] = []
        compiled: Iterable[Job] = map(self.compile, works)
        if not self._forward.ahead:
            # There a pass would hold up what is compiled next, and a small one costs more a row.
            compiled = list(compiled)
        try:
            for job in compiled:
                jobs.append(job)
                if answers.fault is None:
                    self.submit(job)
                    self._advance(answers)
            while len(answers.results) < len(jobs):
                if answers.fault is not None:
                    raise answers.fault
                answers.add(self.step())
        finally:
            # Whatever ended it, nobody waits for the others.
            for job in jobs:
                self.cancel(job)
        return [answers.results[job.tree.key] for job in jobs]

    def _advance(self, answers: Outcomes) -> None:
        """Keeps the device at work without ever waiting for it."""
        while answers.fault is None:
            if self._pipeline.should_start_early:
                lost = self._pipeline.start_next()
                if lost is not None:
                    answers.add(self._fail(lost))
            elif self._pipeline.oldest_is_done:
                answers.add(self._ended(self._pipeline.finish_oldest()))
            else:
                return

    @property
    def schedule(self) -> Schedule:
        """What waits, to be looked at from any thread."""
        return self._pipeline.schedule

    def _want_floors(self, job: Job, turn: Turn) -> None:
        questions = job.question_set
        new: list[PromptKey] = []
        for key in questions.missing_floors():
            known = self._floors.get(key)
            if known is not None:
                questions.known_floors[key] = known
            elif key in self._pending_floors:
                read = self._pending_floors[key]
                if read not in job.waits_for:
                    job.waits_for.append(read)
                    self._pipeline.schedule.hurry(read.tree, turn.aside())
            else:
                new.append(key)
        if new:
            prompts = self._compiler.join(EMPTY_CUT, questions)
            by_key = dict(zip(questions.keys, prompts, strict=True))
            read = floor_read(new, [by_key[key] for key in new], questions.lead)
            self._floor_reads[read.tree.key] = read
            self._pending_floors |= dict.fromkeys(new, read)
            job.waits_for.append(read)
            self._pipeline.schedule.put(read.tree, turn.aside())
        for read in job.waits_for:
            read.waiting += 1
        if not job.waits_for:
            questions.settle_floors()

    def _abandon(self, read: FloorRead) -> None:
        """Forgets floors that are not read to the end."""
        del self._floor_reads[read.tree.key]
        self._pipeline.schedule.drop(read.tree)
        read.tree.cancelled = True
        self._forward.release(read.tree.key)
        for key in read.keys:
            del self._pending_floors[key]

    def _ended(self, flight: Returned | Lost) -> list[Finished]:
        """What a pass that is no longer in flight finished."""
        if isinstance(flight, Lost):
            return self._fail(flight)
        start = time.perf_counter()
        finished = self._distribute(flight.packed, flight.found)
        self.stats.assemble_seconds += time.perf_counter() - start
        return finished

    def _distribute(self, packed: PackedPass, found: ReadBack) -> list[Finished]:
        at = top_at = 0
        # Of the whole pass first: nearly always all of it is numbers.
        is_sound = _finite(found.logprobs) and _finite(found.top_logprobs)
        touched: dict[int, Tree] = {}
        for tree, take, tops in zip(packed.trees, packed.take, packed.take_tops, strict=True):
            part = found.logprobs[at : at + take]
            top = slice(top_at, top_at + tops)
            at, top_at = at + take, top_at + tops
            # Cancelled meanwhile, or failed in an earlier pass: parts of it may be missing.
            if tree.cancelled:
                continue
            tree.logprobs[tree.columns_done : tree.columns_done + take] = part
            tree.columns_done += take
            if tops:
                tree.top_ids.append(found.top_ids[top])
                tree.top_logprobs.append(found.top_logprobs[top])
            if not (is_sound or (_finite(part) and _finite(found.top_logprobs[top]))):
                tree.is_spoiled = True
            touched[tree.key] = tree
        finished: list[Finished] = []
        done = [tree for tree in touched.values() if tree.finished]
        for tree in done:
            if tree.key in self._floor_reads:
                finished += self._floors_done(self._floor_reads.pop(tree.key))
        for tree in done:
            stepped = self._slots.job_of(tree)
            if stepped is not None and tree.is_spoiled:
                finished.append(self._nan(stepped, "on this content"))
            elif stepped is not None:
                self._slots.take(tree)
                finished += self._settle(stepped)
            elif tree.key in self._jobs:
                finished += self._settle(self._jobs[tree.key])
        return finished

    def _floors_done(self, read: FloorRead) -> list[Finished]:
        """Hands floors to the jobs that wait; a NaN fails them and is not kept."""
        for key in read.keys:
            del self._pending_floors[key]
        bad = read.tree.is_spoiled
        if not bad:
            scores = read_scores(read.forest, read.tree.logprobs)
            parts = np.split(scores.logprob, read.forest.prompt_start[1:-1])
            values = dict(zip(read.keys, parts, strict=True))
            for key, value in values.items():
                self._floors.put(key, value)
        finished: list[Finished] = []
        for job in [job for job in self._jobs.values() if read in job.waits_for]:
            job.waits_for.remove(read)
            if bad:
                finished.append(self._nan(job, "on empty content"))
                continue
            questions = job.question_set
            if questions.floors is None:
                mine = values.keys() & questions.floor_keys.keys()
                questions.known_floors |= {key: values[key] for key in mine}
            finished += self._settle(job)
        return finished

    def _settle(self, job: Job) -> list[Finished]:
        """The job's outcome if everything it needs is there."""
        if not job.tree.finished or job.tree.key not in self._jobs:
            return []
        if job.tree.is_spoiled:
            return [self._nan(job, "on this content")]
        if (job.slots and not self._slots.is_through(job)) or job.waits_for:
            return []
        if job.question_set.floors is None:
            job.question_set.settle_floors()
        del self._jobs[job.tree.key]
        if not job.slots:
            return [(job, answer(job))]
        outcome = answer(job, *self._slots.answers(job))
        self._let_go(job)
        return [(job, outcome)]

    def _nan(self, job: Job, where: str) -> Finished:
        self.stats.nan_faults += 1
        self._trunks.spoiled(job.tree)
        self.cancel(job)
        message = f"the model returned a value that is no number {where}; no score is given"
        return job, Fault(message, "content")

    def _fail(self, lost: Lost) -> list[Finished]:
        """Fails every work that has a part in a pass, that waits for its floors or continues a
        trunk that it was to read.

        Their parts in passes that are in flight by now are ignored when these come back.
        """
        keys = {tree.key for tree in lost.packed.parts}
        trunks = self._trunks.lost(lost.packed)
        reads = [self._floor_reads[key] for key in keys if key in self._floor_reads]
        for read in reads:
            self._abandon(read)
        failed = [
            job
            for job in self._jobs.values()
            if job.tree.key in keys
            or self._slots.step_key(job) in keys
            or job.tree.kept_key in trunks
            or any(read in job.waits_for for read in reads)
        ]
        for job in failed:
            self.cancel(job)
        return [(job, Fault(lost.reason, "content")) for job in failed]


def _finite(values: np.ndarray) -> bool:
    return bool(np.isfinite(values).all())


def open_engine(
    config: EngineConfig, limits: Limits, say: Callable[[str], None] | None = None
) -> Engine:
    """Finds and loads a model, and makes an engine of it.

    Args:
        config: the model and how to run it.
        limits: what `compile` refuses.
        say: gets a line at each step that may take a while.

    Raises:
        Unusable: the model cannot be found, read or run; one line with the remedy.
    """
    # torch is loaded there and not with this module: the server imports this file at once.
    from spinf_serve.engine.opening import opened_engine

    return opened_engine(config, limits, say or logger.info)
