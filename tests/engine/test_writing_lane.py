"""Texts that are written take what scoring leaves of passes: it waits for those that run, and no other."""

from collections.abc import Sequence

import numpy as np
import pytest

from spinf_serve.engine.api import Engine, Job
from spinf_serve.engine.bench.checks import answer_bits
from spinf_serve.engine.schedule import MOST_BEGUN, Backlog
from spinf_serve.engine.turn import Priority, Turn
from spinf_serve.engine.work import Generate, Result, Work
from tests.engine.test_api import ask, engine_of, fake
from tests.engine.test_schedule import Course
from tests.engine.test_slots import slot

BUDGET = 200
LATE = (ask("late", "\nLate?"),)


def chats(
    engine: Engine, count: int, prompt: int, most: int = 60, *, priority=Priority.INTERACTIVE
):
    """Submits chats whose prompts have so many tokens; each is a request of its own."""
    jobs = []
    for number in range(count):
        tokens = np.random.default_rng(number).integers(32, 120, prompt).tolist()
        job = engine.compile_generation(Generate(tuple(tokens), most))
        engine.submit(job, Turn("writer", priority, writes=True))
        jobs.append(job)
    return jobs


def passes(engine: Engine, *works: Work, priority=Priority.INTERACTIVE) -> int:
    """Passes that end from the asking until all works of a request are answered."""
    before = engine.stats.passes
    turn = Turn("reader", priority)
    waiting = {engine.compile(work) for work in works}
    for job in waiting:
        engine.submit(job, turn)
    while waiting:
        waiting -= dict(engine.step()).keys()
    return engine.stats.passes - before


def content(tokens: int) -> str:
    return ("The parcel came late. " * tokens)[:tokens]


@pytest.mark.parametrize("ahead", (0, 1))
@pytest.mark.parametrize("tokens", (600, 2000))
def test_scoring_waits_for_chats_with_long_prompts_no_longer_than_passes_run(tokens, ahead):
    work = Work(content(tokens), LATE)
    alone = passes(engine_of(token_budget=BUDGET, ahead=ahead), work)
    for begun in (0, 3, 12):
        engine = engine_of(token_budget=BUDGET, ahead=ahead)
        chats(engine, 10, 1000)
        for _ in range(begun):
            engine.step()
        running = len(fake(engine).in_flight)
        assert running <= 2 * ahead
        assert passes(engine, work) <= alone + running


def test_scoring_waits_for_no_chat_that_is_written():
    work = Work(content(4000), LATE)
    alone = passes(engine_of(token_budget=BUDGET), work)
    engine = engine_of(token_budget=BUDGET)
    chats(engine, 60, 20)
    while engine.stats.decode_rows < 60:
        engine.step()
    assert passes(engine, work) == alone


def test_slots_of_scoring_do_not_wait_for_chats_that_are_under_way():
    work = Work(content(150), LATE, slots=(slot('\nIt says "', max_tokens=8),))
    alone = passes(engine_of(token_budget=BUDGET), work)
    # The first ones hold all the room that there is, and scoring keeps them from going on.
    engine = engine_of(token_budget=BUDGET)
    chats(engine, 40, 1000)
    for _ in range(10):
        engine.step()
    assert passes(engine, work) == alone


def written(engine: Engine, jobs: Sequence[Job]) -> int:
    """Passes until all of some texts are written."""
    before, waiting = engine.stats.passes, set(jobs)
    while waiting:
        waiting -= dict(engine.step()).keys()
    return engine.stats.passes - before


def test_a_batch_takes_nothing_of_what_texts_need():
    engine = engine_of(token_budget=BUDGET)
    alone = written(engine, chats(engine, 10, 100, 20))
    engine = engine_of(token_budget=BUDGET)
    for number in range(20):
        batch = engine.compile(Work(content(900 + number), LATE))
        engine.submit(batch, Turn("batch", Priority.BATCH))
    engine.step()
    assert written(engine, chats(engine, 10, 100, 20)) == alone
    # What a step leaves of a pass is the batch's.
    assert min(fake(engine).rows[2:]) > BUDGET / 2


def test_texts_that_waited_for_scoring_go_on_with_what_was_read():
    engine = engine_of(token_budget=BUDGET)
    [job] = chats(engine, 1, 1000, 5)
    for _ in range(3):
        engine.step()
    passes(engine, Work(content(3000), LATE))
    alone = engine_of(token_budget=BUDGET)
    # Three passes were behind it when scoring came.
    assert written(engine, [job]) <= written(alone, chats(alone, 1, 1000, 5)) - 3
    assert not fake(engine).kept and not engine._slots.saved_rows


def test_company_of_texts_moves_no_bit_and_scoring_goes_first_in_a_batch_too():
    work = Work(content(900), LATE)
    [alone] = engine_of().run([work])
    engine = engine_of(token_budget=BUDGET)
    chats(engine, 10, 500, priority=Priority.BATCH)
    engine.step()
    job = engine.compile(work)
    engine.submit(job, Turn("reader", Priority.BATCH))
    outcomes: dict[Job, object] = {}
    steps = 0
    while job not in outcomes:
        outcomes |= dict(engine.step())
        steps += 1
    found = outcomes[job]
    assert isinstance(found, Result)
    assert answer_bits(found) == answer_bits(alone)
    assert steps <= 6


def test_texts_count_among_what_waits_of_their_priority():
    course = Course()
    course.put(300, Turn("a"))
    course.put(500, Turn("a", writes=True))
    course.put(400, Turn("a", Priority.BATCH, writes=True))
    assert course.schedule.backlog(Priority.INTERACTIVE) == Backlog(2, 2, 800)
    assert course.schedule.backlog(Priority.BATCH) == Backlog(1, 1, 400)


def test_what_scoring_needs_moves_up_before_texts_and_texts_before_a_batch():
    course = Course()
    shared = course.put(900, Turn("a", Priority.BATCH))
    course.put(900, Turn("a", writes=True))
    course.schedule.hurry(shared, Turn("b", writes=True))
    course.schedule.hurry(shared, Turn("b"))
    assert course.step()[shared.key] == 900


def test_texts_that_are_begun_take_no_place_of_scoring():
    course = Course(budget=256)
    texts = [course.put(rows, Turn("a", writes=True)) for rows in range(9000, 5000, -300)]
    for _ in range(40):
        course.step()
    assert sum(tree.is_begun and not tree.is_planned for tree in texts) <= MOST_BEGUN
    scored = course.put(2000, Turn("b"))
    before = course.passes
    while scored not in course.ended:
        course.step()
    assert course.passes - before <= 8 + 1
    course.run()
    assert all(tree in course.ended for tree in texts)
