"""The marks that recorded figures are held to: one place for tests, documents and checks of load.

A figure that misses its mark fails tests/test_marks.py unless it stands in `MISSED`; docs/figures.md
shows every figure beside its mark, and says which are missed.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from statistics import median
from typing import Any, Literal

Value = Callable[[Any], float | None]


@dataclass(frozen=True, slots=True)
class Mark:
    """What one figure of a file has to be.

    Attributes:
        what: the figure, with its unit.
        value: reads it from what the file holds; None where it was not measured yet.
        bound: how it is held to `limit`.
        form: how it is shown.
        timed: whether other work on the machine moves it, so that a check tells of a miss and does not
            fail.
    """

    what: str
    value: Value
    bound: Literal["at most", "under", "at least"]
    limit: float
    form: str = ",.4g"
    timed: bool = False

    def reached(self, found: Any) -> bool:
        """Whether it is."""
        value = self.value(found)
        if value is None:
            return False
        if self.bound == "at least":
            return value >= self.limit
        return value < self.limit if self.bound == "under" else value <= self.limit

    @property
    def wanted(self) -> str:
        """The bound in words."""
        return f"{self.bound} {self.limit:,g}"

    def shown(self, found: Any) -> str:
        """The figure in words."""
        value = self.value(found)
        return "not measured" if value is None else format(value, self.form)


def _job(name: str, read: Value, path: str = "in-process") -> Value:
    """A figure of one job of a card's file."""
    return lambda rows: read(next(r for r in rows if (r["job"], r["path"]) == (name, path)))


def _share(kind: str) -> Value:
    return _job("24x56", lambda row: 100 * row["device_share"][kind])


def _spread(*jobs: str) -> Value:
    """How far the slowest of some jobs of a card's file is below the fastest, in percent."""

    def read(rows: Any) -> float:
        rates = [row["work_tokens_per_s"] for row in rows if row["job"] in jobs]
        assert len(rates) == len(jobs)
        return float(100 * (1 - min(rates) / max(rates)))

    return read


def _sides(found: Any) -> list[Any]:
    """What this commit did with a queue that is asked four times over, a value a kind of connection."""
    return [one for one in found["after"].values() if isinstance(one, dict)]


def _slowest(name: str) -> Value:
    return lambda found: max(max(one[name]) for one in _sides(found))


def _other(name: str, *expected: str) -> Value:
    """How many answers have another status."""
    return lambda found: sum(
        count
        for one in _sides(found)
        for status, count in one[name].items()
        if status not in expected
    )


def _accepted(found: Any) -> float:
    """Fewest answers 200 a wave, of those that the queue takes."""
    rates = (
        one["statuses"].get("200", 0) / len(one["refused_slowest_ms"]) for one in _sides(found)
    )
    return float(min(rates) / found["queue"])


def _suite(side: str) -> Value:
    def read(found: Any) -> float:
        one = found[side]
        failed = sum(one[level]["failed"] for level in ("MUST", "SHOULD"))
        return float(failed + len(one["untested_musts"]) + (not one["conformant"]))

    return read


MARKS: dict[str, tuple[Mark, ...]] = {
    "cpu-*.json": (
        Mark(
            "times as fast as transformers, one by one",
            lambda f: f["against"]["ratios"]["one by one"],
            "at least",
            14,
        ),
        Mark(
            "times as fast as transformers, cached prefix",
            lambda f: f["against"]["ratios"]["cached prefix"],
            "at least",
            1.2,
        ),
        Mark("slowest host time, ms", lambda f: 1e3 * max(f["host_seconds"]), "at most", 100),
        Mark("loading, s", lambda f: f["load_seconds"], "under", 2),
        Mark(
            "tokens of the trees away from 30,672, %",
            lambda f: 100 * abs(f["tree_tokens"] / 30_672 - 1),
            "at most",
            2,
            ".2f",
        ),
    ),
    "cpu-float32.json": (
        Mark("peak resident memory, MiB", lambda f: f["peak_rss_mib"], "at most", 1228.8),
    ),
    "cpu-bfloat16.json": (
        Mark("peak resident memory, MiB", lambda f: f["peak_rss_mib"], "at most", 900),
    ),
    "packs-load.json": (
        Mark("official packs", lambda f: f["packs"], "at least", 7),
        Mark("heavy modules imported", lambda f: len(f["heavy_modules"]), "at most", 0),
        Mark("from the cache, ms", lambda f: 1e3 * median(f["warm_seconds"]), "at most", 300),
        Mark("nothing cached, ms", lambda f: 1e3 * median(f["cold_seconds"]), "at most", 1500),
    ),
    "http-cost.json": tuple(
        Mark(
            f"server's processor time a request without the stub, ms, {case}",
            lambda f, case=case: f["milliseconds"][case].get("server without the stub"),  # type: ignore[misc]
            "at most",
            48,
            ".1f",
        )
        for case in ("shared questions", "questions of each content")
    ),
    "mixed-load.json": (
        Mark(
            "answers other than 200",
            lambda f: sum(n for status, n in f["http"]["statuses"].items() if status != "200"),
            "at most",
            0,
        ),
        Mark(
            "p99 of small requests, times their p50",
            lambda f: f["http"]["small"]["p99_of_p50"],
            "under",
            3,
            ".2f",
            timed=True,
        ),
        Mark(
            "p50 of small requests, passes",
            lambda f: f["http"]["small"]["p50_seconds"] / f["http"]["pass_seconds"],
            "at most",
            3,
            ".2f",
            timed=True,
        ),
        Mark(
            "tokens/s, of those in process",
            lambda f: f["of_in_process"],
            "at least",
            0.9,
            ".2f",
            timed=True,
        ),
    ),
    "overload.json": (
        Mark(
            "slowest refusal, ms", _slowest("refused_slowest_ms"), "at most", 100, ".0f", timed=True
        ),
        Mark(
            "slowest answer of /livez, ms",
            _slowest("health_slowest_ms"),
            "under",
            100,
            ".0f",
            timed=True,
        ),
        Mark("answers other than 200 and 429", _other("statuses", "200", "429"), "at most", 0),
        Mark("answers of /livez other than 200", _other("statuses_of_health", "200"), "at most", 0),
        Mark("answers 200, of what the queue takes", _accepted, "at least", 1, ".2f"),
    ),
    "extraction*.json": (
        Mark(
            "a searched text, tokens scored meanwhile",
            lambda f: f["searched"],
            "at most",
            300,
            ",.0f",
        ),
        Mark(
            "a searched number, tokens scored meanwhile",
            lambda f: f["number"],
            "at most",
            300,
            ",.0f",
        ),
        Mark(
            "a written text, tokens scored meanwhile",
            lambda f: f["generated"],
            "at most",
            1500,
            ",.0f",
        ),
        Mark(
            "100 questions with ten slots, times those without",
            lambda f: f["slowdown"],
            "under",
            2,
            ".2f",
        ),
    ),
    "jevcompat.json": tuple(
        Mark(f"requirements failed or untested, {side}", _suite(side), "at most", 0)
        for side in ("open", "with a key")
    ),
    "workbench.json": (
        Mark("first paint, s", lambda f: f["rows"]["first_paint_seconds"]["median"], "under", 3),
        Mark(
            "slowest page's median with 100,000 rows, s",
            lambda f: max(one["median"] for one in f["rows"]["page_change_seconds"].values()),
            "under",
            1,
        ),
        Mark(
            "memory, MiB",
            lambda f: max(f[side]["memory_mib"] for side in ("rows", "many")),
            "under",
            500,
        ),
    ),
    "gpu-h200-http.json": (
        Mark(
            "24x56 over HTTP, of the same in process",
            _job("24x56", lambda r: r["extra"]["of_in_process"], "http"),
            "at least",
            0.9,
            ".2f",
        ),
    ),
    "gpu-h200-static.json": (
        Mark(
            "24x56, questions/s",
            _job("24x56", lambda r: r["questions_per_s_wall"]),
            "at least",
            2000,
            ",.0f",
        ),
        Mark(
            "moderation, contents/h",
            _job("moderation", lambda r: r["contents_per_hour"]),
            "at least",
            80_000,
            ",.0f",
        ),
        Mark(
            "news, questions/s",
            _job("news", lambda r: r["questions_per_s_wall"]),
            "at least",
            2800,
            ",.0f",
        ),
        Mark(
            "24x56, of the linears-only ceiling, %",
            _job("24x56", lambda r: 100 * r["linears_share"]),
            "at least",
            80,
            ".1f",
        ),
        Mark("24x56, attention, % of device time", _share("attention"), "at most", 8, ".1f"),
        Mark("24x56, element-wise, % of device time", _share("element-wise"), "at most", 7, ".1f"),
        Mark("24x56, head, % of device time", _share("head"), "at most", 2, ".1f"),
        Mark(
            "24x56, device idle, % of the wall",
            _job("24x56", lambda r: 100 * r["wall_idle_share"]),
            "at most",
            3,
            ".1f",
        ),
        Mark("24x56, peak GiB", _job("24x56", lambda r: r["peak_memory_gib"]), "under", 22, ".1f"),
        Mark(
            "tokens/s with 7 to 448 questions, % below the best",
            _spread("growth-7-questions", "growth-56-questions", "growth-448-questions"),
            "at most",
            15,
            ".1f",
        ),
        Mark(
            "tokens/s with 128 to 4,096 tokens, % below the best",
            _spread("growth-128-tokens", "growth-512-tokens", "growth-4096-tokens"),
            "at most",
            15,
            ".1f",
        ),
    ),
    "load-h200.json": (
        Mark("12B ready, s", lambda f: f["load_seconds"], "under", 30, ".1f"),
        Mark(
            "host memory, times the largest file",
            lambda f: f["host_peak_bytes"] / f["largest_shard_bytes"],
            "under",
            1.3,
            ".2f",
        ),
    ),
}

MISSED: dict[str, frozenset[str]] = {
    "gpu-h200-static.json": frozenset(
        ("24x56, of the linears-only ceiling, %", "24x56, attention, % of device time")
    ),
    "extraction-h200.json": frozenset(
        (
            "a searched text, tokens scored meanwhile",
            "a searched number, tokens scored meanwhile",
        )
    ),
}
"""File -> figures that are known to miss their marks."""


def marks_of(name: str) -> list[Mark]:
    """The marks of a file."""
    return [mark for pattern, marks in MARKS.items() if fnmatch(name, pattern) for mark in marks]


def missed(name: str, found: Any) -> list[Mark]:
    """The marks that what a file holds does not reach."""
    return [mark for mark in marks_of(name) if not mark.reached(found)]


def section(folder: Path) -> str:
    """The section of docs/figures.md: every figure of a folder's files that has a mark."""
    text = """## Marks

Each figure that was to be reached, beside its mark. A test fails when one is missed that is not known
to be. Where marks are missed: [beside the results](../evals/bench/results/gpu-h200.md).

| file | figure | mark | measured | |
|---|---|---|---|---|
"""
    for file in sorted(folder.glob("*.json")):
        marks = marks_of(file.name)
        found = json.loads(file.read_text()) if marks else None
        for mark in marks:
            known = mark.value(found) is not None
            verdict = "reached" if mark.reached(found) else "**missed**" if known else "**open**"
            text += f"| `{file.name}` | {mark.what} | {mark.wanted} | {mark.shown(found)} | {verdict} |\n"
    return text


TIMED_ONLY = 2
"""Exit code of a check that missed nothing but times."""


def checked(name: str, measure: Callable[[], Any]) -> int:
    """The exit code of a check: measures once more where a mark is missed, and says what is.

    Other work on the machine moves such figures, so that a miss counts when it comes again; 1 where
    answers were wrong or missing, `TIMED_ONLY` where they came too late and no more.
    """
    misses: list[Mark] = []
    for again in ("measured once more", ""):
        found = measure()
        misses = missed(name, found)
        for mark in marks_of(name):
            print(f"  {mark.what}: {mark.shown(found)} ({mark.wanted})", flush=True)
        if not misses:
            print(f"{name}: every mark is reached", flush=True)
            return 0
        for mark in misses:
            line = f"{mark.what}: {mark.shown(found)}, not {mark.wanted}"
            print(f"{again}: {line}" if again else f"missed twice: {line}", flush=True)
    return TIMED_ONLY if all(mark.timed for mark in misses) else 1
