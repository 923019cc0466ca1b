"""The doctor's checks see an impure forward, and pass a pure one."""

import pytest

from spinf_serve.engine.bench.checks import invariance_checks
from spinf_serve.engine.bench.passes import works_of_many_lengths
from spinf_serve.engine.fingerprint import gpu_fingerprint
from tests.engine.bench.test_self_check import CARD, SCHEME
from tests.engine.test_api import engine_of
from tests.support.impure import see


def checks_of(engine):
    works = works_of_many_lengths(engine.tokenizer, lengths=(0, 1, 3, 30), questions=3)
    return {one.name: one.passed for one in invariance_checks(engine, works)}


def test_a_pure_forward_passes_every_check():
    found = checks_of(engine_of(token_budget=300))
    assert len(found) >= 6
    assert all(found.values())


@pytest.mark.parametrize(
    ("seen", "failing"),
    [
        (lambda plan: len(plan.tokens), {"each content alone", "each question alone"}),
        (lambda plan: int(plan.tokens[1]), {"contents in reverse order"}),
    ],
)
def test_a_forward_that_sees_its_company_is_caught(seen, failing, monkeypatch):
    engine = engine_of(token_budget=300)
    see(engine, seen, monkeypatch)
    found = checks_of(engine)
    assert not any(found[name] for name in failing)


def test_threads_are_no_matter_on_a_card():
    engine = engine_of(token_budget=300)
    assert any("thread" in name for name in checks_of(engine))
    engine.fingerprint = gpu_fingerprint("a" * 64, SCHEME, CARD)
    assert not any("thread" in name for name in checks_of(engine))
