"""Bringing a file's rows in: what its columns mean, a trial that writes nothing, and the import.

Knows no screen. Reading and refusing are `spinf_serve.evals.data.importing`'s.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

from spinf_serve.evals.data.columns import Columns, Origin
from spinf_serve.evals.data.decision_log import LogRows, LogWanted, meaning
from spinf_serve.evals.data.importing import import_rows
from spinf_serve.evals.data.labels import DRAWN, Drawn
from spinf_serve.evals.data.readers import Source
from spinf_serve.evals.data.report import Balance, Contradiction, Doubles, ImportReport, Refusal
from spinf_serve.evals.judged import QUESTION
from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench.actions.uploads import (
    Upload,
    drop,
    keep_preview,
    kept_plan,
    kept_preview,
    upload,
)
from spinf_serve.workbench.audit import note
from spinf_serve.workbench.desk import Desk, key_of
from spinf_serve.workbench.job_kinds import Report

ROWS_AT_ONCE: Final = 15_000
"""Rows that are read while a page waits; more are a job's work."""

HOW_DRAWN: Final[Mapping[Drawn, tuple[str, str]]] = {
    "random": (
        "At random",
        (
            "Chance alone chose them, out of all the traffic that the pack is for. A promise may"
            " rest on their labels."
        ),
    ),
    "queue": (
        "Because of a score, a rule or a complaint",
        "They are not like the traffic. They are good to learn from; no promise counts them.",
    ),
    "import": (
        "I do not know",
        "No promise counts them, unless a column of weights says how likely each was to be drawn.",
    ),
}
"""How rows were chosen -> its title, and what that means for promises."""

LOG_ROWS: Final[Mapping[LogRows, tuple[Drawn, str]]] = {
    "sample": ("random", "The random sample, with weights: a promise may rest on its labels"),
    "queue": ("queue", "What was found unsafe or is to be reviewed: no promise counts it"),
    "all": ("import", "Whatever there is: no promise counts it"),
}
"""Which entries of a decision log -> how they were drawn, and what that means."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done with a file: see `evals.data.columns.Columns` for the columns.

    Attributes:
        dataset: where to; `append` adds to one that is there.
        drawn: how the rows were chosen.
        annotator: who gave the labels.
        log_rows, log_pack: which entries of a decision log.
    """

    dataset: str = ""
    append: bool = False
    text: str | None = None
    id: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    lists: str | None = None
    separator: str = "|"
    targets: tuple[str, ...] = ()
    blank_is_none: bool = False
    slices: tuple[str, ...] = ()
    group: str | None = None
    context: str | None = None
    weight: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    media: str | None = None
    drawn: Drawn = "import"
    annotator: str = "import"
    score_visible: bool = False
    encoding: str | None = None
    delimiter: str | None = None
    sheet: str | None = None
    log_rows: LogRows = "sample"
    log_pack: str | None = None

    def as_json(self) -> dict[str, Any]:
        """As it is kept."""
        return asdict(self)


def plan_of(told: Mapping[str, Any]) -> Plan:
    """A plan as it was kept; what is not known is left out."""
    known = {one.name for one in fields(Plan)}
    given = {name: value for name, value in told.items() if name in known}
    for name in ("classes", "targets", "slices"):
        if name in given:
            given[name] = tuple(given[name])
    return Plan(**given)


def source_of(file: Upload, plan: Plan) -> Source:
    """What is read of a file."""
    if file.is_log:
        return Source(file.path, log=LogWanted(plan.log_rows, plan.log_pack or None))
    return Source(file.path, None, plan.encoding, plan.delimiter, plan.sheet)


def columns_of(file: Upload, plan: Plan) -> Columns:
    """What the columns mean; those of a decision log are known."""
    own: dict[str, Any] = {
        "text": plan.text,
        "id": plan.id,
        "context": plan.context,
        "weight": plan.weight,
        "parameters": dict(plan.parameters),
    }
    if file.is_log:
        own = meaning(file.path, LogWanted(plan.log_rows, plan.log_pack or None))
    questions = {target for target in plan.labels if target.startswith(QUESTION)}
    return Columns(
        **own,
        labels=dict(plan.labels),
        # A question's label is one of its options, which only the pack knows.
        classes=frozenset(plan.classes) | questions,
        lists=plan.lists,
        separator=plan.separator,
        targets=frozenset(plan.targets),
        blank_is_none=plan.blank_is_none,
        slices=plan.slices,
        group=plan.group,
        media=plan.media,
    )


def origin_of(file: Upload, plan: Plan) -> Origin:
    """How the labels came about. Raises `Unusable` when nobody is named."""
    if not plan.annotator.strip():
        raise Unusable("nobody is named who gave the labels; write a name")
    drawn = LOG_ROWS[plan.log_rows][0] if file.is_log else plan.drawn
    if drawn not in DRAWN:
        raise Unusable(f"{drawn!r} is none of {', '.join(DRAWN)}")
    return Origin(plan.annotator.strip(), drawn, plan.score_visible)


def is_large(file: Upload) -> bool:
    """Whether reading a file takes longer than a page may wait."""
    return about_rows(file) > ROWS_AT_ONCE


def about_rows(file: Upload) -> int:
    """About how many rows a file has; 0 where that is not easily told."""
    size, _ = file.state
    ending = file.path.suffix.lower()
    if ending in (".csv", ".tsv", ".txt", ".jsonl", ".ndjson"):
        lines = 0
        with file.path.open("rb") as data:
            while part := data.read(1 << 20):
                lines += part.count(b"\n")
        return lines
    if ending == ".parquet":
        return _parquet_rows(file)
    # A workbook is compressed, and a log has much beside its texts.
    return size // (20 if ending == ".xlsx" else 500)


def _parquet_rows(file: Upload) -> int:
    import duckdb

    with duckdb.connect() as connection:
        try:
            found = connection.execute(
                "SELECT sum(num_rows) FROM parquet_file_metadata(?)", [str(file.path)]
            ).fetchone()
        except duckdb.Error:
            return 0
    return 0 if found is None or found[0] is None else int(found[0])


def preview(
    desk: Desk, file: Upload, plan: Plan, done: Callable[[int], None] | None = None
) -> ImportReport:
    """What an import would find; nothing is written. It is kept until the plan or the file change.

    Raises `Unusable` as `import_rows` does.
    """
    key = _key(file, plan)
    found = _import(desk, file, plan, dry_run=True, done=done)
    keep_preview(desk, file.id, key, asdict(found))
    return found


def previewed(desk: Desk, file: Upload, plan: Plan) -> ImportReport | None:
    """What a trial of just this found; None when there was none."""
    told = kept_preview(desk, file.id, _key(file, plan))
    return None if told is None else report_of(told)


def take(
    desk: Desk, user: str, file: Upload, plan: Plan, done: Callable[[int], None] | None = None
) -> ImportReport:
    """Import a file; what was kept of it is then taken away. Raises `Unusable` as `import_rows`."""
    found = _import(desk, file, plan, dry_run=False, done=done)
    note(
        desk,
        user,
        "append rows" if plan.append else "import rows",
        plan.dataset,
        source=file.name,
        rows=found.rows_taken,
        refused=found.refused_count,
        drawn=origin_of(file, plan).drawn,
        digest=found.digest,
    )
    drop(desk, file.id)
    return found


def import_job(desk: Desk, arguments: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """The job `import`: reads a large file, as a trial or for good.

    Args of the job: `upload`, its id; `plan`; `dry_run`; `user`.
    """
    file = upload(desk, arguments["upload"])
    plan = plan_of(arguments["plan"])
    of = about_rows(file)
    words = "looking through rows" if arguments["dry_run"] else "importing rows"
    report.progress(0, of, words)

    def done(count: int) -> None:
        report.check()
        at_end = of and count >= of
        report.progress(min(count, of) if of else count, of, "sorting it out" if at_end else words)

    if arguments["dry_run"]:
        return asdict(preview(desk, file, plan, done))
    return asdict(take(desk, arguments["user"], file, plan, done))


def job_arguments(file: Upload, plan: Plan, user: str, *, dry_run: bool) -> dict[str, Any]:
    """Arguments of the job `import`."""
    return {"upload": file.id, "plan": plan.as_json(), "dry_run": dry_run, "user": user}


def plan_for(desk: Desk, file: Upload) -> Plan | None:
    """What was last said of a file's columns; None for nothing yet."""
    told = kept_plan(desk, file.id)
    return None if told is None else plan_of(told)


def report_of(told: Mapping[str, Any]) -> ImportReport:
    """A report as it was kept."""
    given = dict(told)
    given["refused"] = tuple(Refusal(**one) for one in told["refused"])
    doubles = dict(told["doubles"])
    doubles["examples"] = tuple(tuple(ids) for ids in doubles["examples"])
    given["doubles"] = Doubles(**doubles)
    given["contradictions"] = tuple(
        Contradiction(one["target"], tuple((id, value) for id, value in one["said"]))
        for one in told["contradictions"]
    )
    given["balance"] = {name: Balance(**one) for name, one in told["balance"].items()}
    given["notes"], given["warnings"] = tuple(told["notes"]), tuple(told["warnings"])
    return ImportReport(**given)


def _import(
    desk: Desk,
    file: Upload,
    plan: Plan,
    *,
    dry_run: bool,
    done: Callable[[int], None] | None,
) -> ImportReport:
    if not plan.dataset.strip():
        raise Unusable("the rows have no name yet; write one, such as `mails`")
    return import_rows(
        desk.project,
        plan.dataset.strip(),
        source_of(file, plan),
        columns_of(file, plan),
        origin_of(file, plan),
        append=plan.append,
        dry_run=dry_run,
        done=done,
    )


def _key(file: Upload, plan: Plan) -> str:
    told = plan.as_json()
    return key_of(*file.state, *(f"{name}={told[name]}" for name in sorted(told)))
