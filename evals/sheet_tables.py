"""Sheets that are no text: XLSX by openpyxl, Parquet by DuckDB. See `evals.sheets`.

A worksheet is held in memory while it is written, with what openpyxl keeps: formulas, formats and
other worksheets, but no charts; its numbers have 16 digits. Parquet is streamed.
"""

import json
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

from spinf_serve.evals.sheets import Cell, Row, Wanted, beside
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import shown

_FETCHED_ROWS = 1000


class XlsxSheet:
    """A worksheet whose first row names the columns."""

    def __init__(self, path: Path, tab: str | None) -> None:
        self._path = path
        self._tab = tab
        with self._opened() as sheet:
            header = next(sheet.iter_rows(values_only=True), ())
        while header and header[-1] is None:
            header = header[:-1]
        if not header:
            raise Unusable(f"{shown(path)} names no columns in its first row")
        self.columns = tuple("" if name is None else str(name) for name in header)

    def rows(self, wanted: Wanted) -> Iterator[Row]:
        """See `Sheet`."""
        with self._opened() as sheet:
            for number, cells in self._records(sheet):
                found = dict(zip(self.columns, cells, strict=False))
                text = found.get(wanted.text)
                more = {
                    name: str(found[name]) for name in wanted.more if found.get(name) is not None
                }
                yield Row(f"row {number}", None if text in (None, "") else str(text), more)

    def write(self, out: Path, wanted: Wanted, added: Iterable[Sequence[Cell]]) -> None:
        """See `Sheet`."""
        from openpyxl import load_workbook
        from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

        with self._opened() as sheet:
            places = [number for number, _ in self._records(sheet)]
        # Its macros are kept, or the file would not open.
        book = load_workbook(self._path, keep_vba=self._path.suffix.lower() == ".xlsm")
        try:
            sheet = book.active if self._tab is None else book[self._tab]
            first = len(self.columns) + 1
            header: Sequence[Cell] = [one.name for one in wanted.added]
            rows = zip([1, *places], [header, *added], strict=True)
            for number, cells in rows:
                for column, cell in enumerate(cells, start=first):
                    if isinstance(cell, str):
                        cell = ILLEGAL_CHARACTERS_RE.sub("\ufffd", cell)
                    if cell is not None:
                        written = sheet.cell(number, column, cell)
                        if written.data_type == "f":
                            # A text that begins with = is none.
                            written.data_type = "s"
            with beside(out) as part:
                book.save(part)
        finally:
            book.close()

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException

        try:
            book = load_workbook(self._path, read_only=True, data_only=True)
        except (InvalidFileException, zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
            raise Unusable(f"{shown(self._path)} is no XLSX file: {error}") from None
        try:
            if self._tab is not None and self._tab not in book.sheetnames:
                raise Unusable(
                    f"{shown(self._path)} has no worksheet {self._tab!r}; it has"
                    f" {', '.join(book.sheetnames)}"
                )
            sheet = book.active if self._tab is None else book[self._tab]
            if sheet is None:
                raise Unusable(f"{shown(self._path)} has no worksheet")
            yield sheet
        finally:
            book.close()

    def _records(self, sheet: Any) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Number and cells of every row below the header that is not blank."""
        width = len(self.columns)
        rows = sheet.iter_rows(min_row=2, values_only=True)
        for number, cells in enumerate(rows, start=2):
            if any(cell is not None for cell in cells[width:]):
                raise Unusable(
                    f"{shown(self._path)}, row {number}: there are cells behind the last named"
                    " column; name it in the first row"
                )
            if any(cell is not None for cell in cells):
                yield number, cells


class ParquetSheet:
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._connected() as connection:
            told = connection.execute("SELECT * FROM read_parquet(?) LIMIT 0", [str(path)])
            self.columns = tuple(column[0] for column in told.description or ())

    def rows(self, wanted: Wanted) -> Iterator[Row]:
        """See `Sheet`."""
        names = (wanted.text, *wanted.more)
        columns = ", ".join(f"CAST({_name(name)} AS VARCHAR)" for name in names)
        with self._connected() as connection:
            query = connection.execute(f"SELECT {columns} FROM read_parquet(?)", [str(self._path)])
            number = 0
            while fetched := query.fetchmany(_FETCHED_ROWS):
                for text, *others in fetched:
                    number += 1
                    more = {
                        name: cell for name, cell in zip(wanted.more, others, strict=True) if cell
                    }
                    yield Row(f"row {number}", text or None, more)

    def write(self, out: Path, wanted: Wanted, added: Iterable[Sequence[Cell]]) -> None:
        """See `Sheet`."""
        types = {one.name: "DOUBLE" if one.is_number else "VARCHAR" for one in wanted.added}
        listed = ", ".join(f"a.{_name(name)}" for name in types)
        with (
            TemporaryDirectory(prefix="spinf-") as folder,
            self._connected() as connection,
            beside(out) as part,
        ):
            cells_file = Path(folder) / "added.jsonl"
            with cells_file.open("w", encoding="utf-8") as file:
                for number, cells in enumerate(added):
                    values = dict(zip(types, map(_shown, cells), strict=True))
                    file.write(json.dumps({"row": number, "added": values}) + "\n")
            fields = ", ".join(f"{_name(name)} {kind}" for name, kind in types.items())
            connection.execute(
                "CREATE TABLE added AS SELECT row, unnest(added) FROM read_json(?,"
                f" format='newline_delimited', columns={{row: 'BIGINT', added: {_text(f'STRUCT({fields})')}}})",
                [str(cells_file)],
            )
            connection.execute(
                f"COPY (SELECT s.* EXCLUDE (file_row_number), {listed}"
                f" FROM read_parquet({_text(str(self._path))}, file_row_number=true) s"
                " JOIN added a ON a.row = s.file_row_number ORDER BY a.row)"
                f" TO {_text(str(part))} (FORMAT parquet)"
            )

    @contextmanager
    def _connected(self) -> Iterator[duckdb.DuckDBPyConnection]:
        connection = duckdb.connect()
        try:
            # The order of rows is kept without holding them.
            connection.execute("SET preserve_insertion_order = true")
            yield connection
        except duckdb.Error as error:
            line = str(error).splitlines()[0]
            raise Unusable(f"{shown(self._path)} cannot be used as Parquet: {line}") from None
        finally:
            connection.close()


def _shown(cell: Cell) -> str | float | None:
    return ("true" if cell else "false") if isinstance(cell, bool) else cell


def _name(name: str) -> str:
    """A column's name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"
