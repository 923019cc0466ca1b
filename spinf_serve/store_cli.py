"""The `spinf-serve store` commands: what scores a project keeps, whether they hold, and what goes."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spinf_serve.flags import ENGINE_PACKAGES, require, takes_settings
from spinf_serve.outputs import write_stdout
from spinf_serve.packs.errors import Unusable
from spinf_serve.precision_cli import SOURCES
from spinf_serve.progress import progress
from spinf_serve.server.config import ServerConfig
from spinf_serve.streams import complain, interruptible

if TYPE_CHECKING:
    from spinf_serve.evals.scorer import Scorer
    from spinf_serve.evals.store import Kept
    from spinf_serve.evals.verify import Difference, Verified

STORE_PACKAGES = ("duckdb", "numpy")
SHOWN = 20
"""Differences that are listed."""

store = typer.Typer(
    help="Kept scores: list them, ask a sample again, remove some.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

ProjectFile = Annotated[
    Path, typer.Argument(metavar="PROJECT", help="the project's file", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]


@store.command("list")
def list_scores(project: ProjectFile, as_json: AsJson = False) -> None:
    """List the models whose scores are kept, with counts."""
    require(STORE_PACKAGES)
    from spinf_serve.evals.project import Project
    from spinf_serve.evals.store import kept

    found = kept(Project(project, say=complain))
    _print({"models": [asdict(one) for one in found]} if as_json else _listed(found))


@store.command("verify")
@takes_settings("engine", "limits", also=("token", *SOURCES), positional=False)
def verify_scores(
    project: ProjectFile,
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="its name", show_default=False)],
    pack: Annotated[
        str,
        typer.Argument(
            metavar="FILE|ID", help="a pack's file, or id or id@version", show_default=False
        ),
    ],
    config: ServerConfig,
    server: Annotated[
        str | None,
        typer.Option(metavar="URL", help="ask this server; token is sent, model is its own"),
    ] = None,
    rows: Annotated[int, typer.Option(min=1, metavar="NUMBER", help="rows to ask again")] = 20,
    seed: Annotated[int, typer.Option(metavar="NUMBER", help="draws other rows")] = 0,
    as_json: AsJson = False,
) -> None:
    """Ask some rows again and compare bits; any difference is exit code 1."""
    require(STORE_PACKAGES)
    from spinf_serve.evals.project import Project
    from spinf_serve.evals.verify import verify
    from spinf_serve.pack_files import given_pack

    given = given_pack(pack, config, _warn)
    asked = _scorer(config, server)
    with interruptible(), progress("asking again"):
        found = verify(
            Project(project, say=complain), dataset, given.pack, asked, rows=rows, seed=seed
        )
    _print(asdict(found) if as_json else _verified(found))
    if found.different:
        raise typer.Exit(1)


@store.command("prune")
@takes_settings(also=("offline", *SOURCES), positional=False)
def prune_scores(
    project: ProjectFile,
    config: ServerConfig,
    model: Annotated[
        str | None,
        typer.Option(
            "--bits", metavar="DIGEST", help="scores of this model, as `store list` shows it"
        ),
    ] = None,
    keep_pack: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE|ID", help="scores that no pack named so asks for; may be given again"
        ),
    ] = None,
    refused: Annotated[
        bool, typer.Option("--refused", help="only refusals, so that they are asked again")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="count, and remove nothing")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove scores: those that all given conditions hold for; one is needed."""
    require(STORE_PACKAGES)
    from spinf_serve.evals.asking import prompts
    from spinf_serve.evals.project import Project
    from spinf_serve.evals.pruning import prune
    from spinf_serve.pack_files import given_pack

    if model is None and not keep_pack and not refused:
        raise Unusable(
            "say which scores go: those of a model with --bits, those that a pack does not ask for"
            " with --keep-pack, or refusals with --refused"
        )
    held = None
    if keep_pack:
        packs = [given_pack(name, config, _warn).pack for name in keep_pack]
        held = {digest for one in packs for digest in prompts(one.questions)}
    gone = prune(
        Project(project, say=complain),
        bits=model,
        keep_prompts=held,
        refused=refused,
        dry_run=dry_run,
    )
    does = "would remove" if dry_run else "removed"
    line = f"{does} {gone.scores:,} scores, {gone.floors:,} floors, {gone.refusals:,} refusals"
    _print({"dry_run": dry_run, **asdict(gone)} if as_json else [line])


def _scorer(config: ServerConfig, server: str | None) -> "Scorer":
    from spinf_serve.evals.scorer import in_process, over_http

    if server is not None:
        with progress("waiting for the server's model"):
            return over_http(server, config.token)
    require(ENGINE_PACKAGES)
    from spinf_serve.engine.api import open_engine

    with interruptible(), progress("loading the model"):
        return in_process(open_engine(config.engine, config.limits))


def _listed(found: "list[Kept]") -> Iterable[str]:
    if not found:
        yield "no scores are kept"
    for one in found:
        about = one.identity
        rounded = " (rounded)" if about.rounded else ""
        yield f"{about.served}{rounded}  bits {about.bits[:16]}  model {about.model[:16] or 'not told'}"
        refused = ", ".join(f"{code} {count:,}" for code, count in one.refused.items()) or "none"
        yield (
            f"    {one.scores:,} scores of {one.contents:,} contents and {one.prompts:,} templates,"
            f" {one.floors:,} floors; contents refused: {refused}"
        )


def _verified(found: "Verified") -> Iterable[str]:
    for one in found.different[:SHOWN]:
        yield _different(one)
    if len(found.different) > SHOWN:
        yield f"and {len(found.different) - SHOWN:,} more"
    of = f"{found.answers:,} answers of {found.rows:,} rows and {found.floors:,} floors"
    if found.different:
        yield (
            f"{len(found.different):,} of {of} differ from what is kept: remove that model's scores"
            " with `spinf-serve store prune --bits`, and report it"
        )
    else:
        yield f"{of} are what is kept, bit for bit"


def _different(one: "Difference") -> str:
    row = "a floor" if one.row is None else f"row {one.row}"
    now = one.now if isinstance(one.now, str) else list(one.now)
    return f"{row}, question {one.question}: kept {list(one.kept)}, now {now}"


def _warn(line: str) -> None:
    complain(f"warning: {line}")


def _print(told: dict[str, Any] | Iterable[str]) -> None:
    lines = [json.dumps(told, ensure_ascii=False, indent=1)] if isinstance(told, dict) else told
    text = "".join(f"{line}\n" for line in lines)
    # A file's name may hold any bytes.
    write_stdout(text.encode(errors="backslashreplace"))
