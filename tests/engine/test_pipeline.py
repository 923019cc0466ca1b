"""Passes in flight: the same answers as one by one, each once, whatever fails or is cancelled."""

import random
import re
import time
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinf_serve.engine.api import Engine, Job, OutOfDeviceMemory
from spinf_serve.engine.bench.checks import answer_bits
from spinf_serve.engine.work import Result, Work
from spinf_serve.packs.errors import Fault, Refused
from tests.engine.test_api import ask, engine_of, fake

AHEAD = pytest.mark.parametrize("ahead", [0, 1, 2])
SOME = (ask("a", "\nx:", "\ny:", floor=True), ask("b", "\nz:", floor=False))


def content(n: int) -> str:
    return f"{n} " * (5 + n % 7 * 3)


def submitted(engine: Engine, works: list[Work]) -> list[Job]:
    jobs = [engine.compile(work) for work in works]
    for job in jobs:
        engine.submit(job)
    return jobs


def outcomes(engine: Engine) -> dict[Job, Any]:
    """What all works that are pending come to; each must be told once."""
    found = []
    for _ in range(1000):
        if not engine.pending:
            break
        found += engine.step()
    assert not engine.pending
    assert len(dict(found)) == len(found)
    return dict(found)


def in_flight_over_time(calls: list[tuple[str, int]], failed_starts=()) -> list[int]:
    """Passes in flight behind each call; they must be finished in the order of their start."""
    flights: list[int] = []
    counts = []
    for call, number in calls:
        if call == "finish":
            assert flights.pop(0) == number
        elif number not in failed_starts:
            flights.append(number)
        counts.append(len(flights))
    return counts


works_of_any_shape = st.lists(
    st.tuples(st.text(st.sampled_from("ab \n"), max_size=90), st.integers(1, 12), st.booleans()),
    min_size=2,
    max_size=6,
).map(
    lambda specs: [
        Work(
            text, (ask("q", *(f"\n{n}:" for n in range(count)), floor=floor, options=(" a", "b")),)
        )
        for text, count, floor in specs
    ]
)


@settings(deadline=None, max_examples=40)
@given(works_of_any_shape, st.integers(20, 150), st.sampled_from([1, 2]), st.randoms())
def test_passes_in_flight_move_no_bit(works, budget, ahead, draw):
    one_by_one = engine_of(token_budget=budget).run(works)
    engine = engine_of(token_budget=budget, ahead=ahead)
    fake(engine).ended = lambda number: draw.random() < 0.5
    assert list(map(answer_bits, engine.run(works))) == list(map(answer_bits, one_by_one))
    assert max(in_flight_over_time(fake(engine).calls)) <= ahead + 1
    again = engine_of(token_budget=budget, ahead=ahead)
    jobs = submitted(again, works)
    found = outcomes(again)
    assert [answer_bits(found[job]) for job in jobs] == list(map(answer_bits, one_by_one))
    assert not fake(engine).kept
    assert not fake(again).kept


@settings(deadline=None, max_examples=60)
@given(works_of_any_shape, st.integers(20, 100), st.sampled_from([0, 1, 2]), st.integers(0, 2**32))
def test_whatever_fails_or_is_cancelled_each_work_ends_once_and_right(works, budget, ahead, seed):
    draw = random.Random(seed)
    engine = engine_of(token_budget=budget, ahead=ahead)
    forward = fake(engine)
    numbers = range(1000)
    kinds = (OSError("broken"), OutOfDeviceMemory("full"))
    forward.start_faults = {n: draw.choice(kinds) for n in numbers if draw.random() < 0.1}
    forward.finish_faults = {n: draw.choice(kinds) for n in numbers if draw.random() < 0.1}
    jobs = [engine.compile(work) for work in works]
    waiting, cancelled, told = list(jobs), set(), Counter[Job]()
    found: dict[Job, Any] = {}
    while waiting or engine.pending:
        match draw.randrange(4):
            case 0 if waiting:
                engine.submit(waiting.pop(0))
            case 1 if draw.random() < 0.3:
                job = draw.choice(jobs)
                if job not in waiting and job not in found:
                    engine.cancel(job)
                    cancelled.add(job)
            case _:
                finished = engine.step()
                told.update(job for job, _ in finished)
                found |= dict(finished)
    assert set(told) == set(jobs) - cancelled
    assert set(told.values()) <= {1}
    assert max(in_flight_over_time(forward.calls, forward.start_faults), default=0) <= ahead + 1
    assert not forward.kept
    faults = forward.start_faults | forward.finish_faults
    lost = [keys for n, keys in enumerate(forward.trees) if n in faults]
    for job, outcome in found.items():
        was_lost = any(job.tree.key in keys for keys in lost)
        if isinstance(outcome, Result):
            assert not was_lost
            [alone] = engine_of().run([job.work])
            assert answer_bits(outcome) == answer_bits(alone)
        else:
            # Works with floors also fail when those were in a pass that was lost.
            assert was_lost or (lost and job.work.questions[0].empty_floor)
    forward.start_faults = forward.finish_faults = {}
    [fresh] = engine.run(works[:1])
    assert answer_bits(fresh) == answer_bits(engine_of().run(works[:1])[0])


@AHEAD
def test_the_next_pass_starts_before_the_one_before_is_waited_for(ahead):
    engine = engine_of(token_budget=50, ahead=ahead)
    submitted(engine, [Work("w" * 40, (ask("q", "\nx:", floor=False),)) for _ in range(6)])
    outcomes(engine)
    calls = fake(engine).calls
    assert [n for call, n in calls if call == "finish"] == list(range(6))
    for number in range(6 - ahead):
        assert calls.index(("start", number + ahead)) < calls.index(("finish", number))
        assert ("start", number + ahead + 1) not in calls[: calls.index(("finish", number))]


@AHEAD
def test_a_whole_pass_starts_before_answers_are_assembled(ahead):
    engine = engine_of(token_budget=50, ahead=ahead)
    calls, distribute = fake(engine).calls, engine._distribute

    def watched(packed, columns):
        calls.append(("assemble", int(packed.plan.tokens[1]) - ord("0")))
        return distribute(packed, columns)

    engine._distribute = watched  # type: ignore[method-assign]
    submitted(engine, [Work(f"{n}" * 40, (ask("q", "\nx:", floor=False),)) for n in range(6)])
    outcomes(engine)
    for number in range(4 - ahead):
        start, assembled = ("start", number + ahead + 1), ("assemble", number)
        # Where starting is computing, answers that are there go first.
        assert (calls.index(start) < calls.index(assembled)) == (ahead > 0)


@AHEAD
@pytest.mark.parametrize("faults", ["start_faults", "finish_faults"])
def test_a_failing_pass_takes_its_own_works_along_and_no_other(ahead, faults):
    engine = engine_of(token_budget=50, ahead=ahead)
    getattr(fake(engine), faults)[2] = OSError("no device")
    asked = (ask("q", "\nx:", floor=False),)
    jobs = submitted(engine, [Work(f"{n}" * 40, asked) for n in range(6)])
    found = outcomes(engine)
    kinds = [type(found[job]).__name__ for job in jobs]
    assert kinds == ["Result", "Result", "Fault", "Result", "Result", "Result"]
    assert "OSError" in found[jobs[2]].message


@AHEAD
@pytest.mark.parametrize("faults", ["start_faults", "finish_faults"])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_work_of_many_passes_fails_once_with_more_of_it_in_flight(ahead, faults, number):
    engine = engine_of(token_budget=64, ahead=ahead)
    getattr(fake(engine), faults)[number] = OSError("no device")
    many = ask("q", *(f"\n{n} x:" for n in range(30)), floor=False)
    large, small = submitted(engine, [Work("word " * 20, (many,)), Work("words", SOME)])
    found = outcomes(engine)
    assert isinstance(found[large], Fault)
    assert answer_bits(found[small]) == answer_bits(engine_of().run([small.work])[0])
    assert engine.step() == []
    assert not fake(engine).kept
    assert not fake(engine).in_flight
    # What came back behind the fault was ignored.
    assert not np.isfinite(large.tree.logprobs).any() or number


@AHEAD
def test_what_is_kept_does_not_grow_with_the_passes_in_flight(ahead):
    engine = engine_of(token_budget=64, ahead=ahead)
    some = (ask("q", *(f"\n{n} x:" for n in range(6)), floor=False),)
    engine.run([Work("word " * 11, some) for _ in range(12)])
    assert engine.stats.passes > 12
    assert fake(engine).most_kept <= 2


@pytest.mark.parametrize("ahead", [1, 2])
def test_floors_are_shared_with_works_in_flight(ahead):
    engine = engine_of(token_budget=40, ahead=ahead)
    asked = (ask("q", "\nx:", floor=True),)
    jobs = submitted(engine, [Work(f"{n}" * 30, asked) for n in range(4)])
    found = outcomes(engine)
    floor = 1 + len("\nx:") + len(" yen")
    assert sum(fake(engine).rows) == floor + sum(job.counts.packed_tokens for job in jobs)
    alone = [engine_of().run([job.work])[0] for job in jobs]
    assert [answer_bits(found[job]) for job in jobs] == list(map(answer_bits, alone))


@pytest.mark.parametrize("ahead", [1, 2])
@pytest.mark.parametrize("faults", ["start_faults", "finish_faults"])
def test_a_failing_pass_of_floors_fails_who_waits_for_them_in_flight(ahead, faults):
    engine = engine_of(token_budget=40, ahead=ahead)
    getattr(fake(engine), faults)[0] = OSError("no device")
    floors, without = (ask("q", "\nx:"),), (ask("q", "\nx:", floor=False),)
    works = [Work(f"{n}" * 30, without if n == 2 else floors) for n in range(4)]
    jobs = submitted(engine, works)
    found = outcomes(engine)
    kinds = [type(found[job]).__name__ for job in jobs]
    assert kinds == ["Fault", "Fault", "Result", "Fault"]
    assert engine.run(works)


@AHEAD
def test_floors_that_failed_in_part_are_read_no_further(ahead):
    engine = engine_of(token_budget=40, ahead=ahead)
    fake(engine).start_faults[0] = OSError("no device")
    [job] = submitted(engine, [Work("a", (ask("q", *(f"\n{n} x:" for n in range(30))),))])
    assert isinstance(outcomes(engine)[job], Fault)
    assert engine.step() == []
    assert fake(engine).calls == [("start", 0)]


@AHEAD
@pytest.mark.parametrize("faults", ["start_faults", "finish_faults"])
def test_a_full_card_is_said_to_be_full_and_the_next_request_works(ahead, faults, caplog):
    engine = engine_of(token_budget=64, ahead=ahead)
    getattr(fake(engine), faults)[1] = OutOfDeviceMemory("2 GiB more")
    many = ask("q", *(f"\n{n} x:" for n in range(30)), floor=False)
    [job] = submitted(engine, [Work("word " * 20, (many,))])
    fault = outcomes(engine)[job]
    assert (fault.code, fault.param) == ("engine_error", "content")
    assert re.fullmatch(
        "the GPU ran out of memory in a pass of 6[0-4] tokens; "
        "lower token_budget or free memory on the card",
        fault.message,
    )
    [line] = caplog.records
    assert line.getMessage().endswith(": 2 GiB more") and not line.exc_info
    assert not fake(engine).kept
    [result] = engine.run([job.work])
    assert answer_bits(result) == answer_bits(engine_of().run([job.work])[0])


def with_compilations(engine: Engine) -> list[tuple[str, int]]:
    """The forward's calls, and every compilation among them."""
    calls, compile_work = fake(engine).calls, engine.compile

    def compiled(work: Work) -> Job:
        calls.append(("compile", sum(call == "compile" for call, _ in calls)))
        return compile_work(work)

    engine.compile = compiled  # type: ignore[method-assign]
    return calls


@AHEAD
def test_a_run_compiles_while_passes_run(ahead):
    engine = engine_of(token_budget=200, ahead=ahead)
    calls = with_compilations(engine)
    engine.run([Work(f"{n}" * 40, (ask("q", "\nx:", floor=False),)) for n in range(20)])
    compiled = [calls.index(("compile", n)) for n in range(20)]
    if ahead:
        assert calls.index(("start", 0)) == compiled[1] + 1
    else:
        assert calls.index(("start", 0)) == compiled[-1] + 1
    # Nothing ended while it compiled, so nothing was waited for.
    assert calls.index(("finish", 0)) > compiled[-1]


def test_a_run_starts_small_passes_only_for_an_idle_device():
    engine = engine_of(token_budget=200, ahead=1)
    forward = fake(engine)
    asked = (ask("q", "\nx:", floor=False),)
    [gone] = submitted(engine, [Work("word " * 100, asked)])
    engine.cancel(gone)
    calls = with_compilations(engine)
    # The device has always ended all but the last.
    forward.ended = lambda number: number + 1 < len(forward.trees)
    rows_of_one = 1 + 50 + len("\nx:") + len(" yen")
    engine.run([Work(f"{n % 10}" * 50, asked) for n in range(40)])
    # The first is not little: the second is a whole one.
    assert forward.rows[0] == rows_of_one
    assert calls.index(("start", 1)) == calls.index(("compile", 4)) + 1
    assert min(forward.rows[1:-1]) > 200 - rows_of_one
    assert calls.index(("finish", 8)) < calls.index(("compile", 39))
    assert sum(forward.rows) == 40 * rows_of_one


def test_a_run_launches_no_small_passes_one_behind_another():
    """Launching holds compiling up, so that each would find as little as the one before."""
    engine = engine_of(token_budget=2000, ahead=1)
    forward = fake(engine)
    calls = with_compilations(engine)
    # An idle device each time.
    forward.ended = lambda number: True
    engine.run([Work(f"{n % 10}" * 50, (ask("q", "\nx:", floor=False),)) for n in range(24)])
    rows_of_one = 1 + 50 + len("\nx:") + len(" yen")
    # Nine of them are a quarter of a pass.
    assert forward.rows[:2] == [9 * rows_of_one, 9 * rows_of_one]
    assert calls.index(("start", 0)) == calls.index(("compile", 8)) + 1
    assert sum(forward.rows) == 24 * rows_of_one


@AHEAD
def test_a_refusal_comes_before_a_fault_and_ends_all(ahead):
    engine = engine_of(token_budget=50, ahead=ahead, max_content_tokens=64)
    with pytest.raises(Refused, match="65"):
        engine.run([Work("words", SOME), Work("x" * 65, SOME)])
    for _ in range(5):
        assert engine.step() == []
    # What does not run ahead was not begun, floors included.
    assert bool(fake(engine).calls) == (ahead > 0)
    fake(engine).ended = lambda number: True
    fake(engine).nan_tokens = {ord("#")}
    asked = (ask("q", "\nx:", floor=False),)
    bad, good = Work("#" * 40, asked), Work("words", asked)
    with pytest.raises(Refused, match="65"):
        engine.run([bad, good, good, Work("x" * 65, asked), Work("x" * 66, asked)])
    assert engine.pending == 0
    with pytest.raises(Fault, match="no number"):
        engine.run([good, bad, good])
    assert engine.pending == 0
    assert not fake(engine).kept
    assert engine.run([good])


@AHEAD
def test_progress_is_told_after_every_pass(ahead):
    engine = engine_of(token_budget=50, ahead=ahead)
    fake(engine).ended = lambda number: number % 2 == 0
    told: list[tuple[int, int]] = []
    asked = (ask("q", "\nx:", floor=False),)
    engine.run([Work("w" * 40, asked) for _ in range(6)], lambda *state: told.append(state))
    assert told == [(n, 6) for n in range(1, 7)]


def test_times_of_host_and_device_are_told_apart():
    engine = engine_of(token_budget=50, ahead=1)
    forward = fake(engine)
    start, finish = forward.start, forward.finish

    def slow_start(packed):
        time.sleep(0.03)
        started = start(packed)
        started.layout_seconds = 0.02
        return started

    def slow_finish(started):
        time.sleep(0.02)
        started.device_seconds = 7.0
        return finish(started)

    forward.start, forward.finish = slow_start, slow_finish  # type: ignore[method-assign]
    before = time.perf_counter()
    engine.run([Work("w" * 40, (ask("q", "\nx:", floor=False),)) for _ in range(3)])
    wall = time.perf_counter() - before
    stats = engine.stats
    assert (stats.passes, stats.device_seconds) == (3, 21.0)
    assert stats.layout_seconds == pytest.approx(0.06)
    assert 3 * 0.03 <= stats.forward_seconds <= wall - stats.layout_seconds
    host = [getattr(stats, f"{part}_seconds") for part in stats.HOST_PARTS]
    assert min(host) > 0
    assert sum(host) + stats.forward_seconds <= wall
