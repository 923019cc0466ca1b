"""Matrix products on a GPU: scales, residual, gate and requantisation happen where the sum ends.

The inner dimension is walked in one fixed order by one block, so a row's result depends on that row
and the weights only. Rows and columns beyond the edge are read again from the front, never masked,
and not stored. Sums are float32 (int32 for int8 by int8, which is exact).

Knows no model and no checkpoint: which scheme a layer has, and how its weights were quantised, is
the caller's.
"""

import functools
from collections.abc import Mapping
from typing import Literal

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from spinf_serve.engine.kernels.device import (
    capability_of,
    processors_of,
    room,
    rounded,
)
from spinf_serve.engine.kernels.launch import Launcher
from spinf_serve.engine.kernels.linear.gate_up import GATE_BLOCK
from spinf_serve.engine.kernels.tiles import Scheme, Tile, product_tile

Activation = Literal["gelu_tanh", "silu"]

_NO_GATE, _GELU_TANH, _SILU = 0, 1, 2
_ACTIVATIONS: dict[Activation, int] = {"gelu_tanh": _GELU_TANH, "silu": _SILU}
_NO_SCALE, _ONE_SCALE, _SCALES = 0, 1, 2
_SCHEMES: dict[tuple[torch.dtype, torch.dtype], Scheme] = {
    (torch.float8_e4m3fn, torch.float8_e4m3fn): "fp8",
    (torch.int8, torch.int8): "int8",
    (torch.bfloat16, torch.int8): "w8a16",
    (torch.float16, torch.int8): "w8a16",
    (torch.bfloat16, torch.bfloat16): "16bit",
    (torch.float16, torch.float16): "16bit",
    (torch.float32, torch.float32): "float32",
}
_ALIGNMENT_BYTES = 16


@triton.jit
def gated(gate, up, GATE: tl.constexpr):
    """Activation of gate times up, float32: GATE 1 is gelu in its tanh form, 2 is silu.

    (1 + tanh(z)) / 2 is 1 / (1 + exp(-2 z)), so both are gate / (1 + 2^exponent).
    """
    if GATE == 1:
        # -2 sqrt(2 / pi) log2(e)
        exponent = gate * (gate * gate * 0.044715 + 1.0) * -2.302208198144325
    else:
        exponent = gate * -1.4426950408889634
    return gate / (1.0 + tl.exp2(exponent)) * up


@triton.jit
def for_float8(x):
    """float32 clamped to what e4m3 holds; a NaN stays one."""
    return tl.clamp(x, -448.0, 448.0, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _place(tile, row_tiles, column_tiles, GROUP: tl.constexpr):
    """Row and column tile of a number: GROUP row tiles go down each column before the next."""
    whole = GROUP * column_tiles
    first = tile // whole * GROUP
    height = tl.minimum(row_tiles - first, GROUP)
    within = tile % whole
    return first + within % height, within // height


@triton.jit
def _scale_of(x_scale, weight_scale, row, column, X: tl.constexpr, WEIGHT: tl.constexpr):
    """Product of the two scales: a number, a row, a column or a tile, whatever they span."""
    if X == 2:
        factor = tl.load(x_scale + row)[:, None]
        if WEIGHT == 2:
            factor = factor * tl.load(weight_scale + column)[None, :]
        elif WEIGHT == 1:
            factor = factor * tl.load(weight_scale)
    else:
        if WEIGHT == 2:
            factor = tl.load(weight_scale + column)[None, :]
        else:
            factor = tl.load(weight_scale)
        if X == 1:
            factor = factor * tl.load(x_scale)
    return factor


@triton.jit
def _store(out, value, row, column, rows, columns, row0, column0, DESCRIPTORS: tl.constexpr):
    if DESCRIPTORS:
        out.store([row0, column0], value.to(out.dtype))
    else:
        inside = (row < rows)[:, None] & (column < columns)[None, :]
        at = row.to(tl.int64)[:, None] * columns + column[None, :]
        tl.store(out + at, value.to(out.dtype.element_ty), mask=inside)


# Lest another number of rows compiles anew: a multiple of 16, or one.
@triton.jit(do_not_specialize=["rows"])
def product_kernel(
    x,
    weight,
    out,
    x_scale,
    weight_scale,
    residual,
    out_scale,
    rows,
    columns,
    inner,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    INNER: tl.constexpr,
    GROUP: tl.constexpr,
    X_SCALE: tl.constexpr,
    WEIGHT_SCALE: tl.constexpr,
    RESIDUAL: tl.constexpr,
    GATE: tl.constexpr,
    GATE_ROWS: tl.constexpr,
    REQUANTIZE: tl.constexpr,
    INTEGER: tl.constexpr,
    WIDEN: tl.constexpr,
    WHOLE_STEPS: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
    PERSISTENT: tl.constexpr,
    STORE_PARTS: tl.constexpr,
):
    """out = epilogue(x @ weight.T); columns are those of the weight, gate and up together."""
    row_tiles = tl.cdiv(rows, ROWS)
    column_tiles = tl.cdiv(columns, COLUMNS)
    steps = tl.cdiv(inner, INNER)
    first = tl.program_id(0)
    for tile in tl.range(first, row_tiles * column_tiles, tl.num_programs(0), flatten=PERSISTENT):
        row_tile, column_tile = _place(tile, row_tiles, column_tiles, GROUP)
        row0, column0 = row_tile * ROWS, column_tile * COLUMNS
        row, column = row0 + tl.arange(0, ROWS), column0 + tl.arange(0, COLUMNS)
        kind: tl.constexpr = tl.int32 if INTEGER else tl.float32
        total = tl.zeros((ROWS, COLUMNS), kind)
        if DESCRIPTORS:
            for step in range(steps):
                left = x.load([row0, step * INNER])
                right = weight.load([column0, step * INNER])
                if WIDEN:
                    right = right.to(left.dtype)
                total = tl.dot(left, right.T, total, input_precision="ieee", out_dtype=kind)
        else:
            depth = tl.arange(0, INNER)
            x_at = x + (row % rows).to(tl.int64)[:, None] * inner + depth[None, :]
            weight_at = weight + (column % columns).to(tl.int64)[None, :] * inner + depth[:, None]
            for step in range(steps):
                if WHOLE_STEPS:
                    left = tl.load(x_at)
                    right = tl.load(weight_at)
                else:
                    inside = step * INNER + depth < inner
                    left = tl.load(x_at, mask=inside[None, :], other=0.0)
                    right = tl.load(weight_at, mask=inside[:, None], other=0.0)
                if WIDEN:
                    right = right.to(left.dtype)
                total = tl.dot(left, right, total, input_precision="ieee", out_dtype=kind)
                x_at += INNER
                weight_at += INNER

        value = total.to(tl.float32)
        if X_SCALE + WEIGHT_SCALE > 0:
            value = value * _scale_of(
                x_scale, weight_scale, row % rows, column % columns, X_SCALE, WEIGHT_SCALE
            )
        if GATE:
            half: tl.constexpr = COLUMNS // 2
            pairs = value.reshape(ROWS, half // GATE_ROWS, 2, GATE_ROWS).permute(0, 1, 3, 2)
            gate, up = tl.split(pairs)
            value = gated(gate, up, GATE).reshape(ROWS, half)
            if REQUANTIZE:
                value = for_float8(value * tl.div_rn(1.0, tl.load(out_scale)))
            column0 = column_tile * half
            _store(
                out,
                value,
                row,
                column0 + tl.arange(0, half),
                rows,
                columns // 2,
                row0,
                column0,
                DESCRIPTORS,
            )
        else:
            if RESIDUAL:
                at = row.to(tl.int64)[:, None] * columns + column[None, :]
                inside = (row < rows)[:, None] & (column < columns)[None, :]
                value += tl.load(residual + at, mask=inside, other=0.0).to(tl.float32)
            if STORE_PARTS == 2:
                part: tl.constexpr = COLUMNS // 2
                low, high = tl.split(value.reshape(ROWS, 2, part).permute(0, 2, 1))
                near = column0 + tl.arange(0, part)
                _store(out, low, row, near, rows, columns, row0, column0, DESCRIPTORS)
                _store(
                    out,
                    high,
                    row,
                    near + part,
                    rows,
                    columns,
                    row0,
                    column0 + part,
                    DESCRIPTORS,
                )
            else:
                _store(out, value, row, column, rows, columns, row0, column0, DESCRIPTORS)


_PRODUCT = Launcher(product_kernel)


def product(
    x: torch.Tensor,
    weight: torch.Tensor,
    *,
    x_scale: torch.Tensor | None,
    weight_scale: torch.Tensor | None,
    out_dtype: torch.dtype,
    residual: torch.Tensor | None = None,
    tile: Tile | None = None,
) -> torch.Tensor:
    """`x @ weight.T * (x_scale * weight_scale) + residual`, summed in float32 -> [N, M].

    On an H200 with Triton 3.6, float8 results with one scale a tensor have the bits of torch's
    `_scaled_mm` with fast accumulation, while those with scales by row differ from its in the
    order of the two scalings.

    Args:
        x: [N, K] float8_e4m3fn, int8, bfloat16, float16 or float32.
        weight: [M, K] of the same dtype; or int8 under bfloat16 or float16, then widened a tile at
            a time, which is exact.
        x_scale: float32, one number or [N, 1], or None.
        weight_scale: float32, one number or [M, 1], or None.
        out_dtype: bfloat16, float16 or float32.
        residual: [N, M], added in float32 before the result is rounded, or None.
        tile: another tile than the table's.
    """
    out = room((x.shape[0], weight.shape[0]), out_dtype, x.device)
    if residual is not None:
        _expect(residual.shape == out.shape, "a residual of the result's shape", residual, out)
        _expect(residual.is_contiguous(), "a contiguous residual", residual)
    _launch(x, weight, out, x_scale, weight_scale, residual, None, _NO_GATE, tile)
    return rounded(out, out_dtype)


def gated_product(
    x: torch.Tensor,
    gate_up: torch.Tensor,
    *,
    x_scale: torch.Tensor | None,
    gate_up_scale: torch.Tensor | None,
    activation: Activation,
    out_dtype: torch.dtype,
    out_scale: torch.Tensor | None = None,
    tile: Tile | None = None,
) -> torch.Tensor:
    """`activation(x @ gate.T) * (x @ up.T)`, the gated half of an MLP, in one pass -> [N, I].

    The sums, the activation and the product are float32.

    Args:
        x: [N, K], as in `product`.
        gate_up: [2 I, K], rows as `gate_up.interleave_gate_up` lays them.
        x_scale: as in `product`.
        gate_up_scale: float32, one number or [2 I, 1], interleaved as the rows are, or None.
        activation: of the gate.
        out_dtype: bfloat16, float16, float32; or float8_e4m3fn, which needs `out_scale`.
        out_scale: one float32: the result is divided by it and clamped to +-448. None for the
            other dtypes.
        tile: another tile than the table's.
    """
    half = gate_up.shape[0] // 2
    _expect(half % GATE_BLOCK == 0, f"gate rows by the block of {GATE_BLOCK}", gate_up)
    requantized = out_dtype == torch.float8_e4m3fn
    if requantized != (out_scale is not None):
        raise AssertionError("out_scale is what a float8 result is divided by, and only that")
    out = room((x.shape[0], half), out_dtype, x.device)
    gate = _ACTIVATIONS[activation]
    _launch(x, gate_up, out, x_scale, gate_up_scale, None, out_scale, gate, tile)
    return rounded(out, out_dtype)


def scheme_of(x: torch.dtype, weight: torch.dtype) -> Scheme:
    """The scheme of a product of these two dtypes."""
    if (x, weight) not in _SCHEMES:
        raise AssertionError(f"there is no product of {x} activations and {weight} weights")
    return _SCHEMES[x, weight]


def takes_descriptors(*tensors: torch.Tensor) -> bool:
    """Whether the card's bulk copy engine can address these [rows, columns] tensors."""
    for tensor in tensors:
        width_bytes = tensor.shape[1] * tensor.element_size()
        if tensor.data_ptr() % _ALIGNMENT_BYTES or width_bytes % _ALIGNMENT_BYTES:
            return False
    return True


def _launch(
    x: torch.Tensor,
    weight: torch.Tensor,
    out: torch.Tensor,
    x_scale: torch.Tensor | None,
    weight_scale: torch.Tensor | None,
    residual: torch.Tensor | None,
    out_scale: torch.Tensor | None,
    gate: int,
    tile: Tile | None,
) -> None:
    scheme = scheme_of(x.dtype, weight.dtype)
    _expect(x.is_contiguous() and weight.is_contiguous(), "contiguous tensors", x, weight)
    (rows, inner), (columns, depth) = x.shape, weight.shape
    _expect(inner == depth, "one inner dimension", x, weight)
    if not rows or not columns:
        return
    if tile is None:
        tile = product_tile(capability_of(x.device), scheme, rows, columns)
    row_tiles, column_tiles = -(-rows // tile.rows), -(-columns // tile.columns)
    tiles = row_tiles * column_tiles
    programs = min(tiles, processors_of(x.device)) if tile.persistent else tiles
    descriptors = tile.descriptors and takes_descriptors(x, weight, out)
    operands: tuple[object, ...] = (x, weight, out)
    if descriptors:
        out_columns = tile.columns // (2 if gate else tile.store_parts)
        operands = (
            TensorDescriptor.from_tensor(x, [tile.rows, tile.inner]),
            TensorDescriptor.from_tensor(weight, [tile.columns, tile.inner]),
            TensorDescriptor.from_tensor(out, [tile.rows, out_columns]),
        )
    spans = _span(x_scale, rows), _span(weight_scale, columns)
    epilogue = residual is not None, gate, out_scale is not None
    # With all that the launch's constants follow from, and the sizes Triton looks into.
    code = (
        x.device,
        scheme,
        x.dtype,
        out.dtype,
        tile,
        descriptors,
        columns,
        inner,
        spans,
        epilogue,
    )
    _PRODUCT(
        code,
        programs,
        (*operands, x_scale, weight_scale, residual, out_scale, rows, columns, inner),
        _constants(tile, scheme, inner, spans, epilogue, descriptors),
    )


@functools.cache
def _constants(
    tile: Tile,
    scheme: Scheme,
    inner: int,
    spans: tuple[int, int],
    epilogue: tuple[bool, int, bool],
    descriptors: bool,
) -> Mapping[str, object]:
    has_residual, gate, requantizes = epilogue
    return {
        "ROWS": tile.rows,
        "COLUMNS": tile.columns,
        "INNER": tile.inner,
        "GROUP": tile.group,
        "X_SCALE": spans[0],
        "WEIGHT_SCALE": spans[1],
        "RESIDUAL": has_residual,
        "GATE": gate,
        "GATE_ROWS": GATE_BLOCK,
        "REQUANTIZE": requantizes,
        "INTEGER": scheme == "int8",
        "WIDEN": scheme == "w8a16",
        "WHOLE_STEPS": inner % tile.inner == 0,
        "DESCRIPTORS": descriptors,
        "PERSISTENT": tile.persistent,
        "STORE_PARTS": 1 if gate else tile.store_parts,
        "num_warps": tile.warps,
        "num_stages": tile.stages,
        "enable_fp_fusion": True,
    }


def _span(scale: torch.Tensor | None, size: int) -> int:
    if scale is None:
        return _NO_SCALE
    _expect(scale.dtype == torch.float32 and scale.is_contiguous(), "float32 scales", scale)
    # Of one row or column a single scale and its list are the same thing.
    if scale.numel() == 1:
        return _ONE_SCALE
    if scale.shape != (size, 1):
        _expect(False, f"one scale or [{size}, 1]", scale)
    return _SCALES


def _expect(holds: bool, wanted: str, *found: torch.Tensor) -> None:
    if not holds:
        shapes = ", ".join(f"{list(tensor.shape)} {tensor.dtype}" for tensor in found)
        raise AssertionError(f"a product takes {wanted}, not {shapes}")
