"""Log-probabilities of wanted tokens on a GPU, without the logits of every row and token.

A block makes one tile of logits, of some read rows and some of the vocabulary, and keeps each row's
largest logit and its sum of exponentials. A second kernel reduces a row's tiles, from the first to
the last, and makes the row's few wanted logits anew, each by one sum: picking them out of the tiles
would hold up the block whose tile has the words that all questions ask for. Both sizes of tile are
the same for every number of rows, so a row's bits are its own. Logits and sums are float32.
"""

from typing import Final

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from spinf_serve.engine.kernels.device import capability_of
from spinf_serve.engine.kernels.linear.kernel import scheme_of, takes_descriptors
from spinf_serve.engine.kernels.tiles import Tile, read_tile

_FEW_ROWS: Final = 256
_PARTS: Final = 16
"""Blocks that share the columns of a row, where rows are few."""


@triton.jit
def _capped(logits, soft_cap):
    """`soft_cap * tanh(logits / soft_cap)`, by exponentials of what is not positive."""
    ratio = logits / soft_cap
    shrunk = tl.exp(-2.0 * tl.abs(ratio))
    size = soft_cap * ((1.0 - shrunk) / (1.0 + shrunk))
    # A NaN is not below zero, and stays one.
    return tl.where(ratio < 0, -size, size)


# Lest another number of rows compiles anew: a multiple of 16, or one.
@triton.jit(do_not_specialize=["rows"])
def tile_kernel(
    hidden,
    head,
    largest,
    total,
    every,
    soft_cap,
    rows,
    vocab,
    inner,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    INNER: tl.constexpr,
    CAP: tl.constexpr,
    WHOLE_STEPS: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
    STORE: tl.constexpr,
):
    """One tile: per row the largest logit and the sum of exponentials; with STORE every logit too."""
    # Row tiles run fastest: the vocabulary's weights come from memory once.
    row_tiles = tl.cdiv(rows, ROWS)
    number = tl.program_id(0)
    row0, column0 = number % row_tiles * ROWS, number // row_tiles * COLUMNS
    row, column = row0 + tl.arange(0, ROWS), column0 + tl.arange(0, COLUMNS)
    logits = tl.zeros((ROWS, COLUMNS), tl.float32)
    if DESCRIPTORS:
        for step in range(tl.cdiv(inner, INNER)):
            left = hidden.load([row0, step * INNER])
            right = head.load([column0, step * INNER])
            logits = tl.dot(left, right.T, logits, input_precision="ieee")
    else:
        depth = tl.arange(0, INNER)
        hidden_at = hidden + (row % rows).to(tl.int64)[:, None] * inner + depth[None, :]
        head_at = head + (column % vocab).to(tl.int64)[None, :] * inner + depth[:, None]
        for step in range(tl.cdiv(inner, INNER)):
            if WHOLE_STEPS:
                left = tl.load(hidden_at)
                right = tl.load(head_at)
            else:
                inside = step * INNER + depth < inner
                left = tl.load(hidden_at, mask=inside[None, :], other=0.0)
                right = tl.load(head_at, mask=inside[:, None], other=0.0)
            logits = tl.dot(left, right, logits, input_precision="ieee")
            hidden_at += INNER
            head_at += INNER
    if CAP:
        logits = _capped(logits, soft_cap)

    if STORE:
        at = row.to(tl.int64)[:, None] * vocab + column[None, :]
        tl.store(every + at, logits, mask=(row < rows)[:, None] & (column < vocab)[None, :])
    logits = tl.where((column < vocab)[None, :], logits, -float("inf"))
    peak = tl.max(logits, 1)
    mass = tl.sum(tl.exp(logits - peak[:, None]), 1)
    place = (number // row_tiles).to(tl.int64) * rows + row
    tl.store(largest + place, peak, mask=row < rows)
    tl.store(total + place, mass, mask=row < rows)


@triton.jit(do_not_specialize=["rows"])
def row_kernel(
    hidden,
    head,
    largest,
    total,
    column_start,
    columns,
    out,
    soft_cap,
    rows,
    vocab_tiles,
    inner,
    TILE_BLOCK: tl.constexpr,
    INNER_BLOCK: tl.constexpr,
    CAP: tl.constexpr,
):
    """One row: log-sum-exp over its tiles, and some of its wanted logits less that."""
    row, part = tl.program_id(0), tl.program_id(1)
    first, end = tl.load(column_start + row) + part, tl.load(column_start + row + 1)
    if first >= end:
        return
    tile = tl.arange(0, TILE_BLOCK)
    inside = tile < vocab_tiles
    at = tile.to(tl.int64) * rows + row
    peaks = tl.load(largest + at, mask=inside, other=-float("inf"))
    masses = tl.load(total + at, mask=inside, other=0.0)
    peak = tl.max(peaks, 0)
    log_total = peak + tl.log(tl.sum(masses * tl.exp(peaks - peak), 0))

    depth = tl.arange(0, INNER_BLOCK)
    within = depth < inner
    left = tl.load(hidden + row.to(tl.int64) * inner + depth, mask=within, other=0.0)
    left = left.to(tl.float32)
    for place in range(first, end, tl.num_programs(1)):
        token = tl.load(columns + place).to(tl.int64)
        right = tl.load(head + token * inner + depth, mask=within, other=0.0).to(tl.float32)
        logit = tl.sum(left * right, 0)
        if CAP:
            logit = _capped(logit, soft_cap)
        # Two orders of summation: a token that takes all of the mass must not have more than that.
        found = tl.minimum(logit - log_total, 0.0, propagate_nan=tl.PropagateNan.ALL)
        tl.store(out + place, found)


def read_options(
    hidden: torch.Tensor,
    head: torch.Tensor,
    column_start: torch.Tensor,
    columns: torch.Tensor,
    *,
    soft_cap: float | None,
    tile: Tile | None = None,
) -> torch.Tensor:
    """Log-probabilities of the wanted tokens over the whole vocabulary, natural -> [columns] float32.

    Args:
        hidden: [R, C] bfloat16, float16 or float32.
        head: [V, C] of the same dtype.
        column_start: [R + 1] int64; row r wants `columns[column_start[r] : column_start[r + 1]]`.
        columns: [columns] int64, each below V. Behind the last row's there may be others, which
            are left as they are.
        soft_cap: logits become `soft_cap * tanh(logit / soft_cap)`; None leaves them.
        tile: another tile than the table's, for every call of a session alike.

    A row with a NaN gives NaN in all of its columns.
    """
    out = torch.empty(columns.shape, dtype=torch.float32, device=hidden.device)
    if columns.numel() and len(hidden):
        masses = tile_masses(hidden, head, soft_cap=soft_cap, tile=tile)
        read_rows(hidden, head, masses, column_start, columns, out, soft_cap=soft_cap)
    return out


def tile_masses(
    hidden: torch.Tensor,
    head: torch.Tensor,
    *,
    soft_cap: float | None,
    tile: Tile | None = None,
    every: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of each tile of the vocabulary and each row the largest logit and its sum of exponentials.

    Args:
        hidden, head, soft_cap, tile: as in `read_options`; at least one row.
        every: [R, V] float32, gets all logits; summed in another order than a column's is.

    Returns:
        [tiles, R] float32 each.
    """
    if not (hidden.is_contiguous() and head.is_contiguous() and hidden.shape[1] == head.shape[1]):
        raise AssertionError(
            f"a read takes contiguous tensors of one width, not {list(hidden.shape)} {hidden.dtype}"
            f" and {list(head.shape)} {head.dtype}"
        )
    (rows, inner), vocab = hidden.shape, head.shape[0]
    scheme = scheme_of(hidden.dtype, head.dtype)
    if tile is None:
        tile = read_tile(capability_of(hidden.device), scheme)
    row_tiles, vocab_tiles = -(-rows // tile.rows), -(-vocab // tile.columns)
    largest = torch.empty((vocab_tiles, rows), dtype=torch.float32, device=hidden.device)
    total = torch.empty_like(largest)
    descriptors = tile.descriptors and takes_descriptors(hidden, head)

    def argument(tensor: torch.Tensor, block: list[int]) -> object:
        return TensorDescriptor.from_tensor(tensor, block) if descriptors else tensor

    tile_kernel[(row_tiles * vocab_tiles,)](
        argument(hidden, [tile.rows, tile.inner]),
        argument(head, [tile.columns, tile.inner]),
        largest,
        total,
        every,
        soft_cap,
        rows,
        vocab,
        inner,
        ROWS=tile.rows,
        COLUMNS=tile.columns,
        INNER=tile.inner,
        CAP=soft_cap is not None,
        WHOLE_STEPS=inner % tile.inner == 0,
        DESCRIPTORS=descriptors,
        STORE=every is not None,
        num_warps=tile.warps,
        num_stages=tile.stages,
        enable_fp_fusion=True,
    )
    return largest, total


def read_rows(
    hidden: torch.Tensor,
    head: torch.Tensor,
    masses: tuple[torch.Tensor, torch.Tensor],
    column_start: torch.Tensor,
    columns: torch.Tensor,
    out: torch.Tensor,
    *,
    soft_cap: float | None,
) -> None:
    """Writes the log-probabilities of the rows' columns to `out`; `masses` as `tile_masses` gives."""
    (rows, inner), (vocab_tiles, _) = hidden.shape, masses[0].shape
    # A row's columns are read one behind the other, so that few rows would take as long as many.
    row_kernel[(rows, _PARTS if rows <= _FEW_ROWS else 1)](
        hidden,
        head,
        *masses,
        column_start,
        columns,
        out,
        soft_cap,
        rows,
        vocab_tiles,
        inner,
        TILE_BLOCK=triton.next_power_of_2(vocab_tiles),
        INNER_BLOCK=triton.next_power_of_2(inner),
        CAP=soft_cap is not None,
        num_warps=4,
        enable_fp_fusion=True,
    )
