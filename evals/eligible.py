"""Which labelled rows a promise may rest on: drawn at random, and one per group.

Looks at how rows were drawn, at weights and at groups, never at a score's size or a label's value.

Weights. A row drawn with the known chance q carries the weight 1 / q. It is kept with the chance
weight / largest weight, each row for itself: then every row of the traffic had the same chance,
q x (1 / q) / largest, to be drawn and kept, so what is kept is a random sample without weights and
exact tests hold for it (J. von Neumann's rejection; "Various techniques used in connection with
random digits", 1951). The loss is plain to see: the rows that are gone. Effective sample sizes put
into a binomial test would keep more and can promise too much, so there are none.

Groups. Rows of a group (a thread, near copies) err together. One of each is kept, picked by chance, and
the promise is about one row of each group.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinf_serve.packs.errors import Unusable

RANDOM = "random"
"""How a row must have been drawn to count without a weight."""

_SEED = 20_260


@dataclass(frozen=True, slots=True)
class Eligible:
    """Rows that may be counted.

    Attributes:
        rows: [K] int64, ascending positions.
        unlabelled: rows left out for lack of a label.
        not_random: rows left out since they were not drawn at random and have no weight.
        thinned: rows left out so that the rest weighs the same.
        copies: rows left out since another of their group is in.
    """

    rows: NDArray[np.int64]
    unlabelled: int
    not_random: int
    thinned: int
    copies: int

    def notes(self) -> tuple[str, ...]:
        """A sentence for each reason that left rows out."""
        told = (
            (self.unlabelled, "without a label take no part; a missing label is not a no"),
            (
                self.not_random,
                "were not drawn and labelled at random, nor with a known chance: not counted",
            ),
            (self.thinned, "were left out by chance so that rows of unequal weight count alike"),
            (self.copies, "were left out so that each group counts once"),
        )
        return tuple(f"{_rows(count)} {_of(count, why)}" for count, why in told if count)


def _of(count: int, why: str) -> str:
    """The words for so many rows."""
    if count != 1:
        return why
    return why.replace(" take no part", " takes no part").replace("were ", "was ", 1)


def eligible(
    labelled: NDArray[np.bool_],
    groups: Sequence[Hashable] | None = None,
    weights: ArrayLike | None = None,
    drawn: Sequence[str] | None = None,
) -> Eligible:
    """The rows that may be counted. The same rows in the same order give the same ones.

    Args:
        labelled: [N] which rows have a label.
        groups: [N]; None for a row: it stands alone.
        weights: [N] inverse probabilities, above 0; NaN for a row without one.
        drawn: [N] how each row was drawn; None says that all were drawn at random.

    Raises:
        Unusable: a weight is not a positive number.
    """
    count = len(labelled)
    weight = np.full(count, np.nan) if weights is None else np.array(weights, dtype=np.float64)
    for name, column in (("groups", groups), ("weights", weight), ("drawn", drawn)):
        if column is not None and len(column) != count:
            raise ValueError(f"{name} are not as many as the {count} rows")
    weighted = ~np.isnan(weight)
    bad = np.flatnonzero(weighted & ~((weight > 0) & np.isfinite(weight)))
    if len(bad):
        raise Unusable(
            f"row {bad[0]} has the weight {weight[bad[0]]:g}; an inverse probability is a positive"
            " number"
        )
    random = np.ones(count, dtype=bool)
    if drawn is not None:
        random = np.array([one == RANDOM for one in drawn], dtype=bool)
    usable = labelled & (random | weighted)
    chance = np.random.default_rng(_SEED).random((2, count))
    kept = usable.copy()
    if (usable & weighted).any():
        top = float(weight[usable & weighted].max())
        kept &= ~weighted | (chance[0] * top < weight)
    single = _one_each(kept, groups, chance[1])
    return Eligible(
        np.flatnonzero(single),
        int((~labelled).sum()),
        int((labelled & ~usable).sum()),
        int((usable & ~kept).sum()),
        int((kept & ~single).sum()),
    )


def _one_each(
    kept: NDArray[np.bool_], groups: Sequence[Hashable] | None, chance: NDArray[np.float64]
) -> NDArray[np.bool_]:
    if groups is None:
        return kept
    single = np.zeros_like(kept)
    seen: set[Hashable] = set()
    for row in np.argsort(chance, kind="stable"):
        group = groups[row]
        if not kept[row] or (group is not None and group in seen):
            continue
        seen.add(group)
        single[row] = True
    return single


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"
