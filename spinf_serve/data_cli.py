"""The `spinf-serve data` commands: a project's labelled data in, out, split, labelled and deleted."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from spinf_serve.data_pages import import_page, parts_page, standing_page
from spinf_serve.flags import require
from spinf_serve.moments import Since, Until
from spinf_serve.outputs import check_output, write_stdout
from spinf_serve.packs.errors import Unusable
from spinf_serve.progress import progress
from spinf_serve.streams import complain, interruptible

if TYPE_CHECKING:
    from spinf_serve.evals.data.columns import Origin

data = typer.Typer(
    help="Labelled data: import, check, split, label, export and delete it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

ProjectFile = Annotated[
    Path, typer.Argument(metavar="PROJECT", help="the project's file", show_default=False)
]
Name = Annotated[str, typer.Argument(metavar="DATASET", help="its name", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]
Visible = Annotated[
    bool, typer.Option("--score-visible", help="annotators saw the scores when they labelled")
]
_FILLED: Final = re.compile(r"question:[^=\]]*\[")
"""Beginning of a label for one filled template of a question."""

Annotator = Annotated[str, typer.Option(metavar="NAME", help="who gave the labels")]


@data.command("new")
def new_project(project: ProjectFile) -> None:
    """Make a project: one file for data, scores and what was promised on them."""
    _needs()
    from spinf_serve.evals.project import create

    create(project)
    _print([f"{project} is a project now"])


@data.command("import")
def import_data(
    project: ProjectFile,
    dataset: Name,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help=".csv, .tsv, .jsonl, .parquet, .xlsx or a decision log; with --query a DuckDB"
            " file to ask",
            show_default=False,
        ),
    ] = None,
    text: Annotated[
        str, typer.Option(metavar="COLUMN", help="of the contents; '' for none, see --media")
    ] = "text",
    media: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="of paths or URLs, for rows without a text"),
    ] = None,
    id: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="of unique ids; else line numbers are ids")
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TARGET=COLUMN",
            help="of yes and no, or for question:ID of its options; may be given again",
        ),
    ] = None,
    classes: Annotated[
        list[str] | None,
        typer.Option(metavar="TARGET", help="this target's column holds classes, any text"),
    ] = None,
    labels: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="of lists of all labels that hold")
    ] = None,
    separator: Annotated[str, typer.Option(metavar="TEXT", help="between labels of a list")] = "|",
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="a label that lists may name; else any"),
    ] = None,
    blank_is_none: Annotated[
        bool, typer.Option("--blank-is-none", help="a blank list says that no label holds")
    ] = False,
    slice: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="that reports are broken down by"),
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="of what may not part, such as a thread")
    ] = None,
    context: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="which of a pack's contexts presents it")
    ] = None,
    parameter: Annotated[
        list[str] | None, typer.Option(metavar="NAME=COLUMN", help="that fills a context")
    ] = None,
    weight: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="inverse of the probability of being drawn"),
    ] = None,
    annotator: Annotator = "import",
    drawn: Annotated[
        str | None,
        typer.Option(
            metavar="random|queue|import",
            help="how the rows were chosen: blindly, by their scores, or nobody knows (default);"
            " of a decision log which rows: its random sample (default), those found unsafe or to"
            " be reviewed, or all",
        ),
    ] = None,
    score_visible: Visible = False,
    pack: Annotated[
        str | None, typer.Option(metavar="ID", help="of a decision log, only what it was asked")
    ] = None,
    since: Since = None,
    until: Until = None,
    query: Annotated[
        str | None, typer.Option(metavar="SQL", help="one SELECT, in place of a file")
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(metavar="NAME", help="of a text file; else found out")
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(metavar="CHARACTER", help="between cells; else found out")
    ] = None,
    sheet: Annotated[
        str | None, typer.Option(metavar="NAME", help="of a workbook; else the first")
    ] = None,
    append: Annotated[bool, typer.Option("--append", help="add rows to a dataset")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="write nothing when a row is refused; exit code 1")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="report, and write nothing")] = False,
    as_json: AsJson = False,
) -> None:
    """Import a file or a query, and say what was found: refused rows, doubles, conflicts, balance."""
    _needs()
    from spinf_serve.evals.data.columns import Columns
    from spinf_serve.evals.data.decision_log import is_decision_log
    from spinf_serve.evals.data.importing import import_rows
    from spinf_serve.evals.data.readers import Source
    from spinf_serve.evals.judged import QUESTION
    from spinf_serve.evals.project import Project
    from spinf_serve.log_rows import of_log

    pairs = _pairs("--label", label)
    source = Source(file, query, encoding, delimiter, sheet)
    own: dict[str, Any] = {
        "text": text or None,
        "id": id,
        "context": context,
        "weight": weight,
        "parameters": _pairs("--parameter", parameter),
    }
    if file is not None and query is None and is_decision_log(file):
        default = Source(file), {"text": "text", "id": None, "context": None, "weight": None}
        if (source, own) != (default[0], default[1] | {"parameters": {}}):
            raise Unusable(
                f"{file} is a decision log, whose columns are known: leave --text, --id, --context,"
                " --weight, --parameter, --encoding, --delimiter and --sheet out"
            )
        source, own, drawn = of_log(file, drawn, pack, since, until)
    elif (pack, since, until) != (None, None, None):
        raise Unusable(
            "--pack, --since and --until are about a decision log, which is no such FILE"
        )
    origin = _origin(annotator, drawn or "import", score_visible)
    columns = Columns(
        **own,
        labels=pairs,
        # A question's label is one of its options, which only the pack knows.
        classes=frozenset(classes or ()) | {one for one in pairs if one.startswith(QUESTION)},
        lists=labels,
        separator=separator,
        targets=frozenset(target or ()),
        blank_is_none=blank_is_none,
        slices=tuple(slice or ()),
        group=group,
        media=media,
    )
    with interruptible(), progress("importing rows") as report:
        found = import_rows(
            Project(project, say=complain),
            dataset,
            source,
            columns,
            origin,
            append=append,
            strict=strict,
            dry_run=dry_run,
            done=lambda count: report(count, count),
        )
    _print(asdict(found) if as_json else import_page(found))
    if dry_run and not as_json:
        _print(["dry run: nothing was written"])
    if strict and found.refused_count:
        raise typer.Exit(1)


@data.command("list")
def list_data(project: ProjectFile, as_json: AsJson = False) -> None:
    """List the datasets of a project."""
    _needs()
    from spinf_serve.evals.data.overview import datasets
    from spinf_serve.evals.project import Project

    found = datasets(Project(project, say=complain))
    if as_json:
        _print({"datasets": [asdict(one) for one in found]})
        return
    _print(
        f"{one.name}: {one.rows:,} rows, {one.labels:,} labels, from {one.source},"
        f" {one.created:%Y-%m-%d %H:%M} UTC"
        for one in found
    )
    if not found:
        _print(["no dataset yet; `spinf-serve data import` makes one"])


@data.command("report")
def report_data(project: ProjectFile, dataset: Name, as_json: AsJson = False) -> None:
    """Say how a dataset stands: splits, balance, conflicts, what waits for adjudication."""
    _needs()
    from spinf_serve.evals.data.overview import standing
    from spinf_serve.evals.project import Project

    found = standing(Project(project, say=complain), dataset)
    _print(asdict(found) if as_json else standing_page(dataset, found))


@data.command("split")
def split_data(
    project: ProjectFile,
    dataset: Name,
    shares: Annotated[
        list[str],
        typer.Argument(metavar="PART=SHARE...", help="such as fit=0.6 test=0.4"),
    ],
    seed: Annotated[
        int, typer.Option(min=0, metavar="NUMBER", help="another one, another split")
    ] = 0,
    by: Annotated[
        list[str] | None, typer.Option(metavar="TARGET", help="balance this target; else all")
    ] = None,
) -> None:
    """Split a dataset by group, balanced by label; the same seed gives the same split."""
    _needs()
    from spinf_serve.evals.data.splits import split_rows
    from spinf_serve.evals.project import Project

    parts: dict[str, float] = {}
    for name, share in _pairs("PART=SHARE", shares).items():
        try:
            parts[name] = float(share)
        except ValueError:
            raise Unusable(f"{name}={share}: write a share such as {name}=0.5") from None
    _print(parts_page(split_rows(Project(project, say=complain), dataset, parts, seed=seed, by=by)))


@data.command("label")
def label_data(
    project: ProjectFile,
    dataset: Name,
    row: Annotated[
        str | None, typer.Argument(metavar="ROW", help="its id", show_default=False)
    ] = None,
    said: Annotated[
        list[str] | None,
        typer.Argument(metavar="TARGET=VALUE...", help="yes, no or unsure", show_default=False),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="of labels: columns id, target and value"),
    ] = None,
    annotator: Annotator = "me",
    annotator_column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="of the file that names annotators")
    ] = None,
    classes: Annotated[bool, typer.Option("--classes", help="values may be any text")] = False,
    adjudicate: Annotated[
        bool, typer.Option("--adjudicate", help="settle what annotators disagree on")
    ] = False,
    drawn: Annotated[
        str | None,
        typer.Option(
            metavar="random|queue|import",
            help="how these rows were chosen to be labelled: blindly, by their scores, or nobody"
            " knows; else as each was drawn, such as when all of a sample are labelled",
        ),
    ] = None,
    score_visible: Visible = False,
) -> None:
    """Label rows, one by name or many from a file; an annotator's earlier label is replaced."""
    _needs()
    from spinf_serve.evals.data.label_files import read_labels, value_of
    from spinf_serve.evals.data.labels import Label, now, put_labels
    from spinf_serve.evals.data.readers import Source
    from spinf_serve.evals.project import Project

    origin = _origin(annotator, drawn or "import", score_visible)
    if (file is None) == (row is None or not said):
        raise Unusable("name a row and what it is, as in `12 spam=yes`, or a --file of labels")
    if file is not None:
        labels = read_labels(
            Source(file),
            origin,
            annotator=annotator_column,
            classes=classes,
            adjudicated=adjudicate,
            as_rows=drawn is None,
        )
    else:
        at = now()
        labels = [
            Label(
                str(row),
                target,
                value_of(value, classes=classes),
                annotator,
                at,
                None if drawn is None else origin.drawn,
                score_visible,
                adjudicate,
            )
            for target, value in _pairs("TARGET=VALUE", said).items()
        ]
    put_labels(Project(project, say=complain), dataset, labels)
    _print([f"{len(labels):,} labels stored"])


@data.command("export")
def export_data(
    project: ProjectFile,
    dataset: Name,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help=".csv, .jsonl or .parquet", show_default=False),
    ],
    without_text: Annotated[
        bool, typer.Option("--without-text", help="the text's digest in place of the text")
    ] = False,
    labels: Annotated[
        bool,
        typer.Option(
            "--labels", help="every label as it was given, by whom, when and how, a line each"
        ),
    ] = False,
) -> None:
    """Write a dataset with its labels to a file."""
    _needs()
    from spinf_serve.evals.data.exporting import export_labels, export_rows
    from spinf_serve.evals.project import Project

    check_output("FILE", file, {"the project": project})
    opened = Project(project, say=complain)
    if labels:
        # There is no text in it.
        count = export_labels(opened, dataset, file)
    else:
        count = export_rows(opened, dataset, file, text=not without_text)
    _print([f"{count:,} {'labels' if labels else 'rows'} written to {file}"])


@data.command("delete")
def delete_data(
    project: ProjectFile,
    dataset: Name,
    rows: Annotated[
        list[str], typer.Argument(metavar="ROW...", help="their ids", show_default=False)
    ],
) -> None:
    """Delete rows everywhere: text, labels, scores, and what is left of them in the file."""
    _needs()
    from spinf_serve.evals.data.rows import delete_rows
    from spinf_serve.evals.project import Project

    _print([f"{delete_rows(Project(project, say=complain), dataset, rows):,} rows deleted"])


def _needs() -> None:
    require(("duckdb", "openpyxl", "scipy"))


def _origin(annotator: str, drawn: str, score_visible: bool) -> "Origin":
    from spinf_serve.evals.data.columns import Origin
    from spinf_serve.evals.data.labels import DRAWN

    chosen = next((one for one in DRAWN if one == drawn), None)
    if chosen is None:
        raise Unusable(f"--drawn {drawn}: write {', '.join(DRAWN[:-1])} or {DRAWN[-1]}")
    if not annotator.strip():
        raise Unusable("--annotator is blank; write a name")
    return Origin(annotator, chosen, score_visible)


def _pairs(what: str, given: Sequence[str] | None) -> dict[str, str]:
    """`name=value` arguments; a name alone stands for a column of that name."""
    pairs: dict[str, str] = {}
    for one in given or ():
        # The value of a question's placeholder has a mark of its own: question:about[F=a bug]=column.
        head, bracket, rest = one.partition("]") if _FILLED.match(one) else ("", "", one)
        name, mark, value = rest.partition("=")
        name = head + bracket + name
        if not name.strip() or (mark and not value):
            raise Unusable(f"{one!r} is no {what}")
        if name in pairs:
            raise Unusable(f"{what}: {name!r} is given twice")
        pairs[name] = value if mark else name
    return pairs


def _print(told: dict[str, Any] | Iterable[str]) -> None:
    lines = told
    if isinstance(told, dict):
        lines = [json.dumps(told, ensure_ascii=False, indent=1, default=str)]
    text = "".join(f"{line}\n" for line in lines)
    # An id from a file's name or a query may hold anything.
    write_stdout(text.encode(errors="backslashreplace"))
