"""Log-probabilities of wanted tokens on the CPU.

Logits and their log-softmax are made in tiles of a fixed number of rows: a tile is the unit that
the library's reduction over the vocabulary was found not to depend on its surroundings in.
"""

import torch

from spinf_serve.engine.kernels.linear.cpu import ROW_TILE, padded_rows

VOCAB_TILE = 8192
"""Rows of the head that are widened to float32 at a time when the model's dtype is bfloat16."""


def read_options(
    hidden: torch.Tensor,
    head: torch.Tensor,
    column_start: torch.Tensor,
    columns: torch.Tensor,
    soft_cap: float | None,
) -> torch.Tensor:
    """Log-probabilities, float32; hidden [R, C], head [V, C] -> [columns].

    Row r's columns are `columns[column_start[r] : column_start[r + 1]]`. Logits are float32 in
    every dtype. A row with a NaN gives NaN in all of its columns.
    """
    out = torch.empty(columns.shape, dtype=torch.float32)
    padded = padded_rows(hidden.float())
    counts = column_start.diff()
    logits = torch.empty(ROW_TILE, head.shape[0])
    for first in range(0, hidden.shape[0], ROW_TILE):
        _logits(padded[first : first + ROW_TILE], head, logits)
        if soft_cap is not None:
            logits.div_(soft_cap).tanh_().mul_(soft_cap)
        logprobs = torch.log_softmax(logits, -1)
        last = min(first + ROW_TILE, hidden.shape[0])
        start, end = int(column_start[first]), int(column_start[last])
        rows = torch.repeat_interleave(torch.arange(last - first), counts[first:last])
        out[start:end] = logprobs[rows, columns[start:end]]
    return out


def _logits(hidden: torch.Tensor, head: torch.Tensor, out: torch.Tensor) -> None:
    if head.dtype == torch.float32:
        torch.mm(hidden, head.t(), out=out)
        return
    for start in range(0, head.shape[0], VOCAB_TILE):
        wide = head[start : start + VOCAB_TILE].float()
        out[:, start : start + VOCAB_TILE] = torch.mm(hidden, wide.t())
