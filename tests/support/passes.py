"""Passes from plain token lists, laid out by a second and simpler code than the engine's packer."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spinf_serve.engine.tree.plan import Pass, TreeSlice

Tokens = Sequence[int]


@dataclass(frozen=True)
class Part:
    """What of a tree goes into a pass: trunk tokens from `trunk_start` to `trunk_end`, some paths.

    Attributes:
        trunk: all tokens of the trunk.
        paths: token lists that continue it; equal beginnings of neighbours share rows. A pass with
            paths holds or follows the trunk's end.
        trunk_start, trunk_end: the trunk rows of this pass; the end is the trunk's by default.
        reads: what is read: `ends` the last token of each path, `all` every branch row.
        key, keep: as in `TreeSlice`.
    """

    trunk: Tokens
    paths: Sequence[Tokens] = ()
    trunk_start: int = 0
    trunk_end: int | None = None
    reads: str = "ends"
    key: int = 0
    keep: bool = False


def make_pass(*parts: Part, columns: Sequence[int] = (0, 1, 2)) -> Pass:
    """One pass of parts of trees, in the order given; every read wants the same columns."""
    tokens: list[int] = []
    positions: list[int] = []
    slices: list[TreeSlice] = []
    paths: list[list[int]] = []
    own: list[int] = []
    path_slice: list[int] = []
    reads: set[int] = set()
    for number, part in enumerate(parts):
        row_start = len(tokens)
        end = len(part.trunk) if part.trunk_end is None else part.trunk_end
        tokens += part.trunk[part.trunk_start : end]
        positions += range(part.trunk_start, end)
        branch_start = len(tokens)
        previous: list[int] = []
        previous_tokens: Tokens = ()
        for path in part.paths:
            shared = _common(previous_tokens, path)
            rows = previous[:shared] + list(range(len(tokens), len(tokens) + len(path) - shared))
            tokens += path[shared:]
            positions += range(len(part.trunk) + shared, len(part.trunk) + len(path))
            paths.append(rows)
            own.append(shared)
            path_slice.append(number)
            reads |= {rows[-1]} if part.reads == "ends" else set(rows)
            previous, previous_tokens = rows, path
        slices.append(
            TreeSlice(
                key=part.key,
                row_start=row_start,
                trunk_start=part.trunk_start,
                trunk_rows=end - part.trunk_start,
                trunk_len=len(part.trunk),
                branch_rows=len(tokens) - branch_start,
                keep=part.keep,
            )
        )
    grid = np.full((len(paths), max(map(len, paths), default=0)), -1, np.int32)
    for i, rows in enumerate(paths):
        grid[i, : len(rows)] = rows
    return Pass(
        tokens=_array(tokens),
        positions=_array(positions),
        slices=tuple(slices),
        path_rows=grid,
        path_len=_array([len(rows) for rows in paths]),
        path_own=_array(own),
        path_slice=_array(path_slice),
        read_rows=_array(sorted(reads)),
        column_start=_array(range(0, (len(reads) + 1) * len(columns), len(columns)))
        if columns
        else np.zeros(len(reads) + 1, np.int32),
        columns=_array(list(columns) * len(reads)),
    )


def _common(a: Tokens, b: Tokens) -> int:
    """Shared tokens at the start; a path never lies wholly in the one before."""
    count = 0
    while count < min(len(a), len(b)) and a[count] == b[count]:
        count += 1
    if count == len(b):
        raise AssertionError("sort the paths: one lies in the path before it")
    return count


def _array(values: Sequence[int] | range) -> np.ndarray:
    return np.asarray(values, np.int32)


def random_paths(
    draw: random.Random, count: int, longest: int, vocab: int = 300
) -> Sequence[Tokens]:
    """Sorted token lists of 1 to `longest` tokens, some of which share a stem of any length."""
    stem = [draw.randrange(vocab) for _ in range(draw.randrange(longest))]
    found: set[tuple[int, ...]] = set()
    while len(found) < count:
        start = stem[: draw.randrange(len(stem) + 1)] if draw.random() < 0.6 else []
        rest = draw.randint(1, longest - len(start))
        found.add((*start, *(draw.randrange(vocab) for _ in range(rest))))
    return sorted(found)
