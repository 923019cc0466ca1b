"""What a linear layer is: the plain product, in whatever dtype it is given. The oracle."""

import torch


def linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """`x @ weight.T`; x [N, K], weight [M, K] -> [N, M]."""
    return x @ weight.T
