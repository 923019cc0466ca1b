"""Log-probabilities of wanted tokens on the CPU.

Logits and their log-softmax are made in tiles of a fixed number of rows: a tile is the unit that
the library's reduction over the vocabulary was found not to depend on its surroundings in.
"""

from collections.abc import Iterator

import numpy as np
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
    for first, logprobs in _tiles(hidden, head, soft_cap):
        _take_columns(out, logprobs, first, column_start, columns)
    return out


def read_with_top(
    hidden: torch.Tensor,
    head: torch.Tensor,
    column_start: torch.Tensor,
    columns: torch.Tensor,
    soft_cap: float | None,
    top_reads: torch.Tensor,
    top: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As `read_options`, and of the rows `top_reads` [T] the `top` most probable tokens.

    Returns:
        [columns]; [T, top] int32 ids by falling log-probability, equal ones by rising id; and their
        log-probabilities. Of a row with a NaN they are 0 and NaN.
    """
    out = torch.empty(columns.shape, dtype=torch.float32)
    top = min(top, head.shape[0])
    ids = torch.zeros((len(top_reads), top), dtype=torch.int32)
    best = torch.full((len(top_reads), top), torch.nan)
    for first, logprobs in _tiles(hidden, head, soft_cap):
        _take_columns(out, logprobs, first, column_start, columns)
        here = (top_reads >= first) & (top_reads < first + len(logprobs))
        for number in here.nonzero()[:, 0].tolist():
            found = _most_probable(logprobs[int(top_reads[number]) - first], top)
            if found is not None:
                ids[number], best[number] = found
    return out, ids, best


def _most_probable(logprobs: torch.Tensor, top: int) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Ids and log-probabilities of the largest of [V]; None where they are no numbers."""
    least = float(logprobs.topk(top).values[-1])
    if np.isnan(least):
        return None
    row = logprobs.numpy()
    # All that are as large as the last one: which of them the library takes is not said.
    found = np.flatnonzero(row >= least)
    order = found[np.argsort(-row[found], kind="stable")][:top]
    return torch.from_numpy(order.astype(np.int32)), logprobs[torch.from_numpy(order)]


def _tiles(
    hidden: torch.Tensor, head: torch.Tensor, soft_cap: float | None
) -> Iterator[tuple[int, torch.Tensor]]:
    """First row and [rows, V] log-probabilities of each tile, valid until the next one."""
    padded = padded_rows(hidden.float())
    logits = torch.empty(ROW_TILE, head.shape[0])
    for first in range(0, hidden.shape[0], ROW_TILE):
        _logits(padded[first : first + ROW_TILE], head, logits)
        if soft_cap is not None:
            logits.div_(soft_cap).tanh_().mul_(soft_cap)
        yield first, torch.log_softmax(logits, -1)[: hidden.shape[0] - first]


def _take_columns(
    out: torch.Tensor,
    logprobs: torch.Tensor,
    first: int,
    column_start: torch.Tensor,
    columns: torch.Tensor,
) -> None:
    last = first + len(logprobs)
    counts = column_start[first : last + 1].diff()
    start, end = int(column_start[first]), int(column_start[last])
    rows = torch.repeat_interleave(torch.arange(last - first), counts)
    out[start:end] = logprobs[rows, columns[start:end]]


def _logits(hidden: torch.Tensor, head: torch.Tensor, out: torch.Tensor) -> None:
    if head.dtype == torch.float32:
        torch.mm(hidden, head.t(), out=out)
        return
    for start in range(0, head.shape[0], VOCAB_TILE):
        wide = head[start : start + VOCAB_TILE].float()
        out[:, start : start + VOCAB_TILE] = torch.mm(hidden, wide.t())
