"""Files and queries as batches of cells, all text: CSV, JSONL, Parquet, XLSX and SQL.

A type that a reader infers from the first rows breaks at a later one, so that none is inferred.
Everything is streamed. Knows columns by name and not what they mean.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import duckdb

from spinf_serve.evals.data.cells import Cell, cell
from spinf_serve.evals.data.csv_files import Lines, LongLine, csv_rows, dialect_of, encoding_of
from spinf_serve.evals.data.decision_log import LogWanted, log_table
from spinf_serve.evals.data.kinds import check_kind
from spinf_serve.evals.data.workbooks import Sheet, open_sheet
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import is_regular, shown

BATCH_ROWS: Final = 5_000
_TEXT_ENDINGS: Final = (".csv", ".tsv", ".txt")
_JSON_LINES: Final = (".jsonl", ".ndjson")
_KINDS: Final = (*_TEXT_ENDINGS, *_JSON_LINES, ".parquet", ".xlsx")
_FIRST_OBJECTS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Source:
    """What to read.

    Attributes:
        path: a file, its kind told by its ending; with `query` a DuckDB file to ask, or None.
        query: one SQL SELECT; it may read files itself.
        encoding, delimiter: of a text file; None for finding out.
        sheet: of a workbook; None for the first.
        log: which entries of a decision log; None for any other file.
    """

    path: Path | None
    query: str | None = None
    encoding: str | None = None
    delimiter: str | None = None
    sheet: str | None = None
    log: LogWanted | None = None

    @property
    def name(self) -> str:
        """What a dataset is said to come from: the file's name without its folder, or the query."""
        if self.query is not None:
            return f"query: {self.query}"
        return "" if self.path is None else shown(self.path.name)


@dataclass(frozen=True, slots=True)
class Line:
    """One row of a source.

    Attributes:
        number: the line it begins at, or its place in what has no lines, from 1.
        cells: as many as the columns; None for what cannot be read.
        fault: why it cannot.
    """

    number: int
    cells: Sequence[Cell] | None
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Opened:
    """A source that can be read.

    Attributes:
        columns: names in order; of a JSONL file those of its first objects, and more may follow.
        encoding: of a text file, else what kind of file it is.
        notes: what was found out about it, a sentence each.
        lines: the rows, once.
    """

    columns: tuple[str, ...]
    encoding: str
    notes: tuple[str, ...]
    lines: Iterator[Line]


def open_source(source: Source, wanted: Sequence[str]) -> Opened:
    """A source with its columns.

    Args:
        source: the file or query.
        wanted: columns that must be there; only a JSONL file's rows may lack one.

    Raises `Unusable`: it cannot be read, its kind is not known, or a column is missing.
    """
    opened = _open(source, wanted)
    repeated = {name for name in wanted if opened.columns.count(name) > 1}
    if repeated:
        raise Unusable(f"{source.name} has the column {min(repeated)!r} twice; rename one")
    missing = [name for name in wanted if name not in opened.columns]
    if missing:
        has = ", ".join(map(repr, opened.columns)) or "none"
        raise Unusable(f"{source.name} has no column {missing[0]!r}; it has {has}")
    return opened


def column_names(source: Source) -> tuple[str, ...]:
    """Names of a source's columns; of a JSONL file those of its first objects, in their order.

    Raises `Unusable` as `open_source` does.
    """
    if source.path is None or source.path.suffix.lower() not in _JSON_LINES:
        opened = _open(source, ())
        # What is read line by line holds the file open until it is closed.
        getattr(opened.lines, "close", lambda: None)()
        return opened.columns
    if not is_regular(source.path):
        raise Unusable(f"{shown(source.path)} is no file")
    check_kind(source.path, source.path.suffix.lower())
    encoding, _ = encoding_of(source.path, source.encoding)
    names: dict[str, None] = {}
    with source.path.open(encoding=encoding, newline="\n") as file:
        lines = Lines(file)
        for _ in range(_FIRST_OBJECTS):
            try:
                found = json.loads(next(lines))
            except StopIteration:
                break
            except (ValueError, RecursionError, LongLine):
                continue
            if isinstance(found, dict):
                names |= dict.fromkeys(found)
    return tuple(names)


def batches(lines: Iterator[Line]) -> Iterator[list[Line]]:
    """Rows in lists of `BATCH_ROWS`, the last one shorter."""
    while batch := list(islice(lines, BATCH_ROWS)):
        yield batch


def _open(source: Source, wanted: Sequence[str]) -> Opened:
    if source.query is not None:
        return _query(source)
    path = source.path
    if path is None or not is_regular(path):
        raise Unusable(f"{'' if path is None else shown(path)} is no file; name one, or a --query")
    if source.log is not None:
        return _log(path, source.log)
    ending = path.suffix.lower()
    readers: Mapping[str, Callable[[], Opened]] = {
        **dict.fromkeys(_TEXT_ENDINGS, lambda: _csv(path, source)),
        **dict.fromkeys(_JSON_LINES, lambda: _jsonl(path, source, wanted)),
        ".parquet": lambda: _parquet(path),
        ".xlsx": lambda: _xlsx(path, source.sheet),
    }
    if ending not in readers:
        raise Unusable(f"{shown(path)}: a file to import ends in {', '.join(_KINDS)}")
    check_kind(path, ending)
    return readers[ending]()


def _log(path: Path, wanted: LogWanted) -> Opened:
    table = log_table(path, wanted)
    lines = (Line(number, cells) for number, cells in table.lines)
    return Opened(table.columns, "decision log", table.notes, lines)


def _csv(path: Path, source: Source) -> Opened:
    delimiter = source.delimiter
    if delimiter is None and path.suffix.lower() == ".tsv":
        delimiter = "\t"
    dialect = dialect_of(path, source.encoding, delimiter)
    found = csv_rows(path, dialect)
    _, header = next(found, (1, []))
    if isinstance(header, str):
        raise Unusable(f"{shown(path)}, line 1: {header}")
    columns = tuple(name.strip() for name in header)
    return Opened(columns, dialect.encoding, dialect.notes, _csv_lines(found, len(columns)))


def _csv_lines(found: Iterator[tuple[int, list[str] | str]], width: int) -> Iterator[Line]:
    for number, cells in found:
        if isinstance(cells, str):
            yield Line(number, None, cells)
        elif len(cells) != width:
            yield Line(number, None, f"it has {len(cells)} cells, and the header {width}")
        else:
            yield Line(number, cells)


def _jsonl(path: Path, source: Source, wanted: Sequence[str]) -> Opened:
    encoding, notes = encoding_of(path, source.encoding)
    # Objects may leave out what they lack, so that a missing column shows as missing cells.
    names = tuple(dict.fromkeys(wanted)) if wanted else ()
    return Opened(names, encoding, notes, _jsonl_lines(path, encoding, names))


def _jsonl_lines(path: Path, encoding: str, names: Sequence[str]) -> Iterator[Line]:
    with path.open(encoding=encoding, newline="\n") as file:
        lines = Lines(file)
        while True:
            number = lines.number + 1
            try:
                text = next(lines)
            except StopIteration:
                return
            except LongLine as error:
                yield Line(number, None, str(error))
                continue
            if not text.strip():
                continue
            try:
                found = json.loads(text)
            except (ValueError, RecursionError) as error:
                yield Line(number, None, f"it is not JSON: {error}")
                continue
            if not isinstance(found, dict):
                yield Line(number, None, "it is JSON, but no object")
                continue
            yield Line(number, [cell(found.get(name)) for name in names])


def _parquet(path: Path) -> Opened:
    relation = "read_parquet('" + str(path).replace("'", "''") + "')"
    return _asked(duckdb.connect(), f"SELECT * FROM {relation}", "parquet", shown(path))


def _query(source: Source) -> Opened:
    assert source.query is not None
    if source.path is None:
        return _asked(duckdb.connect(), source.query, "query", "the query")
    try:
        connection = duckdb.connect(str(source.path), read_only=True)
    except duckdb.Error as error:
        raise Unusable(f"{shown(source.path)} cannot be opened: {error}") from None
    return _asked(connection, source.query, "query", "the query")


def _asked(connection: duckdb.DuckDBPyConnection, query: str, kind: str, name: str) -> Opened:
    connection.execute("SET memory_limit = '200MB'")
    connection.execute("SET threads = 1")
    connection.execute("SET enable_progress_bar = false")
    try:
        result = connection.execute(query)
        columns = tuple(column[0] for column in result.description or ())
    except duckdb.Error as error:
        connection.close()
        raise Unusable(f"{name} cannot be read: {str(error).splitlines()[0]}") from None
    return Opened(columns, kind, (), _fetched(connection, name))


def _fetched(connection: duckdb.DuckDBPyConnection, name: str) -> Iterator[Line]:
    number = 0
    try:
        while part := connection.fetchmany(BATCH_ROWS):
            for values in part:
                number += 1
                yield Line(number, [cell(value) for value in values])
    except duckdb.Error as error:
        words = str(error).splitlines()[0]
        raise Unusable(f"{name} cannot be read behind row {number:,}: {words}") from None
    finally:
        connection.close()


def _xlsx(path: Path, wanted: str | None) -> Opened:
    sheet = open_sheet(path, wanted)
    columns = [cell(value) for value in next(sheet.rows, ())]
    while columns and columns[-1] is None:
        columns.pop()
    notes = (f"sheet {sheet.title!r}",)
    if wanted is None and sheet.sheets > 1:
        notes = (f"sheet {sheet.title!r}, the first of {sheet.sheets}; --sheet chooses",)
    names = tuple("" if name is None else str(name).strip() for name in columns)
    return Opened(names, "xlsx", notes, _xlsx_lines(sheet, len(names)))


def _xlsx_lines(sheet: Sheet, width: int) -> Iterator[Line]:
    for number, found in enumerate(sheet.rows, 2):
        cells = [cell(value) for value in found]
        if not any(value is not None for value in cells):
            continue
        if any(value is not None for value in cells[width:]):
            yield Line(number, None, f"it has cells behind the header's {width}")
            continue
        yield Line(number, [*cells, *[None] * width][:width])
