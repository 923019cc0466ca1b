"""The command `spinf-serve bench`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from spinf_serve.flags import ENGINE_PACKAGES, SERVER_PACKAGES, require, takes_settings
from spinf_serve.packs.errors import Unusable
from spinf_serve.server.config import ServerConfig


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
    questions: Annotated[int, typer.Option(min=1, metavar="NUMBER", help="questions on each")] = 56,
    content_tokens: Annotated[
        float, typer.Option(min=1, metavar="NUMBER", help="mean length of a content")
    ] = 466.0,
    question_tokens: Annotated[
        float, typer.Option(min=4, metavar="NUMBER", help="mean length of a question")
    ] = 14.5,
    repeats: Annotated[
        int, typer.Option(min=1, metavar="NUMBER", help="how often all is done")
    ] = 3,
    profile: Annotated[
        bool, typer.Option("--profile", help="also tell where the device's time goes, by job")
    ] = False,
    clients: Annotated[
        int, typer.Option(min=1, metavar="NUMBER", help="connections of the job http")
    ] = 32,
    seconds: Annotated[
        float, typer.Option(min=0.1, metavar="NUMBER", help="how long the job http is measured")
    ] = 20.0,
    against: Annotated[
        Literal["transformers"] | None,
        typer.Option(metavar="transformers", help="also ask two of the contents of transformers"),
    ] = None,
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
    if jobs is None and synthetic is None:
        from spinf_serve.engine.bench.bench import Shape, run

        if profile:
            raise Unusable("--profile is of jobs: name some with --jobs")
        shape = Shape(contents, questions, content_tokens, question_tokens, repeats)
        run(config.engine, shape=shape, against=against, out=out)
        return
    if against is not None:
        raise Unusable("--against goes with neither --jobs nor --synthetic")
    from spinf_serve.bench_jobs import HTTP, Wanted, groups_of
    from spinf_serve.bench_jobs import run as run_jobs
    from spinf_serve.engine.bench.jobs import Sizes

    groups = groups_of(jobs or "main")
    if HTTP in groups:
        require(SERVER_PACKAGES)
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
