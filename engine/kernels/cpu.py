"""The CPU backend: float32 or bfloat16, the same bits for a row whatever runs beside it."""

from collections.abc import Sequence
from typing import cast

import torch

from spinf_serve.engine.kernels.elementwise import cpu as elementwise
from spinf_serve.engine.kernels.linear.cpu import linear
from spinf_serve.engine.kernels.ops import Layout
from spinf_serve.engine.kernels.option_read.cpu import read_options
from spinf_serve.engine.kernels.tree_attention.cpu import attention
from spinf_serve.engine.kernels.tree_attention.layout import (
    CpuLayout,
    Kept,
    lay_out,
    padded_head,
)
from spinf_serve.engine.tree.plan import TRUNK_BLOCK, Pass, TreeSlice


class CpuOps:
    """Implements `Ops` on the CPU. Owns the keys and values kept between passes.

    Weights and activations are in `dtype`; every product and reduction is float32.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        if dtype not in (torch.float32, torch.bfloat16):
            raise AssertionError(f"the CPU backend computes float32 or bfloat16, not {dtype}")
        self.dtype = dtype
        self.device = torch.device("cpu")
        self._kept: dict[int, Kept] = {}

    def layout(self, plan: Pass, kv_heads: Sequence[tuple[int, int]]) -> Layout:
        """Indexes and buffers for one pass."""
        kept = {}
        for number, part in enumerate(plan.slices):
            if part.keep and part.key not in self._kept:
                self._kept[part.key] = self._room(part, kv_heads)
            if part.key in self._kept:
                kept[number] = self._kept[part.key]
            elif part.trunk_rows < part.trunk_len:
                raise AssertionError(f"trunk rows of tree {part.key} were not kept")
        return lay_out(plan, kept)

    def _room(self, part: TreeSlice, kv_heads: Sequence[tuple[int, int]]) -> Kept:
        tokens = -(-part.trunk_len // TRUNK_BLOCK) * TRUNK_BLOCK
        shapes = [(heads, tokens, padded_head(size)) for heads, size in kv_heads]
        keys, values = (
            tuple(torch.zeros(shape, dtype=self.dtype) for shape in shapes) for _ in range(2)
        )
        return Kept(keys, values)

    def release(self, key: int) -> None:
        """Forget the keys and values kept for a tree."""
        self._kept.pop(key, None)

    def linear(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """`x @ weight.T`."""
        return linear(x, weight)

    def rms_norm(
        self, x: torch.Tensor, weight: torch.Tensor | None, eps: float, *, cast_first: bool
    ) -> torch.Tensor:
        """Root-mean-square norm over the last axis."""
        return elementwise.rms_norm(x, weight, eps, cast_first=cast_first)

    def rotate(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Rotary embedding."""
        return elementwise.rotate(x, cos, sin)

    def silu_gate(self, gate_up: torch.Tensor) -> torch.Tensor:
        """`silu(gate) * up`."""
        return elementwise.silu_gate(gate_up)

    def gelu_tanh_gate(self, gate_up: torch.Tensor) -> torch.Tensor:
        """`gelu_tanh(gate) * up`."""
        return elementwise.gelu_tanh_gate(gate_up)

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
        """Tree attention."""
        own = cast(CpuLayout, layout)
        return attention(own, layer, q, k, v, scale=scale, window=window, reads_only=reads_only)

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
