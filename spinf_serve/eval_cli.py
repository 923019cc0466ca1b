"""`spinf-serve eval` and `spinf-serve compare`: measure packs on labelled rows, and judge them.

Their exit codes have a meaning each, see docs/evals.md: 1 says regression and nothing else.
"""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spinf_serve.flags import EVALS_PACKAGES, require, takes_settings
from spinf_serve.outputs import check_output, write_output, write_stdout
from spinf_serve.packs.errors import SpinfError, Unusable
from spinf_serve.packs.faults import InvalidPack
from spinf_serve.precision_cli import SOURCES
from spinf_serve.server.config import ServerConfig
from spinf_serve.streams import complain, leave

if TYPE_CHECKING:
    from spinf_serve.evaluating import Data, Judgement, Who

ERROR = 2
"""The exit code of whatever goes wrong."""

Rows = Annotated[
    str, typer.Option("--data", metavar="PROJECT[:DATASET]", help="labelled rows of a project file")
]
Split = Annotated[str | None, typer.Option(metavar="NAME", help="only rows of this split")]
Server = Annotated[
    str | None,
    typer.Option(metavar="URL", help="ask this server; token is sent, model is its own"),
]
Bits = Annotated[
    str | None,
    typer.Option(
        metavar="DIGEST", help="judge the kept scores of this model, or one so begun; ask nobody"
    ),
]
Slices = Annotated[
    list[str] | None,
    typer.Option("--slice", metavar="COLUMN", help="break figures down by it; else by all"),
]
Json = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="write all of it; a later baseline")
]
Junit = Annotated[Path | None, typer.Option(metavar="FILE", help="write the rules as JUnit XML")]
Markdown = Annotated[Path | None, typer.Option(metavar="FILE", help="write a summary")]
Html = Annotated[Path | None, typer.Option(metavar="FILE", help="write a page with charts")]


@takes_settings("engine", "limits", also=("token", *SOURCES), positional=False)
def eval_pack(
    pack: Annotated[
        str,
        typer.Argument(
            metavar="PACK", help="a pack's file, or id or id@version", show_default=False
        ),
    ],
    data: Rows,
    config: ServerConfig,
    split: Split = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RULE",
            help="such as 'spam.precision >= 0.9', 'accuracy >= 0.8' or 'refused <= 0.01'; with"
            " 'surely' behind it the whole 95 % interval has to hold; may be given again",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="BASELINE.json|PACK",
            help="hold to an earlier --json, or to another pack, on the same rows",
        ),
    ] = None,
    new_rows: Annotated[
        bool,
        typer.Option(
            "--new-rows",
            help="the rows are others than the baseline's: look for drift instead",
        ),
    ] = False,
    per_day: Annotated[
        float | None,
        typer.Option(
            metavar="MESSAGES",
            min=0,
            help="messages a day: the reports then say how many are flagged a day, too",
        ),
    ] = None,
    slices: Slices = None,
    server: Server = None,
    bits: Bits = None,
    json_file: Json = None,
    junit: Junit = None,
    markdown: Markdown = None,
    html: Html = None,
) -> None:
    """Measure a pack on labelled rows and hold it to rules, to its proof and to a baseline.

    Ends with 0 pass, 1 regression, 2 error, 3 cannot judge, 4 stale fingerprint.
    """
    with _errors_end_with_2():
        require(EVALS_PACKAGES)
        from spinf_serve.evals.gate import parse_rule
        from spinf_serve.evaluating import data_of, judge, measure, refuse_draft, side_of
        from spinf_serve.pack_files import given_pack

        rules = [parse_rule(text) for text in rule or []]
        if new_rows and against is None:
            raise Unusable("--new-rows is about a baseline: name it with --against")
        if per_day is not None and not isfinite(per_day):
            raise Unusable("--per-day is a number of messages")
        given = given_pack(pack, config, _warn)
        refuse_draft(given.pack)
        rows = data_of(data, split, slices)
        inputs = {"the pack": given.file, "the project": rows.project.path}
        if against is not None:
            inputs["the baseline"] = Path(against)
        outputs = {"--json": json_file, "--junit": junit, "--markdown": markdown, "--html": html}
        # Except that a baseline may be renewed in place, which is read before.
        _check(outputs, inputs, may_replace=against)
        who = cache(lambda: _asked(config, server, bits, rows))
        baseline = None
        if against is not None:
            baseline = side_of(against, rows, who, config, _warn, complain, slices)
        side = measure(given.pack, rows, who(), complain, slices)
        _finish(judge(side, rules, baseline, new_rows=new_rows), outputs, per_day)


@takes_settings("engine", "limits", also=("token", *SOURCES), positional=False)
def compare_sides(
    before: Annotated[
        str,
        typer.Argument(metavar="A", help="a pack, or what `eval --json` wrote", show_default=False),
    ],
    now: Annotated[
        str, typer.Argument(metavar="B", help="likewise: is it better?", show_default=False)
    ],
    config: ServerConfig,
    data: Annotated[
        str | None,
        typer.Option(metavar="PROJECT[:DATASET]", help="rows to measure packs on"),
    ] = None,
    split: Split = None,
    slices: Slices = None,
    server: Server = None,
    bits: Bits = None,
    json_file: Json = None,
    junit: Junit = None,
    markdown: Markdown = None,
    html: Html = None,
) -> None:
    """Compare two packs, or two models by their evaluations, on the rows that both have.

    Ends with 0 when B is not worse than A beyond chance, 1 when it is, 2 on errors, 3 when the
    rows do not suffice to tell.
    """
    with _errors_end_with_2():
        require(EVALS_PACKAGES)
        from spinf_serve.evaluating import compared, data_of, side_of

        outputs = {"--json": json_file, "--junit": junit, "--markdown": markdown, "--html": html}
        _check(outputs, {"A": Path(before), "B": Path(now)})
        rows = None if data is None else data_of(data, split, slices)
        who = cache(lambda: _asked(config, server, bits, rows))
        first = side_of(before, rows, who, config, _warn, complain, slices)
        second = side_of(now, rows, who, config, _warn, complain, slices)
        _finish(compared(first, second), outputs)


def _asked(
    config: ServerConfig, server: str | None, bits: str | None, data: "Data | None"
) -> "Who":
    from spinf_serve.evaluating import who_answered, who_answers

    if bits is None:
        return who_answers(config, server)
    if server is not None:
        raise Unusable("--bits asks nobody and --server asks a server: give one of them")
    if data is None:
        raise Unusable("--bits is about kept scores: name the project that holds them with --data")
    return who_answered(data, bits)


def _finish(
    judgement: "Judgement", outputs: dict[str, Path | None], per_day: float | None = None
) -> None:
    """Writes the reports, prints the verdict, and ends with its code."""
    from spinf_serve.evals.baseline import evaluation_text
    from spinf_serve.evals.reports.html import html
    from spinf_serve.evals.reports.junit import junit
    from spinf_serve.evals.reports.markdown import markdown
    from spinf_serve.evals.reports.terminal import lines

    evaluation, verdict, comparisons = (
        judgement.evaluation,
        judgement.verdict,
        judgement.comparisons,
    )
    texts = {
        "--json": lambda: evaluation_text(evaluation, verdict, comparisons),
        "--junit": lambda: junit(evaluation, verdict),
        "--markdown": lambda: markdown(evaluation, verdict, comparisons, per_day=per_day),
        "--html": lambda: html(evaluation, verdict, comparisons, per_day=per_day),
    }
    for option, path in outputs.items():
        if path is not None:
            write_output(path, texts[option]())
    try:
        told = lines(evaluation, verdict, comparisons)
        write_stdout("".join(f"{line}\n" for line in told).encode(errors="backslashreplace"))
    except BrokenPipeError:
        # Whoever reads has enough, and the verdict stands: 1 would call it a regression.
        leave(verdict.exit_code)
    raise typer.Exit(verdict.exit_code)


def _check(
    outputs: dict[str, Path | None], inputs: dict[str, Path], may_replace: str | None = None
) -> None:
    for option, path in outputs.items():
        if path is None:
            continue
        renewed = option == "--json" and may_replace is not None and path == Path(may_replace)
        read = {what: file for what, file in inputs.items() if not renewed or file != path}
        check_output(option, path, read)
        others = {
            f"the file of {name}": other
            for name, other in outputs.items()
            if other is not None and name != option
        }
        check_output(option, path, others)


@contextmanager
def _errors_end_with_2() -> Iterator[None]:
    """Has a pack's faults, and a fault of ours, end with the code for errors.

    Elsewhere these end with 1, which here says regression.
    """
    try:
        yield
    except InvalidPack as invalid:
        for line in invalid.faults:
            complain(str(line))
        raise typer.Exit(ERROR) from None
    except (SpinfError, Unusable, typer.Exit):
        raise
    except Exception as fault:
        # Python would end with 1.
        complain(traceback.format_exc())
        raise typer.Exit(ERROR) from fault


def _warn(line: str) -> None:
    complain(f"warning: {line}")
