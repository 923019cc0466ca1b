"""What the row-wise operations are, in whatever dtype they are given. The oracle."""

import math

import torch


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """`x / sqrt(mean(x^2) + eps) * weight` over the last axis."""
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotation of the pairs (i, i + D/2); x [N, heads, D], cos and sin [N, D/2]."""
    first, second = x.chunk(2, -1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def silu_gate(gate_up: torch.Tensor) -> torch.Tensor:
    """`gate / (1 + exp(-gate)) * up`; [N, 2 I] -> [N, I]."""
    gate, up = gate_up.chunk(2, -1)
    return gate / (1 + torch.exp(-gate)) * up


def gelu_tanh_gate(gate_up: torch.Tensor) -> torch.Tensor:
    """`gate / 2 * (1 + tanh(sqrt(2 / pi) * (gate + 0.044715 gate^3))) * up`; [N, 2 I] -> [N, I]."""
    gate, up = gate_up.chunk(2, -1)
    inner = math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3)
    return gate / 2 * (1 + torch.tanh(inner)) * up
