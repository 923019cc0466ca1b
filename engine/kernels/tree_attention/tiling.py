"""Tile sizes of the attention kernels, by head size. Known before a pass, never tuned in one.

The number of keys of a tile is part of the numerics: a row sums over its keys tile by tile. The
number of rows, warps and stages is speed alone.
"""

from dataclasses import dataclass

from spinf_serve.engine.tree.plan import TRUNK_BLOCK


@dataclass(frozen=True, slots=True)
class Tiling:
    """Tiles of one kind of layer; a row is one query head of one token.

    Attributes:
        rows, keys: a tile of the trunk step; keys divide `TRUNK_BLOCK`, where trunks are cut.
        path_rows, path_keys: a tile of the path step.
        warps, stages: of the trunk step.
        path_warps, path_stages: of the path step.
    """

    rows: int
    keys: int
    path_rows: int
    path_keys: int
    warps: int
    stages: int
    path_warps: int
    path_stages: int

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


# Head size up to which an entry serves, and the entry. 256 and 512 are where an untuned forerunner
# was fastest on an H200 with 16 query heads (8 and 1 key/value heads); the smaller sizes are
# unmeasured. Bytes of shared memory of the trunk step in 16 bit: 2 D (rows + 2 keys stages).
_HOPPER = (
    (64, Tiling(128, 64, 32, 32, warps=4, stages=3, path_warps=2, path_stages=1)),
    (128, Tiling(128, 64, 32, 32, warps=8, stages=3, path_warps=4, path_stages=1)),
    (256, Tiling(128, 64, 32, 32, warps=8, stages=2, path_warps=4, path_stages=1)),
    (512, Tiling(64, 32, 32, 32, warps=8, stages=2, path_warps=4, path_stages=1)),
)


def tiling(head_dim: int) -> Tiling:
    """The tiles for heads of this size, at most 512, on compute capability 9.0."""
    for largest, entry in _HOPPER:
        if head_dim <= largest:
            return entry
    raise AssertionError(f"attention has no tiles for heads of {head_dim}, more than 512")
