"""The most probable tokens of a few rows on a GPU.

Candidates are picked by the logits of a plain product, which is never looked at again: what a
candidate's log-probability is, and so their order, is for the kernel that reads options to say.
"""

from typing import Final

import torch

from spinf_serve.engine.kernels.linear.kernel import product
from spinf_serve.engine.kernels.option_read.kernel import read_options

_ROWS: Final = 256
"""Rows whose logits are in memory at a time."""

_SPARE: Final = 32
"""Candidates beyond those that are wanted: the two sums of a logit may order neighbours otherwise."""


def read_top(
    hidden: torch.Tensor, head: torch.Tensor, top: int, *, soft_cap: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The `top` most probable tokens, at most V; hidden [T, C], head [V, C].

    Returns:
        [T, top] int32 ids by falling log-probability, equal ones by rising id; and float32
        log-probabilities, bit for bit those that `read_options` gives. Of a row with a NaN: NaN.
    """
    vocab = len(head)
    wide = min(vocab, top + _SPARE)
    parts = [
        product(rows, head, x_scale=None, weight_scale=None, out_dtype=torch.float32)
        .topk(wide)
        .indices
        for rows in torch.split(hidden, _ROWS)
    ]
    ids = torch.cat(parts).sort().values
    starts = torch.arange(0, ids.numel() + 1, wide, device=hidden.device)
    logprobs = read_options(hidden, head, starts, ids.flatten(), soft_cap=soft_cap).view(-1, wide)
    order = logprobs.sort(descending=True, stable=True).indices[:, :top]
    return ids.gather(1, order).int(), logprobs.gather(1, order)
