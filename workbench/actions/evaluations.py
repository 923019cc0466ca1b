"""A pack measured on labelled rows and judged, or two of them compared, from scores that are kept.

Runs as a job; what came of it lies in `.workbench/reports/<key>/`, whose key is what went in, so that
pages find it again and see when it is out of date. Asks no model.
"""

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from spinf_serve.evals.baseline import evaluation_text, read_evaluation
from spinf_serve.evals.compare import Comparison, flips_by_slice, holm
from spinf_serve.evals.data.rows import digest_of
from spinf_serve.evals.gate import parse_rule
from spinf_serve.evals.judged import Evaluation
from spinf_serve.evals.judging import Data, Judgement, Side, Who, compared, judge, measure
from spinf_serve.evals.reports.html import html
from spinf_serve.evals.reports.junit import junit
from spinf_serve.evals.reports.markdown import markdown
from spinf_serve.evals.score_tables import identity_of
from spinf_serve.evals.volumes import volumes
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import read_regular
from spinf_serve.workbench.actions.pack_choices import file_of, pack_of
from spinf_serve.workbench.desk import Desk, as_json, key_of, read_object
from spinf_serve.workbench.job_kinds import Report
from spinf_serve.workbench.views import project_open

FILES: Final[Mapping[str, tuple[str, str]]] = {
    "html": ("report.html", "text/html"),
    "markdown": ("report.md", "text/markdown"),
    "junit": ("report.xml", "application/xml"),
    "json": ("evaluation.json", "application/json"),
}
"""Kind of report -> its file, and its media type."""

EVALUATION: Final = "evaluation:"
"""Begins the name of a side that was measured before."""

MOST_REPORTS: Final = 100
MOST_ROWS_TOLD: Final = 1_000
"""Fixed and broken rows of a target that are listed; their number is told in any case."""


@dataclass(frozen=True, slots=True)
class SideWish:
    """A pack and whose scores it is measured with.

    Attributes:
        pack: a choice's name, see `pack_choices`; or `evaluation:` and a baseline's file.
        bits: of the kept scores, whole; empty for an evaluation.
    """

    pack: str
    bits: str


@dataclass(frozen=True, slots=True)
class EvaluationWish:
    """What is to be judged.

    Attributes:
        split: None for all rows.
        rules: as `spinf-serve eval --rule` takes them.
        baseline: file below the project's folder that is held against; None without one.
        new_rows: whether the rows are others than the baseline's.
    """

    side: SideWish
    dataset: str
    split: str | None = None
    rules: tuple[str, ...] = ()
    baseline: str | None = None
    new_rows: bool = False


@dataclass(frozen=True, slots=True)
class ComparisonWish:
    """What is to be compared, before and now."""

    before: SideWish
    now: SideWish
    dataset: str
    split: str | None = None


Wish = EvaluationWish | ComparisonWish


def wish_of(told: Mapping[str, Any]) -> Wish:
    """A wish from a job's arguments, as `asdict` gave them."""
    given = dict(told)
    if "side" in given:
        side = SideWish(**given.pop("side"))
        return EvaluationWish(side, **given | {"rules": tuple(given.get("rules", ()))})
    return ComparisonWish(SideWish(**given.pop("before")), SideWish(**given.pop("now")), **given)


def key_for(desk: Desk, wish: Wish, digest: str) -> str:
    """Names what came of a wish on packs and rows as they are now.

    Args:
        digest: of the rows and labels, see `digest_of_rows`.
    """
    sides = (wish.side,) if isinstance(wish, EvaluationWish) else (wish.before, wish.now)
    bytes_of = [read_regular(_file(desk, side)) for side in sides]
    baseline = b""
    if isinstance(wish, EvaluationWish) and wish.baseline is not None:
        baseline = read_regular(desk.file_named(wish.baseline))
    return key_of(json.dumps(asdict(wish), sort_keys=True), *bytes_of, baseline, digest)


def digest_of_rows(desk: Desk, dataset: str, split: str | None) -> str:
    """Of rows and labels as they are now, 64 hex digits."""
    with project_open(desk) as connection:
        return digest_of(connection, dataset, split)


def folder_of(desk: Desk, key: str) -> Path:
    """Where the outcome of a wish lies, or will."""
    return desk.below("reports") / key


def outcome_of(desk: Desk, key: str) -> dict[str, Any] | None:
    """What came of a wish; None while nothing has."""
    return read_object(folder_of(desk, key) / "outcome.json")


def evaluate_job(desk: Desk, arguments: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Job: judge or compare, and keep the outcome with its reports.

    Returns its key. Raises `Unusable` and `InvalidPack` for what cannot be judged.
    """
    wish = wish_of(arguments)
    digest = digest_of_rows(desk, wish.dataset, wish.split)
    key = key_for(desk, wish, digest)
    data = Data(desk.project, wish.dataset, wish.split)
    if isinstance(wish, EvaluationWish):
        report.progress(0, 2, "measuring")
        side = _side(desk, wish.side, data, report.say)
        report.progress(1, 2, "judging")
        rules = [parse_rule(text) for text in wish.rules]
        baseline = None
        if wish.baseline is not None:
            baseline = Side(read_evaluation(desk.file_named(wish.baseline)))
        found = judge(side, rules, baseline, new_rows=wish.new_rows)
        sides: tuple[Side, ...] = (side,)
    else:
        report.progress(0, 3, "measuring the first")
        before = _side(desk, wish.before, data, report.say)
        report.progress(1, 3, "measuring the second")
        now = _side(desk, wish.now, data, report.say)
        report.progress(2, 3, "comparing")
        found = compared(before, now)
        sides = (before, now)
    _keep(desk, key, wish, found, sides)
    return {"key": key}


def _file(desk: Desk, wish: SideWish) -> Path:
    if wish.pack.startswith(EVALUATION):
        return desk.file_named(wish.pack.removeprefix(EVALUATION))
    return file_of(desk, wish.pack)


def _side(desk: Desk, wish: SideWish, data: Data, say: Callable[[str], None]) -> Side:
    if wish.pack.startswith(EVALUATION):
        return Side(read_evaluation(_file(desk, wish)))
    with desk.project.open(write=False) as connection:
        identity = identity_of(connection, wish.bits)
    who = Who(identity, (identity.served,), None)
    return measure(pack_of(desk, wish.pack), data, who, say)


def _keep(desk: Desk, key: str, wish: Wish, found: Judgement, sides: Sequence[Side]) -> None:
    """Write all files of an outcome beside its place, and put them there in one step."""
    folder = folder_of(desk, key)
    beside = folder.with_name(f".{key}.{os.getpid()}.part")
    evaluation, verdict, comparisons = found.evaluation, found.verdict, found.comparisons
    texts = {
        "html": html(evaluation, verdict, comparisons, per_day=desk.per_day),
        "markdown": markdown(evaluation, verdict, comparisons, per_day=desk.per_day),
        "junit": junit(evaluation, verdict),
        "json": evaluation_text(evaluation, verdict, comparisons),
    }
    told = {
        "wish": asdict(wish),
        "made": asdict(evaluation.made),
        "rows": evaluation.rows,
        "refused": [asdict(one) for one in evaluation.refused[:MOST_ROWS_TOLD]],
        "refused_count": len(evaluation.refused),
        "word": verdict.word,
        "sentence": verdict.sentence,
        "exit_code": verdict.exit_code,
        "outcomes": [
            asdict(one) | {"rows": list(one.rows[:MOST_ROWS_TOLD])} for one in verdict.outcomes
        ],
        "notes": list(evaluation.notes),
        "figures": _figures(evaluation),
        "comparisons": _comparisons(comparisons, sides),
    }
    shutil.rmtree(beside, ignore_errors=True)
    try:
        beside.mkdir(parents=True)
        for kind, text in texts.items():
            (beside / FILES[kind][0]).write_text(text)
        (beside / "outcome.json").write_bytes(as_json(told))
        shutil.rmtree(folder, ignore_errors=True)
        beside.rename(folder)
    except OSError as error:
        raise Unusable(f"the report cannot be written: {error.strerror}") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    kept = sorted(folder.parent.glob("[!.]*"), key=lambda path: path.stat().st_mtime)
    for old in kept[:-MOST_REPORTS]:
        shutil.rmtree(old, ignore_errors=True)


def _figures(evaluation: Evaluation) -> list[dict[str, Any]]:
    return [
        {
            "target": one.judged.target,
            "labelled": len(one.judged.labelled()),
            "threshold": one.judged.threshold,
            "confusion": None if one.confusion is None else dict(one.confusion),
            "volumes": volumes(one),
            "ece_noise": one.ece_noise,
            "metrics": {name: asdict(figure) for name, figure in one.metrics.items()},
            "slices": [
                {
                    "name": part.name,
                    "value": part.value,
                    "rows": part.rows,
                    "warning": part.warning,
                    "metrics": {name: asdict(figure) for name, figure in part.metrics.items()},
                }
                for part in one.slices
            ],
            "notes": list(one.notes),
        }
        for one in evaluation.targets
    ]


def _comparisons(comparisons: Sequence[Comparison], sides: Sequence[Side]) -> list[dict[str, Any]]:
    if len(sides) < 2:
        return [_told(one) | {"slices": []} for one in comparisons]
    before, now = (one.evaluation for one in sides)
    columns = {row.id: row.slices for row in (sides[1].rows or sides[0].rows)}
    adjusted = holm(
        {one.target: one.flips.p_differs for one in comparisons if one.flips is not None}
    )
    told = []
    for one in comparisons:
        old, new = before.target(one.target), now.target(one.target)
        slices: list[dict[str, Any]] = []
        if old is not None and new is not None and one.flips is not None and any(columns.values()):
            parts = flips_by_slice(old.judged, new.judged, columns)
            p_values = {
                f"{part.name}={part.value}": part.result.p_differs
                for part in parts
                if part.result is not None
            }
            corrected = holm(p_values)
            slices = [
                {
                    "name": part.name,
                    "value": part.value,
                    "rows": part.result.rows,
                    "right_before": part.result.right_before,
                    "right_now": part.result.right_now,
                    "fixes": len(part.result.fixes),
                    "breaks": len(part.result.breaks),
                    "p_holm": corrected[f"{part.name}={part.value}"],
                    "warning": part.warning,
                }
                for part in parts
                if part.result is not None
            ]
        told.append(_told(one) | {"p_holm": adjusted.get(one.target), "slices": slices})
    return told


def _told(one: Comparison) -> dict[str, Any]:
    flips = None
    if one.flips is not None:
        flips = asdict(one.flips)
        for name in ("fixes", "breaks"):
            flips[f"{name}_count"] = len(flips[name])
            flips[name] = list(flips[name][:MOST_ROWS_TOLD])
    return {
        "target": one.target,
        "both": len(one.pairing.both),
        "only_before": len(one.pairing.only_baseline),
        "only_now": len(one.pairing.only_candidate),
        "changed": len(one.pairing.changed),
        "relabelled": len(one.relabelled),
        "flips": flips,
        "brier": None if one.brier is None else asdict(one.brier),
    }
