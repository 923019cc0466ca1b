"""Host work grows with the questions, not with their square: counted in calls, not in seconds."""

import cProfile
import pstats

import numpy as np

from spinf_serve.engine.work import Work
from tests.engine.test_api import ask, engine_of, fake


def calls_for(questions: int) -> int:
    """Python calls that compiling, packing and assembling take for that many questions."""
    engine = engine_of(token_budget=2048)
    fake(engine).columns = lambda packed: (  # type: ignore[method-assign]
        np.full(len(packed.plan.columns), -1.0, np.float32)
    )
    asked = tuple(
        ask(f"q{n}", f"\n{n} late? Answer:", options=("y", "n")) for n in range(questions)
    )
    works = [Work(f"text number {n} about a parcel", asked) for n in range(6)]
    profile = cProfile.Profile()
    profile.runcall(engine.run, works)
    return pstats.Stats(profile).total_calls  # type: ignore[attr-defined,no-any-return]


def test_host_work_is_linear_in_the_questions():
    # What is made once, and modules that are imported late, are no work of the first count.
    calls_for(100)
    few, some, many = (calls_for(count) for count in (100, 200, 400))
    assert many - some <= 1.1 * 2 * (some - few)
