"""Jobs in real processes: they outlive whoever started them, stop, go on, and are found when killed."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spinf_serve.evals.project import create
from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench import jobs as jobs_module
from spinf_serve.workbench.answering import WHO, Who, kept_who
from spinf_serve.workbench.audit import events
from spinf_serve.workbench.desk import Desk
from spinf_serve.workbench.jobs import Job, job, jobs, new_folder, remove, resume, start, stop, wait
from tests.support import job_process

ROOT = Path(__file__).parents[2]
SECONDS = 60


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A project without rows; jobs are those of tests."""
    monkeypatch.setattr(jobs_module, "_COMMAND", job_process.COMMAND)
    create(tmp_path / "project.duckdb")
    found = Desk(tmp_path, tmp_path / "project.duckdb")
    yield found
    for one in jobs(found):
        if one.is_live and one.pid is not None:
            os.kill(one.pid, signal.SIGKILL)
            wait(found, one.id, SECONDS)


def counting(desk: Desk, of: int, **more: object) -> Job:
    """A job that counts."""
    return start(desk, "ann", "count", "Count", {"of": of, **more}, subject="the count")


def at_least(desk: Desk, id: str, done: int) -> Job:
    """The job once it got so far."""
    until = time.monotonic() + SECONDS
    while (found := job(desk, id)).done < done:
        assert found.is_live, found.log()
        assert time.monotonic() < until, found
        time.sleep(0.02)
    return found


def test_a_job_tells_how_far_it_is_and_what_came_of_it(desk: Desk) -> None:
    begun = counting(desk, 150)
    assert begun.state in ("waiting", "running")
    under_way = at_least(desk, begun.id, 1)
    assert under_way.of == 150
    assert under_way.words == "counting"
    assert under_way.more == {"refused": under_way.done // 2}
    ended = wait(desk, begun.id, SECONDS)
    assert ended.state == "done", ended.log()
    assert ended.result() == {"from": 0, "to": 150}
    assert ended.log().endswith("counted\n")
    assert ended.ended is not None
    assert [one.id for one in jobs(desk)] == [begun.id]
    assert [(one.action, one.user) for one in events(desk)] == [("start count", "ann")]


def test_a_job_outlives_the_process_that_started_it(desk: Desk) -> None:
    script = (
        "import sys; from pathlib import Path; from spinf_serve.workbench import jobs;"
        "from spinf_serve.workbench.desk import Desk; from tests.support import job_process;"
        "jobs._COMMAND = job_process.COMMAND; folder = Path(sys.argv[1]);"
        "desk = Desk(folder, folder / 'project.duckdb');"
        "print(jobs.start(desk, 'ann', 'count', 'Count', {'of': 300}).id, flush=True);"
        "sys.stdin.read()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(desk.folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        assert parent.stdout is not None
        id = parent.stdout.readline().strip()
        at_least(desk, id, 1)
        parent.kill()
    assert job(desk, id).is_live
    ended = wait(desk, id, SECONDS)
    assert (ended.state, ended.result()) == ("done", {"from": 0, "to": 300})


def test_a_stopped_job_goes_on_where_it_was(desk: Desk) -> None:
    begun = counting(desk, 2_000)
    at_least(desk, begun.id, 5)
    stop(desk, "ben", begun.id)
    stopped = wait(desk, begun.id, SECONDS)
    assert stopped.state == "stopped"
    got_to = int((stopped.folder / "count").read_text())
    assert 5 <= got_to < 2_000
    assert stopped.result() is None
    # The rest goes quickly.
    told = json.loads((stopped.folder / "job.json").read_text())
    told["arguments"]["seconds"] = 0
    (stopped.folder / "job.json").write_text(json.dumps(told))
    assert resume(desk, "ann", begun.id).is_live
    ended = wait(desk, begun.id, SECONDS)
    assert ended.state == "done", ended.log()
    assert ended.result() == {"from": got_to, "to": 2_000}
    assert [one.action for one in events(desk)] == ["resume count", "stop count", "start count"]
    with pytest.raises(Unusable, match="is done"):
        resume(desk, "ann", begun.id)


def test_a_killed_job_is_broken_and_goes_on(desk: Desk) -> None:
    begun = counting(desk, 400)
    pid = at_least(desk, begun.id, 5).pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    broken = wait(desk, begun.id, SECONDS)
    assert broken.state == "broken"
    assert "resumed" in broken.words
    resume(desk, "ann", begun.id)
    ended = wait(desk, begun.id, SECONDS)
    result = ended.result()
    assert ended.state == "done" and result is not None
    assert result["from"] >= 5 and result["to"] == 400


def test_one_job_of_a_subject_runs_at_a_time(desk: Desk) -> None:
    with ThreadPoolExecutor(8) as pool:
        begun = list(pool.map(lambda _: counting(desk, 10_000), range(8)))
    assert len({one.id for one in begun}) == 1
    assert len(jobs(desk)) == 1
    with pytest.raises(Unusable, match="this runs already"):
        counting(desk, 77)
    other = start(desk, "ann", "count", "Another", {"of": 1}, subject="something else")
    assert wait(desk, other.id, SECONDS).state == "done"
    stop(desk, "ann", begun[0].id)
    wait(desk, begun[0].id, SECONDS)
    newer = counting(desk, 10_000)
    with pytest.raises(Unusable, match="another run"):
        resume(desk, "ann", begun[0].id)
    stop(desk, "ann", newer.id)
    assert wait(desk, newer.id, SECONDS).state == "stopped"


def test_a_step_that_hears_nothing_is_interrupted(desk: Desk) -> None:
    begun = start(desk, "ann", "deaf", "Deaf", {})
    until = time.monotonic() + SECONDS
    while job(desk, begun.id).words != "deep in thought":
        assert time.monotonic() < until
        time.sleep(0.02)
    stop(desk, "ann", begun.id)
    assert wait(desk, begun.id, 30).state == "stopped"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"wrong_at": 3}, "the count went wrong"), ({"fault_at": 3}, "ZeroDivisionError")],
)
def test_what_goes_wrong_is_told_and_can_be_tried_again(
    desk: Desk, arguments: dict[str, int], words: str
) -> None:
    begun = counting(desk, 10, **arguments)
    failed = wait(desk, begun.id, SECONDS)
    assert failed.state == "failed"
    assert words in failed.words
    assert words in failed.log()
    resume(desk, "ann", begun.id)
    assert wait(desk, begun.id, SECONDS).state == "done"


def test_a_token_is_read_by_its_owner_only_and_gone_at_the_end(desk: Desk) -> None:
    secret = "top-secret-token"
    who = Who("http://127.0.0.1:9", secret)
    begun = start(desk, "ann", "count", "Count", {"of": 10_000}, who=who)
    live = at_least(desk, begun.id, 1)
    assert stat.S_IMODE((begun.folder / WHO).stat().st_mode) == 0o600
    assert kept_who(begun.folder).token == secret
    others = [path for path in begun.folder.iterdir() if path.name != WHO]
    assert not [path for path in others if secret in path.read_text()]
    command = subprocess.run(
        ["ps", "-ww", "-o", "command=", "-p", str(live.pid)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert begun.id in command.stdout and secret not in command.stdout
    stop(desk, "ann", begun.id)
    wait(desk, begun.id, SECONDS)
    done = start(desk, "ann", "count", "Count", {"of": 1}, who=who)
    assert wait(desk, done.id, SECONDS).state == "done"
    assert not (done.folder / WHO).exists()


def test_a_job_that_ended_can_be_taken_away(desk: Desk) -> None:
    folder = new_folder(desk)
    (folder / "input.csv").write_text("text\n")
    begun = start(desk, "ann", "count", "Count", {"of": 10_000}, folder=folder)
    assert begun.id == folder.name
    with pytest.raises(Unusable, match="stop it first"):
        remove(desk, "ann", begun.id)
    stop(desk, "ann", begun.id)
    wait(desk, begun.id, SECONDS)
    remove(desk, "ann", begun.id)
    assert jobs(desk) == [] and not folder.exists()
    for name in (begun.id, "..", "", ".start.lock", "a/b"):
        with pytest.raises(Unusable, match="there is no job"):
            job(desk, name)
