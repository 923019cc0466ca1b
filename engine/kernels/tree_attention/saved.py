"""Rows of keys and values that outlive their pass, on a GPU: one launch saves some, and puts others that
slots continue behind the pass's own.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# mypy: disallow-untyped-decorators=False, disallow-untyped-calls=False

import torch
import triton
import triton.language as tl

CONTINUE_WARPS = 4


# Lest other numbers compile anew: multiples of 16, or one.
@triton.jit(do_not_specialize=["rows", "ghost_count"])
def continue_kernel(
    k,
    v,
    out_k,
    out_v,
    saved_k,
    saved_v,
    ghosts,
    save_rows,
    save_places,
    rows,
    ghost_count,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One row of keys and of values: of the pass, of a ghost, or one to be saved."""
    number = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    inside = lane < SIZE
    if number < rows + ghost_count:
        target = number.to(tl.int64) * SIZE + lane
        if number < rows:
            source = target
            tl.store(out_k + target, tl.load(k + source, mask=inside), mask=inside)
            tl.store(out_v + target, tl.load(v + source, mask=inside), mask=inside)
        else:
            place = tl.load(ghosts + number - rows)
            source = place.to(tl.int64) * SIZE + lane
            tl.store(out_k + target, tl.load(saved_k + source, mask=inside), mask=inside)
            tl.store(out_v + target, tl.load(saved_v + source, mask=inside), mask=inside)
    else:
        at = number - rows - ghost_count
        source = tl.load(save_rows + at).to(tl.int64) * SIZE + lane
        target = tl.load(save_places + at).to(tl.int64) * SIZE + lane
        tl.store(saved_k + target, tl.load(k + source, mask=inside), mask=inside)
        tl.store(saved_v + target, tl.load(v + source, mask=inside), mask=inside)


def continued(
    k: torch.Tensor,
    v: torch.Tensor,
    saved: tuple[torch.Tensor, torch.Tensor],
    ghosts: torch.Tensor,
    save_rows: torch.Tensor,
    save_places: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values with those of ghosts behind them; k and v [N, G, D] -> [N + K, G, D].

    Without ghosts k and v themselves. No ghost is saved in the same pass.

    Args:
        saved: [places, G, D] keys and values of saved rows; some are written.
        ghosts: [K] int32 places that are read.
        save_rows, save_places: [S] int32, rows of k and v that are saved, and where.
    """
    rows, count = len(k) if len(ghosts) else 0, len(ghosts)
    if not (count or len(save_rows)):
        return k, v
    if not (k.is_contiguous() and v.is_contiguous()):
        raise AssertionError("k and v must be contiguous")
    out_k, out_v = ((x.new_empty((rows + count, *x.shape[1:])) if count else x) for x in (k, v))
    _launch((k, v), (out_k, out_v), saved, ghosts, (save_rows, save_places), rows)
    return out_k, out_v


def save(
    k: torch.Tensor,
    v: torch.Tensor,
    saved: tuple[torch.Tensor, torch.Tensor],
    rows: torch.Tensor,
    places: torch.Tensor,
) -> None:
    """Writes rows [S] of k and v [N, G, D] to places [S] of `saved` [places, G, D]; both int32.

    Of several rows for one place any one may stay.
    """
    if not (k.is_contiguous() and v.is_contiguous()):
        raise AssertionError("k and v must be contiguous")
    _launch((k, v), (k, v), saved, rows[:0], (rows, places), 0)


def _launch(
    read: tuple[torch.Tensor, torch.Tensor],
    written: tuple[torch.Tensor, torch.Tensor],
    saved: tuple[torch.Tensor, torch.Tensor],
    ghosts: torch.Tensor,
    saves: tuple[torch.Tensor, torch.Tensor],
    rows: int,
) -> None:
    size = read[0].shape[1] * read[0].shape[2]
    continue_kernel[(rows + len(ghosts) + len(saves[0]),)](
        *read,
        *written,
        *saved,
        ghosts,
        *saves,
        rows,
        len(ghosts),
        SIZE=size,
        BLOCK=triton.next_power_of_2(size),
        num_warps=CONTINUE_WARPS,
    )
