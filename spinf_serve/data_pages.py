"""How reports on data read on a terminal."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spinf_serve.evals.data.overview import Alike, Standing
    from spinf_serve.evals.data.report import Balance, Contradiction, ImportReport
    from spinf_serve.evals.data.splits import Part

_SHOWN = 10


def import_page(report: "ImportReport") -> list[str]:
    """An import's report, a fact a line."""
    return list(_import_lines(report))


def standing_page(dataset: str, standing: "Standing") -> list[str]:
    """How a dataset stands, a fact a line."""
    return list(_standing_lines(dataset, standing))


def parts_page(parts: "list[Part] | tuple[Part, ...]") -> list[str]:
    """The parts of a dataset, one a line."""
    return [
        f"  {part.name or '(no split)'}: {part.rows:,} rows in {part.groups:,} groups"
        + "".join(f", {target} holds in {count:,}" for target, count in part.held.items())
        for part in parts
    ]


def _import_lines(report: "ImportReport") -> Iterator[str]:
    yield (
        f"{report.source} ({report.encoding}) -> {report.dataset}: {report.rows_taken:,} of"
        f" {report.rows_read:,} rows taken, {report.refused_count:,} refused"
    )
    for note in report.notes:
        yield f"  {note}"
    for refusal in report.refused[:_SHOWN]:
        named = f" ({refusal.row_id})" if refusal.row_id else ""
        yield f"refused: line {refusal.line:,}{named}: {refusal.reason}"
    if report.refused_count > _SHOWN:
        yield f"refused: and {report.refused_count - _SHOWN:,} more"
    for target, counts in report.unknown.items():
        said = ", ".join(
            f"{value!r} in {count:,}" for value, count in list(counts.items())[:_SHOWN]
        )
        more = f" and {len(counts) - _SHOWN:,} more" if len(counts) > _SHOWN else ""
        yield f"unknown labels of {target}: {said}{more}"
    for column, count in report.missing.items():
        yield f"blank: column {column!r} in {count:,} rows"
    doubles = report.doubles
    if doubles.groups:
        yield (
            f"doubles: {doubles.exact:,} rows repeat a text, {doubles.near:,} nearly; "
            f"{doubles.groups:,} groups, {doubles.parted:,} of them parted by the group column"
        )
    for ids in doubles.examples[:_SHOWN]:
        yield f"  together: {', '.join(ids)}"
    yield from _contradiction_lines(report.contradictions, report.contradiction_count)
    yield from _balance_lines(report.balance)
    for warning in report.warnings:
        yield f"warning: {warning}"


def _standing_lines(dataset: str, standing: "Standing") -> Iterator[str]:
    yield f"{dataset}: {sum(part.rows for part in standing.parts):,} rows"
    yield from parts_page(standing.parts)
    for drawn, count in standing.drawn.items():
        yield f"drawn {drawn}: {count:,} labels"
    if standing.visible:
        yield f"score visible: {standing.visible:,} labels"
    for target, count in standing.chosen.items():
        yield (
            f"not counted in promises on {target}: {count:,} rows, chosen for their label otherwise"
            " than they were drawn"
        )
    for alike in standing.agreements:
        yield (
            f"agreement on {alike.target}, {' and '.join(alike.annotators)}: {alike.same:,} of"
            f" {alike.rows:,} rows{_kappa(alike)}"
        )
    yield from _contradiction_lines(standing.contradictions, standing.contradiction_count)
    for one in standing.disagreements[:_SHOWN]:
        said = ", ".join(f"{who}: {value}" for who, value in one.said)
        yield f"to adjudicate: {one.row_id}, {one.target}: {said}"
    if len(standing.disagreements) > _SHOWN:
        yield f"to adjudicate: and {len(standing.disagreements) - _SHOWN:,} more"
    yield from _balance_lines(standing.balance)
    if standing.apart:
        yield f"warning: {standing.apart:,} groups lie in more than one split; split anew"
    for warning in standing.warnings:
        yield f"warning: {warning}"


def _kappa(alike: "Alike") -> str:
    if alike.kappa is None:
        return ""
    between = ""
    if alike.interval is not None:
        between = f" ({alike.interval[0]:.2f} to {alike.interval[1]:.2f})"
    return f", kappa {alike.kappa:.2f}{between}"


def _contradiction_lines(found: "tuple[Contradiction, ...]", count: int) -> Iterator[str]:
    for one in found[:_SHOWN]:
        said = ", ".join(f"{row_id}: {value}" for row_id, value in one.said[:_SHOWN])
        yield f"conflict: one text, different {one.target}: {said}"
    if count > _SHOWN:
        yield f"conflict: and {count - _SHOWN:,} more"


def _balance_lines(balance: "Mapping[str, Balance]") -> Iterator[str]:
    for target, labels in balance.items():
        said = ", ".join(f"{value} {count:,}" for value, count in list(labels.values.items())[:20])
        yield f"labels of {target}: {said or 'none'}; missing {labels.missing:,}"
