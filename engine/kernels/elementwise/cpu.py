"""Row-wise operations on the CPU, in float32 inside.

The library's silu, gelu and sigmoid treat the last few elements of a thread's share by other code,
so an element's bits depend on its place in the flat tensor. Here they are composed of exp and
correctly rounded operations, whose bits do not.
"""

import math

import torch
import torch.nn.functional as F


def rms_norm(
    x: torch.Tensor, weight: torch.Tensor | None, eps: float, *, cast_first: bool
) -> torch.Tensor:
    """Root-mean-square norm over the last axis, in float32, result in x's dtype.

    `cast_first` casts to x's dtype before the multiplication with weight, else after it.
    """
    size = (x.shape[-1],)
    if weight is None:
        return F.rms_norm(x.float(), size, None, eps).to(x.dtype)
    if cast_first and x.dtype != torch.float32:
        return F.rms_norm(x.float(), size, None, eps).to(x.dtype).mul_(weight)
    return F.rms_norm(x.float(), size, weight.float(), eps).to(x.dtype)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotation of the pairs (i, i + D/2); x [N, heads, D], cos and sin [N, D/2] float32."""
    half = x.shape[-1] // 2
    wide = x.float()
    first, second = wide[..., :half], wide[..., half:]
    cos, sin = cos[:, None], sin[:, None]
    out = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    torch.mul(first, cos, out=out[..., :half])
    torch.mul(second, cos, out=out[..., half:])
    out[..., :half].sub_(second * sin)
    out[..., half:].add_(first * sin)
    return out.to(x.dtype)


def silu_gate(gate_up: torch.Tensor) -> torch.Tensor:
    """`silu(gate) * up`; [N, 2 I] -> [N, I]."""
    gate, up = gate_up.float().chunk(2, -1)
    return _gate(gate, up, torch.neg(gate)).to(gate_up.dtype)


def gelu_tanh_gate(gate_up: torch.Tensor) -> torch.Tensor:
    """`gelu_tanh(gate) * up`; [N, 2 I] -> [N, I]. (1 + tanh(z)) / 2 is 1 / (1 + exp(-2 z))."""
    gate, up = gate_up.float().chunk(2, -1)
    exponent = torch.mul(gate, gate)
    exponent.mul_(0.044715).add_(1).mul_(gate).mul_(-2 * math.sqrt(2 / math.pi))
    return _gate(gate, up, exponent).to(gate_up.dtype)


def _gate(gate: torch.Tensor, up: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    """`gate / (1 + exp(exponent)) * up`, overwriting exponent."""
    exponent.exp_().add_(1)
    torch.div(gate, exponent, out=exponent)
    return exponent.mul_(up)
