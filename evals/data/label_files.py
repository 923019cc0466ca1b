"""Labels from a file of one judgement a row: which row, which target, what, and by whom."""

from collections.abc import Sequence

from spinf_serve.evals.data.cells import WORDS, label_of
from spinf_serve.evals.data.columns import MAX_VALUES, Origin
from spinf_serve.evals.data.labels import Label, now
from spinf_serve.evals.data.readers import Source, open_source
from spinf_serve.packs.errors import Unusable

COLUMNS = ("id", "target", "value")
"""Columns that such a file has."""


def value_of(said: str, *, classes: bool) -> str:
    """What a label says: yes, no or unsure, or with `classes` any text. Raises `Unusable`."""
    value = said.strip() if classes else label_of(said)
    if not value:
        raise Unusable(f"{said!r} is no label; write {WORDS.split(', or')[0]}, or give --classes")
    return value


def read_labels(
    source: Source,
    origin: Origin,
    *,
    annotator: str | None = None,
    classes: bool = False,
    adjudicated: bool = False,
    as_rows: bool = False,
) -> list[Label]:
    """The labels of a file; blank values are left out, and say nothing.

    Args:
        source: a file with the columns `id`, `target` and `value`.
        origin: how the labels came about; its annotator where no column names one.
        annotator: column of names.
        classes: whether values may be any text.
        adjudicated: whether they settle what annotators disagree on.
        as_rows: whether rows were chosen for these labels as they were drawn, in place of what
            `origin` says.

    Raises `Unusable` with the line of the first row that is wrong; nothing is left out for that.
    """
    wanted = (*COLUMNS, *(() if annotator is None else (annotator,)))
    opened = open_source(source, wanted)
    place = {name: opened.columns.index(name) for name in wanted}
    at = now()
    labels = []
    for line in opened.lines:
        where = f"{source.name}, line {line.number:,}"
        if line.cells is None:
            raise Unusable(f"{where}: {line.fault}")
        cells = line.cells
        said: Sequence[str] = [
            value.strip() if isinstance(value := cells[place[name]], str) else "" for name in wanted
        ]
        if not said[2]:
            continue
        if not all(said):
            blank = wanted[said.index("")]
            raise Unusable(f"{where}: column {blank!r} is blank")
        try:
            value = value_of(said[2], classes=classes)
        except Unusable as fault:
            raise Unusable(f"{where}: {fault}") from None
        who = origin.annotator if annotator is None else said[3]
        labels.append(
            Label(
                said[0],
                said[1],
                value,
                who,
                at,
                None if as_rows else origin.drawn,
                origin.score_visible,
                adjudicated,
            )
        )
    if len({label.target for label in labels}) > MAX_VALUES:
        raise Unusable(f"{source.name} names more than {MAX_VALUES:,} targets")
    return labels
