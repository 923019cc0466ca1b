"""The most probable tokens of rows on a GPU.

Candidates are picked by the logits of the tiles, which are never looked at again: what a candidate's
log-probability is, and so their order, is for the kernel that reads options to say. Their number is
the same however many are wanted, so that what else is asked in a pass moves nothing.
"""

from typing import Final

import torch

from spinf_serve.engine.kernels.option_read.kernel import read_rows, tile_masses

MOST_TOP: Final = 128
"""The most tokens that can be asked for: a hundred to draw from, and what ends a text beside them."""

_SPARE: Final = 32
"""Candidates beyond those that are wanted: the two sums of a logit may order neighbours otherwise."""

_ROWS: Final = 256
"""Rows whose logits are in memory at a time."""


def read_top(
    hidden: torch.Tensor, head: torch.Tensor, top: int, *, soft_cap: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The `top` most probable tokens, at most V and `MOST_TOP`; hidden [T, C], head [V, C].

    Returns:
        [T, top] int32 ids by falling log-probability, equal ones by rising id; and float32
        log-probabilities, bit for bit those that `read_options` gives. Of a row with a NaN: NaN.
    """
    nothing = torch.zeros(0, dtype=torch.int64, device=hidden.device)
    start = torch.zeros(len(hidden) + 1, dtype=torch.int64, device=hidden.device)
    _, *best = read_with_top(hidden, head, start, nothing, top, soft_cap=soft_cap)
    return best[0], best[1]


def read_with_top(
    hidden: torch.Tensor,
    head: torch.Tensor,
    column_start: torch.Tensor,
    columns: torch.Tensor,
    top: int,
    *,
    soft_cap: float | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What `read_options` gives, and what `read_top` does, of the same rows by one read of the head."""
    if top > MOST_TOP:
        raise AssertionError(f"{top} tokens are wanted and at most {MOST_TOP} are read")
    vocab = len(head)
    wide = min(vocab, MOST_TOP + _SPARE)
    out = torch.empty(columns.shape, dtype=torch.float32, device=hidden.device)
    every = torch.empty((min(_ROWS, len(hidden)), vocab), dtype=torch.float32, device=hidden.device)
    starts = torch.arange(0, len(every) * wide + 1, wide, device=hidden.device)
    found = []
    for first in range(0, len(hidden), _ROWS):
        rows = hidden[first : first + _ROWS]
        logits = every[: len(rows)]
        masses = tile_masses(rows, head, soft_cap=soft_cap, every=logits)
        if columns.numel():
            read_rows(rows, head, masses, column_start[first:], columns, out, soft_cap=soft_cap)
        ids = logits.topk(wide, sorted=False).indices.sort().values
        logprobs = torch.empty(ids.shape, dtype=torch.float32, device=hidden.device)
        read_rows(rows, head, masses, starts, ids, logprobs, soft_cap=soft_cap)
        order = logprobs.sort(descending=True, stable=True).indices[:, :top]
        found.append((ids.gather(1, order).int(), logprobs.gather(1, order)))
    best = [torch.cat(parts) for parts in zip(*found, strict=True)]
    return out, best[0], best[1]
