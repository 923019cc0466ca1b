"""Figures of the page Scores: how well answers separate, histograms, and samples to draw.

Everything over whole columns, by `spinf_serve.evals.metrics`. Knows no screen and no project.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from spinf_serve.evals.judged import Measured, figure_of
from spinf_serve.evals.metrics.areas import roc_area
from spinf_serve.packs.pack import Pack
from spinf_serve.workbench.actions.scores import LABELS, Base, Subject
from spinf_serve.workbench.views import View

MOST_CELLS: Final = 600_000
"""Labelled rows times subjects of which areas are computed at once; of more rows a sample is taken."""

BINS: Final = 40

_LEAST_SAMPLE: Final = 2_000
_COLUMN_CELLS: Final = 1_000_000
_YES, _NO = LABELS.index("yes"), LABELS.index("no")


@dataclass(frozen=True, slots=True)
class Figures:
    """How a subject's values look beside the labels.

    Attributes:
        roc_area: chance that a row labelled yes has a higher value than one labelled no.
        rows: with a value; `yes` and `no`: labelled so among them.
        mean_yes, mean_no: means of the values; None without such rows.
        residual: median probability outside the options; None for a category.
        refused: rows without a whole answer.
        sampled: labelled rows that the area is of, where it is of a sample; None where of all.
    """

    roc_area: Measured
    rows: int
    yes: int
    no: int
    mean_yes: float | None
    mean_no: float | None
    residual: float | None
    refused: int
    sampled: int | None = None


def figures(view: View, base: Base, pack: Pack, subjects: Sequence[Subject]) -> dict[str, Figures]:
    """Every subject's figures, by key."""
    found = {}
    labelled = int((base.inside & (base.said >= 0)).sum())
    most = max(_LEAST_SAMPLE, MOST_CELLS // max(1, len(subjects)))
    refused = int((base.refused & base.inside).sum())
    for some in _by_size(len(base.number), subjects):
        names = dict.fromkeys(name for one in some for name in one.columns)
        names |= dict.fromkeys(one.residual for one in some if one.residual is not None)
        columns = view.columns(list(names))
        for one in some:
            rest = None if one.residual is None else columns[one.residual]
            limit = most if len(subjects) > 1 and labelled > most else None
            found[one.key] = _of(one.of_columns(columns), rest, base, base.labels(one, pack), limit)
            found[one.key] = replace(found[one.key], refused=refused)
    return found


def _by_size(rows: int, subjects: Sequence[Subject]) -> Iterator[Sequence[Subject]]:
    """Some subjects at a time, so that their columns take a few MiB."""
    size = max(1, _COLUMN_CELLS // max(1, rows))
    for first in range(0, len(subjects), size):
        yield subjects[first : first + size]


def _of(
    values: NDArray[np.float64],
    residual: NDArray[np.float64] | None,
    base: Base,
    labels: NDArray[np.int8],
    most: int | None,
) -> Figures:
    known = base.inside & ~np.isnan(values)
    at = np.flatnonzero(known & ((labels == _YES) | (labels == _NO)))
    sampled = None
    if most is not None and len(at) > most:
        at = np.sort(np.random.default_rng(0).choice(at, most, replace=False))
        sampled = most
    area = roc_area(
        values[at],
        labels[at] == _YES,
        weights=None if base.weights is None else base.weights[at],
        groups=None if base.groups is None else base.groups[at],
    )
    yes, no = (values[known & (labels == one)] for one in (_YES, _NO))
    middle = None
    if residual is not None:
        rest = residual[base.inside & ~np.isnan(residual)]
        middle = float(np.median(rest)) if len(rest) else None
    return Figures(
        Measured(None) if area is None else figure_of(area.value, area.interval, len(at)),
        int(known.sum()),
        len(yes),
        len(no),
        float(yes.mean()) if len(yes) else None,
        float(no.mean()) if len(no) else None,
        middle,
        0,
        sampled,
    )


def separation(one: Figures) -> float:
    """How far from chance an answer ranks, whichever way; -1 where that is not known."""
    return -1.0 if one.roc_area.value is None else abs(one.roc_area.value - 0.5)


def drawn(base: Base, known: NDArray[np.bool_], most: int) -> NDArray[np.int64]:
    """Places of the rows that a chart draws: all, or so many by chance and always the same."""
    at = np.flatnonzero(base.inside & known)
    if len(at) > most:
        at = np.sort(np.random.default_rng(0).choice(at, most, replace=False))
    return at


def histogram(
    values: NDArray[np.float64], labels: NDArray[np.int8], inside: NDArray[np.bool_]
) -> list[dict[str, Any]]:
    """Rows by label and bin of equal width over 0 to 1, a mapping each: all rows are counted."""
    edges = np.linspace(0.0, 1.0, BINS + 1)
    told = []
    for index, label in enumerate(LABELS):
        here = values[inside & (labels == index) & ~np.isnan(values)]
        counts, _ = np.histogram(here, edges)
        for place, count in enumerate(counts.tolist()):
            share = count / len(here) if len(here) else 0.0
            told.append(
                {
                    "from": float(edges[place]),
                    "to": float(edges[place + 1]),
                    "label": label,
                    "rows": count,
                    "share": share,
                }
            )
    return told
