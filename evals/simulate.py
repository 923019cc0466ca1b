"""Do promised cuts hold? Counts it on made-up traffic: `python -m spinf_serve.evals.simulate`.

Runs the functions that certificates are made by (`exact.bounds`, `cuts.least_counted`, `exact.walk`) on
a thousand labelled sets at once, in the worlds of `spinf_serve.evals.worlds`, with our rules about
rows and without them.
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from spinf_serve.evals.certify import allowance
from spinf_serve.evals.cuts import least_counted, preset_cuts
from spinf_serve.evals.exact import Array, Counts, bounds, estimates, trials, walk
from spinf_serve.evals.points import count
from spinf_serve.evals.worlds import WORLDS, World

TARGET = 0.9
DELTA = 0.05
LABELS = (100, 200, 500, 1000, 2000)
SEED = 63


@dataclass(frozen=True, slots=True)
class Cell:
    """What many labelled sets of one size led to.

    Attributes:
        world: name of the world. labels: rows labelled in each set.
        way: "rules", "no rules", "ranks" (with rules, cuts at shares of unlabelled traffic) or
            "in sample" (the loosest cut that reaches the target on its own rows).
        runs, promised, missed: sets; those with a promised cut; those whose cut misses the target.
        coverage: mean share of the traffic flagged over the promised cuts; None without one.
    """

    world: str
    labels: int
    way: str
    runs: int
    promised: int
    missed: int
    coverage: float | None


def simulate(runs: int, labels: tuple[int, ...] = LABELS, seed: int = SEED) -> list[Cell]:
    """All cells of all worlds. The same arguments give the same cells."""
    cells = []
    for index, make in enumerate(WORLDS):
        world = make(np.random.default_rng([seed, index]))
        spaced = preset_cuts("lift")
        placed = binned(world, spaced)
        for size in labels:
            cells.append(cell(placed, size, runs, True, seed))
            if world.rule is not None:
                cells.append(cell(placed, size, runs, False, seed))
        if world.name == "plain":
            ranks = tuple(round(0.05 * step, 2) for step in range(2, 21))
            # Cuts by unlabelled traffic of the same kind, not by the labelled rows.
            unlabelled = make(np.random.default_rng([seed, 1000])).scores[0]
            by_ranks = binned(world, preset_cuts("coverage", unlabelled, shares=ranks))
            for size in labels:
                cells.append(replace(cell(by_ranks, size, runs, True, seed), way="ranks"))
                cells.append(in_sample(world, size, runs, seed))
    return cells


@dataclass(frozen=True, slots=True)
class Binned:
    """A world with each score's place among the cuts, so that runs only count.

    Attributes:
        world: as given.
        cuts: [C] in the order of the walk.
        places: [W, M] how many of the cuts lie at a row's score or below: it is flagged at these.
        truth: [W, C] the promised rate of the traffic. coverage: [W, C] share flagged.
    """

    world: World
    cuts: Array
    places: NDArray[np.int64]
    truth: Array
    coverage: Array


def binned(world: World, cuts: Array) -> Binned:
    """Place a world's scores among cuts, and count what is true at each."""
    ascending = np.sort(cuts)
    order = ascending[::-1] if world.kind == "precision" else ascending
    true = [count(scores, world.holds, order) for scores in world.scores]
    return Binned(
        world,
        order,
        np.searchsorted(ascending, world.scores, side="right").astype(np.int64),
        np.array([estimates(world.kind, one, None) for one in true]),
        np.array([estimates("flag_rate", one, None) for one in true]),
    )


def tally(
    placed: Binned, wording: int, rows: NDArray[np.int64], counted: NDArray[np.bool_]
) -> Counts:
    """Counted rows at each cut and above, by class, for every run, [R, C].

    Args:
        rows: [R, n] positions in the traffic. counted: [R, n].
    """
    runs, width = len(rows), len(placed.cuts) + 1
    key = np.arange(runs)[:, None] * 2 + placed.world.holds[rows]
    key = key * width + placed.places[wording][rows]
    cells = np.bincount(key[counted], minlength=runs * 2 * width).astype(np.float64)
    # From the highest place down: entry i holds the rows at the i-th cut from above, and above it.
    above = cells.reshape(runs, 2, width)[..., ::-1].cumsum(axis=-1)
    whole, above = above[..., -1:], above[..., :-1]
    if placed.world.kind != "precision":
        above = above[..., ::-1]
    return Counts(above[:, 1], above[:, 0], whole[:, 1], whole[:, 0])


def cell(placed: Binned, labels: int, runs: int, rules: bool, seed: int) -> Cell:
    """One world at one size, with our rules or without; both see the same labels."""
    world = placed.world
    drawn = world.draw(np.random.default_rng([seed, labels]), runs, labels)
    counted = drawn.counted if rules else np.ones_like(drawn.counted)
    base = world.base_rate if rules else None
    tries = len(world.scores)
    delta = allowance(DELTA, [], planned=tries) if rules else DELTA
    cut, coverage, true = np.full(runs, -1), np.full(runs, -1.0), np.ones(runs)
    for wording in range(tries):
        counts = tally(placed, wording, drawn.rows, counted)
        chosen = promised(world, counts, base, delta)
        flagged = np.where(chosen >= 0, placed.coverage[wording][chosen], -1.0)
        better = flagged > coverage
        cut = np.where(better, chosen, cut)
        coverage = np.where(better, flagged, coverage)
        true = np.where(better, placed.truth[wording][chosen], true)
    kept = cut >= 0
    return Cell(
        world.name,
        labels,
        "rules" if rules else "no rules",
        runs,
        int(kept.sum()),
        int((kept & (true < TARGET)).sum()),
        float(coverage[kept].mean()) if kept.any() else None,
    )


def promised(world: World, counts: Counts, base: float | None, delta: float) -> NDArray[np.int64]:
    """Position of the promised cut in the walk for every run, -1 for none, [R]."""
    passed = bounds(world.kind, counts, base, delta) >= TARGET
    least = least_counted(world.kind, TARGET, counts, base, delta)
    return walk(passed, trials(world.kind, counts)[1] >= least)


def in_sample(world: World, labels: int, runs: int, seed: int) -> Cell:
    """What the loosest cut does that reaches the target on the rows that it was chosen on."""
    rows = world.draw(np.random.default_rng([seed, labels]), runs, labels).rows
    scores, holds = world.scores[0][rows], world.holds[rows]
    order = np.argsort(-scores, axis=1)
    hits = np.take_along_axis(holds, order, axis=1).cumsum(axis=1)
    reached = hits / np.arange(1, labels + 1) >= TARGET
    kept = reached.any(axis=1)
    last = labels - 1 - np.argmax(reached[:, ::-1], axis=1)
    cuts = np.take_along_axis(scores, order, axis=1)[np.arange(runs), last]
    true = count(world.scores[0], world.holds, cuts)
    missed = kept & (estimates("precision", true, None) < TARGET)
    flagged = estimates("flag_rate", true, None)[kept]
    return Cell(
        world.name,
        labels,
        "in sample",
        runs,
        int(kept.sum()),
        int(missed.sum()),
        float(flagged.mean()) if len(flagged) else None,
    )


def main(
    out: Annotated[Path, typer.Option(metavar="FILE", help="where the counts go, as JSON")],
    runs: Annotated[int, typer.Option(min=1, help="labelled sets of each size and world")] = 1000,
) -> None:
    """Count on made-up traffic how often promised cuts miss their target."""
    start = perf_counter()
    cells = simulate(runs)
    worlds = [make(np.random.default_rng(0)) for make in WORLDS]
    figures = {
        "command": f"python -m spinf_serve.evals.simulate --runs {runs} --out {out}",
        "numpy": np.__version__,
        "seed": SEED,
        "target": TARGET,
        "delta": DELTA,
        "worlds": [
            {"name": one.name, "words": one.words, "rule": one.rule, "kind": one.kind}
            for one in worlds
        ],
        "cells": [asdict(one) for one in cells],
    }
    out.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    typer.echo(f"{len(cells)} cells of {runs} runs in {perf_counter() - start:.0f} s: {out}")


if __name__ == "__main__":
    typer.run(main)
