"""A pack measured on labelled rows and judged, or two of them compared, from scores that are kept.

Runs as a job; what came of it lies in `.workbench/reports/<key>/`, whose key is what went in, so that
pages find it again and see when it is out of date. Asks no model.
"""

import json
import os
import shlex
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
from spinf_serve.packs.atomic import write_beside
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import read_regular
from spinf_serve.workbench.actions.pack_choices import file_of, pack_of
from spinf_serve.workbench.audit import note
from spinf_serve.workbench.desk import Desk, as_json, has_name, key_of
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

_RULES: Final = "rules"
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
    try:
        found: dict[str, Any] = json.loads((folder_of(desk, key) / "outcome.json").read_bytes())
    except (OSError, ValueError):
        return None
    return found


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


def command_for(desk: Desk, wish: EvaluationWish) -> str:
    """The command that judges the same on a command line, run in the project's folder.

    It asks the model for what is not kept, as CI does.
    """
    pack = wish.side.pack.removeprefix("official:")
    words = ["spinf-serve", "eval", pack, "--data", f"{desk.file.name}:{wish.dataset}"]
    if wish.split is not None:
        words += ["--split", wish.split]
    for rule in wish.rules:
        words += ["--rule", rule]
    if wish.baseline is not None:
        words += ["--against", wish.baseline]
    if wish.new_rows:
        words.append("--new-rows")
    words += ["--junit", "report.xml", "--markdown", "report.md", "--html", "report.html"]
    return shlex.join(words)


def rule_fault(text: str) -> str | None:
    """What is wrong with a limit as it is written; None for a sound one."""
    try:
        parse_rule(text)
    except Unusable as fault:
        return str(fault)
    return None


def rules_of(desk: Desk, pack: str) -> list[str]:
    """The limits that the project keeps for a pack's file."""
    kept = desk.settings().get(_RULES)
    found = kept.get(pack) if isinstance(kept, dict) else None
    return [str(one) for one in found] if isinstance(found, list) else []


def keep_rules(desk: Desk, user: str, pack: str, rules: Sequence[str], *, seen: list[str]) -> None:
    """Keep a pack's limits.

    Raises `Unusable`, and keeps the others: somebody changed them since they were `seen`.
    """

    def changed(settings: dict[str, Any]) -> dict[str, Any]:
        if rules_of(desk, pack) != seen:
            raise Unusable(
                "somebody else changed these limits meanwhile; nothing was overwritten. Look at them"
                " as they are now, and change them again"
            )
        kept = settings.get(_RULES)
        return {_RULES: {**(kept if isinstance(kept, dict) else {}), pack: list(rules)}}

    desk.change(changed)
    note(desk, user, "set limits", pack, before=seen, now=list(rules))


def workflow(desk: Desk, wish: EvaluationWish) -> str:
    """A GitHub workflow that runs `command_for` on every pull request of the project's folder."""
    return _WORKFLOW.format(command=command_for(desk, wish))


_WORKFLOW: Final = """\
# Holds the pack to its rules on every pull request. Ends with 0 pass, 1 regression, 2 error,
# 3 cannot judge, 4 stale fingerprint. The project's file is kept with Git LFS, or fetched here.
name: evals
on: [pull_request]
permissions:
  contents: read
jobs:
  pack:
    runs-on: ubuntu-latest
    timeout-minutes: 60
    steps:
      - uses: actions/checkout@v4
        with:
          lfs: true
      # From a checkout: the package of this name on the index is another one.
      - uses: actions/checkout@v4
        with:
          repository: OWNER/spinf-serve
          path: spinf-serve
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - name: Install
        run: |
          pip install -c spinf-serve/constraints.txt -e "./spinf-serve[cpu,evals]"
          spinf-serve models fetch embedded
      - name: Judge
        run: |
          {command}
      - name: Show the verdict
        if: always()
        run: |
          test ! -f report.md || cat report.md >> "$GITHUB_STEP_SUMMARY"
      - name: Keep the reports
        if: always()
        uses: actions/upload-artifact@v4
        with:
          name: evals
          path: |
            report.xml
            report.html
"""


def keep_baseline(desk: Desk, key: str, name: str) -> Path:
    """Copy an evaluation into the project as a baseline for later ones.

    Args:
        name: of the file in `baselines/`, without an ending.

    Raises `Unusable`: the evaluation is gone, or the file cannot be written.
    """
    source = folder_of(desk, key) / FILES["json"][0]
    safe = "".join(char if char.isalnum() or char in "-_." else "-" for char in name) or "baseline"
    file = desk.folder / "baselines" / f"{safe}.json"
    try:
        file.parent.mkdir(exist_ok=True)
        write_beside(file, source.read_bytes())
    except OSError as error:
        raise Unusable(f"{file.name} cannot be written: {error.strerror}") from None
    return file


def take_baseline(desk: Desk, name: str, data: bytes) -> Path:
    """Put an evaluation that came from elsewhere among the project's baselines.

    Args:
        name: of its file.
        data: what `spinf-serve eval --json` wrote.

    Raises `Unusable`: it is none, or the file cannot be written; nothing is replaced.
    """
    safe = "".join(char if char.isalnum() or char in "-_." else "-" for char in Path(name).stem)
    file = desk.folder / "baselines" / f"{safe or 'evaluation'}.json"
    if file.exists():
        raise Unusable(f"{desk.name_of(file)} is there already; give the file another name")
    try:
        file.parent.mkdir(exist_ok=True)
        write_beside(file, data)
        try:
            read_evaluation(file)
        except Unusable:
            file.unlink()
            raise
    except OSError as error:
        raise Unusable(f"{file.name} cannot be written: {error.strerror}") from None
    return file


def baselines(desk: Desk) -> list[str]:
    """Names of the baselines that lie in the project."""
    return [
        desk.name_of(file)
        for file in sorted((desk.folder / "baselines").glob("*.json"))
        if has_name(file)
    ]


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
        "html": html(evaluation, verdict, comparisons),
        "markdown": markdown(evaluation, verdict, comparisons),
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
