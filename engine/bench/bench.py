"""`spinf-serve bench`: one job of many contents and questions, its rate, and where its time goes."""

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median

import torch

from spinf_serve.engine.api import Engine, Stats, open_engine
from spinf_serve.engine.bench.against import TransformersReference
from spinf_serve.engine.bench.checks import digest_of
from spinf_serve.engine.bench.machine import commit, processor_name
from spinf_serve.engine.bench.output import write_json
from spinf_serve.engine.bench.workload import closed_questions
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.loading.open import open_checkpoint
from spinf_serve.engine.work import Limits, Result, Work

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Shape:
    """The job: contents, questions on each, their mean tokens, and how often it is repeated."""

    contents: int = 24
    questions: int = 56
    content_tokens: float = 466.0
    question_tokens: float = 14.5
    repeats: int = 3


@dataclass(slots=True)
class Figures:
    """What a run measured; times in seconds, raw, one entry per repeat."""

    command: str
    commit: str
    processor: str
    threads: int
    torch: str
    model: str
    dtype: str
    fingerprint: str
    shape: dict[str, float]
    load_seconds: float = 0.0
    tree_tokens: int = 0
    rows: int = 0
    wall_seconds: list[float] = field(default_factory=list)
    forward_seconds: list[float] = field(default_factory=list)
    host_seconds: list[float] = field(default_factory=list)
    host_parts: list[dict[str, float]] = field(default_factory=list)
    questions_per_second: float = 0.0
    tokens_per_second: float = 0.0
    peak_rss_mib: float = 0.0
    answers_sha256: str = ""
    against: dict[str, object] = field(default_factory=dict)


def run(
    config: EngineConfig,
    *,
    shape: Shape | None = None,
    against: str | None = None,
    out: Path | None = None,
    say: Say = print,
) -> Figures:
    """Measures the job and says what it found; `out` gets the figures as JSON.

    Args:
        against: `transformers` also asks two of the contents of transformers, on the same weights,
            alternating with the engine.
    """
    shape = shape or Shape()
    start = time.perf_counter()
    engine = open_engine(config, Limits())
    # With model and device as they were picked.
    config = engine.config
    figures = _figures(engine, shape, time.perf_counter() - start)
    works = closed_questions(
        engine.tokenizer,
        shape.contents,
        shape.questions,
        shape.content_tokens,
        shape.question_tokens,
    )
    say(f"{figures.model} {figures.dtype} on {figures.processor}, {figures.threads} threads")
    say(f"loaded in {figures.load_seconds:.2f} s; {shape.contents} contents x {shape.questions}")
    engine.run(works[:1])
    for repeat in range(shape.repeats):
        _measure(config, works, figures, engine)
        say(
            f"run {repeat + 1}: {figures.wall_seconds[-1]:.2f} s, of it forward "
            f"{figures.forward_seconds[-1]:.2f} s, host {figures.host_seconds[-1] * 1000:.0f} ms"
        )
    figures.peak_rss_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    _summarise(figures, shape, say)
    if against is not None:
        _compare(config, engine, works[:2], shape.repeats, figures, say)
    if out is not None:
        write_json(out, asdict(figures))
    return figures


def _measure(config: EngineConfig, works: list[Work], figures: Figures, engine: Engine) -> None:
    """One run of the whole job, floors included: every cache but the weights is emptied first."""
    engine.forget()
    before = asdict(engine.stats)
    start = time.perf_counter()
    results = engine.run(works)
    wall = time.perf_counter() - start
    spent = {name: value - before[name] for name, value in asdict(engine.stats).items()}
    host = {name: spent[f"{name}_seconds"] for name in Stats.HOST_PARTS}
    figures.wall_seconds.append(wall)
    figures.forward_seconds.append(spent["forward_seconds"])
    figures.host_seconds.append(wall - spent["forward_seconds"])
    figures.host_parts.append(host)
    figures.rows = int(spent["rows"])
    figures.tree_tokens = sum(result.counts.packed_tokens for result in results)
    figures.answers_sha256 = digest_of(results)


def _summarise(figures: Figures, shape: Shape, say: Say) -> None:
    wall = median(figures.wall_seconds)
    figures.questions_per_second = shape.contents * shape.questions / wall
    figures.tokens_per_second = figures.rows / wall
    parts = {
        name: median(run[name] for run in figures.host_parts) * 1000
        for name in figures.host_parts[0]
    }
    say(f"questions/s {figures.questions_per_second:.1f}, tokens/s {figures.tokens_per_second:.0f}")
    say(f"rows {figures.rows} with floors, trees {figures.tree_tokens}")
    say(f"device time {median(figures.forward_seconds):.2f} s")
    say(
        f"host time {median(figures.host_seconds) * 1000:.0f} ms: "
        + ", ".join(f"{name} {value:.0f}" for name, value in parts.items())
    )
    say(f"peak resident memory {figures.peak_rss_mib:.0f} MiB")
    say(f"answers sha256 {figures.answers_sha256}")


def _compare(
    config: EngineConfig,
    engine: Engine,
    works: list[Work],
    repeats: int,
    figures: Figures,
    say: Say,
) -> None:
    """Engine and transformers in turns on the same contents, without floors on either side."""
    bare = [_bare(work) for work in works]
    opened = open_checkpoint(config.model, offline=config.offline)
    reference = TransformersReference(opened, getattr(torch, config.dtype))
    engine.run(bare)
    times: dict[str, list[float]] = {"engine": [], "one by one": [], "cached prefix": []}
    apart = {"one by one": 0.0, "cached prefix": 0.0}
    for _ in range(repeats):
        start = time.perf_counter()
        ours = [_logprobs(result) for result in engine.run(bare)]
        times["engine"].append(time.perf_counter() - start)
        for name, ask in (
            ("cached prefix", reference.cached_prefix),
            ("one by one", reference.one_by_one),
        ):
            start = time.perf_counter()
            theirs = [ask(work) for work in bare]
            times[name].append(time.perf_counter() - start)
            worst = max((a - b).abs().max().item() for a, b in zip(ours, theirs, strict=True))
            apart[name] = max(apart[name], worst)
    mine = median(times["engine"])
    ratios = {name: median(times[name]) / mine for name in apart}
    figures.against = {
        "contents": len(works),
        "seconds": times,
        "ratios": ratios,
        "largest_logprob_difference": apart,
    }
    for name, ratio in ratios.items():
        say(
            f"transformers, {name}: {median(times[name]):.2f} s against {mine:.2f} s, "
            f"{ratio:.2f} times; largest difference of a logprob {apart[name]:.1e}"
        )


def _bare(work: Work) -> Work:
    """The same work with the options' own spelling alone and no floors, as transformers gets it."""
    questions = tuple(
        replace(question, empty_floor=False, case_insensitive=False) for question in work.questions
    )
    return replace(work, questions=questions)


def _logprobs(result: Result) -> torch.Tensor:
    return torch.tensor(
        [
            [option.logprob for option in prompt.options]
            for answer in result.answers
            for prompt in answer.prompts
        ]
    )


def _figures(engine: Engine, shape: Shape, load: float) -> Figures:
    return Figures(
        command=" ".join(["spinf-serve", *sys.argv[1:]]),
        commit=commit(),
        processor=processor_name(),
        threads=torch.get_num_threads(),
        torch=torch.__version__,
        model=engine.served.id,
        dtype=engine.fingerprint.facts["dtype"],
        fingerprint=engine.fingerprint.bits,
        shape=asdict(shape),
        load_seconds=load,
    )
