"""CSV files as rows of text, whatever wrote them: encoding and delimiter found or declared.

Nothing is guessed in silence: what was found, and why, is told. Knows no labels.
"""

import codecs
import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import shown

DELIMITERS: Final = (",", ";", "\t", "|")
MAX_CELL_CHARS: Final = 4 << 20
"""Longest cell, in characters: a quote that is never closed must not take the whole file."""

MAX_LINE_CHARS: Final = 16 << 20
"""Longest line: a file without line breaks must not be held whole either."""

_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    # Before UTF-16, whose mark is the beginning of this one.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_FALLBACK: Final = "cp1252"
_BLOCK: Final = 1 << 20
_TRIED_ROWS: Final = 200


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a CSV file is written.

    Attributes:
        encoding: Python's name of it.
        delimiter: one character.
        notes: what was found or fallen back to, a sentence each.
    """

    encoding: str
    delimiter: str
    notes: tuple[str, ...]


def encoding_of(path: Path, declared: str | None) -> tuple[str, tuple[str, ...]]:
    """The encoding of a text file, and what has to be said about it; the whole file is decoded once.

    A byte order mark decides, then UTF-8 if all of it is, else Windows-1252, which is said.
    Raises `Unusable`: the declared one does not fit or is none, or none of these fits.
    """
    start = _start(path)
    if declared is not None:
        try:
            codecs.lookup(declared)
        except LookupError:
            raise Unusable(f"--encoding {declared}: there is no such encoding") from None
        fault = _fault(path, declared)
        if fault is not None:
            raise Unusable(
                f"{shown(path)}: byte {fault + 1:,} is not {declared}; give its --encoding"
            )
        return declared, ()
    for mark, encoding in _BOMS:
        if start.startswith(mark):
            fault = _fault(path, encoding)
            if fault is None:
                return encoding, (f"a byte order mark says {encoding}",)
            raise Unusable(
                f"{shown(path)}: a byte order mark says {encoding}, and byte {fault + 1:,} is not;"
                " give its --encoding"
            )
    if b"\0" in start:
        # Signs of other scripts have no zero byte; separators, digits and line ends have.
        little = start[1::2].count(0) >= start[::2].count(0)
        encoding = "utf-16-le" if little else "utf-16-be"
        if _fault(path, encoding) is None:
            return encoding, (f"no byte order mark; it looks like {encoding}",)
    fault = _fault(path, "utf-8")
    if fault is None:
        return "utf-8", ()
    if _fault(path, _FALLBACK) is None:
        said = f"byte {fault + 1:,} is not UTF-8: read as Windows-1252; else give --encoding"
        return _FALLBACK, (said,)
    raise Unusable(
        f"{shown(path)}: byte {fault + 1:,} is not UTF-8, and Windows-1252 has no place for all of"
        " it either; give its --encoding"
    )


def dialect_of(path: Path, encoding: str | None, delimiter: str | None) -> Dialect:
    """How a file is written. Raises `Unusable`: it cannot be read, or what was declared is wrong.

    The delimiter is the one that gives the first rows as many cells as the header, and the most.
    """
    encoding, notes = encoding_of(path, encoding)
    if delimiter is not None:
        if len(delimiter) != 1 or delimiter in '"\r\n':
            raise Unusable(f"--delimiter {delimiter!r}: it is one character, and no quote")
        return Dialect(encoding, delimiter, notes)
    best = (0.0, 0, ",")
    for mark in DELIMITERS:
        head = _head(path, encoding, mark)
        if not head or len(head[0]) < 2:
            continue
        same = sum(len(cells) == len(head[0]) for cells in head) / len(head)
        # More cells win only among those that agree with the header equally well.
        best = max(best, (same, len(head[0]), mark), key=lambda found: found[:2])
    if not best[1]:
        return Dialect(encoding, ",", (*notes, "one column only: no delimiter was found"))
    if best[2] != ",":
        notes = (*notes, f"cells are separated by {best[2]!r}")
    return Dialect(encoding, best[2], notes)


def csv_rows(path: Path, dialect: Dialect) -> Iterator[tuple[int, list[str] | str]]:
    """Each row that is not blank with the line it begins at, from 1; a text where it is no CSV.

    Reading goes on behind a row that is wrong.
    """
    # The limit is the process's; a longer cell than any other reader of CSV wants is no harm.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL_CHARS))
    with _text(path, dialect.encoding) as file:
        lines = Lines(file)
        reader = csv.reader(lines, delimiter=dialect.delimiter, strict=True)
        while True:
            line = lines.number + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except LongLine as error:
                yield line, str(error)
                continue
            except csv.Error as error:
                yield line, _words(str(error))
                continue
            if any(cells):
                yield line, cells


class LongLine(Exception):
    """A line is longer than `MAX_LINE_CHARS`; it was read over."""


class Lines:
    """Lines of a text file one after another, with their line breaks.

    Attributes:
        number: of the last one, from 1.
    """

    def __init__(self, file: IO[str]) -> None:
        self.number = 0
        self._file = file

    def __iter__(self) -> "Lines":
        return self

    def __next__(self) -> str:
        """The next line. Raises `LongLine`, behind which reading goes on."""
        line = self._file.readline(MAX_LINE_CHARS)
        if not line:
            raise StopIteration
        self.number += 1
        if len(line) < MAX_LINE_CHARS or line[-1] in "\r\n":
            return line
        del line
        while (rest := self._file.readline(_BLOCK)) and rest[-1] not in "\r\n":
            pass
        raise LongLine(f"it has more than {MAX_LINE_CHARS:,} characters")


def _words(fault: str) -> str:
    if "unexpected end" in fault:
        return "a quote opens here and is not closed up to the end of the file"
    if "field limit" in fault:
        return f"a cell has more than {MAX_CELL_CHARS:,} characters, or its quote is not closed"
    return f'it is not CSV ({fault}); write a quote inside quotes twice, ""'


def _head(path: Path, encoding: str, delimiter: str) -> Sequence[Sequence[str]]:
    head = []
    for _, cells in csv_rows(path, Dialect(encoding, delimiter, ())):
        if not isinstance(cells, str):
            head.append(cells)
        if len(head) == _TRIED_ROWS:
            break
    return head


def _text(path: Path, encoding: str) -> IO[str]:
    return path.open(encoding=encoding, newline="")


def _start(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(4096)
    except OSError as error:
        raise Unusable(f"{shown(path)} cannot be read: {error.strerror}") from None


def _fault(path: Path, encoding: str) -> int | None:
    """Where the first byte is that does not belong to an encoding; None when all do."""
    decoder = codecs.getincrementaldecoder(encoding)()
    done = 0
    with path.open("rb") as file:
        while True:
            block = file.read(_BLOCK)
            held = len(decoder.getstate()[0])
            try:
                decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                return max(0, done - held + error.start)
            if not block:
                return None
            done += len(block)
