"""Tile sizes of the attention kernels, by card and head size. A table, no search.

The number of keys of a tile is part of the numerics: a row sums over its keys tile by tile. The
number of rows, warps and stages is speed alone.
"""

from dataclasses import dataclass

from spinf_serve.engine.kernels.tiles import INTERPRETER, Capability, entry_of
from spinf_serve.engine.tree.plan import TRUNK_BLOCK


@dataclass(frozen=True, slots=True)
class Tiling:
    """Tiles of one kind of layer; a row is one query head of one token.

    Attributes:
        rows, keys: a tile of the trunk step; keys divide `TRUNK_BLOCK`, where trunks are cut.
        path_rows, path_keys: a tile of the path step.
        warps, stages: of the trunk step.
        path_warps, path_stages: of the path step.
        descriptors: the trunk step loads keys and values through the card's bulk copy engine,
            where a head has no padding.
    """

    rows: int
    keys: int
    path_rows: int
    path_keys: int
    warps: int
    stages: int
    path_warps: int
    path_stages: int
    descriptors: bool = False

    def __post_init__(self) -> None:
        if TRUNK_BLOCK % self.keys:
            raise AssertionError(f"a tile of {self.keys} keys does not divide {TRUNK_BLOCK}")

    def tokens(self, group: int) -> int:
        """Tokens of a tile of the trunk step, with the heads of a group folded into its rows."""
        return _tokens(self.rows, group)

    def path_tokens(self, group: int) -> int:
        """Tokens of a tile of the path step."""
        return _tokens(self.path_rows, group)


def _tokens(rows: int, group: int) -> int:
    if rows < group:
        raise AssertionError(f"a tile of {rows} rows does not hold a group of {group} heads")
    return rows // group


# Head size up to which an entry serves, and the entry. All compile within the card's shared memory
# and without spilling registers in their loops, except where said; none has been timed yet, save
# that an untuned forerunner was fastest with these rows and keys of 256 and 512 on an H200.
_Entries = tuple[tuple[int, Tiling], ...]

_SMALL_MEMORY: _Entries = (
    (64, Tiling(128, 64, 32, 32, 4, 2, 2, 1)),
    (128, Tiling(64, 64, 32, 32, 4, 2, 4, 1)),
    (256, Tiling(64, 32, 32, 32, 8, 2, 4, 1)),
    (512, Tiling(32, 16, 16, 32, 8, 2, 4, 1)),
)
_TILINGS: dict[Capability, _Entries] = {
    INTERPRETER: ((512, Tiling(64, 32, 32, 16, 4, 1, 4, 1, descriptors=True)),),
    (8, 0): (
        (64, Tiling(128, 64, 32, 32, 4, 3, 2, 1)),
        (128, Tiling(64, 64, 32, 32, 4, 2, 4, 1)),
        (256, Tiling(64, 64, 32, 32, 8, 2, 4, 1)),
        (512, Tiling(32, 32, 16, 32, 8, 2, 4, 1)),
    ),
    (8, 6): _SMALL_MEMORY,
    (8, 9): _SMALL_MEMORY,
    (9, 0): (
        (64, Tiling(128, 64, 32, 32, 4, 3, 2, 1, descriptors=True)),
        (128, Tiling(128, 64, 32, 32, 8, 3, 4, 1, descriptors=True)),
        (256, Tiling(128, 64, 32, 32, 8, 2, 4, 1, descriptors=True)),
        (512, Tiling(64, 32, 16, 32, 8, 2, 4, 1, descriptors=True)),
    ),
    (12, 0): _SMALL_MEMORY,
}


def tiling(capability: Capability, head_dim: int) -> Tiling:
    """The tiles for heads of this size, at most 512, on a card of this capability.

    Raises:
        ValueError: the card is older than every entry.
    """
    for largest, entry in _TILINGS[entry_of(capability)]:
        if head_dim <= largest:
            return entry
    raise AssertionError(f"attention has no tiles for heads of {head_dim}, more than 512")
