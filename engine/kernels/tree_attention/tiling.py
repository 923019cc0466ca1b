"""Tile sizes of the attention kernels, by card and head size. A table, no search.

The number of a trunk's keys is part of the numerics: a row sums over its keys so many at a time, and
over those of a path `STRETCH` at a time. The rest is speed alone.
"""

from dataclasses import dataclass

from spinf_serve.engine.kernels.tiles import INTERPRETER, Capability, entry_of
from spinf_serve.engine.tree.plan import TRUNK_BLOCK

STRETCH = 16
"""Keys of a path that are added up at a time: what a matrix unit adds up in one step, so that it does
not matter which of the steps of a fold they take. Part of the numerics."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """Tiles of one kind of layer; a row is one query head of one token.

    Attributes:
        rows: of a tile.
        keys: of a trunk at a time; they divide `TRUNK_BLOCK`, at whose multiples trunks are cut.
        path_keys: of paths at a time, a power of two of at least `STRETCH`.
        warps, stages: of a launch.
        path_stages: as `stages`, of the loop over path keys.
        one_loop: keys that all rows see are met in the loop of the others, which asks each time.
        descriptors: keys and values of a trunk are loaded through the card's bulk copy engine,
            where a head has no padding.
    """

    rows: int
    keys: int
    path_keys: int
    warps: int
    stages: int
    path_stages: int = 1
    one_loop: bool = False
    descriptors: bool = False

    def __post_init__(self) -> None:
        if TRUNK_BLOCK % self.keys:
            raise AssertionError(f"a tile of {self.keys} keys does not divide {TRUNK_BLOCK}")
        if self.path_keys % STRETCH:
            raise AssertionError(f"a fold of {self.path_keys} keys is no whole stretches")

    @property
    def path_slots(self) -> int:
        """Stretches of paths that are met at a time."""
        return self.path_keys // STRETCH

    def tokens(self, group: int) -> int:
        """Tokens of a tile, with the heads of a group folded into its rows."""
        if self.rows < group:
            raise AssertionError(f"a tile of {self.rows} rows does not hold a group of {group}")
        return self.rows // group


# Head size up to which an entry serves, and the entries: for many queries of a tree, and for a few.
# They compile within the card's shared memory. Those of 9.0 for heads of 256 and 512 are the fastest of
# those that were timed on an H200: of many, two blocks of 64 rows run side by side for 256, one for 512.
_Entries = tuple[tuple[int, Tiling, Tiling], ...]

_SMALL_MEMORY: _Entries = (
    (64, Tiling(64, 64, 32, warps=4, stages=2), Tiling(16, 64, 32, warps=4, stages=2)),
    (128, Tiling(64, 32, 32, warps=4, stages=2), Tiling(16, 32, 32, warps=4, stages=2)),
    (256, Tiling(64, 32, 32, warps=8, stages=2), Tiling(16, 32, 32, warps=4, stages=2)),
    (512, Tiling(32, 16, 16, warps=8, stages=2), Tiling(16, 16, 16, warps=4, stages=2)),
)
_TILINGS: dict[Capability, _Entries] = {
    INTERPRETER: (
        (
            512,
            Tiling(64, 32, 64, warps=4, stages=1, descriptors=True),
            Tiling(16, 32, 64, warps=4, stages=1, one_loop=True),
        ),
    ),
    (8, 0): _SMALL_MEMORY,
    (8, 6): _SMALL_MEMORY,
    (8, 9): _SMALL_MEMORY,
    (9, 0): (
        (
            64,
            Tiling(128, 64, 32, warps=4, stages=3, path_stages=2, descriptors=True),
            Tiling(16, 64, 32, 4, 3, path_stages=2, one_loop=True, descriptors=True),
        ),
        (
            128,
            Tiling(128, 64, 32, warps=8, stages=3, path_stages=2, descriptors=True),
            Tiling(16, 64, 32, 4, 3, path_stages=2, one_loop=True, descriptors=True),
        ),
        (
            256,
            Tiling(64, 32, 32, warps=4, stages=2, path_stages=2, descriptors=True),
            Tiling(16, 32, 32, 4, 3, path_stages=2, one_loop=True, descriptors=True),
        ),
        (
            512,
            Tiling(64, 64, 16, 8, 1, path_stages=2, one_loop=True, descriptors=True),
            Tiling(16, 64, 16, 4, 2, path_stages=2, one_loop=True, descriptors=True),
        ),
    ),
    (12, 0): _SMALL_MEMORY,
}


def tiling(capability: Capability, head_dim: int) -> Tiling:
    """The tiles for heads of this size, at most 512, on a card of this capability.

    Raises:
        ValueError: the card is older than every entry.
    """
    return _entry(capability, head_dim)[0]


def few_tiling(capability: Capability, head_dim: int) -> Tiling:
    """The same for queries of which a tree has a few; sums are in the same order.

    Their rows are as many as a matrix unit multiplies at least, which takes less of a block's time
    and memory. Raises as `tiling` does.
    """
    return _entry(capability, head_dim)[1]


def _entry(capability: Capability, head_dim: int) -> tuple[Tiling, Tiling]:
    for largest, many, few in _TILINGS[entry_of(capability)]:
        if head_dim <= largest:
            return many, few
    raise AssertionError(f"attention has no tiles for heads of {head_dim}, more than 512")
