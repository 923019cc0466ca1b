"""Rooms for kept trunks."""

import itertools
import random

import pytest

from spinf_serve.engine.kernels.tree_attention.kept import Room, Rooms, slots_needed


@pytest.mark.parametrize(
    ("trunk_len", "window", "slots"),
    (
        (1, None, 64),
        (64, None, 64),
        (65, None, 128),
        (5000, None, 5056),
        (5000, 1, 64),
        (5000, 2, 128),
        (5000, 65, 128),
        (5000, 66, 192),
        (5000, 1024, 1088),
        (100, 1024, 128),
    ),
)
def test_slots_of_a_trunk(trunk_len, window, slots):
    assert slots_needed(trunk_len, window) == slots


@pytest.mark.parametrize("window", (1, 2, 63, 64, 65, 66, 100, 128))
def test_a_ring_holds_every_block_that_a_row_may_read(window):
    slots = slots_needed(10_000, window)
    for position in range(300, 500):
        first = (position - window + 1) // 64
        last = (position - 1) // 64
        assert (last - first + 1) * 64 <= slots


def test_rooms_are_apart_and_come_back():
    draw = random.Random(3)
    rooms = Rooms(64 * 40)
    taken: dict[int, Room] = {}
    for key in range(400):
        if draw.random() < 0.5 and taken:
            gone = draw.choice(list(taken))
            rooms.release(gone)
            del taken[gone]
        found = rooms.take(key, 64 * draw.randint(1, 9))
        if found is not None:
            taken[key] = found
        assert rooms.taken == taken
        ends = sorted((room.start, room.start + room.slots) for room in taken.values())
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(ends))
        assert not ends or (ends[0][0] >= 0 and ends[-1][1] <= 64 * 40)
    for key in list(taken):
        rooms.release(key)
    assert rooms.take(1000, 64 * 40) == Room(0, 64 * 40)


def test_a_tree_has_one_room():
    rooms = Rooms(128)
    assert rooms.take(5, 64) == rooms.take(5, 64) == Room(0, 64)
    assert rooms.take(6, 128) is None
    rooms.release(5)
    rooms.release(5)
    assert rooms.take(6, 128) == Room(0, 128)


@pytest.mark.parametrize("slots", (0, 63, 65))
def test_rooms_are_whole_blocks(slots):
    with pytest.raises(AssertionError, match="no whole blocks"):
        Rooms(640).take(1, slots)
