"""What linear layers are: the plain product, in whatever dtype it is given. The oracle."""

import torch

from spinf_serve.engine.kernels.elementwise.reference import gelu_tanh_gate, silu_gate
from spinf_serve.engine.kernels.linear.gate_up import separate_gate_up


def linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """`x @ weight.T`; x [N, K], weight [M, K] -> [N, M]."""
    return x @ weight.T


def product(
    x: torch.Tensor,
    weight: torch.Tensor,
    x_scale: torch.Tensor | None,
    weight_scale: torch.Tensor | None,
    residual: torch.Tensor | None,
) -> torch.Tensor:
    """`x @ weight.T * x_scale * weight_scale.T + residual`; scales one number, [N, 1] and [M, 1]."""
    out = linear(x, weight)
    if x_scale is not None:
        out = out * x_scale
    if weight_scale is not None:
        out = out * weight_scale.reshape(1, -1)
    return out if residual is None else out + residual


def gated_product(
    x: torch.Tensor,
    gate_up: torch.Tensor,
    x_scale: torch.Tensor | None,
    gate_up_scale: torch.Tensor | None,
    activation: str,
) -> torch.Tensor:
    """The product with interleaved gate and up rows [2 I, K], then `activation(gate) * up` [N, I]."""
    both = product(x, gate_up, x_scale, gate_up_scale, None)
    gate, up = separate_gate_up(both.T.contiguous())
    gate_of = {"gelu_tanh": gelu_tanh_gate, "silu": silu_gate}[activation]
    return gate_of(torch.cat((gate.T, up.T), -1))
