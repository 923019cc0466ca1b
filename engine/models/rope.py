"""Rotary tables: cos and sin of position times frequency, for the scalings a spec may ask for."""

import math
from collections.abc import Iterable

import torch

from spinf_serve.engine.models.spec import LayerSpec, Rope

BLOCK = 1024
"""Positions added to a table at a time: always the same call, so always the same values."""


def frequencies(rope: Rope, head_dim: int) -> torch.Tensor:
    """[D/2] float32 radians per position of each pair."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
    base = 1.0 / (rope.theta**exponents)
    if rope.kind == "default":
        return base
    if rope.kind == "linear":
        return base / rope.factor
    if rope.kind == "proportional":
        base[int(rope.moving * head_dim // 2) :] = 0
        return base / rope.factor
    return _blended(base, rope)


def _blended(base: torch.Tensor, rope: Rope) -> torch.Tensor:
    """llama3: long wavelengths divided by the factor, short ones kept, a linear blend between."""
    turns = rope.original_context * base / (2 * math.pi)
    kept = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    kept = kept.clamp(0, 1)
    return (1 - kept) * base / rope.factor + kept * base


class RopeTable:
    """cos and sin by position, [positions, D/2] float32; at least doubles for a longer position."""

    def __init__(self, rope: Rope, head_dim: int, device: torch.device) -> None:
        self._frequencies = frequencies(rope, head_dim).double()
        self._cos = torch.empty(0, head_dim // 2, device=device)
        self._sin = torch.empty(0, head_dim // 2, device=device)

    def rows(self, positions: torch.Tensor, longest: int) -> tuple[torch.Tensor, torch.Tensor]:
        """cos and sin, [N, D/2] each, of [N] positions that are all below `longest`."""
        if len(self._cos) < longest:
            self._grow(max(longest, 2 * len(self._cos)))
        return self._cos[positions], self._sin[positions]

    @property
    def tensors(self) -> tuple[torch.Tensor, torch.Tensor]:
        """cos and sin as they are now; growing puts others in their place."""
        return self._cos, self._sin

    def _grow(self, positions: int) -> None:
        """Angles are made in float64: a float32 angle of a far position is coarse."""
        cos, sin = [self._cos], [self._sin]
        for start in range(len(self._cos), positions, BLOCK):
            steps = torch.arange(start, start + BLOCK, dtype=torch.float64)
            angles = torch.outer(steps, self._frequencies)
            cos.append(angles.cos().to(self._cos))
            sin.append(angles.sin().to(self._sin))
        self._cos, self._sin = torch.cat(cos), torch.cat(sin)


class RopeTables:
    """The rotary tables of a model's layers; layers of one embedding and head size share one."""

    def __init__(self, layers: Iterable[LayerSpec], device: torch.device) -> None:
        self._kinds = [(x.rope, x.head_dim) for x in layers]
        self._tables = {kind: RopeTable(*kind, device) for kind in set(self._kinds)}

    @property
    def tensors(self) -> list[torch.Tensor]:
        """Every table as it is now; growing puts others in their place."""
        return [tensor for table in self._tables.values() for tensor in table.tensors]

    def rows(
        self, positions: torch.Tensor, longest: int
    ) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """For each layer cos and sin, [N, D/2] each, of [N] positions that are below `longest`."""
        found = {kind: table.rows(positions, longest) for kind, table in self._tables.items()}
        return [found[kind] for kind in self._kinds]
