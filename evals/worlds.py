"""Made-up traffic whose truth is known, and the ways in which labels of it are come by.

Each world is a finite traffic: what is true of a cut is counted on it, without error. Knows no test and
no promise; `spinf_serve.evals.simulate` makes them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from spinf_serve.evals.exact import Array, Promise

TRAFFIC_ROWS = 200_000
COPIES = 10
WORDINGS = 20
BASE_RATE = 0.05

Rows = NDArray[np.int64]
Generator = np.random.Generator


@dataclass(frozen=True, slots=True)
class Drawn:
    """Labelled rows of many runs.

    Attributes:
        rows: [R, n] positions in the traffic.
        counted: [R, n] the rows that may be counted by the rules; all of them without rules.
    """

    rows: Rows
    counted: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class World:
    """A traffic and how its rows get labelled.

    Attributes:
        name: for tables. words: how labels are come by.
        rule: what a promise heeds here; None where there is nothing to heed.
        kind: what is promised.
        scores: [W, M] log odds; W wordings of one question, mostly 1.
        holds: [M].
        base_rate: what the user states under the rules; None states nothing.
        draw: (generator, runs, labels) -> what was labelled.
    """

    name: str
    words: str
    rule: str | None
    kind: Promise
    scores: Array
    holds: NDArray[np.bool_]
    base_rate: float | None
    draw: Callable[[Generator, int, int], Drawn]


def plain(generator: Generator) -> World:
    """Confidence that is right as often as it says; of the flagged, 90 % hold up to 63 % coverage."""
    scores = generator.normal(1.68, 1.2, TRAFFIC_ROWS)
    holds = generator.random(TRAFFIC_ROWS) < expit(scores)
    return World(
        "plain", "labels drawn at random", None, "precision", scores[None], holds, None, _at_random
    )


def flat(generator: Generator) -> World:
    """89.9 % hold at every score: each promise of 90 % is wrong, by the least margin."""
    scores = generator.normal(1.68, 1.2, TRAFFIC_ROWS)
    holds = np.zeros(TRAFFIC_ROWS, dtype=bool)
    # Spread evenly over the rows by score, so that every cut of a thousand rows has this share.
    order = np.argsort(scores)
    holds[order] = np.arange(TRAFFIC_ROWS) * 899 % 1000 < 899
    return World(
        "flat",
        "89.9 % hold at every score, so every promise is wrong",
        None,
        "precision",
        scores[None],
        holds,
        None,
        _at_random,
    )


def coin(generator: Generator) -> World:
    """Labels that have nothing to do with scores."""
    scores = generator.normal(0.0, 2.0, TRAFFIC_ROWS)
    holds = generator.random(TRAFFIC_ROWS) < 0.5
    return World(
        "coin",
        "labels by the flip of a coin",
        None,
        "precision",
        scores[None],
        holds,
        None,
        _at_random,
    )


def balanced(generator: Generator) -> World:
    """5 % positives in the traffic, labelled half and half."""
    holds = np.arange(TRAFFIC_ROWS) < BASE_RATE * TRAFFIC_ROWS
    scores = generator.normal(np.where(holds, 2.0, -2.0), 1.0)
    positives, negatives = np.flatnonzero(holds), np.flatnonzero(~holds)

    def draw(generator: Generator, runs: int, labels: int) -> Drawn:
        half = labels // 2
        rows = np.concatenate(
            [
                generator.choice(positives, (runs, half)),
                generator.choice(negatives, (runs, labels - half)),
            ],
            axis=1,
        )
        return Drawn(rows, np.ones(rows.shape, dtype=bool))

    return World(
        "half and half",
        "labels half and half, traffic with 5 % positives",
        "the base rate is stated",
        "precision",
        scores[None],
        holds,
        BASE_RATE,
        draw,
    )


def queue(generator: Generator) -> World:
    """Three of four labels from the rows that the scores are least sure of."""
    scores, holds = _spread(generator)
    unsure = np.argsort(np.abs(scores))[: TRAFFIC_ROWS // 10]

    def draw(generator: Generator, runs: int, labels: int) -> Drawn:
        rows = generator.integers(TRAFFIC_ROWS, size=(runs, labels))
        random = np.zeros((runs, labels), dtype=bool)
        random[:, : labels // 4] = True
        return Drawn(np.where(random, rows, unsure[rows % len(unsure)]), random)

    return World(
        "queue",
        "three labels of four from an uncertainty queue",
        "only the random ones count",
        "recall",
        scores[None],
        holds,
        None,
        draw,
    )


def weighted_queue(generator: Generator) -> World:
    """Unsure rows drawn up to ten times as often, the chances kept."""
    scores, holds = _spread(generator)
    chance = np.maximum(0.1, np.exp(-np.abs(scores)))
    edges = np.cumsum(chance) / chance.sum()

    def draw(generator: Generator, runs: int, labels: int) -> Drawn:
        rows = np.searchsorted(edges, generator.random((runs, labels)))
        rows = np.minimum(rows, TRAFFIC_ROWS - 1)
        weight = 1 / chance[rows]
        top = weight.max(axis=1, keepdims=True)
        return Drawn(rows, generator.random((runs, labels)) * top < weight)

    return World(
        "weighted queue",
        "unsure rows drawn up to ten times as often",
        "inverse-probability weights",
        "recall",
        scores[None],
        holds,
        None,
        draw,
    )


def threads(generator: Generator) -> World:
    """Ten copies of every row, as quoted mails in a thread have it."""
    base = plain(generator)

    def draw(generator: Generator, runs: int, labels: int) -> Drawn:
        first = generator.integers(TRAFFIC_ROWS, size=(runs, labels // COPIES))
        rows = np.repeat(first, COPIES, axis=1)
        counted = np.zeros(rows.shape, dtype=bool)
        counted[:, ::COPIES] = True
        return Drawn(rows, counted)

    return World(
        "threads",
        "threads of ten copies",
        "one row of a group",
        "precision",
        base.scores,
        base.holds,
        None,
        draw,
    )


def wordings(generator: Generator) -> World:
    """Twenty wordings, each as good as the others, tried on the same labels."""
    sense = generator.normal(1.68, 1.2, TRAFFIC_ROWS)
    holds = generator.random(TRAFFIC_ROWS) < expit(sense)
    scores = sense + generator.normal(0.0, 1.6, (WORDINGS, TRAFFIC_ROWS))
    return World(
        "twenty wordings",
        "the best of twenty wordings tried on the same labels",
        "delta is shared",
        "precision",
        scores,
        holds,
        None,
        _at_random,
    )


WORLDS = (plain, flat, coin, balanced, queue, weighted_queue, threads, wordings)


def _at_random(generator: Generator, runs: int, labels: int) -> Drawn:
    rows = generator.integers(TRAFFIC_ROWS, size=(runs, labels))
    return Drawn(rows, np.ones(rows.shape, dtype=bool))


def _spread(generator: Generator) -> tuple[Array, NDArray[np.bool_]]:
    """30 % positives; some of them lie far below the middle, where no queue looks."""
    holds = generator.random(TRAFFIC_ROWS) < 0.3
    return generator.normal(np.where(holds, 1.0, -2.0), 1.5), holds
