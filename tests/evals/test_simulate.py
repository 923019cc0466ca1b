import json

import numpy as np
import pytest
from scipy.stats import binom

from spinf_serve.evals import simulate, worlds
from spinf_serve.evals.certificates import Certificate
from spinf_serve.evals.certify import certify
from spinf_serve.evals.cuts import Target, preset_cuts

CROOKED = ("half and half", "queue", "weighted queue", "threads", "twenty wordings")


def _misses_allowed(runs):
    """What 1 in 1,000 tables of 75 honest cells would pass in one cell."""
    return binom.isf(0.001 / 75, runs, 0.05)


@pytest.mark.parametrize(
    "make",
    [worlds.plain, worlds.balanced, worlds.queue, worlds.threads],
    ids=lambda one: one.__name__,
)
def test_what_is_simulated_is_what_certify_does(make):
    world = make(np.random.default_rng(1))
    cuts = preset_cuts("lift")
    placed = simulate.binned(world, cuts)
    drawn = world.draw(np.random.default_rng(2), 8, 1000)
    counts = simulate.tally(placed, 0, drawn.rows, drawn.counted)
    chosen = simulate.promised(world, counts, world.base_rate, simulate.DELTA)
    kept = 0
    for run, index in enumerate(chosen.tolist()):
        rows = drawn.rows[run]
        # Copies are groups; what the queue drew is marked so.
        copies = make is worlds.threads
        found = certify(
            world.scores[0][rows],
            world.holds[rows],
            Target(world.kind, simulate.TARGET),
            cuts,
            groups=(np.arange(1000) // worlds.COPIES).tolist() if copies else None,
            drawn=None
            if copies
            else ["random" if one else "queue" for one in drawn.counted[run].tolist()],
            base_rate=world.base_rate,
        )
        assert (found.cut if isinstance(found, Certificate) else None) == (
            float(placed.cuts[index]) if index >= 0 else None
        )
        kept += index >= 0
    assert kept >= {"plain": 5, "balanced": 0, "queue": 8, "threads": 0}[make.__name__]


def test_the_truth_of_a_world_is_counted_on_its_traffic():
    world = worlds.queue(np.random.default_rng(1))
    placed = simulate.binned(world, preset_cuts("lift"))
    for index in (0, 20, 40):
        flagged = world.scores[0] >= placed.cuts[index]
        assert placed.truth[0, index] == pytest.approx(flagged[world.holds].mean())
        assert placed.coverage[0, index] == pytest.approx(flagged.mean())
    plain = worlds.plain(np.random.default_rng(1))
    order = np.argsort(-plain.scores[0])
    held = plain.holds[order].cumsum() / np.arange(1, len(order) + 1)
    assert abs(np.flatnonzero(held >= 0.9)[-1] / len(order) - 0.63) < 0.015


def test_a_promise_at_the_edge_is_wrong_in_at_most_delta():
    """89.9 % everywhere: whatever is promised is wrong."""
    placed = simulate.binned(worlds.flat(np.random.default_rng(1)), preset_cuts("lift"))
    for labels in (200, 1000):
        found = simulate.cell(placed, labels, 400, True, 7)
        assert found.missed == found.promised and 0 < found.missed <= binom.isf(1e-4, 400, 0.05)


def test_without_the_rule_about_base_rates_every_promise_is_wrong():
    placed = simulate.binned(worlds.balanced(np.random.default_rng(1)), preset_cuts("lift"))
    naive = simulate.cell(placed, 500, 100, False, 7)
    assert naive.missed >= 98
    assert simulate.cell(placed, 500, 100, True, 7).missed <= binom.isf(1e-4, 100, 0.05)


@pytest.mark.slow
def test_promises_hold_in_every_world_and_without_the_rules_they_do_not():
    runs = 300
    cells = {(one.world, one.labels, one.way): one for one in simulate.simulate(runs)}
    for (world, labels, way), one in cells.items():
        if way in ("rules", "ranks"):
            assert one.missed <= _misses_allowed(runs), (world, labels, way)
    for labels in simulate.LABELS:
        assert cells["coin", labels, "rules"].promised <= 0.05 * runs
        assert cells["plain", labels, "in sample"].missed >= 0.4 * runs
    for world in CROOKED:
        assert cells[world, 2000, "no rules"].missed >= 0.1 * runs, world
        # Something is promised: a tool that promises nothing never misses.
        assert cells[world, 2000, "rules"].promised >= 0.15 * runs, world
    for way in ("rules", "ranks"):
        assert cells["plain", 500, way].coverage == pytest.approx(0.38, abs=0.05)
        assert cells["plain", 1000, way].coverage == pytest.approx(0.45, abs=0.05)


def test_the_same_seed_counts_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(simulate, "LABELS", (100,))
    monkeypatch.setattr(simulate, "WORLDS", (worlds.plain, worlds.balanced))
    one, other = (simulate.simulate(5, (100,), seed=3) for _ in range(2))
    assert one == other
    assert [(cell.world, cell.way) for cell in one] == [
        ("plain", "rules"),
        ("plain", "ranks"),
        ("plain", "in sample"),
        ("half and half", "rules"),
        ("half and half", "no rules"),
    ]
    out = tmp_path / "promises.json"
    simulate.main(out, 2)
    written = json.loads(out.read_text())
    assert written["command"].endswith(f"--runs 2 --out {out}")
    assert {cell["runs"] for cell in written["cells"]} == {2}
