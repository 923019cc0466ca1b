"""The sweep makes passes of exactly the sizes it names, and finds the one size that differs."""

import pytest

from spinf_serve.engine.bench.sweep import Ticker, row_steps, sweep
from tests.engine.test_api import engine_of, fake
from tests.support.impure import see


def swept(engine, **most):
    found = list(sweep(engine, lambda line: None, most_together=12, **most))
    assert [one.name for one in found][:2] == [
        "1 to 12 contents in a pass",
        "1 to 12 questions on a content",
    ]
    return found


def test_every_size_is_a_pass_and_all_bits_are_the_same():
    engine = engine_of(token_budget=700)
    found = swept(engine, most_rows=600)
    assert all(one.passed and not one.sizes for one in found)
    # 12 contents: 1 + 2 + … answers.
    assert [one.compared for one in found][:2] == [78, 78]
    assert found[2].name == "1 to 12 rows in a pass"
    sizes = {*range(1, 13), *row_steps(600), 700}
    assert sizes <= set(fake(engine).rows)
    assert "700 rows" in found[3].name


@pytest.mark.parametrize("rows", [1, 7, 98, 255, 512, 700])
def test_the_one_size_that_differs_is_named(rows, monkeypatch):
    engine = engine_of(token_budget=700)
    see(engine, lambda plan: len(plan.tokens) == rows, monkeypatch)
    found = swept(engine, most_rows=600)
    wrong = [one for one in found if not one.passed]
    # Where the works alone have that size, it is all others that differ from them.
    assert wrong and any(rows in one.sizes or rows < 12 for one in wrong)
    if rows > 200:
        assert [one.sizes for one in wrong] == [(rows,)]


@pytest.mark.parametrize("count", [2, 5, 12])
def test_a_number_of_contents_that_differs_is_named(count, monkeypatch):
    engine = engine_of(token_budget=700)
    see(engine, lambda plan: len(plan.slices) == count, monkeypatch)
    assert swept(engine, most_rows=12)[0].sizes == (count,)


def test_steps_hold_powers_of_two_and_their_neighbours():
    steps = row_steps(4096)
    assert steps == sorted(set(steps)) and steps[0] == 1 and steps[-1] == 4096
    powers = [1 << bit for bit in range(1, 13)]
    assert {size + by for size in powers for by in (-1, 0, 1) if size + by <= 4096} <= set(steps)
    assert len({size % 64 for size in steps}) > 40


def test_progress_is_told_every_two_seconds_and_not_before():
    times = iter([0.0, 1.9, 2.0, 3.9, 4.1])
    lines: list[str] = []
    ticker = Ticker(lines.append, times.__next__)
    for done in range(5):
        ticker.tick("contents", done, 5)
    assert lines == ["  contents: 2 of 5 passes", "  contents: 4 of 5 passes"]
