"""The keys and values of branch rows that later passes continue, of all layers of a model.

Which place is whose is for the host to know: a pass says what it saves where, and what it reads.
"""

from collections.abc import Sequence

import torch

from spinf_serve.engine.kernels.ops import LayerShape

_BLOCK = 256
"""Places that are made at a time, at least."""


class Branches:
    """Places for rows, layer by layer; there are more of them once a pass needs more."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self._dtype = dtype
        self._device = device
        self._places = 0
        self._keys: list[torch.Tensor] = []
        self._values: list[torch.Tensor] = []

    @property
    def capacity(self) -> int:
        """Places that there are. While they are the same, so are the tensors."""
        return self._places

    def make_room(self, places: int, layers: Sequence[LayerShape]) -> None:
        """Has at least so many places; what lies in others stays where it is."""
        if places <= self._places:
            return
        before = self._places
        self._places = -(-max(places, before + before // 2) // _BLOCK) * _BLOCK
        self._keys = self._grown(self._keys, layers)
        self._values = self._grown(self._values, layers)

    def of_layer(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """[places, G, D] keys and values of a layer."""
        return self._keys[layer], self._values[layer]

    def save(
        self,
        layer: int,
        k: torch.Tensor,
        v: torch.Tensor,
        rows: torch.Tensor,
        places: torch.Tensor,
    ) -> None:
        """Saves some rows of a layer's keys and values [N, G, D]."""
        self._keys[layer].index_copy_(0, places, k.index_select(0, rows))
        self._values[layer].index_copy_(0, places, v.index_select(0, rows))

    def keys(self, layer: int, places: torch.Tensor) -> torch.Tensor:
        """[K, G, D] saved keys."""
        return self._keys[layer].index_select(0, places)

    def values(self, layer: int, places: torch.Tensor) -> torch.Tensor:
        """[K, G, D] saved values."""
        return self._values[layer].index_select(0, places)

    def _grown(self, old: list[torch.Tensor], layers: Sequence[LayerShape]) -> list[torch.Tensor]:
        made = []
        for number, layer in enumerate(layers):
            size = (self._places, layer.kv_heads, layer.head_dim)
            new = torch.zeros(size, dtype=self._dtype, device=self._device)
            if old:
                new[: len(old[number])] = old[number]
            made.append(new)
        return made
