"""Sheets of texts without labels: laid into the project, decided by a pack in a job, shown and handed back.

A sheet and what comes of it lie in one folder, that of its job, from the moment it is uploaded.
"""

import csv
import io
import json
import shutil
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

from spinf_serve.evals.decided import columns_of
from spinf_serve.evals.deciding import (
    asking,
    context_of,
    decide_sheet,
    doubt,
    parameter_columns,
    parts_of,
    presented,
)
from spinf_serve.evals.scorer import Scorer
from spinf_serve.evals.sheets import TEXT_NAMES, Row, Sheet, Wanted, open_sheet, wanted_of
from spinf_serve.packs.atomic import write_beside
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import shown
from spinf_serve.packs.pack import Pack
from spinf_serve.workbench import jobs
from spinf_serve.workbench.actions.asking import answering, copied_pack, copy_pack, measured
from spinf_serve.workbench.actions.pack_choices import pack_of
from spinf_serve.workbench.actions.sheet_rows import make_table
from spinf_serve.workbench.answering import Who
from spinf_serve.workbench.desk import Desk, as_json, has_name
from spinf_serve.workbench.job_kinds import Report
from spinf_serve.workbench.jobs import Job

ENDINGS: Final = ("csv", "tsv", "jsonl", "ndjson", "xlsx", "xlsm", "parquet", "pq")
PREFIX: Final = "spinf_"
MOST_COUNTED: Final = 20_000
"""Rows that are counted before a sheet is decided."""

KEEP_DAYS: Final = 7
"""How long a sheet stays that was uploaded and never decided."""

MEASURED_ROWS: Final = 64
_SHEET, _INPUT, _OUTPUT = "sheet.json", "input", "output"


@dataclass(frozen=True, slots=True)
class Laid:
    """A sheet that lies in the project.

    Attributes:
        id: of its folder, and of its job once it is started.
        name: of the file that was uploaded.
        file: its copy.
    """

    id: str
    folder: Path
    name: str
    file: Path


@dataclass(frozen=True, slots=True)
class Look:
    """A sheet before it is decided.

    Attributes:
        text: the column that is likely to hold the texts; None when it cannot be told.
        rows: how many there are; `MOST_COUNTED` stands for that many or more.
        first: the first rows' texts of that column.
    """

    columns: tuple[str, ...]
    text: str | None
    rows: int | None
    first: tuple[str, ...]


def lay(desk: Desk, name: str, data: BinaryIO) -> Laid:
    """Lay an uploaded file into the project. Raises `Unusable` for one that is no sheet by its name."""
    suffix = Path(name).suffix.lower()
    if suffix.removeprefix(".") not in ENDINGS:
        raise Unusable(
            f"{shown(name)} is no sheet by its name; give a .csv, .tsv, .jsonl, .xlsx or .parquet file"
        )
    _forget_old(desk)
    folder = jobs.new_folder(desk)
    file = folder / f"{_INPUT}{suffix}"
    with file.open("wb") as copy:
        shutil.copyfileobj(data, copy)
    write_beside(folder / _SHEET, as_json({"name": Path(name).name}))
    return Laid(folder.name, folder, Path(name).name, file)


def lay_text(desk: Desk, text: str) -> Laid:
    """Lay pasted text into the project: a table out of a spreadsheet, or one text a line.

    It is a table when its first line has a tab in it; that line then names the columns.
    """
    lines = text.strip("\r\n").splitlines()
    if not any(line.strip() for line in lines):
        raise Unusable("there is no text to paste; write one text a line")
    folder = jobs.new_folder(desk)
    if "\t" in lines[0]:
        name, data = "pasted.tsv", "\n".join(lines) + "\n"
    else:
        # In quotes, since a text may hold any mark that separates columns. What comes back opens in
        # a spreadsheet.
        name, cells = "pasted.csv", io.StringIO()
        writer = csv.writer(cells, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerows([["text"], *([line] for line in lines if line.strip())])
        data = cells.getvalue()
    file = folder / f"{_INPUT}{Path(name).suffix}"
    file.write_text(data, encoding="utf-8", newline="")
    write_beside(folder / _SHEET, as_json({"name": name}))
    return Laid(folder.name, folder, name, file)


def sheets_near(desk: Desk) -> list[Path]:
    """Files in the project's own folder of sheets that can be decided, sorted."""
    found = (desk.folder / "sheets").glob("*")
    return sorted(
        one for one in found if one.suffix.removeprefix(".").lower() in ENDINGS and has_name(one)
    )


def laid(desk: Desk, id: str) -> Laid:
    """A sheet that was laid. Raises `Unusable` when it is gone."""
    folder = desk.below("jobs") / Path(id).name
    try:
        name = json.loads((folder / _SHEET).read_bytes())["name"]
        file = next(folder.glob(f"{_INPUT}.*"))
    except (OSError, ValueError, KeyError, StopIteration):
        raise Unusable("this sheet is not there any more; upload it again") from None
    return Laid(folder.name, folder, name, file)


def look_at(
    sheet: Laid, *, text: str | None = None, tab: str | None = None, encoding: str | None = None
) -> Look:
    """A sheet's columns and first texts. Raises `Unusable` with the place of what is wrong."""
    opened = open_sheet(sheet.file, encoding=encoding, tab=tab)
    try:
        wanted = wanted_of(opened, text, (), ())
    except Unusable:
        if text is not None:
            raise
        return Look(opened.columns, _likely(opened.columns), None, ())
    rows = islice(opened.rows(wanted), MOST_COUNTED)
    first = [row.text or "" for row in islice(rows, 5)]
    return Look(opened.columns, wanted.text, len(first) + sum(1 for _ in rows), tuple(first))


def tabs_of(sheet: Laid) -> list[str]:
    """The worksheets of an XLSX file; none of others."""
    if sheet.file.suffix not in (".xlsx", ".xlsm"):
        return []
    from openpyxl import load_workbook
    from openpyxl.utils.exceptions import InvalidFileException

    try:
        book = load_workbook(sheet.file, read_only=True)
    except (InvalidFileException, zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
        raise Unusable(f"{shown(sheet.name)} is no XLSX file: {error}") from None
    try:
        return list(book.sheetnames)
    finally:
        book.close()


def start_sheet(
    desk: Desk,
    user: str,
    who: Who,
    sheet: Laid,
    name: str,
    *,
    text: str,
    tab: str | None = None,
    encoding: str | None = None,
    context: str | None = None,
    parameters: Mapping[str, str] | None = None,
) -> Job:
    """Start deciding a sheet; a sheet is decided once, and laid again for another pack.

    Args:
        name: of the pack, see `pack_choices`.
        text: column of the texts.
        parameters: fill the pack's context where the sheet has no column for them.

    Raises `Unusable`.
    """
    pack = pack_of(desk, name)
    opened = open_sheet(sheet.file, encoding=encoding, tab=tab)
    prefix = PREFIX
    count = 1
    while any(column.name in opened.columns for column in columns_of(pack, prefix)):
        count += 1
        prefix = f"{PREFIX.rstrip('_')}{count}_"
    wanted_of(opened, text, parameter_columns(pack), columns_of(pack, prefix))
    if jobs.known(desk, sheet.id):
        sheet = _again(desk, sheet)
    copy_pack(desk, name, sheet.folder)
    arguments = {
        "file": sheet.name,
        "pack": name,
        "asks": f"{pack.id} {pack.version}",
        "text": text,
        "tab": tab,
        "encoding": encoding,
        "context": context,
        "parameters": dict(parameters or {}),
        "prefix": prefix,
        "who": str(who),
    }
    title = f"{sheet.name} by {pack.id} {pack.version}"
    return jobs.start(
        desk, user, "sheet", title, arguments, who=who, subject=sheet.id, folder=sheet.folder
    )


def start_measure_sheet(
    desk: Desk, user: str, who: Who, sheet: Laid, name: str, **how: str | None
) -> Job:
    """Start measuring how fast a pack is answered, on a few rows of a sheet.

    Args:
        how: text, tab, encoding and context as for `start_sheet`.
    """
    pack = pack_of(desk, name)
    folder = jobs.new_folder(desk)
    copy_pack(desk, name, folder)
    arguments = {"sheet": sheet.id, "pack_digest": pack.digest, "who": str(who), **how}
    title = f"{pack.id} {pack.version} on {sheet.name}"
    return jobs.start(desk, user, "measure_sheet", title, arguments, who=who, folder=folder)


def sheet_job(desk: Desk, arguments: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Decide a sheet. What was decided before it was broken off is not asked again."""
    sheet = laid(desk, report.folder.name)
    pack = copied_pack(report.folder)
    opened = open_sheet(sheet.file, encoding=arguments["encoding"], tab=arguments["tab"])
    out = _output(sheet)
    with answering(desk, pack, report) as answers:
        asked = asking(
            pack,
            answers,
            (answers.identity.served,),
            arguments["context"],
            arguments["parameters"],
        )
        added = columns_of(pack, arguments["prefix"])
        wanted = wanted_of(opened, arguments["text"], parameter_columns(pack), added)
        warning = doubt(asked)
        if warning is not None:
            report.say(warning)

        def told(done: int, of: int) -> None:
            report.progress(done, of, "deciding rows")
            report.check()

        report.progress(0, 0, "looking through the sheet")
        decided = decide_sheet(opened, sheet.file, wanted, out, asked, told)
    report.progress(decided.rows, decided.rows, "preparing the table")
    read = open_sheet(out, encoding=arguments["encoding"], tab=arguments["tab"])
    make_table(read, wanted, arguments["prefix"], sheet.folder)
    identity = answers.identity
    return {
        **asdict(decided),
        "served": identity.served,
        "bits": identity.bits,
        "warning": warning,
    }


def measure_sheet_job(desk: Desk, arguments: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Measure how fast a pack is answered on rows of a sheet; the answers are not kept."""
    sheet = laid(desk, arguments["sheet"])
    pack = copied_pack(report.folder)
    opened = open_sheet(sheet.file, encoding=arguments["encoding"], tab=arguments["tab"])
    wanted = wanted_of(opened, arguments["text"], parameter_columns(pack), ())
    with answering(desk, pack, report) as answers:
        contents = list(_contents(opened, wanted, pack, arguments["context"], answers))
        measured(answers, pack, contents, report)
        return {"served": answers.identity.served, "bits": answers.identity.bits}


def _contents(
    sheet: Sheet, wanted: Wanted, pack: Pack, context: str | None, answers: Scorer
) -> Iterator[str]:
    chosen = context_of(pack, context)
    rows: Iterator[Row] = islice(sheet.rows(wanted), MEASURED_ROWS)
    for row in rows:
        one = presented(row, pack, chosen, {})
        if one.refused is None:
            yield from parts_of(pack, one, answers.reader)


def output_of(job: Job) -> tuple[str, Path]:
    """The name and the file of a sheet that was decided."""
    name = Path(job.arguments["file"])
    return f"{name.stem}.decided{name.suffix}", next(job.folder.glob(f"{_OUTPUT}.*"))


def _output(sheet: Laid) -> Path:
    return sheet.folder / f"{_OUTPUT}{sheet.file.suffix}"


def _again(desk: Desk, sheet: Laid) -> Laid:
    """Another copy of a sheet that was decided already."""
    with sheet.file.open("rb") as data:
        return lay(desk, sheet.name, data)


def _likely(columns: Sequence[str]) -> str | None:
    for column in columns:
        if any(name in column.casefold() for name in (*TEXT_NAMES, "body", "comment", "review")):
            return column
    return None


def _forget_old(desk: Desk) -> None:
    """Takes sheets away that were uploaded long ago and never decided."""
    before = time.time() - KEEP_DAYS * 86_400
    for folder in desk.below("jobs").iterdir():
        is_idle = (folder / _SHEET).exists() and not jobs.known(desk, folder.name)
        if is_idle and folder.stat().st_mtime < before:
            shutil.rmtree(folder, ignore_errors=True)
