import json
import shlex
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from spinf_serve.evals.baseline import read_evaluation
from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench import jobs
from spinf_serve.workbench.actions.baselines import baselines, keep_baseline, take_baseline
from spinf_serve.workbench.actions.ci import command_for, rule_fault, workflow
from spinf_serve.workbench.actions.evaluations import (
    FILES,
    ComparisonWish,
    EvaluationWish,
    SideWish,
    digest_of_rows,
    evaluate_job,
    folder_of,
    key_for,
    outcome_of,
    wish_of,
)
from spinf_serve.workbench.desk import Desk, open_desk
from tests.support.recorded_engine import recording

PACK = "packs/triage/pack.yaml"


class Said:
    """A report that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.folder = Path()

    def progress(self, done: int, of: int, words: str = "", **more: object) -> None:
        self.lines.append(f"{done}/{of} {words}")

    def say(self, line: str) -> None:
        self.lines.append(line)

    def stopped(self) -> bool:
        return False

    def check(self) -> None:
        pass


@pytest.fixture
def desk(folder) -> Desk:
    return open_desk(folder)


@pytest.fixture(scope="module")
def bits() -> str:
    return recording().header.bits


def evaluated(desk, wish) -> dict[str, Any]:
    key = evaluate_job(desk, asdict(wish), Said())["key"]
    found = outcome_of(desk, key)
    assert found is not None
    return found | {"key": key}


def test_a_wish_survives_its_way_through_a_job(bits):
    one = EvaluationWish(SideWish(PACK, bits), "messages", "test", ("accuracy >= 0.5",), None, True)
    two = ComparisonWish(SideWish("a", bits), SideWish("b", ""), "messages")
    for wish in (one, two):
        assert wish_of(json.loads(json.dumps(asdict(wish)))) == wish


def test_a_pack_is_judged_by_its_limits(desk, bits):
    side = SideWish(PACK, bits)
    kept = evaluated(desk, EvaluationWish(side, "messages", None, ("case.accuracy >= 0.7",)))
    assert (kept["word"], kept["exit_code"]) == ("pass", 0)
    broken = evaluated(desk, EvaluationWish(side, "messages", None, ("case.accuracy >= 0.99",)))
    assert (broken["word"], broken["exit_code"]) == ("regression", 1)
    assert broken["key"] != kept["key"]
    targets = [one["target"] for one in kept["figures"]]
    assert "case" in targets and "decision" in targets
    case = kept["figures"][targets.index("case")]
    assert sum(case["confusion"].values()) == case["labelled"]


def test_every_report_lies_beside_the_outcome(desk, bits):
    found = evaluated(desk, EvaluationWish(SideWish(PACK, bits), "messages"))
    folder = folder_of(desk, found["key"])
    for name, _ in FILES.values():
        assert (folder / name).stat().st_size > 500
    assert "example/triage" in (folder / "report.md").read_text()
    assert read_evaluation(folder / "evaluation.json").rows == 600


def test_the_key_changes_with_the_pack_the_rows_and_nothing_else(desk, bits):
    wish = EvaluationWish(SideWish(PACK, bits), "messages")
    digest = digest_of_rows(desk, "messages", None)
    key = key_for(desk, wish, digest)
    assert key_for(desk, wish, digest) == key
    assert key_for(desk, wish, "0" * 64) != key
    file = desk.folder / PACK
    file.write_bytes(file.read_bytes() + b"# a remark\n")
    assert key_for(desk, wish, digest) != key


def test_the_command_says_what_the_page_says(desk, bits):
    desk.set(per_day=12_345_678)
    wish = EvaluationWish(SideWish(PACK, bits), "messages", None, ("case.accuracy >= 0.99",))
    words = shlex.split(command_for(desk, wish))
    assert words[:3] == ["spinf-serve", "eval", PACK]
    page = evaluated(desk, wish)
    ran = subprocess.run(
        [sys.executable, "-m", "spinf_serve", *words[1:], "--bits", bits[:12]],
        check=False,
        cwd=desk.folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == page["exit_code"] == 1
    assert page["sentence"] in ran.stdout
    assert (desk.folder / "report.xml").is_file()
    assert "--per-day 12345678" in command_for(desk, wish)
    assert " a day" in (desk.folder / "report.md").read_text()
    assert command_for(desk, wish) in workflow(desk, wish)


def test_a_limit_s_fault_is_told():
    assert rule_fault("case.precision >= 0.9 surely") is None
    assert "precison" in str(rule_fault("case.precison >= 0.9"))


def test_packs_are_compared_row_by_row_and_slice_by_slice(desk, bits):
    wish = ComparisonWish(SideWish("official:spinf/triage", bits), SideWish(PACK, bits), "messages")
    found = evaluated(desk, wish)
    by_target = {one["target"]: one for one in found["comparisons"]}
    account = by_target["account"]
    assert account["flips"]["fixes_count"] == len(account["flips"]["fixes"]) > 0
    assert sum(one["rows"] for one in account["slices"]) == account["flips"]["rows"]
    assert sum(one["fixes"] for one in account["slices"]) == account["flips"]["fixes_count"]
    assert account["p_holm"] >= account["flips"]["p_differs"]


def test_a_stored_run_is_a_side(desk, bits):
    first = evaluated(desk, EvaluationWish(SideWish(PACK, bits), "messages"))
    file = keep_baseline(desk, first["key"], "example-triage")
    assert baselines(desk) == ["baselines/example-triage.json"]
    stored = SideWish(f"evaluation:{desk.name_of(file)}", "")
    found = evaluated(desk, ComparisonWish(stored, SideWish(PACK, bits), "messages"))
    assert found["word"] == "pass"
    assert all(
        one["flips"]["fixes_count"] == one["flips"]["breaks_count"] == 0
        for one in found["comparisons"]
        if one["flips"] is not None
    )
    held = evaluated(
        desk, EvaluationWish(SideWish(PACK, bits), "messages", baseline=desk.name_of(file))
    )
    assert held["word"] == "pass" and held["outcomes"]


def test_what_is_no_evaluation_is_not_taken(desk):
    with pytest.raises(Unusable):
        take_baseline(desk, "mine.json", b'{"format": 99}')
    assert baselines(desk) == []


def test_an_evaluation_that_is_there_is_not_replaced(desk, bits):
    found = evaluated(desk, EvaluationWish(SideWish(PACK, bits), "messages"))
    data = (folder_of(desk, found["key"]) / "evaluation.json").read_bytes()
    assert take_baseline(desk, "mine.json", data).read_bytes() == data
    with pytest.raises(Unusable, match="there already"):
        take_baseline(desk, "mine.json", data)


def test_it_runs_as_a_job(desk, bits):
    wish = EvaluationWish(SideWish(PACK, bits), "messages")
    job = jobs.start(desk, "me", "evaluate", "Measuring", asdict(wish))
    done = jobs.wait(desk, job.id, 120)
    assert done.state == "done", done.log()
    result = done.result()
    assert result is not None and outcome_of(desk, result["key"]) is not None


def test_a_pack_without_numbers_for_the_model_is_told(desk, bits):
    file = desk.folder / PACK
    text = file.read_text()
    file.write_text(text[: text.index("fitted:")])
    with pytest.raises(Unusable, match="draft"):
        evaluate_job(desk, asdict(EvaluationWish(SideWish(PACK, bits), "messages")), Said())
