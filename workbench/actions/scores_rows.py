"""Which rows the page Scores lists: filtered, searched and sorted in DuckDB, read a page at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from spinf_serve.evals.judged import DECISION, QUESTION
from spinf_serve.evals.metrics.slices import MISSING
from spinf_serve.packs.pack import Constants, Pack
from spinf_serve.workbench.actions.scores import LABELS, Subject, label_for, said_sql
from spinf_serve.workbench.desk import Desk
from spinf_serve.workbench.views import View, quoted

MOST_VALUES: Final = 200
"""Values of a slice that can be chosen."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which rows are listed.

    Attributes:
        labels: of `LABELS`; empty for all.
        verdict: `right`, `false alarm` or `miss`; None for all.
        slice: column and value.
        ranges: SQL of a value -> from, to; a row is in when any of them holds.
        search: words in the text or id.
        refused: rows without a whole answer only.
        by: SQL of what it is sorted by; None for the order of import.
        falling: whether the largest comes first.
    """

    split: str | None = None
    labels: tuple[str, ...] = ()
    verdict: str | None = None
    slice: tuple[str, str] | None = None
    ranges: tuple[tuple[str, float, float], ...] = ()
    search: str = ""
    refused: bool = False
    by: str | None = None
    falling: bool = True


@dataclass(frozen=True, slots=True)
class Listing:
    """The rows that a filter lets through; only pages of them are ever read.

    Attributes:
        said, given: see `said_sql`.
        subject: whose value is shown.
    """

    desk: Desk
    view: View
    pack: Pack
    constants: Constants | None
    subject: Subject
    filter: Filter
    more: Mapping[str, str] = field(default_factory=dict)

    def count(self) -> int:
        """How many."""
        sql, params = self._sql("count(*)")
        with self.desk.project.open(write=False) as connection:
            return int(connection.execute(sql, params).fetchall()[0][0])

    def page(self, first: int, most: int) -> list[dict[str, Any]]:
        """Some of them: row_id, text, label, value, residual, refused, flagged, unsafe."""
        shown = {
            "number": "view.number",
            "row_id": "view.row_id",
            "refused": "view.refused",
            "said": "said.value",
            "value": self.subject.sql,
            "residual": "NULL" if self.subject.residual is None else quoted(self.subject.residual),
            "flagged": self._flag() or "NULL",
            "unsafe": "view.unsafe" if self.view.fitted else "NULL",
            **self.more,
        }
        columns = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in shown.items())
        sql, params = self._sql(columns)
        order = "view.number"
        if self.filter.by is not None:
            down = "DESC" if self.filter.falling else "ASC"
            order = f"{self.filter.by} {down} NULLS LAST, view.number"
        with self.desk.project.open(write=False) as connection:
            found = connection.execute(
                f"{sql} ORDER BY {order} LIMIT {most} OFFSET {first}", params
            )
            names = [column[0] for column in found.description or ()]
            rows = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
            # Texts are read for the page alone.
            texts = dict(
                connection.execute(
                    "SELECT row_id, coalesce(media, text) FROM item WHERE dataset = ?"
                    " AND row_id IN (SELECT unnest(?::VARCHAR[]))",
                    [self.view.about["dataset"], [row["row_id"] for row in rows]],
                ).fetchall()
            )
        for row in rows:
            row["label"] = label_for(self.subject, self.pack, row.pop("said"))
            row["text"] = texts.get(row["row_id"], "")
        return rows

    def _flag(self) -> str | None:
        """SQL of whether the target's verdict is yes."""
        if not self.view.fitted or self.constants is None:
            return None
        if self.subject.target == DECISION:
            return "view.unsafe"
        if self.subject.target in self.pack.categories:
            return quoted(f"flagged:{self.subject.target}")
        return None

    def _sql(self, columns: str) -> tuple[str, dict[str, Any]]:
        said, given = said_sql(self.pack, self.constants, self.subject.target)
        params: dict[str, Any] = {"dataset": self.view.about["dataset"], "target": given[0]}
        where = ["true"]
        one = self.filter
        if one.split is not None:
            where.append("item.split = $split")
            params["split"] = one.split
        if one.slice is not None:
            where.append("coalesce(item.slices[$slice], '(none)') = $part")
            params["slice"], params["part"] = one.slice
        if one.search.strip():
            where.append("(contains(lower(item.text), $search) OR item.row_id = $exact)")
            params["search"], params["exact"] = one.search.strip().lower(), one.search.strip()
        if one.refused:
            where.append("view.refused IS NOT NULL")
        if one.labels:
            where.append(self._labelled(one.labels))
        flag = self._flag()
        if one.verdict is not None and flag is not None:
            where.append(
                {
                    "false alarm": f"({flag} AND said.value = 'no')",
                    "miss": f"(NOT {flag} AND said.value = 'yes')",
                    "right": f"({flag} = (said.value = 'yes') AND said.value IN ('yes', 'no'))",
                }[one.verdict]
            )
        if one.ranges:
            parts = []
            for number, (sql, low, high) in enumerate(one.ranges):
                parts.append(f"({sql} BETWEEN $low{number} AND $high{number})")
                params |= {f"low{number}": low, f"high{number}": high}
            where.append(f"({' OR '.join(parts)})")
        item = "SELECT row_id, text, split, slices FROM item WHERE dataset = $dataset"
        sql = (
            f"WITH said AS ({said}) SELECT {columns} FROM {self.view.sql} AS view"
            f" JOIN ({item}) AS item USING (row_id) LEFT JOIN said USING (row_id)"
            f" WHERE {' AND '.join(where)}"
        )
        return sql, params

    def _labelled(self, labels: Sequence[str]) -> str:
        """Condition on the label; a question's labels are options, seen from the subject's."""
        target = self.subject.target
        if not target.startswith(QUESTION):
            words = [f"'{label}'" for label in labels if label != LABELS[3]]
            parts = [f"said.value IN ({', '.join(words)})"] if words else []
            if LABELS[3] in labels:
                parts.append("(said.value IS NULL OR said.value NOT IN ('yes', 'no', 'unsure'))")
            return f"({' OR '.join(parts)})"
        with self.desk.project.open(write=False) as connection:
            given = connection.execute(
                "SELECT DISTINCT value FROM label WHERE dataset = ? AND target = ?",
                [self.view.about["dataset"], target],
            ).fetchall()
        chosen = [
            "'" + word.replace("'", "''") + "'"
            for (word,) in given
            if label_for(self.subject, self.pack, word) in labels
        ]
        parts = [f"said.value IN ({', '.join(chosen)})"] if chosen else ["false"]
        if LABELS[3] in labels:
            parts.append("said.value IS NULL")
        return f"({' OR '.join(parts)})"


def slices(desk: Desk, dataset: str) -> dict[str, dict[str, int]]:
    """Column -> value -> rows, the most frequent values of each."""
    with desk.project.open(write=False) as connection:
        found = connection.execute(
            "WITH name AS (SELECT DISTINCT unnest(map_keys(slices)) AS name FROM item"
            " WHERE dataset = $dataset), part AS (SELECT name, coalesce(slices[name], $missing) AS"
            " value, count(*) AS rows FROM item, name WHERE dataset = $dataset GROUP BY name, value)"
            " SELECT name, value, rows FROM part QUALIFY row_number() OVER"
            " (PARTITION BY name ORDER BY rows DESC, value) <= $most ORDER BY name, rows DESC, value",
            {"dataset": dataset, "missing": MISSING, "most": MOST_VALUES},
        ).fetchall()
    parts: dict[str, dict[str, int]] = {}
    for name, value, rows in found:
        parts.setdefault(name, {})[value] = rows
    return parts
