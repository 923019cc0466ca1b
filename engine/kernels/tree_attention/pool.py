"""The keys and values of trunks that outlive a pass, of all layers of one shape.

Memory for those that outlive their trees is taken once. What trees need in a later pass lies beside
them, and takes more where that does not do.
"""

from collections.abc import Mapping, Sequence

import torch

from spinf_serve.engine.kernels.ops import LayerShape
from spinf_serve.engine.kernels.tree_attention.kept import Room, Rooms, slots_needed
from spinf_serve.engine.kernels.tree_attention.kernel import Kept
from spinf_serve.engine.tree.plan import TRUNK_BLOCK, TreeSlice

_SCRATCH = 0
"""The key of a room that no trunk has: trees count from 1, trunks that stay down from -1."""


class Pool:
    """Rooms of one kind of layers, and the tensors they lie in."""

    def __init__(
        self, shape: LayerShape, layers: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self._shape = shape
        self._layers = layers
        self._dtype = dtype
        self._device = device
        self._rooms = Rooms(0)
        self._kept: list[Kept] = []
        self._set_aside = 0

    @property
    def taken(self) -> Mapping[int, Room]:
        """Rooms by tree key."""
        return self._rooms.taken

    def kept(self, index: int) -> Kept | None:
        """Keys and values of the kind's layer `index`, or None while nothing was ever kept."""
        return self._kept[index] if self._kept else None

    def make_room(self, slices: Sequence[TreeSlice]) -> None:
        """Rooms for the trunks of a pass that later passes need."""
        for part in slices:
            if part.keep and part.key not in self.taken:
                slots = self.slots(part.trunk_len)
                if self._rooms.take(part.key, slots) is None:
                    self._grow(slots)
                    self._rooms.take(part.key, slots)

    @property
    def slot_bytes(self) -> int:
        """Bytes that a slot takes, keys and values of all the layers."""
        return 2 * self._layers * self._shape.kv_heads * self._shape.head_dim * self._dtype.itemsize

    def slots(self, tokens: int) -> int:
        """Slots that a trunk takes."""
        return slots_needed(tokens, self._shape.window)

    def set_aside(self, slots: int) -> None:
        """Memory for trunks that outlive their trees, a multiple of `TRUNK_BLOCK` slots. Once."""
        if slots <= TRUNK_BLOCK:
            return
        self._grow(slots)
        # A block of it nobody reads.
        self._rooms.take(_SCRATCH, TRUNK_BLOCK)
        self._set_aside = slots

    @property
    def scratch(self) -> int | None:
        """A slot that anything may be written to; None where nothing was set aside."""
        return self._rooms.taken[_SCRATCH].start if self._set_aside else None

    @property
    def capacity(self) -> int:
        """Slots in all. While it is the same, so are the tensors."""
        return self._rooms.capacity

    def holds(self, tokens: int) -> bool:
        """Whether a trunk fits into what was set aside."""
        return self.slots(tokens) <= self._set_aside - TRUNK_BLOCK

    def reserve(self, key: int, tokens: int) -> bool:
        """A room for a trunk in the memory that there is; False when no run of it is free."""
        return self._rooms.take(key, self.slots(tokens)) is not None

    def release(self, key: int) -> None:
        """Gives a room back. Unknown keys are no error."""
        self._rooms.release(key)

    def _grow(self, slots: int) -> None:
        """More memory, at least by half; what lies in the pool moves to the same slots.

        What was set aside is large and does not count: it grows by what trees need beside it.
        """
        before = self._rooms.capacity
        capacity = before + max(slots, (before - self._set_aside) // 2 // slots * slots)
        size = (capacity, self._shape.kv_heads, self._shape.head_dim)
        for index in range(self._layers):
            # Zeros: values that were never kept have to be finite.
            keys, values = (
                torch.zeros(size, dtype=self._dtype, device=self._device) for _ in range(2)
            )
            if index == len(self._kept):
                self._kept.append(Kept(keys, values))
                continue
            keys[:before].copy_(self._kept[index].keys[:before])
            values[:before].copy_(self._kept[index].values[:before])
            # At once: the memory of one layer is there twice, not that of all.
            self._kept[index] = Kept(keys, values)
        self._rooms.extend(capacity)
