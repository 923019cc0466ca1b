"""The engine's only door: open a model, compile works, run passes, get answers.

One thread owns an engine and calls `submit`, `step` and `cancel`; `compile` may be called from any.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.fingerprint import Fingerprint
from spinf_serve.engine.models.served import ServedModel
from spinf_serve.engine.scoring.job import FloorRead, Job, answer, compile_job, floor_read
from spinf_serve.engine.scoring.question_set import Compiler, LruCache, PromptKey
from spinf_serve.engine.scoring.read import FloatArray, read_scores
from spinf_serve.engine.text.cut import EMPTY_CUT
from spinf_serve.engine.text.tokenizer import Tokenizer
from spinf_serve.engine.tree.packing import PackedPass, Tree, next_pass
from spinf_serve.engine.work import Limits, Result, Work
from spinf_serve.packs.errors import Fault, SpinfError

__all__ = ["Engine", "Finished", "Forward", "Job", "Stats", "open_engine"]

logger = logging.getLogger(__name__)

Finished = tuple[Job, Result | SpinfError]


@dataclass(slots=True)
class Stats:
    """What an engine did since it was opened. Seconds are wall time.

    Attributes:
        passes: forwards run.
        rows: tokens in them.
        reads: rows whose next-token distribution was read.
        nan_faults: works that failed because the model returned NaN.
        compile_seconds, pack_seconds, layout_seconds, assemble_seconds: host work.
        forward_seconds: the model.
    """

    HOST_PARTS: ClassVar[tuple[str, ...]] = ("compile", "pack", "layout", "assemble")

    passes: int = 0
    rows: int = 0
    reads: int = 0
    nan_faults: int = 0
    compile_seconds: float = 0.0
    pack_seconds: float = 0.0
    layout_seconds: float = 0.0
    assemble_seconds: float = 0.0
    forward_seconds: float = 0.0


class Forward(Protocol):
    """A model on a device: passes in, wanted log-probabilities out."""

    def run(self, packed: PackedPass) -> tuple[np.ndarray, float]:
        """[C] float32 log-probabilities of the pass's columns, and the host seconds in them."""
        ...

    def release(self, key: int) -> None:
        """Forgets the keys and values kept for a tree."""
        ...


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
        self.forget()
        self._waiting: deque[Tree] = deque()
        self._jobs: dict[int, Job] = {}
        self._floor_reads: dict[int, FloorRead] = {}
        self._pending_floors: dict[PromptKey, FloorRead] = {}

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return self._tokenizer

    @property
    def pending(self) -> int:
        """Works that were submitted and are not answered."""
        return len(self._jobs)

    def compile(self, work: Work) -> Job:
        """Tokenises a work and checks it. Any thread.

        Raises:
            Refused: with a param relative to the work, `content` or `questions.N…`.
        """
        start = time.perf_counter()
        job = compile_job(work, self._compiler, self._tokenizer, self.limits, self._context_tokens)
        self.stats.compile_seconds += time.perf_counter() - start
        return job

    def forget(self) -> None:
        """Empties the caches of compiled questions and floors; answers stay the same."""
        self._compiler = Compiler(self._tokenizer, self.limits)
        self._floors: LruCache[PromptKey, FloatArray] = LruCache(self.config.floor_cache_size)

    def submit(self, job: Job) -> None:
        """Queues a compiled work, and the floors it needs that nobody asked for before."""
        questions = job.question_set
        self._jobs[job.tree.key] = job
        if questions.floors is None:
            self._want_floors(job)
        self._waiting.append(job.tree)

    def cancel(self, job: Job) -> None:
        """Drops a work that nobody waits for any more; floors it asked for stay."""
        if self._jobs.pop(job.tree.key, None) is not None:
            job.tree.cancelled = True
            self._forward.release(job.tree.key)

    def step(self) -> list[Finished]:
        """Runs one pass and returns the works that it completed; nothing when nothing waits."""
        start = time.perf_counter()
        packed = next_pass(self._waiting, self.config.token_budget)
        packed_at = time.perf_counter()
        self.stats.pack_seconds += packed_at - start
        if packed is None:
            return []
        try:
            columns, layout_seconds = self._forward.run(packed)
        except Exception as fault:
            # The one place that knows which works a failing forward belongs to.
            logger.exception("a forward of %d rows failed", len(packed.plan.tokens))
            return self._fail(packed, f"the forward failed: {type(fault).__name__}")
        read_at = time.perf_counter()
        self.stats.layout_seconds += layout_seconds
        self.stats.forward_seconds += read_at - packed_at - layout_seconds
        self.stats.passes += 1
        self.stats.rows += len(packed.plan.tokens)
        self.stats.reads += len(packed.plan.read_rows)
        finished = self._distribute(packed, columns)
        self.stats.assemble_seconds += time.perf_counter() - read_at
        return finished

    def run(
        self, works: Sequence[Work], progress: Callable[[int, int], None] | None = None
    ) -> list[Result]:
        """Answers works in order, on the calling thread.

        Args:
            progress: called after every pass with the works done and the works in all.

        Raises:
            SpinfError: the first refusal or fault.
        """
        jobs = [self.compile(work) for work in works]
        for job in jobs:
            self.submit(job)
        results: dict[int, Result] = {}
        while len(results) < len(jobs):
            for job, outcome in self.step():
                if isinstance(outcome, SpinfError):
                    for other in jobs:
                        self.cancel(other)
                    raise outcome
                results[job.tree.key] = outcome
            if progress is not None:
                progress(len(results), len(jobs))
        return [results[job.tree.key] for job in jobs]

    def _want_floors(self, job: Job) -> None:
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
            else:
                new.append(key)
        if new:
            prompts = self._compiler.join(EMPTY_CUT, questions)
            by_key = dict(zip(questions.keys, prompts, strict=True))
            read = floor_read(new, [by_key[key] for key in new], self._tokenizer.bos_id)
            self._floor_reads[read.tree.key] = read
            self._pending_floors |= dict.fromkeys(new, read)
            job.waits_for.append(read)
            self._waiting.append(read.tree)
        if not job.waits_for:
            questions.settle_floors()

    def _distribute(self, packed: PackedPass, columns: np.ndarray) -> list[Finished]:
        at = 0
        touched: dict[int, Tree] = {}
        for tree, take in zip(packed.trees, packed.take, strict=True):
            tree.logprobs[tree.columns_done : tree.columns_done + take] = columns[at : at + take]
            tree.columns_done += take
            at += take
            touched[tree.key] = tree
        finished: list[Finished] = []
        done = [tree for tree in touched.values() if tree.finished]
        for tree in done:
            self._forward.release(tree.key)
            if tree.key in self._floor_reads:
                finished += self._floors_done(self._floor_reads.pop(tree.key))
        for tree in done:
            if tree.key in self._jobs:
                finished += self._settle(self._jobs[tree.key])
        return finished

    def _floors_done(self, read: FloorRead) -> list[Finished]:
        """Hands floors to the jobs that wait; a NaN fails them and is not kept."""
        for key in read.keys:
            del self._pending_floors[key]
        bad = not np.isfinite(read.tree.logprobs).all()
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
        if not job.tree.finished or job.waits_for or job.tree.key not in self._jobs:
            return []
        if not np.isfinite(job.tree.logprobs).all():
            return [self._nan(job, "on this content")]
        if job.question_set.floors is None:
            job.question_set.settle_floors()
        del self._jobs[job.tree.key]
        return [(job, answer(job))]

    def _nan(self, job: Job, where: str) -> Finished:
        self.stats.nan_faults += 1
        self.cancel(job)
        message = f"the model returned a value that is no number {where}; no score is given"
        return job, Fault(message, "content")

    def _fail(self, packed: PackedPass, message: str) -> list[Finished]:
        """Fails every work that has a part in a pass, and those that wait for its floors."""
        keys = {part.key for part in packed.plan.slices}
        reads = [self._floor_reads.pop(key) for key in keys if key in self._floor_reads]
        for read in reads:
            read.tree.cancelled = True
            self._forward.release(read.tree.key)
            for key in read.keys:
                del self._pending_floors[key]
        failed = [
            job
            for job in self._jobs.values()
            if job.tree.key in keys or any(read in job.waits_for for read in reads)
        ]
        for job in failed:
            self.cancel(job)
        return [(job, Fault(message, "content")) for job in failed]


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
