"""Linear layers on the CPU whose rows do not depend on how many rows there are.

The library's product takes other code for few rows and splits rows over threads, which changes
bits below a dozen rows or so. Rows are therefore padded to a multiple of `ROW_TILE`. Products are
made in float32 also for bfloat16: the library's bfloat16 product is several times slower than
widening the weights on a CPU without bfloat16 instructions, and changes a row's bits with the
number of rows there.
"""

import torch

ROW_TILE = 64


def linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """`x @ weight.T`, accumulated in float32; x [N, K], weight [M, K] -> [N, M] in x's dtype.

    N may be 0; M is at least 16.
    """
    rows = x.shape[0]
    padded = padded_rows(x.float())
    return torch.mm(padded, weight.float().t())[:rows].to(x.dtype)


def padded_rows(x: torch.Tensor) -> torch.Tensor:
    """x itself when its rows are a multiple of `ROW_TILE`, else a copy with zero rows appended."""
    missing = -x.shape[0] % ROW_TILE
    if missing == 0:
        return x
    return torch.cat((x, x.new_zeros(missing, *x.shape[1:])))
