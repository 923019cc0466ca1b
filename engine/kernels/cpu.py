"""The CPU backend: float32 or bfloat16, the same bits for a row whatever runs beside it."""

from collections.abc import Sequence
from math import prod
from typing import cast

import torch

from spinf_serve.engine.kernels.elementwise import cpu as elementwise
from spinf_serve.engine.kernels.linear.cpu import linear
from spinf_serve.engine.kernels.ops import (
    Activation,
    HeadNorms,
    LayerShape,
    Layout,
    Linear,
    Norm,
    Rows,
    WeightScheme,
)
from spinf_serve.engine.kernels.option_read.cpu import read_options, read_with_top
from spinf_serve.engine.kernels.tree_attention.branches import Branches
from spinf_serve.engine.kernels.tree_attention.cpu import attention
from spinf_serve.engine.kernels.tree_attention.layout import (
    CpuLayout,
    Kept,
    lay_out,
    padded_head,
)
from spinf_serve.engine.tree.plan import TRUNK_BLOCK, Pass


class CpuOps:
    """Implements `Ops` on the CPU. Owns the keys and values kept between passes.

    Weights and activations are in `dtype`; every product and reduction is float32.
    """

    scheme = WeightScheme()
    gate_block = 0

    def __init__(self, dtype: torch.dtype) -> None:
        if dtype not in (torch.float32, torch.bfloat16):
            raise AssertionError(f"the CPU backend computes float32 or bfloat16, not {dtype}")
        self.dtype = dtype
        self.device = torch.device("cpu")
        self._kept: dict[int, Kept] = {}
        self._branches = Branches(dtype, self.device)
        self._limit_bytes = 0
        self._cached_layers: tuple[LayerShape, ...] = ()
        self._cached_bytes: dict[int, int] = {}

    def layout(self, plan: Pass, layers: Sequence[LayerShape]) -> Layout:
        """Indexes and buffers for one pass."""
        kept = {}
        for number, part in enumerate(plan.slices):
            if part.keep and part.key not in self._kept:
                self._kept[part.key] = self._room(part.trunk_len, layers)
            if part.key in self._kept:
                kept[number] = self._kept[part.key]
            elif part.trunk_rows < part.trunk_len:
                raise AssertionError(f"trunk rows of tree {part.key} were not kept")
        self._branches.make_room(int(plan.save_places.max(initial=-1)) + 1, layers)
        return lay_out(plan, kept, self._branches)

    def _room(self, tokens: int, layers: Sequence[LayerShape]) -> Kept:
        shapes = _room_shapes(tokens, layers)
        keys, values = (
            tuple(torch.zeros(shape, dtype=self.dtype) for shape in shapes) for _ in range(2)
        )
        return Kept(keys, values)

    def keep_up_to(self, limit_bytes: int, layers: Sequence[LayerShape]) -> None:
        """Memory for trunks that outlive their trees; it is taken as they come."""
        self._limit_bytes, self._cached_layers = limit_bytes, tuple(layers)

    def room_bytes(self, tokens: int) -> int | None:
        """Bytes that keys and values of a trunk take; None where they never fit."""
        shapes = _room_shapes(tokens, self._cached_layers)
        needed = 2 * self.dtype.itemsize * sum(map(prod, shapes))
        return needed if 0 < needed <= self._limit_bytes else None

    def reserve(self, key: int, tokens: int) -> bool:
        """Room for a trunk, while there is memory for it."""
        needed = self.room_bytes(tokens)
        if needed is None or needed + sum(self._cached_bytes.values()) > self._limit_bytes:
            return False
        self._cached_bytes[key] = needed
        self._kept[key] = self._room(tokens, self._cached_layers)
        return True

    def release(self, key: int) -> None:
        """Forget the keys and values kept under a key."""
        self._kept.pop(key, None)
        self._cached_bytes.pop(key, None)

    def embed(self, table: torch.Tensor, tokens: torch.Tensor, scale: float) -> torch.Tensor:
        """`table[tokens] * scale`."""
        x = table[tokens]
        return x if scale == 1 else x.mul_(scale)

    def norm(self, x: torch.Tensor, norm: Norm, into: Linear | None) -> Rows:
        """Root-mean-square norm."""
        return Rows(self.rms_norm(x, norm.weight, norm.eps, cast_first=norm.cast_first))

    def add_norm(
        self,
        x: torch.Tensor,
        y: torch.Tensor,
        *,
        branch_norm: Norm | None,
        scalar: torch.Tensor | None,
        norm: Norm,
        into: Linear | None,
    ) -> tuple[torch.Tensor, Rows]:
        """`(x + branch_norm(y)) * scalar` in place of x, and its norm."""
        x += y if branch_norm is None else self.norm(y, branch_norm, None).values
        if scalar is not None:
            x *= scalar
        return x, self.norm(x, norm, into)

    def linear(self, x: Rows, weight: Linear) -> torch.Tensor:
        """`x @ weight.T + bias`."""
        out = linear(x.values, weight.values)
        return out if weight.bias is None else out + weight.bias

    def gated_linear(self, x: Rows, weight: Linear, activation: Activation, into: Linear) -> Rows:
        """`activation(gate) * up`."""
        gate = elementwise.silu_gate if activation == "silu" else elementwise.gelu_tanh_gate
        return Rows(gate(self.linear(x, weight)))

    def heads(
        self,
        qkv: torch.Tensor,
        norms: HeadNorms,
        rotary: tuple[torch.Tensor, torch.Tensor],
        shape: LayerShape,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Heads of a fused projection, normed and rotated."""
        split = qkv.view(len(qkv), qkv.shape[1] // shape.head_dim, shape.head_dim)
        # Where keys are values, the last heads are both.
        q, k = split[:, : shape.heads], split[:, shape.heads : shape.heads + shape.kv_heads]
        v = split[:, split.shape[1] - shape.kv_heads :]
        if norms.q is not None and norms.k is not None:
            q = self.rms_norm(q, norms.q, norms.eps, cast_first=False)
            k = self.rms_norm(k, norms.k, norms.eps, cast_first=False)
        if norms.values:
            v = self.rms_norm(v, None, norms.eps, cast_first=False)
        return self.rotate(q, *rotary), self.rotate(k, *rotary), v

    def attend(
        self,
        layout: Layout,
        layer: int,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        *,
        scale: float,
        window: int | None,
        reads_only: bool,
        into: Linear,
    ) -> Rows:
        """Tree attention."""
        out = self.attention(
            layout, layer, q, k, v, scale=scale, window=window, reads_only=reads_only
        )
        return Rows(out)

    def read_options(
        self,
        hidden: torch.Tensor,
        head: torch.Tensor,
        column_start: torch.Tensor,
        columns: torch.Tensor,
        *,
        soft_cap: float | None,
    ) -> torch.Tensor:
        """Log-probabilities of the wanted columns."""
        return read_options(hidden, head, column_start, columns, soft_cap)

    def read_with_top(
        self,
        layout: Layout,
        hidden: torch.Tensor,
        head: torch.Tensor,
        *,
        soft_cap: float | None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Log-probabilities of the wanted columns, and of the most probable tokens."""
        return read_with_top(
            hidden,
            head,
            layout.column_start,
            layout.columns,
            soft_cap,
            layout.top_reads,
            layout.top,
        )

    def rms_norm(
        self, x: torch.Tensor, weight: torch.Tensor | None, eps: float, *, cast_first: bool
    ) -> torch.Tensor:
        """Root-mean-square norm over the last axis; weight None means ones."""
        return elementwise.rms_norm(x, weight, eps, cast_first=cast_first)

    def rotate(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Rotary embedding of the pairs (i, i + D/2); x [N, heads, D], cos and sin [N, D/2]."""
        return elementwise.rotate(x, cos, sin)

    def attention(
        self,
        layout: Layout,
        layer: int,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        *,
        scale: float,
        window: int | None,
        reads_only: bool = False,
    ) -> torch.Tensor:
        """Tree attention, [N, H D] in the model's dtype."""
        own = cast(CpuLayout, layout)
        return attention(own, layer, q, k, v, scale=scale, window=window, reads_only=reads_only)


def _room_shapes(tokens: int, layers: Sequence[LayerShape]) -> list[tuple[int, int, int]]:
    """Shapes of a trunk's keys, and of its values, layer by layer: see `Kept`."""
    padded = -(-tokens // TRUNK_BLOCK) * TRUNK_BLOCK
    return [(layer.kv_heads, padded, padded_head(layer.head_dim)) for layer in layers]
