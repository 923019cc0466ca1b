"""Which rows the page Scores lists: filtered, searched and sorted in DuckDB, read a page at a time."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import duckdb

from spinf_serve.evals.judged import DECISION
from spinf_serve.evals.metrics.slices import MISSING
from spinf_serve.packs.pack import Constants, Pack
from spinf_serve.workbench.actions.scores import LABELS, Base, Subject
from spinf_serve.workbench.desk import Desk
from spinf_serve.workbench.views import View, connected, project_open, quoted

_YES, _NO = LABELS.index("yes"), LABELS.index("no")

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

    labels: tuple[str, ...] = ()
    verdict: str | None = None
    slice: tuple[str, str] | None = None
    ranges: tuple[tuple[str, float, float], ...] = ()
    search: str = ""
    refused: bool = False
    by: str | None = None
    falling: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """The rows that a filter lets through; only pages of them are ever read.

    Attributes:
        base: what the project says of the view's rows; it holds the split, too.
        subject: whose value is shown.
    """

    desk: Desk
    view: View
    pack: Pack
    constants: Constants | None
    base: Base
    subject: Subject
    filter: Filter

    def count(self) -> int:
        """How many."""
        if self.filter == Filter(by=self.filter.by, falling=self.filter.falling):
            return int(self.base.inside.sum())
        with self._connected() as connection:
            sql, params = self._sql("count(*)")
            return int(connection.execute(sql, params).fetchall()[0][0])

    def page(self, first: int, most: int) -> list[dict[str, Any]]:
        """Some of them: row_id, text, label, value, residual, refused, flagged, unsafe."""
        shown = {
            "row_id": "view.row_id",
            "refused": "view.refused",
            "label": "base.label",
            "value": self.subject.sql,
            "residual": "NULL" if self.subject.residual is None else quoted(self.subject.residual),
            "flagged": self._flag() or "NULL",
            "unsafe": "view.unsafe" if self.view.fitted else "NULL",
        }
        columns = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in shown.items())
        order = "view.number"
        if self.filter.by is not None:
            down = "DESC" if self.filter.falling else "ASC"
            order = f"{self.filter.by} {down} NULLS LAST, view.number"
        with self._connected() as connection:
            sql, params = self._sql(columns)
            found = connection.execute(
                f"{sql} ORDER BY {order} LIMIT {most} OFFSET {first}", params
            ).fetchall()
        rows = [dict(zip(shown, row, strict=True)) for row in found]
        # Texts are read for the page alone.
        with project_open(self.desk) as connection:
            texts = dict(
                connection.execute(
                    "SELECT row_id, coalesce(media, text) FROM item WHERE dataset = ?"
                    " AND row_id IN (SELECT unnest(?::VARCHAR[]))",
                    [self.view.about["dataset"], [row["row_id"] for row in rows]],
                ).fetchall()
            )
        for row in rows:
            row["label"] = LABELS[row["label"]]
            row["text"] = texts.get(row["row_id"], "")
        return rows

    @contextmanager
    def _connected(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection that knows `base`; with the project's rows only where they are looked at."""
        given = {
            "number": self.base.number,
            "inside": self.base.inside,
            "label": self.base.labels(self.subject, self.pack),
        }
        with ExitStack() as stack:
            if self._needs_items:
                connection = stack.enter_context(project_open(self.desk))
            else:
                connection = stack.enter_context(connected())
            connection.register("base", given)
            try:
                yield connection
            finally:
                connection.unregister("base")

    @property
    def _needs_items(self) -> bool:
        return bool(self.filter.search.strip()) or self.filter.slice is not None

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
        one = self.filter
        params: dict[str, Any] = {}
        where = ["base.inside"]
        source = f"{self.view.sql} AS view JOIN base ON base.number = view.number"
        if self._needs_items:
            source += (
                " JOIN (SELECT row_id, text, slices FROM item WHERE dataset = $dataset) AS item"
                " ON item.row_id = view.row_id"
            )
            params["dataset"] = self.view.about["dataset"]
        if one.slice is not None:
            where.append(f"coalesce(item.slices[$slice], '{MISSING}') = $part")
            params["slice"], params["part"] = one.slice
        if one.search.strip():
            where.append("(contains(lower(item.text), $search) OR item.row_id = $exact)")
            params["search"], params["exact"] = one.search.strip().lower(), one.search.strip()
        if one.refused:
            where.append("view.refused IS NOT NULL")
        if one.labels:
            codes = ", ".join(str(LABELS.index(label)) for label in one.labels)
            where.append(f"base.label IN ({codes})")
        flag = self._flag()
        if one.verdict is not None and flag is not None:
            where.append(
                {
                    "false alarm": f"({flag} AND base.label = {_NO})",
                    "miss": f"(NOT {flag} AND base.label = {_YES})",
                    "right": f"({flag} = (base.label = {_YES}) AND base.label IN ({_YES}, {_NO}))",
                }[one.verdict]
            )
        if one.ranges:
            parts = []
            for number, (sql, low, high) in enumerate(one.ranges):
                parts.append(f"({sql} BETWEEN $low{number} AND $high{number})")
                params |= {f"low{number}": low, f"high{number}": high}
            where.append(f"({' OR '.join(parts)})")
        return f"SELECT {columns} FROM {source} WHERE {' AND '.join(where)}", params


def wrong_side(subject: Subject) -> str:
    """SQL of how far a row's value is on the wrong side of the cut; below -1 without a label."""
    away = f"({subject.sql} - {subject.cut!r})"
    return f"CASE base.label WHEN {_NO} THEN {away} WHEN {_YES} THEN -{away} ELSE -2 END"


def slices(desk: Desk, dataset: str) -> dict[str, dict[str, int]]:
    """Column -> value -> rows, the most frequent values of each."""
    with project_open(desk) as connection:
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
