"""`spinf-serve decide` and `spinf-serve estimate`: a pack over a sheet of unlabelled texts."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spinf_serve.flags import ENGINE_PACKAGES, require, takes_settings
from spinf_serve.outputs import check_output, write_stdout
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import is_regular, is_there, shown
from spinf_serve.precision_cli import SOURCES
from spinf_serve.progress import progress
from spinf_serve.server.config import ServerConfig
from spinf_serve.streams import complain, interruptible

if TYPE_CHECKING:
    from spinf_serve.engine.api import Engine
    from spinf_serve.evals.deciding import Presented
    from spinf_serve.evals.scorer import Scorer
    from spinf_serve.evals.sheets import Sheet, Wanted
    from spinf_serve.packs.pack import Pack

SHEET_PACKAGES = ("duckdb", "openpyxl")
"""What sheets are read with."""

RATE_WORKS = 64
"""Rows that a rate is measured on."""

Text = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="column of the texts; else text, content or message"),
]
Context = Annotated[
    str | None, typer.Option(metavar="NAME", help="the pack's context; else its first")
]
Parameters = Annotated[
    list[str] | None,
    typer.Option(
        "--parameter",
        metavar="NAME=VALUE",
        help="fills the context; columns named parameters.NAME do so row by row",
    ),
]
Encoding = Annotated[
    str | None, typer.Option(metavar="NAME", help="of a CSV or JSONL file; else UTF-8")
]
Worksheet = Annotated[
    str | None, typer.Option("--sheet", metavar="NAME", help="worksheet of an XLSX file")
]


@takes_settings("engine", "limits", also=("token", *SOURCES), positional=False)
def decide(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="a .csv, .tsv, .jsonl, .xlsx or .parquet file", show_default=False
        ),
    ],
    pack: Annotated[
        str, typer.Option(metavar="FILE|ID", help="a pack's file, or id or id@version")
    ],
    config: ServerConfig,
    text: Text = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="else NAME.decided.csv beside NAME.csv")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="replace the file of --out")] = False,
    context: Context = None,
    parameter: Parameters = None,
    prefix: Annotated[
        str, typer.Option(metavar="TEXT", help="what names of added columns begin with")
    ] = "spinf_",
    encoding: Encoding = None,
    sheet: Worksheet = None,
    server: Annotated[
        str | None,
        typer.Option(metavar="URL", help="ask this server; token is sent, model is its own"),
    ] = None,
) -> None:
    """Decide every row of a sheet by a pack, and write it again with the decision behind each row.

    Added are decision, band, reason, the flagged categories, every category's score, and for a row
    without an answer the error. A run that was broken off goes on where it was.
    """
    require(SHEET_PACKAGES)
    from spinf_serve.evals.decided import columns_of
    from spinf_serve.evals.deciding import asking, decide_sheet, doubt, parameter_columns, summary
    from spinf_serve.evals.sheets import open_sheet, wanted_of
    from spinf_serve.pack_files import constants_names, described, given_pack

    given = given_pack(pack, config, _warn)
    opened = open_sheet(file, encoding=encoding, tab=sheet)
    added = columns_of(given.pack, prefix)
    wanted = wanted_of(opened, text, parameter_columns(given.pack), added)
    if out is None:
        out = file.with_name(f"{file.stem}.decided{file.suffix}")
    if out.suffix.lower() != file.suffix.lower():
        raise Unusable(
            f"--out {shown(out)}: a {file.suffix} file is written as one; give a name that ends so"
        )
    check_output("--out", out, {"the sheet": file, "the pack": given.file})
    if is_there(out) and not is_regular(out):
        raise Unusable(f"--out {shown(out)} is no regular file: name another")
    if is_there(out) and not force:
        raise Unusable(f"{shown(out)} is there already; give --force to replace it, or --out")
    scorer, engine = _scorer(config, server)
    model = scorer.identity.served
    served = described(model) if engine is None else engine.served
    names = (model,) if served is None else constants_names(served)
    asked = asking(given.pack, scorer, names, context, _parameters(parameter or []))
    warning = doubt(asked)
    if warning is not None:
        _warn(warning)
    with interruptible(), progress("deciding") as report:
        decided = decide_sheet(opened, file, wanted, out, asked, report)
    _print(summary(decided, out))


@takes_settings("engine", "limits", also=SOURCES, positional=False)
def estimate(
    pack: Annotated[
        str,
        typer.Argument(
            metavar="PACK", help="a pack's file, or id or id@version", show_default=False
        ),
    ],
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="a sheet of texts as for decide", show_default=False),
    ],
    config: ServerConfig,
    gpu_hour: Annotated[
        float, typer.Option(min=0, metavar="PRICE", help="price of an hour of the machine")
    ],
    rate: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="TOKENS_PER_S",
            help="tokens a second that the model reads; else measured here for five seconds",
        ),
    ] = None,
    rows: Annotated[
        int, typer.Option(min=1, metavar="NUMBER", help="at most so many, evenly spread")
    ] = 1000,
    text: Text = None,
    context: Context = None,
    parameter: Parameters = None,
    encoding: Encoding = None,
    sheet: Worksheet = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Tell tokens, time and cost of 1,000 decisions, beside one call per question.

    Tokens are counted by the model's own tokenizer. With a rate given no weight is read.
    """
    require(ENGINE_PACKAGES + SHEET_PACKAGES)
    from spinf_serve.counting import (
        count_tokens,
        counting,
        counting_of,
        estimate_lines,
        measured_rate,
    )
    from spinf_serve.engine.work import Work
    from spinf_serve.evals.deciding import parameter_columns, parts_of, questions_of
    from spinf_serve.evals.estimate import estimate as cost_of
    from spinf_serve.evals.sheets import open_sheet, wanted_of
    from spinf_serve.pack_files import given_pack
    from spinf_serve.packs.chunks import Reader

    if rate == 0:
        raise Unusable("--rate 0: give how many tokens a second the model reads")
    chosen = given_pack(pack, config, _warn).pack
    opened = open_sheet(data, encoding=encoding, tab=sheet)
    wanted = wanted_of(opened, text, parameter_columns(chosen), ())
    presenting = _presenting(chosen, opened, wanted, rows, context, _parameters(parameter or []))
    with interruptible():
        engine = _engine(config) if rate is None else None
        model = counting(config, complain) if engine is None else counting_of(engine)
        reader = Reader(model.tokenizer, model.limits.max_content_tokens)
        works = [
            one.refused
            or [Work(part, questions_of(chosen)) for part in parts_of(chosen, one, reader)]
            for one in presenting
        ]
        counted, refused = count_tokens(model, works)
        speed = 0.0 if rate is None else rate
        if engine is not None:
            good = [work for each in works if isinstance(each, list) for work in each]
            complain("measuring the rate on this machine for some seconds")
            speed = measured_rate(engine, good[:RATE_WORKS])
    told = cost_of(counted, speed, gpu_hour)
    if as_json:
        facts = {"pack": chosen.id, "version": chosen.version, "model": model.model}
        _print(
            [
                json.dumps(
                    {
                        **facts,
                        "counted": asdict(counted),
                        "refused": dict(refused),
                        "tokens_per_second": speed,
                        "hour_price": gpu_hour,
                        "per_1000": asdict(told),
                    },
                    indent=1,
                )
            ]
        )
        return
    _print(
        [
            f"{chosen.id} {chosen.version} on {model.model}",
            *estimate_lines(counted, refused, told, speed, gpu_hour),
        ]
    )


def _presenting(
    pack: "Pack",
    sheet: "Sheet",
    wanted: "Wanted",
    most: int,
    context: str | None,
    parameters: dict[str, str],
) -> "list[Presented]":
    """At most so many rows as they are asked, taken evenly from the sheet."""
    from spinf_serve.evals.deciding import context_of, presented

    chosen = context_of(pack, context)
    total = sum(1 for _ in sheet.rows(wanted))
    # Upwards, so that there are never more than wanted.
    step = -(-total // most) or 1
    rows = islice(sheet.rows(wanted), 0, None, step)
    return [presented(row, pack, chosen, parameters) for row in rows]


def _scorer(config: ServerConfig, server: str | None) -> "tuple[Scorer, Engine | None]":
    """Who answers, and the engine when it is in this process."""
    from spinf_serve.evals.scorer import in_process, over_http

    if server is not None:
        with progress("waiting for the server's model"):
            return over_http(server, config.token), None
    engine = _engine(config)
    return in_process(engine), engine


def _engine(config: ServerConfig) -> "Engine":
    require(ENGINE_PACKAGES)
    from spinf_serve.engine.api import open_engine

    with interruptible(), progress("loading the model"):
        return open_engine(config.engine, config.limits)


def _parameters(given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name or name in found:
            raise Unusable(f"--parameter {one}: write NAME=VALUE, each name once")
        found[name] = value
    return found


def _warn(line: str) -> None:
    complain(f"warning: {line}")


def _print(lines: "Iterator[str] | Sequence[str]") -> None:
    text = "".join(f"{line}\n" for line in lines)
    # A file's name may hold any bytes.
    write_stdout(text.encode(errors="backslashreplace"))
