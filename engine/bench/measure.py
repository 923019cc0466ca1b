"""A job run some times by an engine in this process: its rates, and how long every pass took."""

import resource
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median

import torch

from spinf_serve.engine.api import Engine, Stats
from spinf_serve.engine.bench.checks import digest_of
from spinf_serve.engine.bench.results import Measurement, Times
from spinf_serve.engine.work import Result, Work
from spinf_serve.packs.errors import Unusable

_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class BenchJob:
    """Works under a name; each repeat asks them all, with every cache but the weights empty."""

    name: str
    works: Sequence[Work]

    @property
    def questions(self) -> int:
        """Filled templates, without floors."""
        return sum(len(question.prompts) for work in self.works for question in work.questions)


@dataclass(slots=True)
class _Run:
    """One repeat."""

    results: list[Result]
    wall_seconds: float
    spent: Times
    passes: list[Times]


def measured(engine: Engine, job: BenchJob, repeats: int, device: torch.device) -> Measurement:
    """Runs a job once unmeasured and then `repeats` times.

    Raises `Unusable` when two repeats differ in a bit.
    """
    run_once(engine, job)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    runs = [run_once(engine, job) for _ in range(repeats)]
    digests = {digest_of(run.results) for run in runs}
    if len(digests) > 1:
        raise Unusable(
            f"the job {job.name} gave other bits when it was repeated: this machine computes wrongly "
            "or the engine is not pure; `spinf-serve doctor` says more"
        )
    last = runs[-1]
    walls = [run.wall_seconds for run in runs]
    devices = [run.spent["device_seconds"] for run in runs]
    wall, busy, rows = median(walls), median(devices), int(last.spent["rows"])
    return Measurement(
        job=job.name,
        path="in-process",
        contents=len(job.works),
        questions=job.questions,
        content_tokens=sum(one.counts.content_tokens for one in last.results) / len(job.works),
        rows=rows,
        reads=int(last.spent["reads"]),
        questions_per_s_wall=job.questions / wall,
        questions_per_s_device=job.questions / busy if busy else None,
        work_tokens_per_s=rows / wall,
        contents_per_hour=3600 * len(job.works) / wall,
        wall_idle_share=1 - busy / wall,
        wall_seconds=walls,
        device_seconds=devices,
        host_seconds=[
            {name: run.spent[f"{name}_seconds"] for name in Stats.HOST_PARTS} for run in runs
        ],
        pass_times=[run.passes for run in runs],
        answers_sha256=digests.pop(),
        peak_memory_gib=_peak_memory(device) / _GIB,
    )


def run_once(engine: Engine, job: BenchJob) -> _Run:
    """One repeat, floors included."""
    engine.forget()
    before = asdict(engine.stats)
    start = time.perf_counter()
    passes: list[Times] = []
    seen = dict(before)

    def note(_: int, __: int) -> None:
        now = asdict(engine.stats)
        if now["passes"] > seen["passes"]:
            new: Times = {
                name: now[name] - seen[name] for name in ("rows", "reads", "device_seconds")
            }
            passes.append(new | {"ended_seconds": time.perf_counter() - start})
            seen.update(now)

    results = engine.run(job.works, note)
    wall = time.perf_counter() - start
    # A pass that finishes no work need not be progress.
    note(0, 0)
    spent = {name: value - before[name] for name, value in asdict(engine.stats).items()}
    return _Run(results, wall, spent, passes)


def _peak_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
