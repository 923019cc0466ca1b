"""Sheets: CSV, TSV, JSONL, XLSX and Parquet files of texts, read row by row and written with more columns.

What a file had stays as it was: a row of CSV or JSONL keeps its very characters. A file is written
beside its place and renamed. Knows no pack and no score.
"""

import csv
import io
import json
import os
import secrets
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import is_regular, read_start, shown

Cell = str | float | bool | None
"""A value of an added column; None is an empty cell."""

TEXT_NAMES = ("text", "content", "message")
"""Names of the column of texts that are looked for when none is given."""

MAX_CELL_CHARS = 4 << 20
"""Longest cell of a CSV file, in characters."""

_START_BYTES = 1 << 16
_DELIMITERS = ",;\t|"


@dataclass(frozen=True, slots=True)
class Column:
    """An added column; a number column holds numbers or nothing."""

    name: str
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a sheet that is not blank.

    Attributes:
        place: where it stands, for people: `line 7`, `row 7`.
        text: None when the cell is empty or there is none.
        more: the other wanted columns, those that are not empty.
    """

    place: str
    text: str | None
    more: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is read of a sheet.

    Attributes:
        text: column of the texts.
        more: other columns whose cells are wanted.
        added: what is going to be added, and must not be there.
    """

    text: str
    more: tuple[str, ...]
    added: tuple[Column, ...]


class Sheet(Protocol):
    """An open sheet: a path, read anew at every pass.

    Attributes:
        columns: its columns in order; of a JSONL file those of its first object.
    """

    @property
    def columns(self) -> tuple[str, ...]: ...

    def rows(self, wanted: Wanted) -> Iterator[Row]:
        """Its rows in order, streamed. Raises `Unusable` with the place of what is wrong."""
        ...

    def write(self, out: Path, wanted: Wanted, added: Iterable[Sequence[Cell]]) -> None:
        """Write it with added columns behind its own: one sequence of cells per row of `rows`."""
        ...


def open_sheet(path: Path, *, encoding: str | None = None, tab: str | None = None) -> Sheet:
    """A sheet by its file's suffix.

    Args:
        encoding: of a CSV or JSONL file; None tells UTF-8 and UTF-16 apart by their mark.
        tab: name of the worksheet of an XLSX file; None takes the one that was open when saved.

    Raises `Unusable`.
    """
    from spinf_serve.evals.sheet_tables import ParquetSheet, XlsxSheet

    if not is_regular(path):
        raise Unusable(f"there is no file {shown(path)}")
    suffix = path.suffix.lower()
    if tab is not None and suffix not in (".xlsx", ".xlsm"):
        raise Unusable(f"{shown(path)} has no worksheets to choose from: leave that out")
    if suffix in (".csv", ".tsv"):
        return CsvSheet(path, encoding)
    if suffix in (".jsonl", ".ndjson"):
        return JsonLinesSheet(path, encoding)
    if suffix in (".xlsx", ".xlsm"):
        return XlsxSheet(path, tab)
    if suffix in (".parquet", ".pq"):
        return ParquetSheet(path)
    raise Unusable(
        f"{shown(path)} is no sheet by its name; give a .csv, .tsv, .jsonl, .xlsx or .parquet file"
    )


def wanted_of(
    sheet: Sheet, text: str | None, more: Iterable[str], added: Sequence[Column]
) -> Wanted:
    """What to read, checked against the sheet's columns.

    Args:
        text: column of the texts; None looks for `TEXT_NAMES`, or takes the only column.
        more: columns whose cells are wanted where the sheet has them.
    """
    has = f"it has {', '.join(sheet.columns) or 'none'}"
    if text is None:
        by_name = {name.strip().casefold(): name for name in reversed(sheet.columns)}
        found = [by_name[name] for name in TEXT_NAMES if name in by_name]
        text = (found or list(sheet.columns))[0] if found or len(sheet.columns) == 1 else None
    if text is None:
        raise Unusable(f"which column holds the texts? Name it with --text; {has}")
    if sheet.columns.count(text) != 1:
        times = "no" if text not in sheet.columns else "more than one"
        raise Unusable(f"the sheet has {times} column {text!r}; {has}")
    for column in added:
        if column.name in sheet.columns:
            raise taken(column.name)
    return Wanted(text, tuple(name for name in more if name in sheet.columns), tuple(added))


def taken(name: str) -> Unusable:
    """What is said when an added column is there already."""
    return Unusable(f"the sheet has a column {name!r} already; have other names made with --prefix")


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A new file beside a path, renamed to it when the block ends well; else nothing remains."""
    part = path.resolve().with_name(f".{secrets.token_hex(8)}.part")
    try:
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        if path.exists():
            part.chmod(path.stat().st_mode & 0o777)
        part.replace(path.resolve())
    except OSError as error:
        raise Unusable(f"{shown(path)} cannot be written: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)


class _Lines:
    """A text file whose lines are read and copied."""

    def __init__(self, path: Path, encoding: str | None) -> None:
        self.path = path
        start = read_start(path, _START_BYTES)
        self.bom = start.startswith(BOM_UTF8)
        if encoding is None:
            is_wide = start.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
            encoding = "utf-16" if is_wide else "utf-8"
        try:
            "".encode(encoding)
        except LookupError:
            raise Unusable(f"there is no encoding {encoding!r}") from None
        self.encoding = encoding

    @contextmanager
    def opened(self) -> Iterator[IO[str]]:
        """The file's text, with line ends as they are and without a byte order mark."""
        name = "utf-8-sig" if self.bom else self.encoding
        try:
            with self.path.open(encoding=name, newline="") as file:
                yield file
        except UnicodeError as error:
            raise Unusable(
                f"{shown(self.path)} is not {self.encoding} ({error.__class__.__name__} at byte"
                f" {getattr(error, 'start', 0) + 1} of a block): name its encoding with --encoding,"
                " such as cp1252"
            ) from None
        except OSError as error:
            raise Unusable(f"{shown(self.path)} cannot be read: {error.strerror}") from None

    @contextmanager
    def copied(self, out: Path) -> Iterator[tuple[IO[str], IO[str]]]:
        """The file's text, and the file that takes its place, in the same encoding."""
        name = "utf-8-sig" if self.bom else self.encoding
        with (
            beside(out) as part,
            self.opened() as file,
            # What is added may hold what an old encoding has not.
            part.open("w", encoding=name, newline="", errors="backslashreplace") as copy,
        ):
            yield file, copy


class CsvSheet:
    """A CSV file with a header, separated by commas, semicolons, tabs or bars."""

    def __init__(self, path: Path, encoding: str | None) -> None:
        # The limit is the process's; a longer cell than any other reader of CSV wants is no harm.
        csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL_CHARS))
        self._lines = _Lines(path, encoding)
        with self._lines.opened() as file:
            first = file.readline()
        # By the header: texts below may hold any of them.
        self._delimiter = max(
            _DELIMITERS, key=lambda mark: len(next(csv.reader([first], delimiter=mark), []))
        )
        with self._lines.opened() as file:
            _, _, self.columns = next(self._records(file), (0, "", ()))
        if not self.columns:
            raise Unusable(f"{shown(path)} has no header in its first line")

    def rows(self, wanted: Wanted) -> Iterator[Row]:
        """See `Sheet`."""
        with self._lines.opened() as file:
            records = self._records(file)
            next(records)
            for line, _, cells in records:
                if not cells:
                    continue
                if len(cells) > len(self.columns):
                    raise Unusable(
                        f"{shown(self._lines.path)}, line {line}: {len(cells)} cells and a header of"
                        f" {len(self.columns)}; put a text with separators in double quotes"
                    )
                found = dict(zip(self.columns, cells, strict=False))
                more = {name: found[name] for name in wanted.more if found.get(name)}
                yield Row(f"line {line}", found.get(wanted.text) or None, more)

    def write(self, out: Path, wanted: Wanted, added: Iterable[Sequence[Cell]]) -> None:
        """See `Sheet`."""
        cells_of = iter(added)
        with self._lines.copied(out) as (file, copy):
            for number, (_, raw, cells) in enumerate(self._records(file)):
                row = raw.rstrip("\r\n")
                end = raw[len(row) :]
                if not cells:
                    copy.write(raw)
                    continue
                new = [one.name for one in wanted.added] if number == 0 else next(cells_of)
                short = self._delimiter * (len(self.columns) - len(cells))
                copy.write(f"{row}{short}{self._delimiter}{self._encoded(new)}{end}")
            if next(cells_of, None) is not None:
                raise ValueError("there are more cells than rows")

    def _encoded(self, cells: Sequence[Cell]) -> str:
        line = io.StringIO()
        shown_cells = ["" if cell is None else _plain(cell) for cell in cells]
        # Line ends in a cell are quoted only where they are part of the writer's own.
        csv.writer(line, delimiter=self._delimiter, lineterminator="\r\n").writerow(shown_cells)
        return line.getvalue().removesuffix("\r\n")

    def _records(self, file: IO[str]) -> Iterator[tuple[int, str, tuple[str, ...]]]:
        """Line of its beginning, characters and cells of every record, blank ones without cells."""
        read: list[str] = []

        def lines() -> Iterator[str]:
            for line in file:
                read.append(line)
                yield line

        reader = csv.reader(lines(), delimiter=self._delimiter, strict=True)
        begins = 1
        try:
            for cells in reader:
                yield begins, "".join(read), tuple(cells)
                read.clear()
                begins = reader.line_num + 1
        except csv.Error as error:
            raise Unusable(
                f"{shown(self._lines.path)}, line {begins}: the row is not CSV ({error}); put text"
                ' with quotes in double quotes and write a quote inside it twice, ""'
            ) from None


class JsonLinesSheet:
    """A file of one JSON object a line."""

    def __init__(self, path: Path, encoding: str | None) -> None:
        self._lines = _Lines(path, encoding)
        with self._lines.opened() as file:
            first = next(self._records(file), None)
        if first is None:
            raise Unusable(f"{shown(path)} has no object in it")
        self.columns = tuple(first[2])

    def rows(self, wanted: Wanted) -> Iterator[Row]:
        """See `Sheet`."""
        with self._lines.opened() as file:
            for line, _, found in self._records(file):
                for column in wanted.added:
                    if column.name in found:
                        raise taken(column.name)
                text = found.get(wanted.text)
                if text is not None and not isinstance(text, str):
                    raise Unusable(
                        f"{shown(self._lines.path)}, line {line}: {wanted.text} is no text; write it"
                        " in double quotes"
                    )
                more = {name: str(found[name]) for name in wanted.more if found.get(name)}
                yield Row(f"line {line}", text or None, more)

    def write(self, out: Path, wanted: Wanted, added: Iterable[Sequence[Cell]]) -> None:
        """See `Sheet`."""
        with self._lines.copied(out) as (file, copy):
            for (_, raw, found), cells in zip(self._records(file), added, strict=True):
                row = raw.rstrip()
                end = raw[len(raw.rstrip("\r\n")) :]
                new = dict(zip((one.name for one in wanted.added), cells, strict=True))
                inner = json.dumps(new, ensure_ascii=False, allow_nan=False)[1:]
                # Before the last brace, so that numbers stay as they were written.
                copy.write(f"{row[:-1].rstrip()}{', ' if found else ''}{inner}{end}")

    def _records(self, file: IO[str]) -> Iterator[tuple[int, str, Mapping[str, object]]]:
        """Number, characters and object of every line that is not blank."""
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                found = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise Unusable(
                    f"{shown(self._lines.path)}, line {number}: this is not JSON ({error})"
                ) from None
            if not isinstance(found, dict):
                raise Unusable(f"{shown(self._lines.path)}, line {number}: this is no object")
            yield number, line, found


def _plain(cell: str | float | bool) -> str:
    """A cell of a text file; numbers in full."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return cell if isinstance(cell, str) else repr(cell)
