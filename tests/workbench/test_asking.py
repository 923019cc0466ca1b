"""Runs on rows, in real processes, against a server: what they cost, keep, and go on from."""

import os
import signal
import time

import pytest

from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench.actions.asking import (
    cost_of,
    plan_of,
    rate_of,
    remembered,
    spent,
    start_measure,
    start_run,
)
from spinf_serve.workbench.actions.pack_choices import pack_of
from spinf_serve.workbench.answering import WHO, Who
from spinf_serve.workbench.desk import Desk, open_desk
from spinf_serve.workbench.jobs import Job, job, jobs, resume, stop, wait
from tests.workbench.serving import kill, recorded_server, result_of

PACK = "packs/triage/pack.yaml"
SECONDS = 90


@pytest.fixture
def desk(folder):
    """The example; its jobs end with the test."""
    found = open_desk(folder)
    yield found
    for one in jobs(found):
        if one.is_live and one.pid is not None:
            os.kill(one.pid, signal.SIGKILL)
            wait(found, one.id, SECONDS)


def edit(desk: Desk) -> None:
    """Another wording of one question, which nobody was asked yet."""
    file = desk.folder / PACK
    text = file.read_text()
    assert " asks for" in text
    file.write_text(text.replace(" asks for", " begs for", 1))


def until(desk: Desk, id: str, done: int) -> Job:
    end = time.monotonic() + SECONDS
    while (found := job(desk, id)).done < done:
        assert found.is_live, found.log()
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


@pytest.mark.slow
def test_only_what_is_missing_is_asked_and_the_cost_is_told(desk):
    edit(desk)
    pack = pack_of(desk, PACK)
    with recorded_server() as (who, engine):
        assert remembered(desk, who) is None and rate_of(desk, who, pack) is None
        measured = wait(desk, start_measure(desk, "ann", who, PACK, "messages", None).id, SECONDS)
        assert measured.state == "done", measured.log()
        rate = rate_of(desk, who, pack)
        assert rate is not None and rate.is_same and rate.tokens > 0
        known = remembered(desk, who)
        assert known is not None and known.bits == engine.fingerprint.bits
        plan = plan_of(desk, who, pack, "messages", None)
        assert plan.rows == plan.contents == 600
        assert 0 < plan.answers == 600 * (plan.prompts - plan.kept // 600)
        prompts = sum(len(one.prompts) for one in pack.questions)
        share = plan.answers / (plan.contents * plan.prompts)
        cost = cost_of(plan.contents, share, prompts, rate, 3.6)
        assert cost.money == pytest.approx(cost.seconds / 1000)
        assert cost.seconds == pytest.approx(cost.tokens / rate.tokens)
        run = start_run(desk, "ann", who, PACK, "messages", None)
        assert start_run(desk, "ben", who, PACK, "messages", None).id == run.id
        ended = wait(desk, run.id, SECONDS)
        assert ended.state == "done", ended.log()
        result = result_of(ended)
        assert result["asked"] == plan.answers
        assert result["bits"] == engine.fingerprint.bits
        assert spent(ended.folder).counted.rows == 600
        assert spent(ended.folder).seconds > 0
        assert not (ended.folder / WHO).exists()
        assert plan_of(desk, who, pack, "messages", None).answers == 0


@pytest.mark.slow
def test_a_run_is_stopped_killed_and_resumed_and_asks_nothing_twice(desk):
    edit(desk)
    pack = pack_of(desk, PACK)
    with recorded_server() as (who, engine):
        engine.step_seconds = 0.1
        run = start_run(desk, "ann", who, PACK, "messages", None)
        until(desk, run.id, 3)
        stop(desk, "ann", run.id)
        assert wait(desk, run.id, SECONDS).state == "stopped"
        left = plan_of(desk, who, pack, "messages", None).contents
        assert 0 < left < 600
        resume(desk, "ann", run.id)
        # Its file may be edited meanwhile: the run asks what it was started with.
        (desk.folder / PACK).write_text("no pack")
        live = until(desk, run.id, 2)
        kill(live)
        assert wait(desk, run.id, SECONDS).state == "broken"
        engine.step_seconds = 0.0
        resume(desk, "ann", run.id)
        ended = wait(desk, run.id, SECONDS)
        assert ended.state == "done", ended.log()
        assert result_of(ended)["asked"] <= left
        assert plan_of(desk, who, pack, "messages", None).answers == 0
        # Answers of the killed process that were not kept yet are the only ones asked again.
        assert spent(ended.folder).counted.rows <= 600


def test_nobody_there_is_one_line(desk):
    edit(desk)
    who = Who("http://127.0.0.1:9", None)
    failed = wait(desk, start_run(desk, "ann", who, PACK, "messages", None).id, SECONDS)
    assert failed.state == "failed"
    assert "cannot be reached" in failed.words
    assert "Traceback" not in failed.log()
    with pytest.raises(Unusable, match="no official pack"):
        start_run(desk, "ann", who, "official:spinf/none", "messages", None)
