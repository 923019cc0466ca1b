"""Row-wise work on a GPU: norms fused with the residual and the rounding to eight bits, and heads.

One block holds one row (or a few heads of one row), so a row sees itself only; what a block holds
and in which order it is summed follows from the row's length alone. float32 inside.

Knows no model. A norm's weight is the factor itself: a family whose weights are stored as w - 1
adds the one when it loads them.
"""

import functools
from collections.abc import Mapping
from typing import cast

import torch
import triton
import triton.language as tl

from spinf_serve.engine.kernels.device import room, rounded
from spinf_serve.engine.kernels.elementwise.heads_kernel import heads_kernel
from spinf_serve.engine.kernels.elementwise.quant import LIMITS, SMALLEST_AMAX, Quant
from spinf_serve.engine.kernels.launch import Launcher

_NO_QUANT, _ONE_SCALE, _ROW_SCALES = 0, 1, 2
HEAD_BLOCK, HEAD_WARPS = 1024, 1
"""Elements of the heads that one block holds, and its warps: on an H200 one that waits for no other
moves the most bytes."""


@triton.jit
def _normed(x, at, inside, weight, size, eps, CAST_FIRST: tl.constexpr, dtype: tl.constexpr):
    """`x / sqrt(mean(x^2) + eps) * weight` of one row held in x, zeros beyond its end."""
    mean = tl.sum(x * x, 0) / size
    normed = x * tl.div_rn(1.0, tl.sqrt_rn(mean + eps))
    if CAST_FIRST:
        normed = normed.to(dtype).to(tl.float32)
    return normed * tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _put(
    value,
    out,
    scale,
    out_scale,
    row,
    start,
    at,
    inside,
    QUANT: tl.constexpr,
    INTEGER: tl.constexpr,
    LIMIT: tl.constexpr,
    SMALLEST: tl.constexpr,
):
    """Stores one row, rounded to eight bits when QUANT is 1 (one scale) or 2 (the row's own)."""
    if QUANT == 2:
        # Magnitudes order as their bits do, with NaN on top, where a maximum of floats drops it.
        bits = tl.max(tl.abs(value).to(tl.int32, bitcast=True), 0)
        amax = bits.to(tl.float32, bitcast=True)
        amax = tl.maximum(amax, SMALLEST, propagate_nan=tl.PropagateNan.ALL)
        own = tl.div_rn(amax, LIMIT)
        tl.store(out_scale + row, own)
        value = value * tl.div_rn(1.0, own)
    elif QUANT == 1:
        value = value * tl.div_rn(1.0, tl.load(scale))
    if QUANT > 0:
        value = tl.clamp(value, -LIMIT, LIMIT, propagate_nan=tl.PropagateNan.ALL)
    if INTEGER:
        # Adding and taking away 1.5 * 2^23 rounds to the nearest whole number, ties to even.
        value = (value + 12582912.0) - 12582912.0
    tl.store(out + start + at, value.to(out.dtype.element_ty), mask=inside)


@triton.jit
def norm_kernel(
    x,
    weight,
    out,
    scale,
    out_scale,
    size,
    eps,
    BLOCK: tl.constexpr,
    NORM: tl.constexpr,
    CAST_FIRST: tl.constexpr,
    QUANT: tl.constexpr,
    INTEGER: tl.constexpr,
    LIMIT: tl.constexpr,
    SMALLEST: tl.constexpr,
):
    """One row: norm, then rounding; either may be absent."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < size
    start = row.to(tl.int64) * size
    value = tl.load(x + start + at, mask=inside, other=0.0).to(tl.float32)
    if NORM:
        dtype: tl.constexpr = x.dtype.element_ty
        value = _normed(value, at, inside, weight, size, eps, CAST_FIRST, dtype)
    _put(value, out, scale, out_scale, row, start, at, inside, QUANT, INTEGER, LIMIT, SMALLEST)


@triton.jit
def add_norm_kernel(
    residual,
    y,
    post_weight,
    next_weight,
    layer_scale,
    out_residual,
    out,
    scale,
    out_scale,
    size,
    eps,
    BLOCK: tl.constexpr,
    POST: tl.constexpr,
    LAYER_SCALE: tl.constexpr,
    CAST_FIRST: tl.constexpr,
    QUANT: tl.constexpr,
    INTEGER: tl.constexpr,
    LIMIT: tl.constexpr,
    SMALLEST: tl.constexpr,
):
    """One row: residual + norm(y), scaled and stored; its norm, rounded and stored."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < size
    start = row.to(tl.int64) * size
    dtype: tl.constexpr = residual.dtype.element_ty
    value = tl.load(y + start + at, mask=inside, other=0.0).to(tl.float32)
    before = tl.load(residual + start + at, mask=inside, other=0.0).to(tl.float32)
    if POST:
        value = _normed(value, at, inside, post_weight, size, eps, CAST_FIRST, dtype)
    value += before
    if LAYER_SCALE:
        value = value * tl.load(layer_scale).to(tl.float32)
    # The next norm sees what later layers will read, not the float32 before its rounding.
    kept = value.to(dtype)
    tl.store(out_residual + start + at, kept, mask=inside)
    value = kept.to(tl.float32)
    value = _normed(value, at, inside, next_weight, size, eps, CAST_FIRST, dtype)
    _put(value, out, scale, out_scale, row, start, at, inside, QUANT, INTEGER, LIMIT, SMALLEST)


_NORM, _ADD_NORM, _HEADS = Launcher(norm_kernel), Launcher(add_norm_kernel), Launcher(heads_kernel)


def norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    *,
    cast_first: bool = False,
    quant: Quant | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Root-mean-square norm of each row, and its rounding to eight bits.

    Args:
        x: [N, C] bfloat16, float16 or float32.
        weight: [C], the factor, any float dtype.
        cast_first: rounds to x's dtype before the multiplication with weight, else only after.
        quant: how the result is rounded to eight bits, or None.

    Returns:
        The result [N, C] in x's dtype or quant's; the scales [N, 1] float32 when quant has one per
        row, else None.
    """
    return _one_row_each(x, weight, eps, cast_first, quant)


def quantize(x: torch.Tensor, quant: Quant) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Rounds rows [N, C] to eight bits; the result, and its scales as `norm` gives them."""
    return _one_row_each(x, None, 0.0, False, quant)


def add_norm(
    residual: torch.Tensor,
    y: torch.Tensor,
    post_weight: torch.Tensor | None,
    next_weight: torch.Tensor,
    eps: float,
    *,
    layer_scale: torch.Tensor | None = None,
    cast_first: bool = False,
    quant: Quant | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """`(residual + norm(y)) * layer_scale`, and the norm of that, rounded to eight bits.

    Args:
        residual, y: [N, C] of one dtype, bfloat16, float16 or float32.
        post_weight: [C] factor of y's norm; None adds y as it is.
        next_weight: [C] factor of the norm of the new residual.
        layer_scale: one number that the new residual is multiplied by, or None.
        cast_first, quant: as in `norm`, for both norms and for the result.

    Returns:
        The new residual [N, C]; its norm [N, C], of the residual as it was rounded; scales as
        `norm` gives them.
    """
    _expect(residual.shape == y.shape and residual.dtype == y.dtype, residual, y)
    _expect(residual.is_contiguous() and y.is_contiguous(), residual, y)
    rows, size = y.shape
    kept = room((rows, size), y.dtype, y.device)
    dtype = y.dtype if quant is None else quant.dtype
    out = room((rows, size), dtype, y.device)
    out_scale = _row_scales(quant, y)
    if rows:
        is_given = post_weight is not None, layer_scale is not None
        kind = _quant_kind(quant)
        scale = None if quant is None else quant.scale
        _ADD_NORM(
            (y.device, size, is_given, cast_first, kind),
            rows,
            (residual, y, post_weight, next_weight, layer_scale, kept, out, scale, out_scale)
            + (size, eps),
            _row_constants(size, ("POST", "LAYER_SCALE"), is_given, cast_first, kind),
        )
    return rounded(kept, y.dtype), rounded(out, dtype), out_scale


def heads(
    qkv: torch.Tensor,
    q_norm: torch.Tensor | None,
    k_norm: torch.Tensor | None,
    *,
    v_norm: bool,
    eps: float,
    cos: torch.Tensor,
    sin: torch.Tensor,
    heads: int,
    kv_heads: int,
    head_dim: int,
    confine: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Splits a fused projection into heads, norms them and rotates q and k.

    With `confine` what is not finite in a row reaches the rows that see it and no others of an
    attention tile, where a weight of zero does not silence a NaN value while a masked score does
    silence a NaN key. No bit of another row or head moves.

    Args:
        qkv: [N, (H + 2 G) D], q, k and v rows; or [N, (H + G) D] where v is k as it was projected.
        q_norm, k_norm: [D] factors of the norms of q and k before the rotation, or both None.
        v_norm: whether v is normed, without a factor.
        eps: of the norms.
        cos, sin: [N, P] float32 of the first P pairs (i, i + D/2) of a head; the others stay.
        heads, kv_heads, head_dim: H, G and D. One of H and G may be 0.
        confine: v becomes finite, and a key whose value was not holds NaN, so that every score
            against it is one.

    Returns:
        q [N, H, D], k and v [N, G, D], in qkv's dtype.
    """
    rows, width = qkv.shape
    v_is_k = kv_heads > 0 and width == (heads + kv_heads) * head_dim
    stored = heads + (1 if v_is_k else 2) * kv_heads
    half, moving = head_dim // 2, cos.shape[1]
    _expect(qkv.is_contiguous() and width == stored * head_dim and head_dim % 2 == 0, qkv)
    _expect(cos.shape == sin.shape == (rows, moving) and moving <= half, cos, sin)
    _expect(cos.is_contiguous() and sin.is_contiguous(), cos, sin)
    _expect((q_norm is None) == (k_norm is None), qkv)
    q, k, v = (
        room((rows, n, head_dim), qkv.dtype, qkv.device) for n in (heads, kv_heads, kv_heads)
    )
    kind = heads, kv_heads, head_dim, q_norm is not None, v_norm, v_is_k, confine
    if rows:
        constants = _head_constants(*kind)
        _HEADS(
            (qkv.device, width, moving, kind),
            rows * -(-stored // cast(int, constants["BLOCK_HEADS"])),
            (qkv, q_norm, k_norm, cos, sin, q, k, v, width, moving, eps),
            constants,
        )
    return rounded(q, qkv.dtype), rounded(k, qkv.dtype), rounded(v, qkv.dtype)


def row_warps(size: int) -> int:
    """Warps of a block that holds a row of this many elements: at most 32 elements a thread."""
    return min(16, max(1, (1 << (size - 1).bit_length()) // 1024))


def _one_row_each(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    eps: float,
    cast_first: bool,
    quant: Quant | None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    _expect(x.is_contiguous() and x.ndim == 2, x)
    rows, size = x.shape
    dtype = x.dtype if quant is None else quant.dtype
    out = room((rows, size), dtype, x.device)
    out_scale = _row_scales(quant, x)
    if rows:
        is_given = (weight is not None,)
        kind = _quant_kind(quant)
        scale = None if quant is None else quant.scale
        _NORM(
            (x.device, size, is_given, cast_first, kind),
            rows,
            (x, weight, out, scale, out_scale, size, eps),
            _row_constants(size, ("NORM",), is_given, cast_first, kind),
        )
    return rounded(out, dtype), out_scale


def _row_scales(quant: Quant | None, x: torch.Tensor) -> torch.Tensor | None:
    if quant is None or quant.scale is not None:
        return None
    return torch.empty((x.shape[0], 1), dtype=torch.float32, device=x.device)


def _quant_kind(quant: Quant | None) -> tuple[int, torch.dtype | None]:
    if quant is None:
        return _NO_QUANT, None
    return _ROW_SCALES if quant.scale is None else _ONE_SCALE, quant.dtype


@functools.cache
def _row_constants(
    size: int,
    names: tuple[str, ...],
    is_given: tuple[bool, ...],
    cast_first: bool,
    quant: tuple[int, torch.dtype | None],
) -> Mapping[str, object]:
    """Constants of a kernel for rows of this length; `names` are those that say what is given."""
    kind, dtype = quant
    return {
        "BLOCK": triton.next_power_of_2(size),
        **dict(zip(names, is_given, strict=True)),
        "CAST_FIRST": cast_first,
        "QUANT": kind,
        "INTEGER": dtype == torch.int8,
        "LIMIT": 0.0 if dtype is None else LIMITS[dtype],
        "SMALLEST": SMALLEST_AMAX,
        "num_warps": row_warps(size),
        "enable_fp_fusion": True,
    }


@functools.cache
def _head_constants(
    heads: int, kv_heads: int, head_dim: int, norm: bool, v_norm: bool, v_is_k: bool, confine: bool
) -> Mapping[str, object]:
    half_block = triton.next_power_of_2(head_dim // 2)
    return {
        "HEADS": heads,
        "KV_HEADS": kv_heads,
        "HALF": head_dim // 2,
        "HALF_BLOCK": half_block,
        "BLOCK_HEADS": max(1, HEAD_BLOCK // (2 * half_block)),
        "NORM": norm,
        "V_NORM": v_norm,
        "V_IS_K": v_is_k,
        "CONFINE": confine,
        "num_warps": HEAD_WARPS,
        "enable_fp_fusion": True,
    }


def _expect(holds: bool, *found: torch.Tensor) -> None:
    if not holds:
        shapes = ", ".join(f"{list(tensor.shape)} {tensor.dtype}" for tensor in found)
        raise AssertionError(f"row-wise work takes contiguous tensors that fit, not {shapes}")
