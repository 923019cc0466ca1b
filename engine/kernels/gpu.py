"""The GPU backend: Triton kernels, the same bits for a row whatever runs beside it.

Runs on the CPU as well, under Triton's interpreter, for small models in float32.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

import torch

from spinf_serve.engine.kernels.device import capability_of
from spinf_serve.engine.kernels.elementwise.kernel import add_norm, heads, norm, quantize
from spinf_serve.engine.kernels.linear.gate_up import GATE_BLOCK
from spinf_serve.engine.kernels.linear.kernel import gated_product, product
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
from spinf_serve.engine.kernels.option_read.kernel import read_options
from spinf_serve.engine.kernels.option_read.top import read_top, read_with_top
from spinf_serve.engine.kernels.tree_attention.branches import Branches
from spinf_serve.engine.kernels.tree_attention.device_layout import DeviceLayout, Kind, lay_out
from spinf_serve.engine.kernels.tree_attention.kernel import attention
from spinf_serve.engine.kernels.tree_attention.pool import Pool
from spinf_serve.engine.kernels.tree_attention.saved import continued
from spinf_serve.engine.kernels.tree_attention.tiling import few_tiling, tiling
from spinf_serve.engine.kernels.tree_attention.words import upload
from spinf_serve.engine.tree.plan import TRUNK_BLOCK, IntArray, Pass

_USUAL_TOKENS: Final = 1024
"""A trunk as they usually are: of these, layers with a window need as much as those without."""

_FEW_ROWS: Final = 256
"""Passes of at most so many rows leave most of a card's blocks free, and those that run wait for their
keys: more and smaller tiles end sooner. Above, the keys that tiles read again cost more."""


@dataclass(slots=True, eq=False)
class GpuLayout:
    """A pass on the device; implements `Layout`.

    Attributes:
        inner: tiles of the attention kernel by kind of layers.
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    read_rows: torch.Tensor
    column_start: torch.Tensor
    columns: torch.Tensor
    longest: int
    top_reads: torch.Tensor
    top: int
    inner: DeviceLayout[torch.Tensor]


class GpuOps:
    """Implements `Ops` on one GPU. Owns the keys and values kept between passes.

    Activations are in `dtype`; products sum in float32, norms and softmax are float32 inside. All
    calls are queued on the current stream and wait for nothing on it.
    """

    gate_block = GATE_BLOCK

    def __init__(self, dtype: torch.dtype, device: torch.device, scheme: WeightScheme) -> None:
        if device.type == "cpu" and dtype != torch.float32:
            raise AssertionError("the interpreter multiplies and rounds 16-bit floats wrongly")
        self.dtype = dtype
        self.device = device
        self.scheme = scheme
        self._shapes: tuple[LayerShape, ...] = ()
        self._kinds: list[Kind] = []
        self._kinds_of_few: list[Kind] = []
        self._kind_of: list[int] = []
        self._pools: list[Pool] = []
        self._branches = Branches(dtype, device)

    def layout(self, plan: Pass, layers: Sequence[LayerShape]) -> Layout:
        """Tiles of one pass, on the device by one copy."""
        inner = upload(self.arranged(plan, layers), self.device)
        self.make_places(int(plan.save_places.max(initial=-1)) + 1, layers)
        return self.placed(inner, int(plan.positions.max(initial=-1)) + 1, plan.top)

    def arranged(self, plan: Pass, layers: Sequence[LayerShape]) -> DeviceLayout[IntArray]:
        """Tiles of one pass, on the host, and rooms for what later passes need of it."""
        self._set_layers(layers)
        for pool in self._pools:
            pool.make_room(plan.slices)
        kinds = self._kinds_of_few if len(plan.tokens) <= _FEW_ROWS else self._kinds
        return lay_out(plan, kinds, [pool.taken for pool in self._pools])

    @staticmethod
    def placed(inner: DeviceLayout[torch.Tensor], longest: int, top: int = 0) -> GpuLayout:
        """The layout of a pass whose arrays are on the device; positions are below `longest`."""
        return GpuLayout(
            tokens=inner.tokens,
            positions=inner.positions,
            read_rows=inner.read_rows,
            column_start=inner.column_start.long(),
            columns=inner.columns.long(),
            longest=longest,
            top_reads=inner.top_reads,
            top=top,
            inner=inner,
        )

    def _set_layers(self, layers: Sequence[LayerShape]) -> None:
        """Layers of one shape are a kind: they tile a pass alike, and their kept keys lie alike."""
        if self._shapes == tuple(layers):
            return
        self._shapes = tuple(layers)
        capability = capability_of(self.device)
        shapes = list(dict.fromkeys(self._shapes))
        self._kind_of = [shapes.index(shape) for shape in self._shapes]
        self._kinds = [
            Kind(s.heads // s.kv_heads, s.window, tiling(capability, s.head_dim)) for s in shapes
        ]
        self._kinds_of_few = [
            replace(kind, tiling=few) if few.rows >= kind.group else kind
            for kind, few in zip(
                self._kinds, (few_tiling(capability, s.head_dim) for s in shapes), strict=True
            )
        ]
        self._pools = [
            Pool(shape, self._kind_of.count(kind), self.dtype, self.device)
            for kind, shape in enumerate(shapes)
        ]

    def keep_up_to(self, limit_bytes: int, layers: Sequence[LayerShape]) -> None:
        """Takes memory for trunks that outlive their trees, once.

        Kinds of layers share it as trunks of `_USUAL_TOKENS` do. It holds many of them or fewer long
        ones, of which layers with a window leave a part empty.
        """
        self._set_layers(layers)
        usual_bytes = sum(pool.slot_bytes * pool.slots(_USUAL_TOKENS) for pool in self._pools)
        for pool in self._pools:
            slots = limit_bytes * pool.slots(_USUAL_TOKENS) // usual_bytes
            pool.set_aside(slots // TRUNK_BLOCK * TRUNK_BLOCK)

    def make_places(self, places: int, layers: Sequence[LayerShape]) -> None:
        """Has at least so many places for branch rows that later passes continue."""
        self._branches.make_room(places, layers)

    @property
    def scratch_slots(self) -> Sequence[int | None]:
        """For each kind of layers a slot that nobody reads; None where no trunk may stay."""
        return [pool.scratch for pool in self._pools]

    @property
    def kept_capacity(self) -> tuple[int, ...]:
        """Slots of each kind of layers where trunks may stay, else 0.

        While they are the same, so is the memory they lie in.
        """
        return tuple(0 if pool.scratch is None else pool.capacity for pool in self._pools)

    @property
    def step_capacity(self) -> tuple[int, ...]:
        """The same of what steps read and write: slots of every kind of layers, and places."""
        return *(pool.capacity for pool in self._pools), self._branches.capacity

    def room_bytes(self, tokens: int) -> int | None:
        """Bytes that keys and values of a trunk take; None where they never fit."""
        if not all(pool.holds(tokens) for pool in self._pools):
            return None
        return sum(pool.slot_bytes * pool.slots(tokens) for pool in self._pools) or None

    def reserve(self, key: int, tokens: int) -> bool:
        """Room for a trunk, in the layers of every kind."""
        for pool in self._pools:
            if not pool.reserve(key, tokens):
                self.release(key)
                return False
        return True

    def release(self, key: int) -> None:
        """Forget the keys and values kept under a key: later passes may write over them."""
        for pool in self._pools:
            pool.release(key)

    def embed(self, table: torch.Tensor, tokens: torch.Tensor, scale: float) -> torch.Tensor:
        """`table[tokens] * scale`."""
        x = table.index_select(0, tokens)
        return x if scale == 1 else x.mul_(scale)

    def norm(self, x: torch.Tensor, norm_: Norm, into: Linear | None) -> Rows:
        """Root-mean-square norm with the rounding that the next product wants."""
        quant = None if into is None else into.input
        out = norm(x, norm_.weight, norm_.eps, cast_first=norm_.cast_first, quant=quant)
        return Rows(*out)

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
        """Residual, both norms and the rounding in one launch."""
        kept, values, scale = add_norm(
            x,
            y,
            None if branch_norm is None else branch_norm.weight,
            norm.weight,
            norm.eps,
            layer_scale=scalar,
            cast_first=norm.cast_first,
            quant=None if into is None else into.input,
        )
        return kept, Rows(values, scale)

    def linear(self, x: Rows, weight: Linear) -> torch.Tensor:
        """The product, scaled where its sum ends."""
        out = product(
            x.values,
            weight.values,
            x_scale=_input_scale(x, weight),
            weight_scale=weight.scale,
            out_dtype=self.dtype,
        )
        return out if weight.bias is None else out.add_(weight.bias)

    def gated_linear(self, x: Rows, weight: Linear, activation: Activation, into: Linear) -> Rows:
        """Product, gate and, with a static scale, the rounding in one launch."""
        static = _static_scale(into)
        out = gated_product(
            x.values,
            weight.values,
            x_scale=_input_scale(x, weight),
            gate_up_scale=weight.scale,
            activation=activation,
            out_dtype=self.dtype if static is None or into.input is None else into.input.dtype,
            out_scale=static,
        )
        return self._rounded(out, into)

    def heads(
        self,
        qkv: torch.Tensor,
        norms: HeadNorms,
        rotary: tuple[torch.Tensor, torch.Tensor],
        shape: LayerShape,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Split, norms and rotation in one launch."""
        cos, sin = rotary
        return heads(
            qkv,
            norms.q,
            norms.k,
            v_norm=norms.values,
            eps=norms.eps,
            cos=cos,
            sin=sin,
            heads=shape.heads,
            kv_heads=shape.kv_heads,
            head_dim=shape.head_dim,
            confine=True,
        )

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
        """Tree attention; with a static scale it ends in the rounding."""
        own, kind = cast(GpuLayout, layout), self._kind_of[layer]
        if self._shapes[layer].window != window:
            raise AssertionError(f"layer {layer} was laid out with another window than {window}")
        inner = own.inner
        if len(inner.save_rows) or len(inner.ghosts):
            saved = self._branches.of_layer(layer)
            k, v = continued(k, v, saved, inner.ghosts, inner.save_rows, inner.save_places)
        out = attention(
            inner,
            kind,
            q,
            k,
            v,
            scale=scale,
            kept=self._pools[kind].kept(self._kind_of[:layer].count(kind)),
            reads_only=reads_only,
            out_scale=_static_scale(into),
        )
        return self._rounded(out, into)

    def read_options(
        self,
        hidden: torch.Tensor,
        head: torch.Tensor,
        column_start: torch.Tensor,
        columns: torch.Tensor,
        *,
        soft_cap: float | None,
    ) -> torch.Tensor:
        """Log-probabilities of the wanted columns; no logits of a whole row leave the kernel."""
        return read_options(hidden, head, column_start, columns, soft_cap=soft_cap)

    def read_with_top(
        self,
        layout: Layout,
        hidden: torch.Tensor,
        head: torch.Tensor,
        *,
        soft_cap: float | None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Log-probabilities of the wanted columns, and of the most probable tokens."""
        start, columns = layout.column_start, layout.columns
        if len(layout.top_reads) == len(hidden):
            return read_with_top(hidden, head, start, columns, layout.top, soft_cap=soft_cap)
        logprobs = read_options(hidden, head, start, columns, soft_cap=soft_cap)
        rows = hidden.index_select(0, layout.top_reads)
        return logprobs, *read_top(rows, head, layout.top, soft_cap=soft_cap)

    def _rounded(self, x: torch.Tensor, into: Linear) -> Rows:
        """Rows rounded by scales of their own, where the next layer wants that."""
        if into.input is None or x.dtype == into.input.dtype:
            return Rows(x)
        return Rows(*quantize(x, into.input))


def _static_scale(weight: Linear) -> torch.Tensor | None:
    return None if weight.input is None else weight.input.scale


def _input_scale(x: Rows, weight: Linear) -> torch.Tensor | None:
    return x.scale if x.scale is not None else _static_scale(weight)
