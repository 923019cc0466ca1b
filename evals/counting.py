"""How many labels of a target a promise may count, before any cut is looked for.

Rows are those of `spinf_serve.evals.eligible`; knows no score.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from spinf_serve.evals.data.labels import CHOSEN, RESOLVED, UNSURE
from spinf_serve.evals.eligible import Eligible, eligible


@dataclass(frozen=True, slots=True)
class Counting:
    """The labels of one target.

    Attributes:
        values: what holds -> rows that a promise may count, most first.
        labelled: rows with a label that holds, counted or not; unsure and disputed ones are none.
        unsure: rows that are labelled unsure.
        disputed: rows whose annotators differ and that nobody adjudicated.
        chosen: rows that were drawn blindly and then labelled since they stood in a queue.
        left_out: rows with a label that are not counted, by reason.
    """

    values: Mapping[str, int]
    labelled: int
    unsure: int
    disputed: int
    chosen: int
    left_out: tuple[str, ...]

    @property
    def counted(self) -> int:
        """Rows that a promise may count."""
        return sum(self.values.values())


def counting(
    connection: duckdb.DuckDBPyConnection, dataset: str, target: str, split: str | None = None
) -> Counting:
    """The labels of a target in a dataset, or in one split of it."""
    here = RESOLVED.replace(
        "FROM label", "FROM label WHERE dataset = $dataset AND target = $target"
    )
    found = connection.execute(
        f"SELECT value, grp, weight, item.drawn, {CHOSEN} AS chosen FROM ({here})"
        " JOIN item USING (dataset, row_id) WHERE ($split IS NULL OR split = $split)"
        " ORDER BY number",
        {"dataset": dataset, "target": target, "split": split},
    ).fetchnumpy()
    value = _texts(found["value"])
    known = np.array([one is not None and one != UNSURE for one in value], dtype=bool)
    chosen = np.asarray(found["chosen"], dtype=bool) & known
    drawn = np.where(chosen, "queue", np.ma.getdata(found["drawn"]).astype(str))
    weights = np.where(chosen, np.nan, np.ma.filled(found["weight"].astype(np.float64), np.nan))
    kept = eligible(known, _texts(found["grp"]), weights, drawn.tolist())
    counts = Counter(value[row] for row in kept.rows.tolist())
    return Counting(
        {str(one): count for one, count in counts.most_common()},
        int(known.sum()),
        sum(one == UNSURE for one in value),
        sum(one is None for one in value),
        int(chosen.sum()),
        Eligible(kept.rows, 0, kept.not_random, kept.thinned, kept.copies).notes(),
    )


def _texts(column: NDArray[Any]) -> list[str | None]:
    """A column of texts; None for NULL."""
    missing = np.ma.getmaskarray(column)
    pairs = zip(np.ma.getdata(column).tolist(), missing.tolist(), strict=True)
    return [None if gone else value for value, gone in pairs]
