"""The `spinf-serve packs` commands. Each imports what it needs on use; none but lint and fit a model."""

import json
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import typer

from spinf_serve.flags import takes_settings
from spinf_serve.outputs import check_output, write_output, write_stdout
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import is_regular, is_there, read_regular, shown
from spinf_serve.precision_cli import SOURCES, precision
from spinf_serve.server.config import ServerConfig
from spinf_serve.streams import complain, interruptible

packs = typer.Typer(
    help="Packs: list, check, compare, publish and fit them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]
Named = Annotated[
    str,
    typer.Argument(
        metavar="FILE|ID", help="a pack's file, or id or id@version", show_default=False
    ),
]
File = Annotated[Path, typer.Argument(metavar="FILE", help="a pack's file", show_default=False)]
Server = Annotated[
    str | None,
    typer.Option(metavar="URL", help="ask this server; token is sent, model is its own"),
]


@packs.command("list")
@takes_settings(also=("model", "dtype", "offline", *SOURCES), positional=False)
def list_packs(config: ServerConfig, as_json: AsJson = False) -> None:
    """List the packs that a server would serve, with their state on a model, and what is wrong."""
    from spinf_serve.engine.config import AUTO, EMBEDDED
    from spinf_serve.engine.fingerprint import model_digest
    from spinf_serve.pack_files import constants_names, known_model, open_catalogue
    from spinf_serve.pack_pages import list_page, listed

    notes: list[str] = []
    catalogue = open_catalogue(config, notes.append)
    # What `auto` comes to on a card, only the engine's libraries can tell.
    name = EMBEDDED if config.engine.model == AUTO else config.engine.model
    model = known_model(name)
    digest = ""
    if model is not None and model.source.sha256 is not None:
        digest = model_digest(model.source.sha256, config.engine.dtype)
    told = listed(
        catalogue,
        name if model is None else model.served.id,
        (name,) if model is None else constants_names(model.served),
        digest,
    )
    own = [line for line in notes if line not in catalogue.faults]
    _print({**told, "notes": own} if as_json else list_page(told, own))


@packs.command("show")
@takes_settings(also=("offline", *SOURCES))
def show_pack(
    name: Named,
    config: ServerConfig,
    version: Annotated[
        str | None, typer.Option(metavar="VERSION", help="which version of an id")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a pack asks, what its answers mean, and what was fitted."""
    from spinf_serve.pack_files import given_pack
    from spinf_serve.pack_pages import page, show_page

    given = given_pack(name, config, _warn, version)
    if as_json:
        _print({"file": str(given.file), **page(given.pack)})
    else:
        _print(show_page(given.pack))


@packs.command("validate")
def validate(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="files, or folders of packs", show_default=False),
    ],
    as_json: AsJson = False,
) -> None:
    """Check files and whole folders: packs, locks, listings and the samples beside them."""
    from spinf_serve.pack_check import check_paths

    checked = check_paths(paths)
    if as_json:
        _print(checked.told())
    else:
        _print([*map(str, checked.faults), checked.summary])
    if checked.faults:
        raise typer.Exit(1)


@packs.command("lint")
@takes_settings("engine", "limits", also=("token", *SOURCES), positional=False)
def lint_pack(
    name: Named,
    config: ServerConfig,
    content: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="a content; may be given again")
    ] = None,
    contents: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="a labelled sample (.csv), or one content a line; else sample.csv beside the pack",
        ),
    ] = None,
    rows: Annotated[
        int, typer.Option(min=1, metavar="NUMBER", help="at most so many contents of a file")
    ] = 24,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Ask a model a pack's questions, and find what is wrong with them; see docs/lint.md."""
    from spinf_serve.pack_check import lint_contents
    from spinf_serve.pack_files import given_pack
    from spinf_serve.pack_fit import answering
    from spinf_serve.pack_pages import lint_object, lint_page
    from spinf_serve.packs.lint import asked, instructions, lint
    from spinf_serve.scoring import ask

    given = given_pack(name, config, _warn)
    texts = lint_contents(given, content or [], contents, rows)
    who = answering(config, server)
    with interruptible():
        answers = ask(who.engine, texts, asked(given.pack), complain)
    said = instructions(given.data, str(given.file))
    report = lint(given.pack, said, who.limits, answers, who.tokens)
    told = lint_object(given.pack, who.model, len(texts), report)
    _print(told if as_json else lint_page(told))
    if report.findings:
        raise typer.Exit(1)


@packs.command("diff")
@takes_settings(also=("offline", *SOURCES))
def diff_packs(
    before: Named,
    after: Named,
    config: ServerConfig,
    as_json: AsJson = False,
) -> None:
    """Compare two packs: wording, options, reads, categories, decision, fitted numbers."""
    from spinf_serve.pack_files import given_pack
    from spinf_serve.pack_pages import diff_object, diff_page
    from spinf_serve.packs.diff import difference
    from spinf_serve.packs.lint import instructions

    old, new = (given_pack(name, config, _warn) for name in (before, after))
    said = [instructions(given.data, str(given.file)) for given in (old, new)]
    groups = difference(old.pack, new.pack, *said)
    same = old.pack.digest == new.pack.digest
    _print(diff_object(groups, same) if as_json else diff_page(groups, same))
    if groups:
        raise typer.Exit(1)


@packs.command("export")
def export(
    file: File,
    model: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="whose numbers are written; else those of the only one"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write there instead of printing")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="replace the file of --out")] = False,
) -> None:
    """Write a pack in the plain JSON form, its short forms written out."""
    from spinf_serve.pack_files import read_given, refuse_id
    from spinf_serve.packs.plain import plain

    refuse_id(file)
    pack = read_given(file).pack
    names = list(pack.fitted)
    if model is not None and pack.constants((model,)) is None:
        raise Unusable(
            f"--model {model}: {pack.id} has numbers for {', '.join(names)}; name one of them"
            if names
            else f"--model {model}: {pack.id} is a draft, without numbers for any model; leave"
            " --model out"
        )
    if model is None and len(names) > 1:
        raise Unusable(f"{pack.id} is fitted on {', '.join(names)}; say which with --model")
    chosen = model if model is not None else next(iter(names), None)
    text = json.dumps(plain(pack, chosen), ensure_ascii=False, indent=1) + "\n"
    if out is None:
        _print([text.removesuffix("\n")])
    else:
        check_output("--out", out, {"the pack": file})
        _write(out, text, force)


@packs.command("new")
def new_pack(
    pack_id: Annotated[
        str, typer.Argument(metavar="ID", help="namespace/name", show_default=False)
    ],
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="FOLDER", help="else one called like the pack", show_default=False),
    ] = None,
) -> None:
    """Start a pack: a commented draft, a small sample and the schema, in a folder of its own."""
    from spinf_serve.packs.faults import InvalidPack
    from spinf_serve.packs.loader import read_pack
    from spinf_serve.packs.new import starter

    files = starter(pack_id)
    try:
        read_pack(files["pack.yaml"].encode(), "pack.yaml")
    except InvalidPack as invalid:
        # Only the id can be wrong, and there is no file yet to name.
        raise Unusable(invalid.faults[0].message) from None
    place = Path(pack_id.split("/")[1]) if folder is None else folder
    for name in files:
        if is_there(place / name):
            raise Unusable(f"{place / name} is there already; nothing was written")
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unusable(f"{place} cannot be made: {error.strerror}") from None
    for name, text in files.items():
        _write(place / name, text, force=False)
        _print([str(place / name)])


@packs.command("schema")
def schema() -> None:
    """Print the JSON Schema of a pack's file, with which editors complete and check it."""
    from spinf_serve.packs.new import schema_text

    _print(schema_text().splitlines())


@packs.command("publish")
def publish_pack(
    file: File,
    bump: Annotated[
        str | None,
        typer.Option(
            metavar="major|minor|patch",
            help="raise this part of the version if needed",
        ),
    ] = None,
    note: Annotated[
        str, typer.Option(metavar="TEXT", help="what is new, a line for those who use it")
    ] = "",
) -> None:
    """Publish a pack's file: a copy that never changes, and its line in prompt-packs.json."""
    from spinf_serve.pack_files import refuse_id
    from spinf_serve.packs.loader import read_pack
    from spinf_serve.packs.publish import publish
    from spinf_serve.packs.versions import PARTS

    refuse_id(file)
    part = next((one for one in PARTS if one == bump), None)
    if part is None and bump is not None:
        raise Unusable(f"--bump {bump}: write {', '.join(PARTS[:-1])} or {PARTS[-1]}")
    done = publish(file, read=read_pack, bump=part, note=note)
    raised = "" if done.bumped_from is None else f" (raised from {done.bumped_from})"
    what = "published" if done.changed else "was published before, nothing changed"
    _print([f"{done.id} {done.version}{raised} {what}: {done.file}"])


@packs.command("fit")
@takes_settings("engine", "limits", also=("token",), positional=False)
def fit_command(
    file: File,
    config: ServerConfig,
    sample: Annotated[
        Path | None,
        typer.Argument(
            metavar="SAMPLE", help="its labelled sample; else sample.csv beside", show_default=False
        ),
    ] = None,
    server: Server = None,
    recording: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="keeps scores; else scores.jsonl.gz beside the sample"),
    ] = None,
    out_report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write the report there as JSON")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="score, fit and judge; leave the pack as it is")
    ] = False,
) -> None:
    """Fit a pack on a model by a labelled sample, and write the numbers into its file."""
    from spinf_serve.pack_files import SAMPLE, refuse_id, refuse_published, sample_of
    from spinf_serve.pack_fit import answering, fit_pack, report_object
    from spinf_serve.pack_pages import fit_page
    from spinf_serve.packs.save import save_constants

    refuse_id(file)
    if not dry_run:
        refuse_published(file)
    sample = sample_of(file) if sample is None else sample
    if sample is None:
        raise Unusable(f"no {SAMPLE} lies beside {file}: name the labelled sample behind it")
    if recording is None:
        recording = sample.parent / "scores.jsonl.gz"
    if out_report is not None:
        files = {"the pack": file, "the sample": sample, "the recording": recording}
        check_output("--out-report", out_report, files)
    if not dry_run:
        check_output("the pack", file, {})
    with interruptible():
        fitted = fit_pack(
            file,
            sample,
            recording,
            lambda: answering(config, server),
            complain,
        )
    if not dry_run:
        save_constants(file, fitted.fitting.constants, digest=fitted.pack.digest)
    told = report_object(fitted, sha256(read_regular(file)).hexdigest())
    _print(fit_page(told))
    _print([f"dry run: {file} is as it was" if dry_run else f"the numbers stand in {file}"])
    if out_report is not None:
        _write(out_report, json.dumps(told, indent=1, ensure_ascii=False) + "\n", force=True)


packs.command("precision")(precision)


def _warn(line: str) -> None:
    complain(f"warning: {line}")


def _print(told: dict[str, Any] | Iterable[str]) -> None:
    lines = [json.dumps(told, ensure_ascii=False, indent=1)] if isinstance(told, dict) else told
    text = "".join(f"{line}\n" for line in lines)
    # A file's name may hold any bytes.
    write_stdout(text.encode(errors="backslashreplace"))


def _write(path: Path, text: str, force: bool) -> None:
    if not force and is_regular(path):
        raise Unusable(
            f"{shown(path)} is there already; give --force to replace it, or another name"
        )
    write_output(path, text)
