"""Which tree is read next: shares of callers, small before large, bounds, and never another bit."""

import random
from collections import Counter
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinf_serve.engine.api import Job
from spinf_serve.engine.bench.checks import answer_bits
from spinf_serve.engine.schedule import MOST_BEGUN, Backlog, Schedule
from spinf_serve.engine.tree.packing import PackedPass, Reads, Tree, new_tree
from spinf_serve.engine.tree.trie import build_trie
from spinf_serve.engine.turn import FIRST_COME, Priority, Turn
from spinf_serve.engine.work import Result, Work
from tests.engine.test_api import ask, engine_of, fake

BUDGET = 1000
_keys = count(1)


def tree_of(rows: int, *, has_trunk: bool = True) -> Tree:
    """A tree of so many rows: a trunk and two questions of three rows, or many questions alone."""
    empty = np.zeros(0, np.int32)
    sequences: list[tuple[int, ...]] = [(0, 1), (0, 2)]
    trunk = np.arange(rows - 3, dtype=np.int32)
    if not has_trunk:
        trunk, sequences = empty, [(n,) for n in range(rows)]
    trie = build_trie(sequences)
    reads = Reads(np.unique(trie.end), np.arange(len(sequences) + 1, dtype=np.int32), trie.end)
    return new_tree(next(_keys), trunk, empty, trie, reads)


def put(schedule: Schedule, rows: int, caller="a", priority=Priority.INTERACTIVE, trees=1) -> Turn:
    """Puts a request of a few trees."""
    turn = Turn(caller, priority)
    for _ in range(trees):
        schedule.put(tree_of(rows), turn)
    return turn


def rows_by_tree(packed: PackedPass) -> dict[int, int]:
    found: Counter[int] = Counter()
    for tree, part in zip(packed.parts, packed.plan.slices, strict=True):
        found[tree.key] += part.trunk_rows + part.branch_rows
    return found


class Course:
    """A schedule that is run pass by pass.

    Attributes:
        ended: the number of the pass that held the last of a tree.
    """

    def __init__(self, budget: int = BUDGET) -> None:
        self.schedule = Schedule()
        self.ended: dict[Tree, int] = {}
        self.passes = 0
        self._budget = budget

    def put(self, rows: int, turn: Turn) -> Tree:
        tree = tree_of(rows)
        self.schedule.put(tree, turn)
        return tree

    def step(self) -> dict[int, int]:
        """Rows of the next pass by tree."""
        packed = self.schedule.next_pass(self._budget)
        if packed is None:
            return {}
        for tree in packed.parts:
            if tree.is_planned:
                self.ended[tree] = self.passes
        self.passes += 1
        return rows_by_tree(packed)

    def run(self) -> None:
        while self.step():
            pass


def test_a_small_request_passes_a_large_one_of_the_same_caller():
    course = Course()
    large = [course.put(900, turn) for turn in [Turn("a")] for _ in range(20)]
    course.step()
    small = course.put(100, Turn("a"))
    course.step()
    assert course.ended[small] == 1
    course.run()
    assert all(tree in course.ended for tree in large)


def test_a_small_tree_passes_a_large_one_that_is_begun():
    course = Course()
    large = course.put(10_000, Turn("a"))
    course.step()
    small = course.put(100, Turn("a"))
    rows = course.step()
    assert course.ended[small] == 1
    assert rows[large.key] >= 800


def test_no_stream_of_small_requests_starves_a_large_one():
    course = Course()
    large = course.put(5_000, Turn("a"))
    small: list[tuple[Tree, int]] = []
    # So many that passes are full of small ones alone, as if sixteen clients asked again and again.
    while large not in course.ended:
        while sum(tree not in course.ended for tree, _ in small) < 16:
            small.append((course.put(110, Turn("a")), course.passes))
        course.step()
        assert course.passes < 100
    waits = [course.ended[tree] - at for tree, at in small if tree in course.ended]
    # A quarter as many rows as the others had: a fifth of all, or five times its own passes.
    assert 15 <= course.ended[large] <= 30
    assert max(waits) <= 3 * np.median(waits)
    assert np.median(waits) <= 2


def test_requests_of_one_size_go_in_the_order_of_their_coming():
    course = Course()
    trees = [course.put(300, Turn("a")) for _ in range(10)]
    course.run()
    order = [course.ended[tree] for tree in trees]
    assert order == sorted(order)


def test_callers_share_the_device_whatever_each_of_them_asks_for():
    course = Course()
    greedy = {course.put(500, Turn("greedy")).key for _ in range(40)}
    modest = {course.put(500, Turn("modest")).key for _ in range(6)}
    shares: Counter[str] = Counter()
    for _ in range(6):
        for key, rows in course.step().items():
            shares["greedy" if key in greedy else "modest"] += rows
    assert modest
    assert abs(shares["greedy"] - shares["modest"]) <= 500


def test_a_caller_who_comes_back_again_and_again_has_no_more_than_a_share():
    course = Course()
    backlog = {course.put(50, Turn("steady")).key for _ in range(400)}
    shares: Counter[bool] = Counter()
    for _ in range(16):
        # All that it asks for goes with every pass, so it never has anything waiting.
        course.put(700, Turn("comes and goes"))
        for key, rows in course.step().items():
            shares[key in backlog] += rows
    assert shares[True] >= 0.45 * shares.total()


def test_a_caller_who_was_away_saves_nothing_up():
    course = Course()
    for _ in range(40):
        course.put(500, Turn("a"))
    for _ in range(10):
        course.step()
    late = {course.put(500, Turn("b")).key for _ in range(40)}
    shares: Counter[bool] = Counter()
    for _ in range(6):
        for key, rows in course.step().items():
            shares[key in late] += rows
    assert abs(shares[True] - shares[False]) <= 1000


def test_batch_fills_what_a_pass_has_left_and_holds_up_nothing():
    course = Course()
    batch = [course.put(700, Turn("b", Priority.BATCH)) for _ in range(8)]
    course.step()
    urgent = [course.put(300, Turn("a")) for _ in range(2)]
    rows = course.step()
    assert {course.ended[tree] for tree in urgent} == {1}
    assert sum(rows[tree.key] for tree in batch if tree.key in rows) >= 300
    urgent = [course.put(990, Turn("a")) for _ in range(3)]
    course.run()
    assert [course.ended[tree] for tree in urgent] == [2, 3, 4]
    assert all(tree in course.ended for tree in batch)


def test_trees_that_fit_fill_a_pass_behind_one_that_does_not():
    course = Course()
    first, second = course.put(800, FIRST_COME), course.put(900, FIRST_COME)
    third = course.put(150, FIRST_COME)
    rows = course.step()
    assert rows == {first.key: 800, third.key: 150}
    assert course.step() == {second.key: 900}


def test_who_has_nobody_to_share_with_is_read_in_order():
    course = Course()
    trees = [course.put(rows, FIRST_COME) for rows in (5000, 100, 3000, 200)]
    course.run()
    order = [course.ended[tree] for tree in trees]
    assert order == sorted(order)


@pytest.mark.parametrize("priority", Priority)
def test_few_trees_are_begun_at_a_time(priority):
    course = Course(budget=256)
    begun = 0
    trees = []
    # Each is smaller than those before, so that each is wanted first.
    for rows in range(9000, 3000, -300):
        trees.append(course.put(rows, Turn("a", priority)))
        course.step()
        here = sum(tree.is_begun and not tree.is_planned for tree in trees)
        begun = max(begun, here)
    assert begun == MOST_BEGUN
    course.run()
    assert all(tree in course.ended for tree in trees)


def test_trees_without_a_trunk_keep_nothing_and_are_not_bounded():
    schedule = Schedule()
    trees = [tree_of(rows, has_trunk=False) for rows in range(2000, 1000, -50)]
    for tree in trees:
        schedule.put(tree, Turn("a"))
        schedule.next_pass(256)
    assert sum(tree.is_begun and not tree.is_planned for tree in trees) > MOST_BEGUN


def test_what_waits_is_counted():
    schedule = Schedule()
    put(schedule, 300, trees=3)
    put(schedule, 200, caller="b")
    put(schedule, 5000, priority=Priority.BATCH)
    assert schedule.backlog(Priority.INTERACTIVE) == Backlog(2, 4, 1100)
    assert schedule.backlog(Priority.BATCH) == Backlog(1, 1, 5000)
    assert schedule.rows == 6100
    assert len(schedule) == 5
    while schedule.next_pass(BUDGET) is not None:
        waits = [schedule.backlog(priority) for priority in Priority]
        assert sum(one.rows for one in waits) == schedule.rows
    assert [schedule.backlog(priority) for priority in Priority] == [Backlog(), Backlog()]


def test_a_tree_that_is_dropped_is_not_read_and_not_counted():
    schedule = Schedule()
    turn = Turn("a")
    first, second = tree_of(3000), tree_of(300)
    schedule.put(first, turn)
    schedule.put(second, turn)
    schedule.next_pass(BUDGET)
    schedule.drop(first)
    schedule.drop(first)
    assert schedule.backlog(Priority.INTERACTIVE) == Backlog(1, 1, 300)
    packed = schedule.next_pass(BUDGET)
    assert packed is not None
    assert rows_by_tree(packed) == {second.key: 300}
    assert len(schedule) == schedule.rows == 0


def test_what_was_dropped_takes_no_part_in_the_order_of_others():
    course = Course(budget=1500)
    older, first = course.put(2000, Turn("a")), course.put(1500, Turn("a"))
    for tree in [course.put(9000, Turn("a")) for _ in range(9)]:
        course.schedule.drop(tree)
    assert course.step() == {first.key: 1500}
    # Both were served at the same time, so of 2000 rows 1250 are left, fewer than the new one's.
    newer = course.put(1400, Turn("a"))
    assert set(course.step()) == {older.key}
    course.run()
    assert newer in course.ended


def test_what_others_need_soon_moves_up():
    schedule = Schedule()
    shared, other = tree_of(900), tree_of(900)
    schedule.put(other, Turn("b", Priority.BATCH))
    schedule.put(shared, Turn("b", Priority.BATCH))
    put(schedule, 50)
    schedule.hurry(shared, Turn("a"))
    packed = schedule.next_pass(BUDGET)
    assert packed is not None
    assert shared.key in rows_by_tree(packed) and other.key not in rows_by_tree(packed)
    schedule.hurry(shared, Turn("a"))
    assert schedule.backlog(Priority.INTERACTIVE) == Backlog()


turns = st.builds(Turn, st.sampled_from("abc"), st.sampled_from(Priority), st.booleans())


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(4, 900), st.integers(0, 4)), min_size=1, max_size=30),
    st.lists(turns, min_size=5, max_size=5),
    st.integers(64, 400),
    st.randoms(use_true_random=False),
)
def test_every_tree_is_read_once_and_counts_add_up(specs, asked, budget, draw):
    schedule = Schedule()
    waiting, live = list(specs), dict[int, Tree]()
    got: Counter[int] = Counter()
    for _ in range(1000):
        if waiting and draw.random() < 0.6:
            rows, turn = waiting.pop()
            tree = tree_of(rows, has_trunk=draw.random() < 0.8)
            live[tree.key] = tree
            schedule.put(tree, asked[turn])
        elif live and draw.random() < 0.1:
            schedule.drop(live.pop(draw.choice(list(live))))
        else:
            packed = schedule.next_pass(budget)
            if packed is None and not waiting:
                break
            if packed is not None:
                assert {tree.key for tree in packed.parts} <= live.keys()
                assert len(packed.plan.tokens) <= budget
                got.update(rows_by_tree(packed))
        left = [tree for tree in live.values() if not tree.is_planned]
        assert len(schedule) == len(left)
        assert schedule.rows == sum(tree.rows_left for tree in left)
    assert not waiting
    assert all(tree.is_planned for tree in live.values())
    assert all(got[key] >= tree.packed_tokens for key, tree in live.items())


works_of_any_shape = st.lists(
    st.tuples(st.text(st.sampled_from("ab \n"), max_size=150), st.integers(1, 12), st.booleans()),
    min_size=2,
    max_size=8,
)


@settings(deadline=None, max_examples=60)
@given(
    works_of_any_shape,
    st.lists(turns, min_size=4, max_size=4),
    st.integers(20, 150),
    st.sampled_from([0, 1, 2]),
    st.integers(0, 2**32),
)
def test_no_schedule_moves_a_bit(specs, asked, budget, ahead, seed):
    draw = random.Random(seed)
    works = [
        Work(text, (ask("q", *(f"\n{n}:" for n in range(many)), floor=floor, options=(" a", "b")),))
        for text, many, floor in specs
    ]
    engine = engine_of(token_budget=budget, ahead=ahead)
    waiting = [engine.compile(work) for work in works]
    cancelled: set[Job] = set()
    found: dict[Job, Any] = {}
    while waiting or engine.pending:
        match draw.randrange(4):
            case 0 if waiting:
                engine.submit(waiting.pop(0), draw.choice([*asked, FIRST_COME]))
            case 1 if found and draw.random() < 0.2:
                job = draw.choice(list(engine._jobs.values()) or [None])
                if job is not None:
                    engine.cancel(job)
                    cancelled.add(job)
            case _:
                found |= dict(engine.step())
    assert len(found) + len(cancelled) == len(works)
    for job, outcome in found.items():
        assert isinstance(outcome, Result)
        [alone] = engine_of().run([job.work])
        assert answer_bits(outcome) == answer_bits(alone)
    assert len(engine.schedule) == engine.schedule.rows == 0
    while fake(engine).in_flight:
        engine.step()
    assert not fake(engine).kept


@pytest.mark.parametrize("ahead", [0, 1])
def test_passes_that_start_after_a_cancel_hold_nothing_of_it(ahead):
    engine = engine_of(token_budget=64, ahead=ahead)
    many = ask("q", *(f"\n{n} x:" for n in range(30)), floor=True)
    gone, stays = (engine.compile(Work(text * 20, (many,))) for text in ("word ", "else "))
    engine.submit(gone, Turn("a"))
    engine.step()
    before = len(fake(engine).trees)
    engine.cancel(gone)
    # Its floors go too: nobody else waits for them.
    assert len(engine.schedule) == 0
    engine.submit(stays, Turn("a"))
    found: dict[Job, Any] = {}
    while engine.pending:
        found |= dict(engine.step())
    floors = fake(engine).trees[-1] | set().union(*fake(engine).trees[before:])
    assert gone.tree.kept_key not in floors
    assert answer_bits(found[stays]) == answer_bits(engine_of().run([stays.work])[0])


def test_floors_stay_while_anybody_waits_for_them():
    engine = engine_of(token_budget=64)
    many = ask("q", *(f"\n{n} x:" for n in range(30)), floor=True)
    first, second = (engine.compile(Work(text, (many,))) for text in ("word", "else"))
    engine.submit(first, Turn("a", Priority.BATCH))
    engine.submit(second, Turn("b"))
    engine.cancel(first)
    assert engine.schedule.backlog(Priority.BATCH) == Backlog()
    found: dict[Job, Any] = {}
    while engine.pending:
        found |= dict(engine.step())
    assert answer_bits(found[second]) == answer_bits(engine_of().run([second.work])[0])
