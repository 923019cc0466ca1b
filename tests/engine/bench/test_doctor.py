"""What the doctor says and writes, and that it says when something is wrong."""

import json
from datetime import date

import pytest

from spinf_serve.engine.bench import doctor
from spinf_serve.engine.bench.sweep import sweep
from spinf_serve.engine.card import Card
from spinf_serve.engine.config import EngineConfig
from tests.engine.bench.test_self_check import card_engine
from tests.engine.test_api import engine_of
from tests.support.impure import see

GIB = 1 << 30
CARD = Card(0, "NVIDIA Example", (9, 0), 24 * GIB, 23 * GIB, 100, "580", True)


@pytest.fixture
def examined(monkeypatch, tmp_path):
    """A function that runs the doctor on an engine; what it said, and what it wrote."""

    def run(engine, **options):
        asked = []

        def opened(config, limits, tell, *, checked):
            asked.append((config, checked))
            tell("opening")
            return engine

        monkeypatch.setattr(doctor, "opened_engine", opened)
        monkeypatch.setattr(doctor, "find_card", lambda: CARD)
        monkeypatch.setattr(
            doctor, "sweep", lambda engine, say: sweep(engine, say, most_together=4, most_rows=80)
        )
        lines: list[str] = []
        out = tmp_path / "found.json"
        good = doctor.run(EngineConfig(), out=out, say=lines.append, **options)
        # It opens what the check at load would refuse.
        [(config, checked)] = asked
        assert checked is False
        return good, lines, json.loads(out.read_text()), config

    return run


def test_the_doctor_says_and_writes_what_it_compared_on_what(examined):
    engine = card_engine()
    good, lines, found, config = examined(engine)
    assert good and lines[-1] == "all checks passed"
    assert f"card          {CARD}" in lines and "  opening" in lines
    assert any(line.startswith("libraries     torch ") for line in lines)
    assert any("toy (fp8 weights, rows activations)" in line for line in lines)
    assert config.token_budget is None
    assert found["command"].startswith("spinf-serve") and found["commit"]
    assert date.fromisoformat(found["date"])
    assert found["bits_digest"] == engine.fingerprint.bits
    assert found["facts"]["card"] == "NVIDIA Example"
    assert found["card"] == str(CARD) and found["libraries"]["torch"]
    assert [one["name"] for one in found["checks"]][:2] == ["run again", "each content alone"]
    assert all(one["passed"] for one in found["checks"])
    assert f"answers       {found['answers_sha256']} (sha256 of their bits)" in lines
    assert len({one["sha256"] for one in found["answers"]}) == len(found["answers"]) == 10


def test_the_sweep_comes_on_top_with_passes_as_large_as_a_cards(examined):
    good, lines, found, config = examined(card_engine(), invariance=True)
    assert good and config.token_budget == 16_384
    names = [one["name"] for one in found["checks"]]
    assert "1 to 4 contents in a pass" in names and "1 to 4 rows in a pass" in names
    assert len([line for line in lines if "same bits" in line]) == len(names)


def test_bits_are_told_to_be_others_where_they_are(examined, monkeypatch):
    _, _, first, _ = examined(card_engine())
    _, _, again, _ = examined(card_engine())
    assert again["answers"] == first["answers"]
    other = card_engine()
    # The same for every pass, so that only another machine's digest shows it.
    see(other, lambda plan: 5.0, monkeypatch)
    good, _, found, _ = examined(other)
    assert good and found["answers_sha256"] != first["answers_sha256"]


def test_sizes_that_differ_are_named(examined, monkeypatch):
    engine = engine_of(token_budget=100)
    see(engine, lambda plan: len(plan.tokens) in (64, 65), monkeypatch)
    good, lines, found, _ = examined(engine, invariance=True)
    assert not good and lines[-1].startswith("CHECKS FAILED")
    assert any("DIFFER, at 64, 65" in line for line in lines)
    assert any(one["sizes"] == [64, 65] and not one["passed"] for one in found["checks"])
