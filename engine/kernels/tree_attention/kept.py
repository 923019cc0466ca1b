"""Where the trunk keys and values that outlive a pass lie: runs of slots in a pool.

A pool belongs to the layers of one kind. Layers with a window need the end of a trunk only: their
runs are rings. Knows no tensors.
"""

from dataclasses import dataclass

from spinf_serve.engine.tree.plan import TRUNK_BLOCK


@dataclass(frozen=True, slots=True)
class Room:
    """A run of slots for one trunk; trunk offset j lies at slot `start + j % slots`.

    Attributes:
        start: first slot, a multiple of `TRUNK_BLOCK`.
        slots: number of slots, a multiple of `TRUNK_BLOCK`.
    """

    start: int
    slots: int


def slots_needed(trunk_len: int, window: int | None) -> int:
    """Slots that a trunk takes in layers of this window.

    A row sees the window behind it, read in whole blocks, and the trunk's end may be inside one.
    """
    blocks = -(-trunk_len // TRUNK_BLOCK)
    if window is not None:
        blocks = min(blocks, -(-(window - 1) // TRUNK_BLOCK) + 1)
    return blocks * TRUNK_BLOCK


class Rooms:
    """Gives out the slots of one pool, first fit; a room is named by its tree."""

    def __init__(self, capacity: int) -> None:
        """`capacity` in slots."""
        self._capacity = 0
        self._free: list[tuple[int, int]] = []
        self._taken: dict[int, Room] = {}
        self.extend(capacity)

    @property
    def capacity(self) -> int:
        """Slots in all."""
        return self._capacity

    def extend(self, capacity: int) -> None:
        """Makes the pool one of `capacity` slots, no fewer than now; rooms stay where they are."""
        if capacity < self._capacity:
            raise AssertionError(f"a pool of {self._capacity} slots does not shrink to {capacity}")
        self._free = _joined([*self._free, (self._capacity, capacity - self._capacity)])
        self._capacity = capacity

    @property
    def taken(self) -> dict[int, Room]:
        """Rooms by tree key; what `lay_out` takes."""
        return self._taken

    def take(self, key: int, slots: int) -> Room | None:
        """The tree's room, or a new one; None when no run of free slots is long enough."""
        if key in self._taken:
            return self._taken[key]
        if slots <= 0 or slots % TRUNK_BLOCK:
            raise AssertionError(f"{slots} slots are no whole blocks of {TRUNK_BLOCK}")
        for i, (start, free) in enumerate(self._free):
            if free >= slots:
                rest = [(start + slots, free - slots)] if free > slots else []
                self._free[i : i + 1] = rest
                self._taken[key] = Room(start, slots)
                return self._taken[key]
        return None

    def release(self, key: int) -> None:
        """Gives a tree's room back. Unknown keys are no error."""
        room = self._taken.pop(key, None)
        if room is None:
            return
        self._free = _joined([*self._free, (room.start, room.slots)])


def _joined(runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Runs (start, slots) in ascending order, neighbours as one, empty ones left out."""
    joined: list[tuple[int, int]] = []
    for start, free in sorted(runs):
        if joined and sum(joined[-1]) == start:
            joined[-1] = (joined[-1][0], joined[-1][1] + free)
        elif free:
            joined.append((start, free))
    return joined
