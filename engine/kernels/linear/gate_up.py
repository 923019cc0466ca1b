"""How the gate and up projections of a gated MLP lie in one matrix for the fused product."""

import torch

GATE_BLOCK = 32
"""Rows of gate, then as many of up, and so on.

Wide enough that a warp's own columns of an output tile hold both of a pair on every card, and a
divisor of half of every tile's columns, so that the layout of the weights does not follow the tile.
"""


def interleave_gate_up(
    gate: torch.Tensor, up: torch.Tensor, block: int = GATE_BLOCK
) -> torch.Tensor:
    """Rows `gate[:block], up[:block], gate[block:2 block], ...`; two of [I, ...] -> [2 I, ...].

    Serves weights [I, K] and scales by channel [I, 1] alike.

    Raises:
        ValueError: the shapes differ, or I is no multiple of `block`.
    """
    if gate.shape != up.shape:
        raise ValueError(f"gate {list(gate.shape)} and up {list(up.shape)} differ in shape")
    size = gate.shape[0]
    if size % block:
        raise ValueError(f"{size} gate rows are no multiple of the block of {block} rows")
    blocks = (size // block, 1, block, *gate.shape[1:])
    return torch.cat((gate.view(blocks), up.view(blocks)), 1).view(2 * size, *gate.shape[1:])


def separate_gate_up(
    gate_up: torch.Tensor, block: int = GATE_BLOCK
) -> tuple[torch.Tensor, torch.Tensor]:
    """Undoes `interleave_gate_up`; [2 I, ...] -> two of [I, ...]."""
    size = gate_up.shape[0] // 2
    blocks = gate_up.view(size // block, 2, block, *gate_up.shape[1:])
    gate, up = blocks.unbind(1)
    return gate.reshape(size, *gate_up.shape[1:]), up.reshape(size, *gate_up.shape[1:])
