"""`spinf-serve bench` with jobs: opens or makes an engine, measures what was asked for, keeps it."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from spinf_serve.engine.api import Engine, open_engine
from spinf_serve.engine.bench.jobs import GROUPS, Asked, Sizes
from spinf_serve.engine.bench.machine import card_of, commit, processor_name, versions
from spinf_serve.engine.bench.results import Circumstances, Measurement, ResultFile, today
from spinf_serve.engine.bench.suite import Suite
from spinf_serve.engine.bench.synthetic import SyntheticScheme
from spinf_serve.engine.models.decoder import Decoder
from spinf_serve.flags import GPU_PACKAGES, require
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.present import filled
from spinf_serve.server.config import ServerConfig
from spinf_serve.server.served_packs import ServedPacks, open_packs

Say = Callable[[str], None]

HTTP = "http"
NAMES = (*GROUPS, HTTP)
"""What `--jobs` takes."""

_PACKS = ("moderation", "news")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be measured.

    Attributes:
        synthetic: a model without weights; None opens the configured one.
        scheme, tokenizer: of a synthetic model.
        groups: some of `NAMES`.
        repeats: of each job.
        profile: whether one more run of each job is profiled.
        clients, seconds: of the job over HTTP.
        commit: of this program, where there is no repository to ask.
        out: the result file.
    """

    synthetic: str | None
    scheme: SyntheticScheme
    tokenizer: Path | None
    groups: tuple[str, ...]
    sizes: Sizes
    repeats: int
    profile: bool
    clients: int
    seconds: float
    commit: str | None
    out: Path | None


@dataclass(frozen=True, slots=True)
class _Opened:
    engine: Engine
    model: Decoder | None
    device: torch.device
    scheme: str
    load_seconds: float


def groups_of(names: str) -> tuple[str, ...]:
    """The groups in a list such as `main,http`. Raises `Unusable` for an unknown one."""
    wanted = tuple(dict.fromkeys(name.strip() for name in names.split(",")))
    for name in wanted:
        if name not in NAMES:
            raise Unusable(f"--jobs {name} is no known job; the known ones are {', '.join(NAMES)}")
    return wanted


def run(config: ServerConfig, wanted: Wanted, say: Say = print) -> list[Measurement]:
    """Measures and says what it found; every measurement is in the file before the next begins."""
    packs = None
    if {HTTP, "packs"} & set(wanted.groups):
        packs = open_packs(config)
    opened = _open(config, wanted, say)
    results = ResultFile(wanted.out, _circumstances(opened, wanted))
    say(
        f"{opened.engine.served.id} ({opened.scheme}) on {card_of(opened.device).name}, "
        f"ready in {opened.load_seconds:.1f} s"
    )
    suite = Suite(
        opened.engine,
        opened.model,
        opened.device,
        results,
        wanted.repeats,
        wanted.profile,
        say,
    )
    asked = {} if packs is None else _asked(packs)
    suite.run([name for name in wanted.groups if name != HTTP], wanted.sizes, asked)
    if HTTP in wanted.groups and packs is not None:
        from spinf_serve.bench_http import lines_of, measured_over_http

        main = [one for one in results.measurements if one.job == wanted.sizes.main]
        found = measured_over_http(
            opened.engine,
            config,
            packs,
            wanted.sizes,
            clients=wanted.clients,
            seconds=wanted.seconds,
            in_process=main[0] if main else None,
        )
        results.add(found)
        for line in lines_of(found):
            say(line)
    return results.measurements


def _open(config: ServerConfig, wanted: Wanted, say: Say) -> _Opened:
    sizes = wanted.sizes
    # Lengths vary by a fifth around the mean of a job.
    longest = 5 * max(*sizes.growth_contents, round(sizes.content_tokens)) // 4
    limits = replace(
        config.limits, max_content_tokens=max(config.limits.max_content_tokens, longest)
    )
    start = time.perf_counter()
    if wanted.synthetic is not None:
        # It needs Triton, which not every machine has.
        require(GPU_PACKAGES)
        from spinf_serve.engine.bench.synthetic_engine import synthetic_engine, tokenizer_at

        tokenizer = tokenizer_at(wanted.tokenizer)
        made = synthetic_engine(
            wanted.synthetic, wanted.scheme, tokenizer, config.engine, limits, say
        )
        return _Opened(made.engine, made.model, made.device, wanted.scheme, made.load_seconds)
    engine = open_engine(config.engine, limits, say)
    facts = engine.fingerprint.facts
    on_gpu = facts["backend"] == "cuda"
    return _Opened(
        engine,
        None,
        torch.device("cuda" if on_gpu else "cpu"),
        facts["scheme"] if on_gpu else facts["dtype"],
        time.perf_counter() - start,
    )


def _circumstances(opened: _Opened, wanted: Wanted) -> Circumstances:
    card = card_of(opened.device)
    return Circumstances(
        model=opened.engine.served.id,
        scheme=opened.scheme,
        card=card.name,
        card_line=card.line,
        processor=processor_name(),
        versions=versions(),
        commit=wanted.commit or commit(),
        date=today(),
        command=" ".join(["spinf-serve", *sys.argv[1:]]),
        fingerprint=opened.engine.fingerprint.bits,
        token_budget=opened.engine.config.pass_tokens,
        load_seconds=opened.load_seconds,
    )


def _asked(packs: ServedPacks) -> dict[str, Asked]:
    """The official packs that are jobs, as the bench asks them: in their first context."""
    found = {}
    for name in _PACKS:
        pack = packs.catalogue.get(f"spinf/{name}")
        found[name] = Asked(pack.questions, _presenter(pack))
    return found


def _presenter(pack: Pack) -> Callable[[str], str]:
    before, after = filled(pack, next(iter(pack.contexts.values())), {})
    return lambda text: f"{before}{text}{after}"
