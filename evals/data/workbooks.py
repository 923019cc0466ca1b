"""Workbooks (.xlsx) row by row, with bounds on what is held in memory. Knows no columns.

A workbook is XML in a zip file: a few KB of it can unfold to any size, or name other files. What is
read of each part is looked through before openpyxl gets it.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Self
from xml.parsers import expat
from zipfile import ZipFile

from spinf_serve.evals.data.csv_files import MAX_CELL_CHARS
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import shown

MAX_ROWS: Final = 1_048_576
"""Of a sheet, and `MAX_COLUMNS` of a row: more no program writes."""

MAX_COLUMNS: Final = 16_384
MAX_ROW_CHARS: Final = 16 << 20
MAX_STRINGS: Final = 4_000_000
MAX_STRING_CHARS: Final = 256 << 20
"""Texts that cells share, all of which are held."""

_MAX_LEVELS: Final = 64
_MAX_OTHERS: Final = 1_000_000
"""Elements that are no cells: formats, merged cells, links."""

_MAX_ELEMENTS_IN_ROW: Final = 32 * MAX_COLUMNS
_MAX_UNSEEN: Final = 1 << 20
"""Bytes within which an element, a text or its end has to come."""


class _Guard:
    """Looks at a part's XML as it is read. Raises `Unusable` for what no program writes."""

    def __init__(self, part: str) -> None:
        self._part = part
        self._level = self._others = self._strings = self._chars = self._unseen = 0
        self._in_row = self._rows = self._cells = self._row_chars = self._cell_chars = 0
        self._row_level = 0
        self._parser = parser = expat.ParserCreate(namespace_separator="}")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = self._doctype

    def look(self, data: bytes) -> None:
        """The next bytes of the part."""
        self._unseen += len(data)
        try:
            self._parser.Parse(data, not data)
        except expat.ExpatError:
            # Told by who reads it, with the place.
            return
        if self._unseen > _MAX_UNSEEN:
            self._refuse(f"has one tag of more than {_MAX_UNSEEN:,} bytes")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._unseen = 0
        self._level += 1
        if self._level > _MAX_LEVELS:
            self._refuse(f"has elements more than {_MAX_LEVELS} levels deep")
        tag = name.rpartition("}")[2]
        if self._row_level:
            self._in_row += 1
            self._cells += tag == "c"
            self._cell_chars *= tag != "c"
            if self._cells > MAX_COLUMNS or self._in_row > _MAX_ELEMENTS_IN_ROW:
                self._refuse(f"has a row of more than {MAX_COLUMNS:,} cells")
        elif tag == "row":
            self._row(attributes.get("r", ""))
        elif tag == "si":
            self._strings += 1
            if self._strings > MAX_STRINGS:
                self._refuse(f"has more than {MAX_STRINGS:,} texts")
        else:
            self._others += 1
            if self._others > _MAX_OTHERS + 8 * self._strings:
                self._refuse(f"has more than {_MAX_OTHERS:,} elements that are no cells")

    def _row(self, number: str) -> None:
        self._row_level = self._level
        self._in_row = self._cells = self._row_chars = self._cell_chars = 0
        self._rows += 1
        if self._rows > MAX_ROWS or (number.isascii() and number.isdigit() and _beyond(number)):
            self._refuse(f"has a row behind the {MAX_ROWS:,}th, the last that a sheet can have")

    def _end(self, name: str) -> None:
        self._unseen = 0
        if self._level == self._row_level:
            self._row_level = 0
        self._level -= 1

    def _text(self, text: str) -> None:
        self._unseen = 0
        if not self._row_level:
            self._chars += len(text)
            if self._chars > MAX_STRING_CHARS:
                self._refuse(f"has more than {MAX_STRING_CHARS:,} characters of text")
            return
        self._cell_chars += len(text)
        self._row_chars += len(text)
        if self._cell_chars > MAX_CELL_CHARS:
            self._refuse(f"has a cell of more than {MAX_CELL_CHARS:,} characters")
        if self._row_chars > MAX_ROW_CHARS:
            self._refuse(f"has a row of more than {MAX_ROW_CHARS:,} characters")

    def _doctype(self, *_: object) -> None:
        self._refuse("declares entities, which workbooks never do")

    def _refuse(self, what: str) -> None:
        raise Unusable(
            f"its part {self._part} {what}; save the sheet anew in a spreadsheet program, or as CSV"
        )


def _beyond(number: str) -> bool:
    return len(number) > 9 or int(number) > MAX_ROWS


class _Looked:
    """A part of a workbook that is looked through while it is read."""

    def __init__(self, file: IO[bytes], part: str) -> None:
        self._file = file
        self._guard = _Guard(part)

    def read(self, size: int = -1) -> bytes:
        """As files have it, in steps that a bomb cannot fill the memory with."""
        parts = []
        left = size if size is not None and size >= 0 else None
        while left is None or left:
            data = self._file.read(1 << 16 if left is None else min(left, 1 << 16))
            self._guard.look(data)
            if not data:
                break
            parts.append(data)
            left = None if left is None else left - len(data)
        return b"".join(parts)

    def close(self) -> None:
        """As files have it."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Archive(ZipFile):
    """A workbook's zip file, whose XML is looked through."""

    def open(self, name: Any, *args: Any, **more: Any) -> Any:
        file = super().open(name, *args, **more)
        part = name if isinstance(name, str) else name.filename
        return _Looked(file, part) if part.lower().endswith((".xml", ".rels")) else file


@dataclass(frozen=True, slots=True)
class Sheet:
    """A sheet of a workbook.

    Attributes:
        title: its name.
        sheets: how many the workbook has.
        rows: values from the first row on, as wide as each row is; closes the file at its end.
    """

    title: str
    sheets: int
    rows: Iterator[tuple[Any, ...]]


def open_sheet(path: Path, sheet: str | None) -> Sheet:
    """A sheet by its name, or the first. Raises `Unusable`, also while rows are read."""
    book = _book(path)
    names = book.sheetnames
    if not names or (sheet is not None and sheet not in names):
        book.close()
        has = ", ".join(names) or "none"
        raise Unusable(
            f"{shown(path)} has no sheet{'' if sheet is None else f' {sheet!r}'}; it has {has}"
        )
    chosen = book[sheet if sheet is not None else names[0]]
    if not hasattr(chosen, "reset_dimensions"):
        book.close()
        raise Unusable(f"{shown(path)}: {chosen.title!r} is a chart and no sheet with cells")
    return Sheet(chosen.title, len(names), _rows(path, book, chosen))


def _book(path: Path) -> Any:
    from openpyxl.reader.excel import ExcelReader

    try:
        with warnings.catch_warnings():
            # Of styles and extensions it does not know, which hold no cell.
            warnings.simplefilter("ignore")
            reader = ExcelReader(path, read_only=True, data_only=True, keep_links=False)
            reader.archive.close()
            reader.archive = _Archive(path)
            reader.read()
    except Unusable as fault:
        raise Unusable(f"{shown(path)}: {fault}") from None
    except OSError as error:
        raise Unusable(f"{shown(path)} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # noqa: BLE001 - whatever a damaged file makes of openpyxl
        raise Unusable(_damaged(path, error)) from None
    return reader.wb


def _rows(path: Path, book: Any, sheet: Any) -> Iterator[tuple[Any, ...]]:
    number = 0
    try:
        # What the file says of its size need not be so, and rows are made up to it.
        sheet.reset_dimensions()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for found in sheet.iter_rows(values_only=True):
                number += 1
                yield found
    except Unusable as fault:
        raise Unusable(f"{shown(path)}: {fault}") from None
    except Exception as error:  # noqa: BLE001 - whatever a damaged file makes of openpyxl
        raise Unusable(f"{_damaged(path, error)} (behind row {number:,})") from None
    finally:
        book.close()


def _damaged(path: Path, error: Exception) -> str:
    return (
        f"{shown(path)} is damaged, or no workbook: {error or type(error).__name__}; save it anew in a"
        " spreadsheet program, or as CSV"
    )
