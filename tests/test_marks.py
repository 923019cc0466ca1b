"""Not timings: what was measured and stands in evals/bench/results/ reaches what was set out for."""

import json
from fnmatch import fnmatch
from typing import Any

import pytest

from tests.support.documents import RESULTS
from tests.support.marks import MARKS, MISSED, TIMED_ONLY, Mark, checked, marks_of, missed

FILES = [file for file in sorted(RESULTS.glob("*.json")) if marks_of(file.name)]
NOTE = (RESULTS / "gpu-h200.md").read_text("utf-8")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_recorded_figures_reach_their_marks(file):
    found = json.loads(file.read_text())
    misses = {mark.what for mark in missed(file.name, found)}
    assert misses == MISSED.get(file.name, set()), "missed, and what MISSED says is missed"


def test_every_mark_is_of_a_file_that_is_there():
    names = {file.name for file in FILES}
    assert set(MISSED) <= names
    for pattern in MARKS:
        assert any(fnmatch(name, pattern) for name in names), pattern


@pytest.mark.parametrize("name", [name for name in MISSED if "h200" in name])
def test_the_note_beside_the_results_says_what_is_missed(name):
    found = json.loads((RESULTS / name).read_text())
    told = [line for line in NOTE.splitlines() if line.startswith("| ") and "missed" in line]
    for mark in missed(name, found):
        assert any(mark.shown(found) in line for line in told), mark.what


def test_a_bound_holds_what_it_says():
    def reached(bound: Any, value: float | None) -> bool:
        return Mark("x", lambda found: found, bound, 3).reached(value)

    assert reached("at most", 3) and not reached("at most", 3.1)
    assert reached("under", 2.9) and not reached("under", 3)
    assert reached("at least", 3) and not reached("at least", 2.9)
    assert not reached("at least", None)


def load(p99_of_p50: float, **statuses: int) -> dict[str, Any]:
    small = {"p50_seconds": 6.0, "p99_of_p50": p99_of_p50}
    http = {"statuses": {"200": 5} | statuses, "small": small, "pass_seconds": 3.0}
    return {"http": http, "of_in_process": 1.0}


def test_a_check_that_misses_is_made_once_more(capsys):
    made = iter([load(3.5), load(1.5)])
    assert checked("mixed-load.json", lambda: next(made)) == 0
    told = capsys.readouterr().out
    assert "measured once more: p99 of small requests, times their p50: 3.50, not under 3" in told
    assert "missed twice" not in told


def test_a_check_that_misses_again_fails_with_a_line(capsys):
    made = iter([load(3.5), load(1.5, ReadError=2), load(1.0)])
    assert checked("mixed-load.json", lambda: next(made)) == 1
    assert "missed twice: answers other than 200: 2, not at most 0" in capsys.readouterr().out
    assert len(list(made)) == 1


def test_a_check_that_misses_times_alone_says_so_by_its_code(capsys):
    assert checked("mixed-load.json", lambda: load(3.5)) == TIMED_ONLY
    assert "missed twice: p99 of small requests" in capsys.readouterr().out


def test_accepted_requests_are_as_many_as_the_queue_takes():
    side = {
        "statuses": {"200": 130, "429": 390},
        "statuses_of_health": {"200": 9},
        "refused_slowest_ms": [70.0, 99.0],
        "health_slowest_ms": [70.0, 80.0],
    }
    found = {"queue": 64, "after": {"commit": "abc", "new connections": side}}
    assert missed("overload.json", found) == []
    found["after"] = {"new": side | {"statuses": {"200": 120, "429": 390, "503": 10}}}
    assert [mark.what for mark in missed("overload.json", found)] == [
        "answers other than 200 and 429",
        "answers 200, of what the queue takes",
    ]
