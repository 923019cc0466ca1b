"""How many labels of a target a promise may count, before any cut is looked for.

Rows are those of `spinf_serve.evals.eligible`; knows no score.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import duckdb
import numpy as np

from spinf_serve.evals.data.labels import CHOSEN, RESOLVED, UNSURE
from spinf_serve.evals.eligible import RANDOM, Eligible, eligible


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
    said = [
        value
        for (value,) in connection.execute(
            "SELECT DISTINCT value FROM label WHERE dataset = ? AND target = ? ORDER BY value",
            [dataset, target],
        ).fetchall()
    ]
    # Numbers for texts: a million labels are some megabytes so.
    found = connection.execute(
        "SELECT coalesce(list_position($said, value), 0) AS value, CASE WHEN grp IS NULL THEN -1 ELSE"
        f" dense_rank() OVER (ORDER BY grp) END AS grp, weight, item.drawn = '{RANDOM}' AS random,"
        f" {CHOSEN} AS chosen FROM ({here}) JOIN item USING (dataset, row_id)"
        " WHERE ($split IS NULL OR split = $split) ORDER BY number",
        {"dataset": dataset, "target": target, "split": split, "said": said},
    ).fetchnumpy()
    value = np.asarray(found["value"], dtype=np.int64) - 1
    unsure = value == (said.index(UNSURE) if UNSURE in said else len(said))
    known = (value >= 0) & ~unsure
    chosen = np.asarray(found["chosen"], dtype=bool) & known
    drawn = np.where(np.asarray(found["random"], dtype=bool) & ~chosen, RANDOM, "queue")
    weights = np.where(chosen, np.nan, np.ma.filled(found["weight"].astype(np.float64), np.nan))
    groups = [None if group < 0 else group for group in found["grp"].tolist()]
    kept = eligible(known, groups, weights, drawn.tolist())
    counts = Counter(value[kept.rows].tolist())
    return Counting(
        {said[one]: count for one, count in counts.most_common()},
        int(known.sum()),
        int(unsure.sum()),
        int((value < 0).sum()),
        int(chosen.sum()),
        Eligible(kept.rows, 0, kept.not_random, kept.thinned, kept.copies).notes(),
    )
