"""The command `spinf-serve packs precision`."""

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spinf_serve.engine.config import AUTO, EMBEDDED
from spinf_serve.flags import takes_settings
from spinf_serve.outputs import check_output, write_output
from spinf_serve.packs.errors import Unusable
from spinf_serve.server.config import ServerConfig
from spinf_serve.streams import complain, interruptible

if TYPE_CHECKING:
    from spinf_serve.pack_files import Given
    from spinf_serve.precision_scores import Scores

SOURCES = ("packs", "official_packs", "packs_refresh", "packs_cache", "github_token")
"""Settings that say where packs come from."""


@takes_settings(
    "limits", also=("model", "token_budget", "threads", "offline", *SOURCES), positional=False
)
def precision(
    config: ServerConfig,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE|ID...",
            help="packs' files, or ids; else all official ones",
            show_default=False,
        ),
    ] = None,
    schemes: Annotated[
        str,
        typer.Option(
            metavar="SCHEME,...", help="some of cpu-bfloat16, cuda-bf16, cuda-fp8, cuda-int8"
        ),
    ] = "cpu-bfloat16",
    rows: Annotated[
        int, typer.Option(min=2, metavar="NUMBER", help="at most so many rows of each sample")
    ] = 24,
    recordings: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="keeps scores; what a scheme has there is not scored again"
        ),
    ] = None,
    record_only: Annotated[
        bool, typer.Option("--record-only", help="score the schemes, and compare another time")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write the figures there as JSON")
    ] = None,
) -> None:
    """Compare scores in other number formats with float32: differences, ranks, verdicts flipped.

    Float32 is what lies recorded beside a pack, else is scored on the CPU. Verdicts are by the pack's
    numbers for the model, else by numbers fitted on the compared rows. The model `auto` is the
    embedded one here.
    """
    from spinf_serve.pack_fit import commit
    from spinf_serve.precision_scores import (
        REFERENCE,
        open_scheme,
        parse_schemes,
        scores_of,
        subjects_of,
    )
    from spinf_serve.precision_table import compared, precision_page

    chosen = parse_schemes(schemes)
    if record_only and (recordings is None or out is not None):
        raise Unusable("--record-only needs --recordings, and has no figures for --out")
    if out is not None:
        check_output("--out", out, {})
    engine = config.engine
    if engine.model == AUTO:
        engine = replace(engine, model=EMBEDDED)
    subjects = subjects_of(_given(names or [], config), rows)
    opened = partial(open_scheme, limits=config.limits)

    def scores(scheme: str) -> "Scores":
        return scores_of(scheme, subjects, engine, recordings, opened, complain)

    with interruptible():
        others = [scores(scheme) for scheme in chosen]
        if record_only:
            return
        told = compared(subjects, scores(REFERENCE), others)
    told["commit"] = commit()
    told["command"] = " ".join(["spinf-serve", *sys.argv[1:]])
    told["date"] = datetime.now(UTC).date().isoformat()
    for line in precision_page(told):
        typer.echo(line)
    if out is not None:
        write_output(out, json.dumps(told, indent=1, ensure_ascii=False) + "\n")


def _given(names: list[str], config: ServerConfig) -> "list[Given]":
    from spinf_serve.pack_files import given_pack, read_given
    from spinf_serve.packs.catalogue import official_folder

    if names:
        return [
            given_pack(name, config, lambda line: complain(f"warning: {line}")) for name in names
        ]
    return [read_given(file) for file in sorted(official_folder().glob("*/pack.yaml"))]
