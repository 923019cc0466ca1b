"""The command `spinf-serve bench`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from spinf_serve.engine.config import AUTO
from spinf_serve.flags import (
    ENGINE_PACKAGES,
    GPU_PACKAGES,
    SERVER_PACKAGES,
    require,
    takes_settings,
)
from spinf_serve.outputs import check_output
from spinf_serve.packs.errors import Unusable
from spinf_serve.server.config import ServerConfig

_CLIENTS, _SECONDS = 32, 20.0
_QUESTIONS, _QUESTION_TOKENS = 56, 14.5
_HOUR = 3600.0
_LONGEST = 1_000_000.0
_OF_HTTP = "--clients and --seconds are of the job http: name it with --jobs, or leave them out"


def refuse_unmeant(
    config: ServerConfig, synthetic: str | None, scheme: str, tokenizer: Path | None
) -> None:
    """Raises `Unusable` for settings that the other kind of model would leave unused."""
    engine = config.engine
    if synthetic is None:
        if scheme != "static":
            raise Unusable(
                f"--scheme {scheme} is of --synthetic weights; --quant is of a model's own"
            )
        if tokenizer is not None:
            raise Unusable(f"--tokenizer {tokenizer} is for --synthetic weights: leave it out")
        return
    if engine.model != AUTO:
        raise Unusable(
            f"the model {engine.model} is named and so is --synthetic {synthetic}: leave one out"
        )
    if engine.quant != AUTO:
        raise Unusable(
            f"--quant {engine.quant} is of a model's weights, and those of --synthetic {synthetic} "
            "are made from a seed: --scheme says how"
        )


@takes_settings("engine", also=("official_packs", "packs_cache"))
def bench(
    config: ServerConfig,
    jobs: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="some of main, sustained, packs, growth, http; without it (and without "
            "--synthetic) the main job alone, with the parts of its host time",
        ),
    ] = None,
    synthetic: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="measure on weights made from a seed on the device: gemma-4-12b, gemma-4-31b or "
            "gemma-4-tiny",
        ),
    ] = None,
    scheme: Annotated[
        Literal["static", "rows", "int8", "bf16"],
        typer.Option(
            metavar="SCHEME",
            help="of synthetic weights: static and rows are float8, with one static scale of an "
            "input or one for each row; int8; bf16",
        ),
    ] = "static",
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="tokenizer.json or .gguf for synthetic weights; else the embedded model's",
        ),
    ] = None,
    contents: Annotated[int, typer.Option(min=1, metavar="NUMBER", help="number of contents")] = 24,
    questions: Annotated[
        int, typer.Option(min=1, metavar="NUMBER", help="questions on each")
    ] = _QUESTIONS,
    content_tokens: Annotated[
        float,
        typer.Option(min=1, max=_LONGEST, metavar="NUMBER", help="mean length of a content"),
    ] = 466.0,
    question_tokens: Annotated[
        float,
        typer.Option(min=4, max=_LONGEST, metavar="NUMBER", help="mean length of a question"),
    ] = _QUESTION_TOKENS,
    repeats: Annotated[
        int, typer.Option(min=1, metavar="NUMBER", help="how often all is done")
    ] = 3,
    profile: Annotated[
        bool, typer.Option("--profile", help="also tell where the device's time goes, by job")
    ] = False,
    clients: Annotated[
        int, typer.Option(min=1, max=1024, metavar="NUMBER", help="connections of the job http")
    ] = _CLIENTS,
    seconds: Annotated[
        float,
        typer.Option(
            min=0.1, max=_HOUR, metavar="NUMBER", help="how long the job http is measured"
        ),
    ] = _SECONDS,
    against: Annotated[
        Literal["transformers"] | None,
        typer.Option(metavar="transformers", help="also ask two of the contents of transformers"),
    ] = None,
    extraction: Annotated[
        bool,
        typer.Option(
            "--extraction", help="measure instead what slots cost, in tokens scored meanwhile"
        ),
    ] = False,
    commit: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="commit to note where there is no repository to ask"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write the figures there as JSON")
    ] = None,
) -> None:
    """Measure questions a second, and where the time goes, on made-up contents and questions."""
    require(ENGINE_PACKAGES)
    refuse_unmeant(config, synthetic, scheme, tokenizer)
    if extraction:
        from spinf_serve.engine.bench.doctor import MadeUp
        from spinf_serve.engine.bench.extraction import Slots, run_extraction

        if not (jobs is against is None) or profile:
            raise Unusable(
                "--extraction is a job of its own: it goes with none of --jobs, --against and "
                "--profile"
            )
        if (questions, question_tokens) != (_QUESTIONS, _QUESTION_TOKENS):
            raise Unusable(
                "--extraction has questions of its own: leave out --questions and --question-tokens"
            )
        if (clients, seconds) != (_CLIENTS, _SECONDS):
            raise Unusable(_OF_HTTP)
        if out is not None:
            check_output("--out", out, {})
        slots = Slots(contents, content_tokens, repeats=repeats)
        made_up = None
        if synthetic is not None:
            require(GPU_PACKAGES)
            made_up = MadeUp(synthetic, scheme, tokenizer)
            # As many as fill passes of a card.
            slots = replace(slots, many_contents=contents)
        run_extraction(config.engine, slots=slots, made_up=made_up, at=commit, out=out)
        return
    if jobs is None and synthetic is None:
        from spinf_serve.engine.bench.bench import Shape, run

        if profile:
            raise Unusable("--profile is of jobs: name some with --jobs")
        if commit is not None:
            raise Unusable("--commit is noted beside jobs: name some with --jobs")
        if (clients, seconds) != (_CLIENTS, _SECONDS):
            raise Unusable(_OF_HTTP)
        if out is not None:
            check_output("--out", out, {})
        shape = Shape(contents, questions, content_tokens, question_tokens, repeats)
        run(config.engine, shape=shape, against=against, out=out)
        return
    if against is not None:
        raise Unusable("--against goes with neither --jobs nor --synthetic")
    from spinf_serve.bench_jobs import HTTP, Wanted, groups_of
    from spinf_serve.bench_jobs import run as run_jobs
    from spinf_serve.engine.bench.jobs import Sizes

    groups = groups_of("main" if jobs is None else jobs)
    if HTTP in groups:
        require(SERVER_PACKAGES)
    elif (clients, seconds) != (_CLIENTS, _SECONDS):
        raise Unusable(_OF_HTTP)
    if out is not None:
        check_output("--out", out, {})
    wanted = Wanted(
        synthetic=synthetic,
        scheme=scheme,
        tokenizer=tokenizer,
        groups=groups,
        sizes=Sizes(contents, questions, content_tokens, question_tokens),
        repeats=repeats,
        profile=profile,
        clients=clients,
        seconds=seconds,
        commit=commit,
        out=out,
    )
    run_jobs(config, wanted)
