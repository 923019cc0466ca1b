"""A card that sees how many rows a pass has, in some sizes only, is not served."""

import pytest

from spinf_serve.engine.bench.self_check import self_check
from spinf_serve.engine.fingerprint import CardFacts, GpuScheme, gpu_fingerprint
from spinf_serve.engine.pipeline import OutOfDeviceMemory
from spinf_serve.packs.errors import Unusable
from tests.engine.test_api import engine_of, fake
from tests.support.impure import see

SCHEME = GpuScheme("fp8", "rows", "bfloat16")
CARD = CardFacts("NVIDIA Example", "9.0", "1", "2", "3")


def card_engine(token_budget=2200):
    engine = engine_of(token_budget=token_budget, ahead=1)
    engine.fingerprint = gpu_fingerprint("a" * 64, SCHEME, CARD)
    return engine


def test_a_pure_card_is_told_with_what_was_compared():
    engine = card_engine()
    told: list[str] = []
    self_check(engine, told.append)
    [line] = told
    assert line.startswith("self-check: ") and int(line.split()[1]) > 100
    # Each of the sizes was a pass, and exactly of that size.
    assert {64, 65, 128, 129, 256, 257, 1024, 1025, 2100} <= set(fake(engine).rows)


@pytest.mark.parametrize(
    ("seen", "where"),
    [
        (lambda plan: len(plan.tokens) > 1024, "in a pass of 1025 rows: "),
        (lambda plan: len(plan.tokens) == 257, "in a pass of 257 rows: "),
        (lambda plan: len(plan.slices) > 1, "all together: "),
        (lambda plan: int(plan.tokens[-1]), "differ"),
    ],
)
def test_a_card_that_sees_company_is_refused_by_name(seen, where, monkeypatch):
    engine = card_engine()
    see(engine, seen, monkeypatch)
    with pytest.raises(Unusable) as caught:
        self_check(engine, lambda line: pytest.fail(line))
    message = str(caught.value)
    assert message.startswith("NVIDIA Example does not give a score the same bits")
    assert where in message and "doctor --invariance" in message and "\n" not in message


def test_passes_beyond_the_budget_are_not_asked_for():
    engine = card_engine(token_budget=100)
    self_check(engine, lambda line: None)
    assert max(fake(engine).rows) <= 100


def test_a_pass_that_is_lost_meanwhile_is_told_in_a_line():
    engine = card_engine()
    fake(engine).start_faults[3] = OutOfDeviceMemory("2 GiB more")
    with pytest.raises(Unusable) as caught:
        self_check(engine, lambda line: pytest.fail(line))
    message = str(caught.value)
    assert message.startswith("the self-check of the card was cut short: the GPU ran out of memory")
    assert "\n" not in message
