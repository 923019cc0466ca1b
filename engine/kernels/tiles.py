"""Which tile a kernel uses, from the card, the scheme and the size of its output. No search.

A row's bits may not depend on how many rows there are. The tiles of one scheme therefore walk the
inner dimension in the same order and differ in how they cut the output only; that a card's matrix
units give a row the same bits in all of them was measured on an H200 and is checked at load
elsewhere. Where a reduction runs over the output (`read_tile`), there is one tile for all rows.

Knows no kernel and no device: shared memory and registers of every entry are in the compiler's
report (`compile_report`).
"""

from dataclasses import dataclass
from typing import Literal

Capability = tuple[int, int]
Scheme = Literal["fp8", "int8", "w8a16", "16bit", "float32"]

INTERPRETER: Capability = (0, 0)
"""Stands for Triton's interpreter on the CPU, where a small tile is a fast test."""

CAPABILITIES: tuple[Capability, ...] = ((8, 0), (8, 6), (8, 9), (9, 0), (12, 0))
"""Cards that the tables hold an entry for. Another card uses the nearest one that is not newer."""

SHARED_MEMORY_BYTES: dict[Capability, int] = {
    (8, 0): 163 * 1024,
    (8, 6): 99 * 1024,
    (8, 9): 99 * 1024,
    (9, 0): 227 * 1024,
    (12, 0): 99 * 1024,
}
"""What one block of a card may use."""


@dataclass(frozen=True, slots=True)
class Tile:
    """How a matrix product is cut.

    Attributes:
        rows, columns: of the output, a block; with a gate, columns of gate and up together.
        inner: elements of the inner dimension a step.
        warps, stages: of a block; stages is how many steps' loads are in flight.
        group: row tiles that share their columns' weights in the L2 cache.
        descriptors: loads and stores through the card's bulk copy engine, where the addresses
            allow it; else through plain pointers.
        persistent: as many blocks as the card runs at a time, each taking one tile after another.
        store_parts: the output leaves in this many pieces, which takes less shared memory.
    """

    rows: int
    columns: int
    inner: int
    warps: int
    stages: int
    group: int = 8
    descriptors: bool = False
    persistent: bool = False
    store_parts: int = 1


# (most elements of the output, tile), in ascending order; the last entry has no limit.
Ladder = tuple[tuple[int | None, Tile], ...]


def _one(tile: Tile) -> Ladder:
    return ((None, tile),)


_SMALL, _MIDDLE = 1_500_000, 3_000_000
_MULTIPROCESSORS = 132


def _hopper(inner: int, deep: Tile) -> Ladder:
    # Measured on an H200 at 24 to 16,384 rows. What few blocks make at a time waits for its weights:
    # it wants one narrow block a multiprocessor with long steps and much of them in flight; what more
    # blocks make two a multiprocessor; and over 100 large tiles want these, one after another in as
    # many blocks as the card runs.
    return (
        (_MULTIPROCESSORS * 64 * 64, Tile(64, 64, 2 * inner, 4, 6, descriptors=True)),
        (_MULTIPROCESSORS * 64 * 128, Tile(64, 128, 2 * inner, 4, 4, descriptors=True)),
        (_MIDDLE, Tile(64, 128, inner, 4, 4, descriptors=True)),
        (None, deep),
    )


def _ampere(inner: int, stages: int) -> Ladder:
    # Loads are in flight for one step less than `stages` here, so four take the memory of three.
    return (
        (_SMALL, Tile(64, 64, inner, 4, stages + 1)),
        (None, Tile(128, 128, inner, 8, stages)),
    )


_FLOAT32 = _one(Tile(32, 64, 32, 4, 2))

_PRODUCT: dict[Capability, dict[Scheme, Ladder]] = {
    INTERPRETER: {
        "fp8": _one(Tile(32, 64, 32, 4, 2, group=2, descriptors=True)),
        "int8": _one(Tile(32, 64, 32, 4, 2, group=2)),
        "w8a16": _one(Tile(32, 64, 32, 4, 2, group=2)),
        "16bit": _one(Tile(32, 64, 32, 4, 2, group=2, descriptors=True)),
        "float32": _one(Tile(32, 64, 32, 4, 2, group=2)),
    },
    (8, 0): {
        "int8": _ampere(128, 4),
        "w8a16": _ampere(64, 4),
        "16bit": _ampere(64, 4),
        "float32": _FLOAT32,
    },
    (8, 6): {
        "int8": _ampere(128, 4),
        "w8a16": _ampere(64, 4),
        "16bit": _ampere(64, 4),
        "float32": _FLOAT32,
    },
    (8, 9): {
        "fp8": _ampere(128, 4),
        "int8": _ampere(128, 4),
        "w8a16": _ampere(64, 4),
        "16bit": _ampere(64, 4),
        "float32": _FLOAT32,
    },
    (9, 0): {
        "fp8": _hopper(128, Tile(128, 256, 128, 8, 3, descriptors=True, persistent=True)),
        "int8": _hopper(128, Tile(128, 256, 128, 8, 3, descriptors=True, persistent=True)),
        # A weight is widened once for each tile of rows: tall tiles do it less often.
        "w8a16": _hopper(64, Tile(256, 128, 64, 8, 3, descriptors=True)),
        "16bit": _hopper(64, Tile(128, 256, 64, 8, 3, descriptors=True, persistent=True)),
        "float32": _FLOAT32,
    },
    (12, 0): {
        "fp8": _ampere(128, 4),
        "int8": _ampere(128, 4),
        "w8a16": _ampere(64, 4),
        "16bit": _ampere(64, 4),
        "float32": _FLOAT32,
    },
}

_READ: dict[Capability, dict[Scheme, Tile]] = {
    INTERPRETER: {
        "16bit": Tile(32, 64, 32, 4, 2, descriptors=True),
        "float32": Tile(32, 64, 32, 4, 2),
    },
    (8, 0): {"16bit": Tile(128, 128, 64, 8, 4), "float32": _FLOAT32[0][1]},
    (8, 6): {"16bit": Tile(128, 128, 64, 8, 4), "float32": _FLOAT32[0][1]},
    (8, 9): {"16bit": Tile(128, 128, 64, 8, 4), "float32": _FLOAT32[0][1]},
    (9, 0): {"16bit": Tile(128, 256, 64, 8, 3, descriptors=True), "float32": _FLOAT32[0][1]},
    (12, 0): {"16bit": Tile(128, 128, 64, 8, 4), "float32": _FLOAT32[0][1]},
}


def entry_of(capability: Capability) -> Capability:
    """The entry of the tables that a card of this compute capability uses.

    Raises:
        ValueError: the card is older than every entry.
    """
    if capability == INTERPRETER:
        return INTERPRETER
    fitting = [known for known in CAPABILITIES if known <= capability]
    if not fitting:
        oldest = ".".join(map(str, CAPABILITIES[0]))
        found = ".".join(map(str, capability))
        raise ValueError(f"compute capability {found} is below {oldest}, the oldest one supported")
    return fitting[-1]


def schemes(capability: Capability) -> tuple[Scheme, ...]:
    """The schemes a card has tiles for."""
    return tuple(_PRODUCT[entry_of(capability)])


def product_ladder(capability: Capability, scheme: Scheme) -> Ladder:
    """(most elements of the output, tile), ascending; the last entry has no limit.

    Raises:
        ValueError: this card has no such matrix units.
    """
    entry = _PRODUCT[entry_of(capability)]
    if scheme not in entry:
        found = ".".join(map(str, capability))
        raise ValueError(
            f"compute capability {found} has no {scheme} products, it has {', '.join(entry)}"
        )
    return entry[scheme]


def product_tile(capability: Capability, scheme: Scheme, rows: int, columns: int) -> Tile:
    """The tile of a product of `rows` rows with a weight of `columns` rows, gate and up together.

    Raises:
        ValueError: as `product_ladder` does.
    """
    size = rows * columns
    ladder = product_ladder(capability, scheme)
    return next(tile for most, tile in ladder if most is None or size <= most)


def read_tile(capability: Capability, scheme: Scheme) -> Tile:
    """The tile of the output head, the same for every number of rows.

    Raises:
        ValueError: the head is kept in a scheme other than "16bit" or "float32".
    """
    entry = _READ[entry_of(capability)]
    if scheme not in entry:
        raise ValueError(f"the output head is read in {', '.join(entry)}, not in {scheme}")
    return entry[scheme]
