"""`spinf-serve fit`: a pack on a project's labelled data, with cuts that hold what they promise."""

import getpass
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spinf_serve.flags import EVALS_PACKAGES, require, takes_settings
from spinf_serve.outputs import check_output, write_output, write_stdout
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import is_there
from spinf_serve.precision_cli import SOURCES
from spinf_serve.server.config import ServerConfig
from spinf_serve.streams import complain, interruptible

if TYPE_CHECKING:
    from spinf_serve.pack_files import Given

NOT_PROMISED = 3
"""Exit code when a target has no cut yet."""


@takes_settings("engine", "limits", also=("token", *SOURCES), positional=False)
def fit(
    pack: Annotated[
        str, typer.Argument(metavar="FILE|ID", help="a pack's file, or id", show_default=False)
    ],
    data: Annotated[
        str,
        typer.Option(metavar="PROJECT[:DATASET]", help="labelled rows; the dataset, if several"),
    ],
    config: ServerConfig,
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=KIND:VALUE",
            help="what a category's cut is to hold: precision, recall, npv, flag_rate, cost, or "
            "bands:PRECISION/NPV; NAME may be decision; may be given again",
        ),
    ] = None,
    base_rate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]RATE",
            help="share of the traffic that holds, where rows were drawn class by class",
        ),
    ] = None,
    delta: Annotated[
        float, typer.Option(metavar="CHANCE", help="chance at most that a promise is wrong")
    ] = 0.05,
    planned: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="NUMBER",
            help="certifications of a target planned on these rows; each takes its share of delta",
        ),
    ] = 1,
    server: Annotated[
        str | None,
        typer.Option(metavar="URL", help="ask this server; token is sent, model is its own"),
    ] = None,
    bits: Annotated[
        str | None,
        typer.Option(
            metavar="DIGEST",
            help="fit on the kept scores of this model, or one so begun; ask nobody",
        ),
    ] = None,
    save: Annotated[
        bool, typer.Option("--save", help="write numbers and proof into the pack's file")
    ] = False,
    by: Annotated[
        str | None, typer.Option(metavar="NAME", help="who asks, for the project; else the user")
    ] = None,
    out_report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write the report there as JSON")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Fit a pack on labelled data, with cuts that hold a target, or say what they still need.

    Exit code 3: a target is not reachable yet, and nothing is saved.
    """
    require(EVALS_PACKAGES)
    from spinf_serve.evals.fitting import fit_pack
    from spinf_serve.evals.ledger import keep_fit
    from spinf_serve.evals.reports.fits import fit_object, fit_page
    from spinf_serve.evals.runner import run
    from spinf_serve.evals.wishes import check_wishes
    from spinf_serve.evaluating import data_of, who_answered, who_answers
    from spinf_serve.pack_files import refuse_id, refuse_published
    from spinf_serve.packs.save import save_constants
    from spinf_serve.targets import wishes

    if save:
        refuse_id(Path(pack))
        refuse_published(Path(pack))
    given = _given(pack, config)
    wanted = wishes(target or [], base_rate or [], delta)
    check_wishes(given.pack, wanted)
    rows = data_of(data, None)
    inputs = {"the pack": given.file, "the project": rows.project.path}
    if out_report is not None:
        check_output("--out-report", out_report, inputs)
    if save:
        check_output("the pack", given.file, {"the project": rows.project.path})
    user = by or getpass.getuser()
    if bits is not None and server is not None:
        raise Unusable("--bits asks nobody and --server asks a server: give one of them")
    who = who_answers(config, server) if bits is None else who_answered(rows, bits)
    with interruptible():
        if who.scorer is not None:
            complain(str(run(rows.project, rows.name, given.pack, who.scorer, complain)))
        fitted = fit_pack(
            rows.project,
            rows.name,
            given.pack,
            who.identity.bits,
            wanted,
            by=user,
            planned=planned,
        )
    told = fit_object(fitted)
    _print([json.dumps(told, ensure_ascii=False, indent=1)] if as_json else fit_page(fitted))
    if out_report is not None:
        write_output(out_report, json.dumps(told, ensure_ascii=False, indent=1) + "\n")
    if not fitted.met:
        complain("a target has no cut yet" + ("; nothing was saved" if save else ""))
        raise typer.Exit(NOT_PROMISED)
    if save:
        save_constants(given.file, fitted.constants, digest=given.pack.digest)
        keep_fit(rows.project, given.pack.id, given.pack.version, user, fitted.data_digest, told)
        complain(f"the numbers stand in {given.file}")


def _given(name: str, config: ServerConfig) -> "Given":
    """The pack, whose numbers so far may be those of an earlier wording."""
    from spinf_serve.pack_files import Given, given_pack
    from spinf_serve.packs.faults import InvalidPack
    from spinf_serve.packs.files import read_regular
    from spinf_serve.packs.loader import read_pack

    try:
        return given_pack(name, config, _warn)
    except InvalidPack:
        if not is_there(Path(name)):
            raise
        data = read_regular(Path(name))
        return Given(read_pack(data, name, fitted=False), Path(name), data)


def _warn(line: str) -> None:
    complain(f"warning: {line}")


def _print(lines: Iterable[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    write_stdout(text.encode(errors="backslashreplace"))
