"""Asking a model about rows: who answers, what that costs before and after, and the jobs that do it.

What was learned of whoever answers, and how fast, lies in the project: a page never asks anybody.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final

from spinf_serve.evals.asking import items
from spinf_serve.evals.estimate import PER, Counted, estimate
from spinf_serve.evals.pace import Progress
from spinf_serve.evals.planning import Plan, plan
from spinf_serve.evals.project import Project
from spinf_serve.evals.runner import RunReport, run
from spinf_serve.evals.score_tables import Identity
from spinf_serve.evals.scorer import Scorer, Work, cautions, counted
from spinf_serve.packs.atomic import locked, write_beside
from spinf_serve.packs.errors import Refused, Unusable
from spinf_serve.packs.files import read_regular
from spinf_serve.packs.pack import Pack
from spinf_serve.workbench import jobs
from spinf_serve.workbench.actions.pack_choices import file_of, pack_of, read_choice
from spinf_serve.workbench.answering import Who, kept_who, scorer
from spinf_serve.workbench.desk import LOCK_SECONDS, Desk
from spinf_serve.workbench.job_kinds import Report
from spinf_serve.workbench.jobs import Job

MOST_RUNS: Final = 50
"""Runs that are looked through for one."""

ANSWERERS: Final = "answerers.json"
RATES: Final = "rates.json"
SPENT: Final = "spent.json"
PACK: Final = "pack"
"""Name, without its ending, of the pack's copy in a job's folder: the file may be edited meanwhile."""

MOST_RATES: Final = 200
MEASURED_ROWS: Final = 64
LEAST_ROWS: Final = 8
LEAST_SECONDS: Final = 2.0
"""A rate of fewer rows in less time is not noted."""

MEASURED_SECONDS: Final = 8.0
_NOTHING: Final = Counted(0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Rate:
    """How fast somebody answered.

    Attributes:
        pack: id and version of the pack that was asked.
        is_same: whether it is the pack in question, question by question.
        counted: what was read in `seconds`.
        at: ISO time, UTC.
    """

    pack: str
    is_same: bool
    counted: Counted
    seconds: float
    at: str

    @property
    def tokens(self) -> float:
        """A second."""
        return self.counted.tree_tokens / self.seconds


@dataclass(frozen=True, slots=True)
class Cost:
    """What a run takes, about.

    Attributes:
        tokens, seconds: in all.
        money: in the currency of the price; None without one.
        times: how many times as many tokens one call per question would read.
    """

    tokens: float
    seconds: float
    money: float | None
    times: float


@dataclass(frozen=True, slots=True)
class Spent:
    """What a job took, over all its starts."""

    seconds: float
    counted: Counted

    def money(self, hour_price: float | None) -> float | None:
        """At a price per hour of the machine."""
        return None if hour_price is None else self.seconds / 3600 * hour_price


def remembered(desk: Desk, who: Who) -> Identity | None:
    """Who that was when it was asked last; None when it never was."""
    told = _read(desk.private / ANSWERERS).get(str(who))
    return None if told is None else Identity(**told)


def servers_of(desk: Desk, bits: str) -> list[str]:
    """Addresses of the servers behind which a model answered, sorted."""
    told = _read(desk.private / ANSWERERS).items()
    return sorted(name for name, one in told if one.get("bits") == bits and "://" in name)


def remember(desk: Desk, who: Who, answering: Scorer) -> None:
    """Note who answers."""
    path = desk.private / ANSWERERS
    told = {str(who): asdict(answering.identity)}
    with locked(path, LOCK_SECONDS):
        write_beside(path, json.dumps(_read(path) | told).encode())


def rate_of(desk: Desk, who: Who, pack: Pack) -> Rate | None:
    """The newest rate of somebody on a pack, else on any; None when none was measured."""
    found = [one for one in _read(desk.private / RATES).get("rates", []) if one["who"] == str(who)]
    same = [one for one in found if one["digest"] == pack.digest]
    if not found:
        return None
    newest = (same or found)[-1]
    counts = Counted(**newest["counted"])
    return Rate(newest["pack"], bool(same), counts, newest["seconds"], newest["at"])


def note_rate(desk: Desk, who: Who, pack: Pack, counts: Counted, seconds: float) -> None:
    """Note how fast somebody was; what is too short to say anything is left out."""
    is_short = counts.rows < LEAST_ROWS and seconds < LEAST_SECONDS
    if is_short or counts.tree_tokens < 1 or seconds <= 0:
        return
    told = {
        "who": str(who),
        "pack": f"{pack.id} {pack.version}",
        "digest": pack.digest,
        "counted": asdict(counts),
        "seconds": seconds,
        "at": _now(),
    }
    path = desk.private / RATES
    with locked(path, LOCK_SECONDS):
        rates = [*_read(path).get("rates", []), told][-MOST_RATES:]
        write_beside(path, json.dumps({"rates": rates}).encode())


def plan_of(
    desk: Desk,
    who: Who,
    pack: Pack,
    dataset: str,
    split: str | None,
    otherwise: Identity | None = None,
) -> Plan:
    """What a run would ask, see `spinf_serve.evals.planning`.

    Args:
        otherwise: whose kept answers count while it is not known who that is.
    """
    return plan(desk.project, dataset, pack, remembered(desk, who) or otherwise, split=split)


def cost_of(rows: float, share: float, prompts: int, rate: Rate, hour_price: float | None) -> Cost:
    """What asking takes at a rate that was measured.

    Args:
        rows: contents to ask about.
        share: of the pack's filled templates that are asked of them on average, 0 to 1.
        prompts: filled templates of the pack.
    """
    told = estimate(rate.counted, rate.tokens, hour_price or 0.0)
    times = rows / PER * share
    if not rate.is_same:
        times *= prompts / (rate.counted.calls / rate.counted.rows)
    money = None if hour_price is None else told.tree.money * times
    return Cost(told.tree.tokens * times, told.tree.seconds * times, money, told.times)


def start_run(desk: Desk, user: str, who: Who, name: str, dataset: str, split: str | None) -> Job:
    """Start asking a pack of a dataset's rows. Raises as `spinf_serve.workbench.jobs.start`.

    Args:
        name: of the pack, see `pack_choices`.
    """
    return _start(desk, user, who, name, "run", {"dataset": dataset, "split": split})


def last_run(desk: Desk, who: Who, pack: Pack, dataset: str) -> Job | None:
    """The newest run in which somebody was asked a pack about a dataset's rows; None without."""
    wanted = {"dataset": dataset, "pack_digest": pack.digest, "who": str(who)}
    runs = jobs.jobs(desk, "run", most=MOST_RUNS)
    return next((one for one in runs if wanted.items() <= one.arguments.items()), None)


def start_measure(
    desk: Desk, user: str, who: Who, name: str, dataset: str, split: str | None
) -> Job:
    """Start measuring how fast a pack is answered, on a few rows spread over a dataset."""
    return _start(desk, user, who, name, "measure", {"dataset": dataset, "split": split})


def _start(desk: Desk, user: str, who: Who, name: str, kind: str, about: dict[str, Any]) -> Job:
    pack = pack_of(desk, name)
    folder = jobs.new_folder(desk)
    copy_pack(desk, name, folder)
    of = about["dataset"] if about["split"] is None else f"{about['dataset']}, {about['split']}"
    arguments = {
        **about,
        "pack": name,
        "asks": f"{pack.id} {pack.version}",
        "pack_digest": pack.digest,
        "who": str(who),
    }
    subject = json.dumps([kind, about["dataset"], pack.digest, str(who)])
    title = f"{pack.id} {pack.version} on {of}"
    return jobs.start(desk, user, kind, title, arguments, who=who, subject=subject, folder=folder)


def copy_pack(desk: Desk, name: str, folder: Path) -> None:
    """Lay a pack's file into a job's folder as it is now."""
    file = file_of(desk, name)
    try:
        write_beside(folder / f"{PACK}{file.suffix}", read_regular(file))
    except OSError as error:
        raise Unusable(f"{name} cannot be read: {error.strerror}") from None


def copied_pack(folder: Path) -> Pack:
    """The pack of a job. Raises `Unusable` when it is gone."""
    for file in folder.glob(f"{PACK}.*"):
        return read_choice(file.read_bytes(), file.name)
    raise Unusable("the job's copy of the pack is gone: start it anew")


def run_job(desk: Desk, arguments: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Ask what is missing of a pack about a dataset, and keep it."""
    pack = copied_pack(report.folder)
    project = Project(desk.file, say=report.say)

    def watch(at: Progress) -> None:
        report.progress(
            at.done,
            at.of,
            "asking",
            rate=at.rate,
            seconds_left=at.seconds_left,
            reused=at.reused,
            refused=at.refused,
        )
        report.check()

    with answering(desk, pack, report) as answers:
        found: RunReport = run(
            project,
            arguments["dataset"],
            pack,
            answers,
            report.say,
            split=arguments["split"],
            watch=watch,
        )
        report.say(str(found))
        return {**asdict(found), **_told(answers)}


def measure_job(desk: Desk, arguments: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Measure how fast a pack is answered; the answers are not kept."""
    pack = copied_pack(report.folder)
    contents = some_contents(desk, pack, arguments["dataset"], arguments["split"], MEASURED_ROWS)
    with answering(desk, pack, report) as answers:
        measured(answers, pack, contents, report)
        return _told(answers)


def measured(answers: Scorer, pack: Pack, contents: Sequence[str], report: Report) -> None:
    """Ask about contents for some seconds."""
    if not contents:
        raise Unusable("none of these rows can be asked about, so nothing can be measured")
    begun = time.monotonic()
    size = 1
    rest = iter(contents)
    done = 0
    while batch := list(islice(rest, size)):
        outcomes = answers.run([Work(content, pack.questions) for content in batch])
        if all(isinstance(one, Refused) for one in outcomes) and not done:
            report.say(str(outcomes[0]))
        done += len(batch)
        report.progress(done, len(contents), "measuring")
        report.check()
        if time.monotonic() - begun > MEASURED_SECONDS:
            break
        size = min(2 * size, 16)
    if not counted(answers).rows:
        raise Unusable("the model answered none of these rows, so nothing can be measured")


@contextmanager
def answering(desk: Desk, pack: Pack, report: Report) -> Iterator[Scorer]:
    """Whoever answers a job, opened; what it took is noted however the block ends."""
    who = kept_who(report.folder)
    report.progress(0, 0, f"opening {who}")
    found = scorer(who, waiting(report))
    report.check()
    for line in cautions(found.identity):
        report.say(line)
    remember(desk, who, found)
    begun = time.monotonic()
    try:
        yield found
    finally:
        seconds = time.monotonic() - begun
        counts = counted(found)
        before = spent(report.folder)
        both = Spent(before.seconds + seconds, before.counted + counts)
        told = {"seconds": both.seconds, "counted": asdict(both.counted)}
        write_beside(report.folder / SPENT, json.dumps(told).encode())
        note_rate(desk, who, pack, counts, seconds)


def waiting(report: Report) -> Callable[[float], None]:
    """A wait for a server without room, which ends when the job is to stop."""

    def wait(seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            report.check()
            time.sleep(min(0.2, left))

    return wait


def spent(folder: Path) -> Spent:
    """What a job took so far."""
    told = _read(folder / SPENT)
    if not told:
        return Spent(0.0, _NOTHING)
    return Spent(told["seconds"], Counted(**told["counted"]))


def some_contents(desk: Desk, pack: Pack, dataset: str, split: str | None, most: int) -> list[str]:
    """Contents of at most so many rows, spread over a dataset."""
    found: list[str] = []
    with desk.project.open(write=False) as connection:
        numbers = connection.execute(
            "SELECT number FROM (SELECT number, row_number() OVER (ORDER BY number) AS place,"
            " count(*) OVER () AS rows FROM item WHERE dataset = $1 AND ($2::VARCHAR IS NULL OR"
            " split = $2)) WHERE place % greatest(1, rows // $3) = 0 ORDER BY number LIMIT $3",
            [dataset, split, most],
        ).fetchall()
        for (number,) in numbers:
            for item in items(connection, dataset, pack, split=split, after=number - 1, count=1):
                if isinstance(item.content, str):
                    found.append(item.content)
    return found


def _told(answers: Scorer) -> dict[str, Any]:
    identity = answers.identity
    return {"served": identity.served, "bits": identity.bits, "rounded": identity.rounded}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
