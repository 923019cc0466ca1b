"""Which column of a file means what, and one row taken by it or refused with its reason."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from spinf_serve.evals.data.cells import WORDS, Cell, label_of, weight_of
from spinf_serve.evals.data.labels import YES, Drawn
from spinf_serve.evals.data.readers import Line
from spinf_serve.evals.data.report import Tally
from spinf_serve.packs.errors import Unusable

MAX_VALUES: Final = 1_000
"""Most classes of a target, and most labels of a column of lists: more are texts, not labels."""

_SHOWN_CHARS: Final = 60
_REMEMBERED: Final = 1_000


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column means what.

    Attributes:
        text: the content; None where `media` has all of them.
        id: unique ids; None numbers rows by their lines.
        labels: target -> column of yes and no in words.
        classes: targets of `labels` whose column holds classes, any text.
        lists: column of label lists, `billing|refund`; a row with a list lacks all other labels.
        separator: between the labels of a list.
        targets: what a list may name; empty for anything.
        blank_is_none: whether a blank list says that no label holds, and not that none is known.
        slices, group, context, weight: columns.
        parameters: parameter of a context -> column.
        media: column of paths or URLs, for rows without a text.
    """

    text: str | None
    id: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    classes: frozenset[str] = frozenset()
    lists: str | None = None
    separator: str = "|"
    targets: frozenset[str] = frozenset()
    blank_is_none: bool = False
    slices: tuple[str, ...] = ()
    group: str | None = None
    context: str | None = None
    weight: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    media: str | None = None

    def wanted(self) -> tuple[str, ...]:
        """All columns that are read, once each."""
        contents = (self.text, self.media)
        single = (self.id, *contents, self.lists, self.group, self.context, self.weight)
        many = (*self.labels.values(), *self.slices, *self.parameters.values())
        return tuple(dict.fromkeys(name for name in (*single, *many) if name is not None))

    def check(self) -> None:
        """Raises `Unusable` for columns that cannot be meant together."""
        if self.text is None and self.media is None:
            raise Unusable("neither --text nor --media names a column: where are the contents?")
        for target in sorted(self.classes - set(self.labels)):
            raise Unusable(f"--classes {target}: there is no --label {target}")
        if not self.separator.strip() and self.lists is not None and self.separator != " ":
            raise Unusable("--separator is blank; write what stands between labels")


@dataclass(frozen=True, slots=True)
class Origin:
    """How labels of a file came about.

    Attributes:
        annotator: who gave them.
        drawn: how the rows were chosen.
        score_visible: whether scores were seen meanwhile.
    """

    annotator: str = "import"
    drawn: Drawn = "import"
    score_visible: bool = False


@dataclass(frozen=True, slots=True)
class Taken:
    """A row that is taken.

    Attributes:
        line: where it begins.
        row_id, text, context, group, weight, media: as in the dataset.
        parameters, slices: JSON objects of texts, without what is blank.
        labels: (target, value).
        listed: whether targets of other rows' lists that it does not name do not hold.
    """

    line: int
    row_id: str
    text: str
    context: str | None
    parameters: str
    slices: str
    group: str | None
    weight: float | None
    labels: tuple[tuple[str, str], ...]
    listed: bool
    media: str | None = None

    @property
    def likeness(self) -> str:
        """What tells equal and nearly equal rows: the text, or a reference that only equals itself.

        Neighbouring files have nearly equal names and nothing else in common.
        """
        return likeness_of(self.text, self.media)


def likeness_of(text: str, media: str | None) -> str:
    """See `Taken.likeness`."""
    return text if media is None else sha256(media.encode()).hexdigest()


class _Wrong(Exception):
    """A row that cannot be taken; the message is the reason."""


class Taker:
    """Takes rows one after another.

    Attributes:
        listed: targets that lists have named so far.
    """

    def __init__(self, columns: Columns, names: Sequence[str], tally: Tally) -> None:
        self.listed: set[str] = set(columns.targets)
        self._columns = columns
        self._objects: dict[tuple[tuple[str, ...], tuple[str | None, ...]], str] = {}
        self._slices = {column: column for column in columns.slices}
        self._place = {name: names.index(name) for name in columns.wanted()}
        self._tally = tally
        self._classes: dict[str, set[str]] = {target: set() for target in columns.classes}

    def take(self, line: Line) -> Taken | None:
        """The row; None when it is refused, which is tallied.

        Raises `Unusable` when a column of labels cannot be one.
        """
        tally = self._tally
        tally.read += 1
        if line.cells is None:
            tally.refuse(line.number, "", line.fault)
            return None
        row_id = str(line.number)
        try:
            if self._columns.id is not None:
                row_id = ""
                row_id = self._needed(line.cells, self._columns.id, "id").strip()
            return self._taken(line, line.cells, row_id)
        except _Wrong as wrong:
            tally.refuse(line.number, row_id, str(wrong))
            return None

    def _taken(self, line: Line, cells: Sequence[Cell], row_id: str) -> Taken:
        columns = self._columns
        media = None if columns.media is None else self._text(cells, columns.media)
        text = self._content(cells, media)
        _check_characters(row_id, columns.id or "")
        weight = None
        if columns.weight is not None:
            said = self._text(cells, columns.weight)
            if said is not None:
                weight = weight_of(said)
                if weight is None:
                    raise _Wrong(f"column {columns.weight!r}: {_cut(said)} is no number above 0")
        labels = self._labels(cells)
        listed = False
        if columns.lists is not None:
            more, listed = self._list(cells[self._place[columns.lists]], columns.lists)
            labels += more
        return Taken(
            line.number,
            row_id,
            text,
            None if columns.context is None else self._text(cells, columns.context),
            self._object(cells, columns.parameters),
            self._object(cells, self._slices),
            None if columns.group is None else self._text(cells, columns.group),
            weight,
            tuple(labels),
            listed,
            media,
        )

    def _content(self, cells: Sequence[Cell], media: str | None) -> str:
        """The text; '' for a row that has a reference in its place."""
        column, other = self._columns.text, self._columns.media
        value = None if column is None else cells[self._place[column]]
        blank = value is None or (isinstance(value, str) and not value.strip())
        if media is None and blank and other is not None:
            named = f"columns {column!r} and {other!r} are" if column else f"column {other!r} is"
            raise _Wrong(f"{named} blank; a row has a text, or a reference in its place")
        if media is None and column is not None:
            text = self._needed(cells, column, "text")
            _check_characters(text, column)
            return text
        if not blank:
            raise _Wrong(
                f"columns {column!r} and {other!r} are both filled; a row is about one of the two"
            )
        return ""

    def _needed(self, cells: Sequence[Cell], column: str, what: str) -> str:
        value = cells[self._place[column]]
        if value is None or (isinstance(value, str) and not value.strip()):
            self._tally.missing[column] += 1
            raise _Wrong(f"column {column!r} is blank; a row has {what}")
        if not isinstance(value, str):
            raise _Wrong(f"column {column!r} holds a list or an object; {what} is one text")
        return value

    def _text(self, cells: Sequence[Cell], column: str) -> str | None:
        """A trimmed cell; None for blank, which is tallied."""
        value = cells[self._place[column]]
        if value is None:
            self._tally.missing[column] += 1
            return None
        if not isinstance(value, str):
            raise _Wrong(f"column {column!r} holds a list or an object, where one text is wanted")
        value = value.strip()
        if not value:
            self._tally.missing[column] += 1
            return None
        _check_characters(value, column)
        return value

    def _object(self, cells: Sequence[Cell], columns: Mapping[str, str]) -> str:
        """A JSON object of the cells that are not blank."""
        if not columns:
            return "{}"
        values = tuple(self._text(cells, column) for column in columns.values())
        key = (tuple(columns), values)
        made = self._objects.get(key)
        if made is None:
            pairs = zip(columns, values, strict=True)
            made = json.dumps({name: value for name, value in pairs if value is not None})
            # Slices repeat, and writing JSON is the slowest step; parameters may never repeat.
            if len(self._objects) < _REMEMBERED:
                self._objects[key] = made
        return made

    def _labels(self, cells: Sequence[Cell]) -> list[tuple[str, str]]:
        labels = []
        for target, column in self._columns.labels.items():
            said = self._text(cells, column)
            if said is None:
                continue
            if target in self._classes:
                known = self._classes[target]
                known.add(said)
                if len(known) > MAX_VALUES:
                    raise Unusable(
                        f"column {column!r} has more than {MAX_VALUES:,} classes; is it a label?"
                    )
                labels.append((target, said))
                continue
            labels.append((target, self._word(target, column, said)))
        return labels

    def _word(self, target: str, column: str, said: str) -> str:
        value = label_of(said)
        if value is None:
            self._count_unknown(target, said)
            raise _Wrong(
                f"column {column!r}: {_cut(said)} is no label; write {WORDS},"
                f" or declare --classes {target}"
            )
        return value

    def _list(self, value: Cell, column: str) -> tuple[list[tuple[str, str]], bool]:
        """Labels of a list, and whether it is one: a blank says nothing, or that none holds."""
        columns = self._columns
        if isinstance(value, Mapping):
            # An object says of each label whether it holds, and nothing of others.
            said = [(name, item) for name, item in value.items() if item is not None]
            if not all(isinstance(item, str) for _, item in said):
                raise _Wrong(f"column {column!r}: an object of labels holds yes and no")
            names = self._known([name for name, _ in said], column)
            words = [str(item) for _, item in said]
            pairs = zip(names, words, strict=True)
            return [(name, self._word(name, column, word)) for name, word in pairs], False
        if value is None or (isinstance(value, str) and not value.strip()):
            self._tally.missing[column] += 1
            return [], columns.blank_is_none
        parts = value.split(columns.separator) if isinstance(value, str) else value
        if not all(isinstance(part, str) for part in parts):
            raise _Wrong(f"column {column!r}: a list of labels holds texts")
        names = [str(part).strip() for part in parts]
        held = self._known(list(dict.fromkeys(name for name in names if name)), column)
        return [(name, YES) for name in held], True

    def _known(self, names: list[str], column: str) -> list[str]:
        targets = self._columns.targets
        for name in names:
            _check_characters(name, column)
            if targets and name not in targets:
                self._count_unknown(column, name)
                raise _Wrong(f"column {column!r}: {_cut(name)} is none of the targets declared")
            if name in self._columns.labels:
                raise _Wrong(f"column {column!r}: {_cut(name)} has a column of its own")
        self.listed.update(names)
        if len(self.listed) > MAX_VALUES:
            raise Unusable(
                f"column {column!r} names more than {MAX_VALUES:,} labels; is --separator"
                f" {self._columns.separator!r} right?"
            )
        return names

    def _count_unknown(self, target: str, said: str) -> None:
        counts = self._tally.unknown.setdefault(target, Counter())
        if said in counts or len(counts) < MAX_VALUES:
            counts[said] += 1


def _check_characters(value: str, column: str) -> None:
    # Half of a surrogate pair, from JSON, is no character and cannot be stored.
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise _Wrong(
                f"column {column!r}: character {error.start + 1} is half of a surrogate pair"
            ) from None


def _cut(said: str) -> str:
    return repr(said if len(said) <= _SHOWN_CHARS else f"{said[:_SHOWN_CHARS]}…")
