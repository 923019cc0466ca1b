"""Tiles come from a table: every card and number of rows has one, and says when it has not."""

import dataclasses

import pytest

from spinf_serve.engine.kernels.linear.gate_up import GATE_BLOCK
from spinf_serve.engine.kernels.tiles import (
    CAPABILITIES,
    INTERPRETER,
    entry_of,
    product_ladder,
    product_tile,
    read_tile,
    schemes,
)

CARDS = (INTERPRETER, *CAPABILITIES)


@pytest.mark.parametrize("card", CARDS)
def test_every_size_has_a_tile(card):
    for scheme in schemes(card):
        *limits, last = [most for most, _ in product_ladder(card, scheme)]
        assert last is None and limits == sorted(most for most in limits if most is not None)
        for rows in (1, 63, 64, 65, 129, 1024, 1025, 16384):
            for columns in (64, 3840, 30720):
                assert product_tile(card, scheme, rows, columns).rows >= 16


@pytest.mark.parametrize("card", CARDS)
def test_tiles_of_a_scheme_walk_the_inner_dimension_alike(card):
    """A load brings the same steps of a matrix unit, one or two at a time."""
    for scheme in schemes(card):
        inner = {tile.inner for _, tile in product_ladder(card, scheme)}
        assert inner <= {min(inner), 2 * min(inner)}


@pytest.mark.parametrize("card", CARDS)
def test_a_tile_holds_whole_blocks_of_gate_and_up(card):
    for scheme in schemes(card):
        for _, tile in product_ladder(card, scheme):
            assert tile.columns % (2 * GATE_BLOCK) == 0
            for size in (tile.rows, tile.columns, tile.inner, tile.warps):
                assert size & (size - 1) == 0


@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    (
        (16384, 3840, (128, 256, 128, 8, 3)),
        (1024, 3840, (128, 256, 128, 8, 3)),
        (256, 30720, (128, 256, 128, 8, 3)),
        (256, 8192, (64, 128, 128, 4, 4)),
        (192, 3840, (64, 128, 256, 4, 4)),
        (64, 8192, (64, 64, 256, 4, 6)),
        (1, 3840, (64, 64, 256, 4, 6)),
    ),
)
def test_hopper_uses_the_tile_that_was_measured_best(rows, columns, expected):
    tile = product_tile((9, 0), "fp8", rows, columns)
    assert dataclasses.astuple(tile)[:5] == expected
    assert tile.descriptors and tile.persistent == (expected[1] == 256)


def test_float8_products_need_a_card_that_has_them():
    for card in CARDS:
        assert ("fp8" in schemes(card)) == (card in (INTERPRETER, (8, 9), (9, 0), (12, 0)))
    with pytest.raises(ValueError, match=r"8\.6 has no fp8 products, it has int8, w8a16"):
        product_tile((8, 6), "fp8", 1, 64)


def test_a_card_between_entries_uses_the_older_one():
    assert entry_of((8, 7)) == (8, 6)
    assert entry_of((10, 0)) == (9, 0)
    assert entry_of((12, 1)) == (12, 0)
    with pytest.raises(ValueError, match=r"7\.5 is below 8\.0"):
        entry_of((7, 5))


def test_the_head_has_one_tile_and_is_not_read_in_eight_bits():
    for card in CARDS:
        assert read_tile(card, "16bit").rows and read_tile(card, "float32").rows
    with pytest.raises(ValueError, match="read in 16bit, float32, not in fp8"):
        read_tile((9, 0), "fp8")
