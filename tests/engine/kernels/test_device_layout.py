"""Tiles of a pass: every query once, against what it sees. Plain loops are the oracle."""

import random
from dataclasses import replace

import numpy as np
import pytest

from spinf_serve.engine.kernels.tiles import CAPABILITIES, INTERPRETER
from spinf_serve.engine.kernels.tree_attention.device_layout import (
    TILE_FIELDS,
    Kind,
    lay_out,
    mapped,
)
from spinf_serve.engine.kernels.tree_attention.folds import STRETCH_FIELDS
from spinf_serve.engine.kernels.tree_attention.kept import Room
from spinf_serve.engine.kernels.tree_attention.tiling import STRETCH, Tiling, tiling
from tests.support.passes import Part, make_pass, random_paths

TILES = Tiling(32, 32, STRETCH, warps=4, stages=1)
SLOTS = replace(TILES, path_keys=4 * STRETCH)
KINDS = (Kind(2, None, TILES), Kind(3, 70, SLOTS), Kind(16, None, SLOTS), Kind(1, None, SLOTS))


def _plan(seed=0, reads="all"):
    draw = random.Random(seed)
    trunks = (0, 1, 16, 17, 64, 130)
    plan = make_pass(
        *(
            Part([1] * trunk, random_paths(draw, 6, longest=40), key=key)
            for key, trunk in enumerate(trunks)
        )
    )
    if reads == "ends":
        return plan
    step = {"all": 1, "few": 7}[reads]
    return replace(plan, read_rows=np.arange(0, len(plan.tokens), step, dtype=np.int32))


def _ancestors(plan):
    """Pass row -> rows of its path up to itself, of each branch row."""
    found: dict[int, list[int]] = {}
    for rows, length in zip(plan.path_rows, plan.path_len, strict=True):
        for depth in range(length):
            found.setdefault(int(rows[depth]), rows[: depth + 1].tolist())
    return found


def _laid(plan, kind, what):
    """The queries' pass rows, the entries' queries, and the tiles."""
    layout = lay_out(plan, KINDS, [{}] * len(KINDS))
    rows = np.arange(len(plan.tokens)) if what == "every" else plan.read_rows
    return layout, rows[getattr(layout, what).query], getattr(layout.kinds[kind], what)


every_set = pytest.mark.parametrize("what", ("every", "reads"))
every_kind = pytest.mark.parametrize("kind", range(len(KINDS)))
some_reads = pytest.mark.parametrize("reads", ("all", "ends", "few"))


@every_kind
@every_set
@some_reads
def test_tiles_hold_each_query_once_and_know_its_trunk(kind, what, reads):
    plan = _plan(reads=reads)
    layout, rows, tiles = _laid(plan, kind, what)
    assert getattr(layout, what).position.tolist() == plan.positions[rows].tolist()
    assert sorted(rows) == list(range(len(plan.tokens)) if what == "every" else plan.read_rows)
    assert tiles.tile.shape[1] == TILE_FIELDS
    end = 0
    for first, count, trunk_len, low, high, row, cut, slot, ring, *_ in sorted(tiles.tile.tolist()):
        assert first == end
        end = first + count
        assert 1 <= count <= TILES.tokens(KINDS[kind].group)
        mine = rows[first:end]
        part = next(s for s in reversed(plan.slices) if s.row_start <= mine.min())
        assert mine.max() < part.branch_start + part.branch_rows
        assert (mine < part.branch_start).all() or (mine >= part.branch_start).all()
        positions = plan.positions[mine]
        assert (low, high) == (positions.min(), positions.max())
        assert (trunk_len, row, cut) == (part.trunk_len, part.row_start, 0)
        assert (slot, ring) == (0, 1)
    assert end == len(rows)


@every_kind
@every_set
@some_reads
def test_an_entry_meets_its_ancestors_once_and_in_order(kind, what, reads):
    plan = _plan(reads=reads)
    _, rows, tiles = _laid(plan, kind, what)
    ancestors = _ancestors(plan)
    slots = KINDS[kind].tiling.path_slots
    assert tiles.stretch.shape[1:] == (slots, STRETCH_FIELDS)
    assert tiles.path_key.shape == (len(tiles.stretch), slots * STRETCH)
    keys = tiles.path_key.reshape(-1, slots, STRETCH).tolist()
    last = 0
    for first, count, *_, begin, end in sorted(tiles.tile.tolist()):
        assert begin == last
        last = end
        for entry in range(first, first + count):
            met: list[int] = []
            for fold in range(begin, end):
                theirs = [
                    slot
                    for slot, (depth, first_theirs, end_theirs) in enumerate(tiles.stretch[fold])
                    if first_theirs <= entry < end_theirs and depth == len(met)
                ]
                # One stretch of a fold at most, or sums would depend on which share it.
                assert len(theirs) == sum(f <= entry < e for _, f, e in tiles.stretch[fold]) <= 1
                met += [row for slot in theirs for row in keys[fold][slot]]
            own = ancestors.get(int(rows[entry]), [])
            assert met[: len(own)] == own
            assert bool(met) == bool(own)
    assert last == len(tiles.stretch)


@every_kind
def test_keys_that_none_meets_are_of_the_tree(kind):
    plan = _plan()
    _, rows, tiles = _laid(plan, kind, "every")
    for first, *_, begin, end in tiles.tile:
        part = next(s for s in reversed(plan.slices) if s.row_start <= rows[first])
        met = tiles.path_key[begin:end]
        assert (met >= part.branch_start).all()
        assert (met < part.branch_start + part.branch_rows).all()


def test_the_tiles_with_the_most_keys_come_first():
    plan = make_pass(Part([1] * 150, [[1, 2], [3]]), Part([1] * 300, key=1), Part([], [[4]], key=2))
    every = lay_out(plan, [Kind(2, None, TILES), Kind(2, 70, TILES)], [{}] * 2).kinds
    whole, windowed = (kind.every.tile[:, [4, 5]].tolist() for kind in every)
    assert whole[:2] == [[299, 153], [287, 153]]
    assert whole[-2:] == [[15, 0], [0, 453]] or whole[-1] == [0, 453]
    # With the window every tile behind it has as many, and those with path keys have more.
    assert windowed[0] == [151, 0]


def test_paths_meet_the_stretches_that_they_share_together():
    stem = list(range(40))
    paths = [[*stem, 100 + i] for i in range(8)]
    plan = make_pass(Part([], [*paths, [200]]))
    spans = _spans(plan, TILES, "every")
    # Tiles of 16 tokens: 16, 16, the stem's last 8 tokens and each path's own, and a last one.
    assert [sorted(tile) for tile in spans] == [
        [(0, 0, 16)],
        [(0, 16, 32), (16, 16, 32)],
        [(0, 32, 48), (16, 32, 48), (32, 32, 41), *((32, i, i + 1) for i in range(41, 48))],
        [(0, 48, 49)],
    ]


def test_stretches_of_one_depth_are_met_side_by_side():
    paths = [[i, *range(100, 100 + length)] for i, length in enumerate((4, 20, 3, 2, 40, 1, 16))]
    plan = make_pass(Part([], paths))
    tiling = replace(SLOTS, rows=256)
    tiles = lay_out(plan, [Kind(2, None, tiling)], [{}]).kinds[0].every
    assert len(tiles.tile) == 1
    starts = np.concatenate(([0], np.cumsum([len(path) for path in paths])))
    spans = list(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True))
    none = (0, 0, 0)
    expected = [
        [(0, *span) for span in spans[:4]],
        [(0, *span) for span in spans[4:]] + [none],
        [(16, *spans[1]), (16, *spans[4]), (16, *spans[6]), none],
        [(32, *spans[4]), none, none, none],
    ]
    assert [[tuple(slot) for slot in fold] for fold in tiles.stretch.tolist()] == expected


def test_a_shared_stretch_that_only_the_later_path_reads_is_met():
    stem = list(range(40))
    plan = make_pass(Part([], [[*stem, 100], [*stem, 101]]))
    plan = replace(plan, read_rows=np.array([3, 41], np.int32))
    assert _spans(plan, TILES, "reads") == [[(0, 0, 2), (16, 1, 2), (32, 1, 2)]]


def _spans(plan, tiling, what):
    """The stretches of each tile, in the entries' order."""
    tiles = getattr(lay_out(plan, [Kind(2, None, tiling)], [{}]).kinds[0], what)
    return [
        [tuple(slot) for fold in tiles.stretch[begin:end].tolist() for slot in fold]
        for *_, begin, end in sorted(tiles.tile.tolist())
    ]


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
            mine = [t for t in kind.every.tile if t[5] == part.row_start]
            assert mine
            room = rooms.get(key, Room(0, 1))
            assert all(tuple(t[6:9]) == (cut, room.start, room.slots) for t in mine)
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
    with pytest.raises(AssertionError, match="32 rows does not hold a group of 33"):
        lay_out(_plan(), [Kind(33, None, TILES)], [{}])
    with pytest.raises(AssertionError, match="48 keys does not divide 64"):
        Tiling(32, 48, 16, 4, 1)
    with pytest.raises(AssertionError, match="24 keys is no whole stretches"):
        Tiling(32, 32, 24, 4, 1)


@pytest.mark.parametrize("capability", (INTERPRETER, *CAPABILITIES))
def test_every_card_has_tiles_for_heads_up_to_512(capability):
    # Query heads of a group and head size of the layers of 12B and 31B models, and of small ones.
    for group, head_dim in ((3, 64), (4, 256), (2, 256), (16, 512), (8, 512)):
        assert tiling(capability, head_dim).tokens(group) >= 1
    with pytest.raises(AssertionError, match="heads of 513"):
        tiling(capability, 513)


def test_every_array_is_int32_and_mapped_in_one_order():
    layout = lay_out(_plan(), KINDS, [{}] * len(KINDS))
    arrays: list[np.ndarray] = []
    mapped(layout, arrays.append)
    assert {array.dtype for array in arrays} == {np.dtype(np.int32)}
    again = iter(arrays)
    copy = mapped(layout, lambda _: next(again))
    assert copy.kinds[1].reads.tile is layout.kinds[1].reads.tile
    assert copy.kinds[0].every.path_key is layout.kinds[0].every.path_key


def test_where_every_row_is_read_both_sets_of_queries_have_the_same_tiles():
    layout = lay_out(_plan(reads="all"), KINDS, [{}] * len(KINDS))
    few = lay_out(_plan(reads="few"), KINDS, [{}] * len(KINDS))
    assert layout.reads.query.tolist() == layout.every.query.tolist()
    for kind, other in zip(layout.kinds, few.kinds, strict=True):
        assert kind.reads is kind.every
        assert other.reads is not other.every
        assert other.every.tile.tolist() == kind.every.tile.tolist()
        assert other.every.path_key.tolist() == kind.every.path_key.tolist()
