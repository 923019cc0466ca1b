"""The keys and values of trunks that outlive a pass, of all layers of one shape.

Takes memory when a trunk first goes on in another pass, and more when more trunks do.
"""

from collections.abc import Mapping, Sequence

import torch

from spinf_serve.engine.kernels.ops import LayerShape
from spinf_serve.engine.kernels.tree_attention.kept import Room, Rooms, slots_needed
from spinf_serve.engine.kernels.tree_attention.kernel import Kept
from spinf_serve.engine.tree.plan import TreeSlice


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
                slots = slots_needed(part.trunk_len, self._shape.window)
                if self._rooms.take(part.key, slots) is None:
                    self._grow(slots)
                    self._rooms.take(part.key, slots)

    def release(self, key: int) -> None:
        """Gives a tree's room back. Unknown keys are no error."""
        self._rooms.release(key)

    def _grow(self, slots: int) -> None:
        """More memory, at least by half; what lies in the pool moves to the same slots."""
        before = self._rooms.capacity
        capacity = before + max(slots, before // 2 // slots * slots)
        size = (capacity, self._shape.kv_heads, self._shape.head_dim)
        grown = []
        for index in range(self._layers):
            # Zeros: values that were never kept have to be finite.
            keys, values = (
                torch.zeros(size, dtype=self._dtype, device=self._device) for _ in range(2)
            )
            if self._kept:
                keys[:before].copy_(self._kept[index].keys)
                values[:before].copy_(self._kept[index].values)
            grown.append(Kept(keys, values))
        self._kept = grown
        self._rooms.extend(capacity)
