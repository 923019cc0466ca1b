"""Linear layers on the CPU whose rows do not depend on how many rows there are.

The library's product takes other code for few rows and for narrow strips of columns, which it may
hand to threads, and that changes bits. Rows are therefore padded to a multiple of `ROW_TILE`,
columns to one of `COLUMN_TILE`. Products are made in float32 also for bfloat16: on a CPU without
bfloat16 instructions the library's bfloat16 product is several times slower than widening the
weights, and there a row's bits change with the number of rows.
"""

import torch
import torch.nn.functional as F

ROW_TILE = 64
COLUMN_TILE = 16


def linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """`x @ weight.T`, accumulated in float32; x [N, K], weight [M, K] -> [N, M] in x's dtype."""
    rows, columns = x.shape[0], weight.shape[0]
    wide = weight.float()
    if columns % COLUMN_TILE:
        wide = F.pad(wide, (0, 0, 0, -columns % COLUMN_TILE))
    product = torch.mm(padded_rows(x.float()), wide.t())
    return product[:rows, :columns].to(x.dtype)


def padded_rows(x: torch.Tensor) -> torch.Tensor:
    """x itself when its rows are a multiple of `ROW_TILE`, else a copy with zero rows appended."""
    missing = -x.shape[0] % ROW_TILE
    if missing == 0:
        return x
    return torch.cat((x, x.new_zeros(missing, *x.shape[1:])))
