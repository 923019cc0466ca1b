"""What the columns of a file look like, and what they are likely to mean. Knows no screen."""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from spinf_serve.evals.data.cells import Cell, label_of, weight_of
from spinf_serve.evals.data.labels import NO, UNSURE, YES
from spinf_serve.evals.data.readers import Source, column_names, open_source
from spinf_serve.packs.errors import Unusable

LOOKED_AT: Final = 2_000
"""Rows from which meanings are guessed."""

SAMPLE: Final = 20
_MOST_VALUES: Final = 30
_MOST_COLUMNS: Final = 500
_MOSTLY: Final = 0.8

_NAMES: Final = {
    "text": ("text", "message", "content", "body", "comment", "review", "sentence", "utterance"),
    "id": ("id", "row_id", "uuid", "key", "message_id", "ticket_id", "number"),
    "group": ("group", "thread", "thread_id", "conversation", "conversation_id", "cluster"),
    "weight": ("weight",),
    "context": ("context",),
    "media": ("media", "image", "audio", "video", "image_path", "image_url", "file_path"),
    "lists": ("labels", "tags", "categories"),
}
_SLICES: Final = ("language", "lang", "country", "channel", "source", "day", "month", "product")
_IDLE: Final = ("content_digest", "parameters", "drawn", "split")


@dataclass(frozen=True, slots=True)
class ColumnSeen:
    """A column in the first rows of a file.

    Attributes:
        rows: that were looked at; `blank` of them have nothing in it.
        yes, no, unsure: cells that say so; `other` says something else.
        values: the most frequent ones with their counts; empty where they are too many.
        distinct: different values.
        chars: mean length of what is not blank.
        lists: cells that are lists or objects, or texts with a separator in them.
        weights: cells that are numbers above 0.
    """

    name: str
    rows: int
    blank: int
    yes: int
    no: int
    unsure: int
    other: int
    values: tuple[tuple[str, int], ...]
    distinct: int
    chars: float
    lists: int
    weights: int

    @property
    def filled(self) -> int:
        """Cells that are not blank."""
        return self.rows - self.blank

    @property
    def is_label(self) -> bool:
        """Whether most of it says yes, no or unsure; what does not is refused, and told."""
        return self.yes + self.no > 0 and self.other < self.yes + self.no + self.unsure


@dataclass(frozen=True, slots=True)
class Peek:
    """The beginning of a file.

    Attributes:
        columns: by name, in order.
        sample: its first rows, as texts.
        notes: what was found out about the file.
        faults: of rows that cannot be read: (line, why).
        whole: whether these are all of its rows.
    """

    columns: tuple[ColumnSeen, ...]
    sample: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    faults: tuple[tuple[int, str], ...]
    whole: bool

    @property
    def names(self) -> list[str]:
        """Of all columns."""
        return [one.name for one in self.columns]

    def column(self, name: str) -> ColumnSeen | None:
        """A column by its name."""
        return next((one for one in self.columns if one.name == name), None)


def peek(source: Source) -> Peek:
    """Look at the beginning of a file.

    Raises `Unusable`: it cannot be read, has no columns, or one name twice.
    """
    listed = column_names(source)
    names = tuple(name for name in listed if name)
    if not names:
        lines = source.path is not None and source.path.suffix.lower() in (".jsonl", ".ndjson")
        raise Unusable(
            f"{source.name} has no JSON object in its first lines; write one a line, or call a CSV file"
            " .csv"
            if lines
            else f"{source.name} has no column names; write them into its first line"
        )
    if len(names) > _MOST_COLUMNS:
        raise Unusable(f"{source.name} has {len(names):,} columns; {_MOST_COLUMNS} can be read")
    opened = open_source(source, names)
    place = [opened.columns.index(name) for name in names]
    rows: list[list[Cell]] = []
    faults = []
    found = list(islice(opened.lines, LOOKED_AT + 1))
    getattr(opened.lines, "close", lambda: None)()
    for line in found[:LOOKED_AT]:
        if line.cells is None:
            faults.append((line.number, line.fault))
        else:
            rows.append([line.cells[at] for at in place])
    columns = tuple(_seen(name, [row[at] for row in rows]) for at, name in enumerate(names))
    sample = tuple(tuple(map(shown_cell, row)) for row in rows[:SAMPLE])
    return Peek(columns, sample, opened.notes, tuple(faults), len(found) <= LOOKED_AT)


def shown_cell(value: Cell) -> str:
    """A cell as a text for a table."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence):
        return " | ".join(map(shown_cell, value))
    return ", ".join(f"{name}: {shown_cell(item)}" for name, item in value.items())


def _seen(name: str, cells: Sequence[Cell]) -> ColumnSeen:
    filled = [
        cell for cell in cells if cell is not None and (not isinstance(cell, str) or cell.strip())
    ]
    texts = [cell.strip() for cell in filled if isinstance(cell, str)]
    words = Counter(label_of(text) for text in texts)
    values = Counter(texts)
    joined = sum("|" in text for text in texts)
    lengths = sum(map(len, texts))
    return ColumnSeen(
        name,
        len(cells),
        len(cells) - len(filled),
        words[YES],
        words[NO],
        words[UNSURE],
        words[None] + len(filled) - len(texts),
        tuple(values.most_common()) if len(values) <= _MOST_VALUES else (),
        len(values),
        lengths / len(texts) if texts else 0.0,
        joined + len(filled) - len(texts),
        sum(weight_of(text) is not None for text in texts),
    )


def guessed(seen: Peek, categories: Collection[str]) -> dict[str, Any]:
    """What the columns are likely to mean, as arguments of a plan.

    Args:
        categories: of the pack, by whose names label columns are known too.
    """
    left = {one.name: one for one in seen.columns if one.name not in _IDLE}
    plan: dict[str, Any] = {}
    for role in ("id", "group", "weight", "context", "media", "lists"):
        name = next((one for one in left if one.casefold() in _NAMES[role]), None)
        if name is not None and _may_be(role, left[name], seen):
            plan[role] = name
            del left[name]
    plan["labels"], plan["classes"] = {}, []
    for name, column in list(left.items()):
        target = re.sub(r"^labels?[._ ]", "", name)
        if (column.is_label or target in categories) and target not in plan["labels"]:
            plan["labels"][target] = name
            if not column.yes + column.no:
                plan["classes"].append(target)
            del left[name]
        elif name.casefold() in ("label", "class", "intent", "category") and column.values:
            plan["labels"][name] = name
            plan["classes"].append(name)
            del left[name]
    plan["text"] = _text(left)
    left.pop(plan["text"] or "", None)
    plan["parameters"] = {
        name.removeprefix("parameter."): name for name in left if name.startswith("parameter.")
    }
    plan["slices"] = [
        name for name in left if name.startswith("slice.") or name.casefold() in _SLICES
    ]
    return plan


def _may_be(role: str, column: ColumnSeen, seen: Peek) -> bool:
    if role == "id":
        # A few ids that are there twice are told as refused rows.
        return column.blank == 0 and column.distinct >= _MOSTLY * column.rows
    if role == "weight":
        return column.filled > 0 and column.weights == column.filled
    if role == "lists":
        return column.lists > 0
    return column.filled > 0


def _text(left: dict[str, ColumnSeen]) -> str | None:
    named = [name for name in left if name.casefold() in _NAMES["text"]]
    if named:
        return named[0]
    longest = max(left.values(), key=lambda one: one.chars, default=None)
    return None if longest is None or longest.chars == 0 else longest.name
