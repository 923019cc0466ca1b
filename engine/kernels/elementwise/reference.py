"""What the row-wise operations are, in whatever dtype they are given. The oracle."""

import math

import torch
import torch.nn.functional as F

from spinf_serve.engine.kernels.elementwise.quant import LIMITS, SMALLEST_AMAX


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


def quantize(x: torch.Tensor, dtype: torch.dtype, scale: torch.Tensor) -> torch.Tensor:
    """`x / scale`, clamped to what `dtype` holds and rounded to it, ties to even."""
    limit = LIMITS[dtype]
    scaled = (x / scale).clamp(-limit, limit)
    return (scaled.round() if dtype == torch.int8 else scaled).to(dtype)


def row_scales(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Each row's largest magnitude over the dtype's; [N, C] -> [N, 1]."""
    return x.abs().amax(-1, keepdim=True).clamp(min=SMALLEST_AMAX) / LIMITS[dtype]


def heads(
    qkv: torch.Tensor,
    q_norm: torch.Tensor | None,
    k_norm: torch.Tensor | None,
    v_norm: bool,
    eps: float,
    cos: torch.Tensor,
    sin: torch.Tensor,
    heads: int,
    kv_heads: int,
    head_dim: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """q, k and v of a fused projection, normed, q and k rotated; v is k where v has no columns.

    cos and sin hold the first pairs (i, i + D/2) of a head, the others stay.
    """
    all_heads = qkv.view(len(qkv), -1, head_dim)
    q, k = all_heads[:, :heads], all_heads[:, heads : heads + kv_heads]
    v = all_heads[:, heads + kv_heads :] if all_heads.shape[1] > heads + kv_heads else k
    if q_norm is not None and k_norm is not None:
        q, k = rms_norm(q, q_norm, eps), rms_norm(k, k_norm, eps)
    if v_norm:
        v = rms_norm(v, torch.ones_like(v[:1, :1]), eps)
    still = head_dim // 2 - cos.shape[1]
    cos, sin = F.pad(cos, (0, still), value=1), F.pad(sin, (0, still))
    return rotate(q, cos, sin), rotate(k, cos, sin), v
