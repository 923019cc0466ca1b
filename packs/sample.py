"""A pack's labelled sample: a CSV file of contents, and of which categories hold for each.

Columns: `id`, `split` (`fit` or `test`), `language`, `labels`, `text`, and where wanted `context` and
`parameters.<name>`. `labels` lists the categories that hold, separated by spaces; `?` before one
says that it is not known. All others do not hold. Knows no scores.
"""

import csv
import errno
import io
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.faults import InvalidPack, PackFault
from spinf_serve.packs.files import read_regular, shown
from spinf_serve.packs.notes import MAX_FAULTS, cut, near, quoted
from spinf_serve.packs.pack import Pack

Split = Literal["fit", "test"]

COLUMNS = ("id", "split", "language", "labels", "text")
"""Columns that every sample has."""

MAX_BYTES = 64 << 20
"""Largest file that is read."""

MAX_CELL_CHARS = 4 << 20
"""Longest cell, in characters."""

_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
_PARAMETER = "parameters."


@dataclass(frozen=True, slots=True)
class SampleRow:
    """One labelled content.

    Attributes:
        id: unique in its file.
        split: whether constants may be fitted on it, or only tested.
        language: a tag such as `en` or `pt-BR`.
        labels: category -> whether it holds, for every category of the pack; None when not known.
        text: the content.
        context: which of the pack's contexts presents it; None for the first.
        parameters: what fills the context.
        line: where the row begins in the file, from 1.
    """

    id: str
    split: Split
    language: str
    labels: Mapping[str, bool | None]
    text: str
    context: str | None
    parameters: Mapping[str, str]
    line: int


def read_sample(path: Path, pack: Pack) -> list[SampleRow]:
    """The rows of a sample of a pack, in the order of the file.

    Raises `InvalidPack` with every fault, each with its line, its row's id and its column, and
    `Unusable` when the file cannot be read at all.
    """
    text = _text(path)
    name = shown(path.name)
    faults = _Faults()
    lines = _lines(name, text, faults)
    _, header = next(lines, (1, []))
    _check_header(name, header, pack, faults)
    faults.stop(name)
    reader = _Reader(name, pack, header, faults)
    rows = [row for line, cells in lines if (row := reader.row(line, cells)) is not None]
    if not rows and not faults.count:
        faults.append(PackFault("the file has a header and no row", name, 1, 1))
    _check_repeats(name, rows, faults)
    faults.stop(name)
    return rows


class _Faults:
    """The first faults of a file, in the order of finding, and how many there are.

    Attributes:
        count: of all, kept or not.
    """

    def __init__(self) -> None:
        self.count = 0
        self._kept: list[PackFault] = []

    def append(self, fault: PackFault) -> None:
        """Note a fault."""
        self.count += 1
        if len(self._kept) < MAX_FAULTS:
            self._kept.append(fault)

    def stop(self, name: str) -> None:
        """Raises `InvalidPack` when there is any."""
        more = self.count - len(self._kept)
        if more:
            last = max(fault.line for fault in self._kept)
            self._kept.append(PackFault(f"and {more:,} more faults", name, last, 1 << 30))
        if self._kept:
            raise InvalidPack(self._kept)


def _text(path: Path) -> str:
    name = shown(path.name)
    try:
        data = read_regular(path, MAX_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise Unusable(f"{name} {error.strerror}; split the sample") from None
        raise Unusable(f"{shown(path)} cannot be read: {error.strerror}") from None
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in data[:4]:
        raise Unusable(f"{name} is UTF-16 or UTF-32; save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unusable(
            f"{name}: byte {error.start + 1} is not UTF-8; save the file as UTF-8"
        ) from None


def _lines(name: str, text: str, faults: _Faults) -> Iterator[tuple[int, list[str]]]:
    """Each row that is not blank, with the line it begins at."""
    # The limit is the process's; a longer cell than any other reader of CSV wants is no harm.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL_CHARS))
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = 1
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "field limit" in str(error):
                message = f"a cell has more than {MAX_CELL_CHARS:,} characters; shorten the text"
                faults.append(PackFault(message, name, line, 1))
                return
            faults.append(
                PackFault(
                    f"the row is not CSV ({error}); put text with commas, quotes or line breaks in"
                    ' double quotes and write a quote inside it twice, ""',
                    name,
                    line,
                    1,
                )
            )
            return
        if cells:
            yield line, cells
        line = reader.line_num + 1


def _check_header(name: str, header: Sequence[str], pack: Pack, faults: _Faults) -> None:
    def fault(message: str, column: str) -> None:
        faults.append(PackFault(message, name, 1, 1, cut(column)))

    for mark, called in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and COLUMNS[0] in header[0].split(mark) and mark in header[0]:
            fault(f"the cells are separated by {called}; save the file with commas", "")
            return
    known = [*COLUMNS, "context", *(_PARAMETER + parameter for parameter in pack.parameters)]
    for column, count in Counter(header).items():
        if column not in known:
            fault(
                f"the header has the column {quoted(column)}, which is none{near(column, known)}",
                column,
            )
        elif count > 1:
            fault(f"the header has the column {quoted(column)} {count} times; keep one", column)
    for column in COLUMNS:
        if column not in header:
            fault(f"the header lacks the column {column!r}", column)


class _Reader:
    """Rows of one file; notes every fault."""

    def __init__(self, name: str, pack: Pack, header: Sequence[str], faults: _Faults) -> None:
        self._name = name
        self._pack = pack
        self._header = header
        self._faults = faults

    def row(self, line: int, cells: Sequence[str]) -> SampleRow | None:
        """The row, or None when anything of it was noted."""
        before = self._faults.count
        if len(cells) != len(self._header):
            first = f" ({cut(cells[0])})" if cells[0] else ""
            self._note(
                line,
                "",
                f"the row{first} has {len(cells)} cells and the header {len(self._header)};"
                " put a text with commas in double quotes",
            )
            return None
        given = dict(zip(self._header, cells, strict=True))
        id = given["id"]

        def note(column: str, message: str) -> None:
            self._note(line, column, f"row {quoted(id)}, column {cut(column)}: {message}")

        if not id.strip():
            note("id", "is empty; every row has an id")
        if given["split"] not in ("fit", "test"):
            note("split", f"is {quoted(given['split'])}; write fit or test")
        if not _LANGUAGE.fullmatch(given["language"]):
            note("language", f"is {quoted(given['language'])}; write a tag such as en or pt-BR")
        if not given["text"].strip():
            note("text", "is empty; a row needs a content")
        labels: dict[str, bool | None] = dict.fromkeys(self._pack.categories, False)
        seen: set[str] = set()
        for word in given["labels"].split():
            category = word.removeprefix("?")
            if category not in labels:
                note(
                    "labels",
                    f"there is no category {quoted(category)}{self._near(category, labels)}",
                )
            elif category in seen:
                note("labels", f"names {quoted(category)} twice; name it once")
            else:
                labels[category] = None if word.startswith("?") else True
                seen.add(category)
        context = given.get("context") or None
        if context is not None and context not in self._pack.contexts:
            note(
                "context",
                f"there is no context {quoted(context)}{self._near(context, self._pack.contexts)}",
            )
        parameters = {}
        for name, parameter in self._pack.parameters.items():
            value = given.get(_PARAMETER + name, "")
            if value:
                parameters[name] = value
            elif parameter.required and parameter.default is None:
                note(_PARAMETER + name, "is empty or missing, and the pack requires it")
        if self._faults.count > before:
            return None
        return SampleRow(
            id,
            cast(Split, given["split"]),
            given["language"],
            labels,
            given["text"],
            context,
            parameters,
            line,
        )

    def _near(self, name: str, names: Collection[str]) -> str:
        return near(name, names) if self._faults.count < MAX_FAULTS else ""

    def _note(self, line: int, column: str, message: str) -> None:
        self._faults.append(PackFault(message, self._name, line, 1, column))


def _check_repeats(name: str, rows: Sequence[SampleRow], faults: _Faults) -> None:
    """No id twice; no content twice, which would count it twice or leak a test row into the fit."""
    ids: dict[str, SampleRow] = {}
    contents: dict[tuple[object, ...], SampleRow] = {}
    for row in rows:
        first = ids.setdefault(row.id, row)
        if first is not row:
            faults.append(
                PackFault(
                    f"row {quoted(row.id)}, column id: line {first.line} has the same id; change one",
                    name,
                    row.line,
                    1,
                    "id",
                )
            )
        content = (row.text.strip(), row.context, *sorted(row.parameters.items()))
        first = contents.setdefault(content, row)
        if first is not row:
            faults.append(
                PackFault(
                    f"row {quoted(row.id)}, column text: the same content as row {quoted(first.id)} in line"
                    f" {first.line} ({first.split}); remove one",
                    name,
                    row.line,
                    1,
                    "text",
                )
            )
