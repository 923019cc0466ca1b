"""Tiles of a pass: every query once, against what it sees. Plain loops are the oracle."""

import random

import numpy as np
import pytest

from spinf_serve.engine.kernels.tree_attention.device_layout import (
    PATH_FIELDS,
    TRUNK_FIELDS,
    Kind,
    lay_out,
    mapped,
)
from spinf_serve.engine.kernels.tree_attention.kept import Room
from spinf_serve.engine.kernels.tree_attention.tiling import Tiling
from tests.support.passes import Part, make_pass, random_paths

TILES = Tiling(32, 32, 16, 16, warps=4, stages=1, path_warps=4, path_stages=1)
KINDS = (Kind(2, None, TILES), Kind(3, 70, TILES), Kind(16, None, TILES))


def _plan(seed=0, reads="all"):
    draw = random.Random(seed)
    trunks = (0, 1, 16, 17, 64, 130)
    return make_pass(
        *(
            Part([1] * trunk, random_paths(draw, 6, longest=40), key=key, reads=reads)
            for key, trunk in enumerate(trunks)
        )
    )


def _ancestors(plan):
    """Pass row -> rows of its path up to itself, of each branch row."""
    found = {}
    for rows, length in zip(plan.path_rows, plan.path_len, strict=True):
        for depth in range(length):
            found.setdefault(int(rows[depth]), rows[: depth + 1].tolist())
    return found


@pytest.mark.parametrize("kind", range(len(KINDS)))
@pytest.mark.parametrize("what", ("every", "reads"))
@pytest.mark.parametrize("reads", ("all", "ends"))
def test_path_tiles_hold_each_branch_query_once_with_its_ancestors(kind, what, reads):
    plan = _plan(reads=reads)
    layout = lay_out(plan, KINDS, [{}] * 3)
    rows = np.arange(len(plan.tokens)) if what == "every" else plan.read_rows
    queries, tiles = getattr(layout, what), getattr(layout.kinds[kind], what)
    tokens = TILES.path_tokens(KINDS[kind].group)
    ancestors = _ancestors(plan)
    found = []
    assert tiles.path.shape[1] == PATH_FIELDS
    for start, count, key_start, low, high, has_trunk in tiles.path:
        assert 1 <= count <= tokens
        for entry in range(start, start + count):
            row, depth = int(rows[queries.path_query[entry]]), queries.path_depth[entry]
            found.append(row)
            assert low <= depth <= high
            assert layout.path_keys[key_start : key_start + depth + 1].tolist() == ancestors[row]
            part = next(s for s in reversed(plan.slices) if s.row_start <= row)
            assert has_trunk == (part.trunk_len > 0)
    assert sorted(found) == [row for row in rows if int(row) in ancestors]


@pytest.mark.parametrize("kind", range(len(KINDS)))
@pytest.mark.parametrize("what", ("every", "reads"))
@pytest.mark.parametrize("reads", ("all", "ends"))
def test_trunk_tiles_hold_each_query_that_has_a_trunk_once(kind, what, reads):
    plan = _plan(reads=reads)
    layout = lay_out(plan, KINDS, [{}] * 3)
    rows = np.arange(len(plan.tokens)) if what == "every" else plan.read_rows
    queries, tiles = getattr(layout, what), getattr(layout.kinds[kind], what)
    assert queries.position.tolist() == plan.positions[rows].tolist()
    tokens = TILES.tokens(KINDS[kind].group)
    found = []
    assert tiles.trunk.shape[1] == TRUNK_FIELDS
    for first, count, trunk_len, low, high, final, row, cut, slot, ring in tiles.trunk:
        assert 1 <= count <= tokens
        mine = rows[first : first + count]
        found += mine.tolist()
        part = next(s for s in reversed(plan.slices) if s.row_start <= mine[0])
        end = part.branch_start if final else part.branch_start + part.branch_rows
        assert (part.row_start if final else part.branch_start) <= mine[0] <= mine[-1] < end
        positions = plan.positions[mine]
        assert (low, high) == (positions.min(), positions.max())
        assert (trunk_len, row, cut) == (part.trunk_len, part.row_start, 0)
        assert (slot, ring) == (0, 1)
    has_trunk = [
        row
        for part in plan.slices
        for row in range(part.row_start, part.branch_start + part.branch_rows)
        if part.trunk_len
    ]
    assert sorted(found) == [row for row in rows if row in has_trunk]


def test_cut_trunks_meet_their_rooms():
    plan = make_pass(
        Part([1] * 300, trunk_start=128, trunk_end=256, key=4, keep=True),
        Part([1] * 100, [[1, 2]], trunk_start=100, key=5),
        Part([1] * 10, [[1]], key=6),
    )
    whole, ring = {4: Room(64, 320), 5: Room(384, 128)}, {4: Room(0, 64), 5: Room(128, 128)}
    layout = lay_out(plan, KINDS[:2], [whole, ring])
    for kind, rooms in zip(layout.kinds, (whole, ring), strict=True):
        assert kind.borrows
        for number, key, cut in ((0, 4, 128), (1, 5, 100), (2, 6, 0)):
            part = plan.slices[number]
            mine = [t for t in kind.every.trunk if t[6] == part.row_start]
            assert mine
            room = rooms.get(key, Room(0, 1))
            assert all(tuple(t[7:]) == (cut, room.start, room.slots) for t in mine)
    assert layout.kinds[0].keep_rows.tolist() == list(range(128))
    assert layout.kinds[0].keep_slots.tolist() == list(range(64 + 128, 64 + 256))
    # The ring has room for the last 64 of these.
    assert layout.kinds[1].keep_rows.tolist() == list(range(64, 128))
    assert layout.kinds[1].keep_slots.tolist() == list(range(64))


def test_trunks_without_a_room_are_missed():
    later = make_pass(Part([1] * 128, [[1]], trunk_start=64, key=7))
    with pytest.raises(AssertionError, match="tree 7 has no room"):
        lay_out(later, KINDS[:1], [{}])
    first = make_pass(Part([1] * 128, trunk_end=64, key=8, keep=True))
    with pytest.raises(AssertionError, match="tree 8 has no room"):
        lay_out(first, KINDS[:1], [{7: Room(0, 64)}])


def test_a_tile_holds_a_group_and_divides_a_block():
    with pytest.raises(AssertionError, match="16 rows does not hold a group of 17"):
        lay_out(_plan(), [Kind(17, None, TILES)], [{}])
    with pytest.raises(AssertionError, match="48 keys does not divide 64"):
        Tiling(32, 48, 16, 16, 4, 1, 4, 1)


def test_every_array_is_int32_and_mapped_in_one_order():
    layout = lay_out(_plan(), KINDS, [{}] * 3)
    arrays: list[np.ndarray] = []
    mapped(layout, arrays.append)
    assert {array.dtype for array in arrays} == {np.dtype(np.int32)}
    again = iter(arrays)
    copy = mapped(layout, lambda _: next(again))
    assert copy.kinds[1].reads.path is layout.kinds[1].reads.path
    assert copy.path_keys is layout.path_keys
