"""Parts that families share: weights read straight into fused buffers, attention, gated MLP.

Written over `Ops`, so it knows no device.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from spinf_serve.engine.kernels.ops import Layout, Ops
from spinf_serve.engine.models.spec import Checkpoint, LayerSpec, ModelSpec
from spinf_serve.packs.errors import Unusable

RotaryRows = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class AttentionWeights:
    """Projections of one layer. The q, k and v rows lie in one matrix, in this order.

    Attributes:
        qkv: [(H + 2 G) D, C]; [(H + G) D, C] in a layer whose keys are its values.
        out: [C, H D].
        qkv_bias, out_bias: biases of these, or None.
        q_norm, k_norm: [D] float32 factors of the per-head norms before the rotation, or None.
    """

    qkv: torch.Tensor
    out: torch.Tensor
    qkv_bias: torch.Tensor | None
    out_bias: torch.Tensor | None
    q_norm: torch.Tensor | None
    k_norm: torch.Tensor | None


@dataclass(frozen=True, slots=True, eq=False)
class MlpWeights:
    """Gated MLP of one layer; gate rows, then up rows, in one matrix.

    Attributes:
        gate_up: [2 I, C].
        down: [C, I].
        gate_up_bias, down_bias: biases of these, or None.
    """

    gate_up: torch.Tensor
    down: torch.Tensor
    gate_up_bias: torch.Tensor | None
    down_bias: torch.Tensor | None


class Reader:
    """Reads a checkpoint's tensors to where a model keeps them, and knows what was not read."""

    def __init__(self, checkpoint: Checkpoint, ops: Ops) -> None:
        self._checkpoint = checkpoint
        self._dtype = ops.dtype
        self._device = ops.device
        self._left = set(checkpoint.names())

    def tensor(self, name: str, *shape: int) -> torch.Tensor:
        """One tensor, in the model's dtype."""
        return self.stacked({name: shape[0]}, *shape[1:])

    def stacked(self, rows: dict[str, int], *columns: int) -> torch.Tensor:
        """Several tensors of equal columns under one another; `rows` of each, by name."""
        shape = (sum(rows.values()), *columns)
        out = torch.empty(shape, dtype=self._dtype, device=self._device)
        start = 0
        for name, count in rows.items():
            self._checkpoint.read_into(name, out[start : start + count])
            self._left.discard(name)
            start += count
        return out

    def skip(self, *names: str) -> None:
        """Tensors that are known and not needed."""
        self._left.difference_update(names)

    def finish(self) -> None:
        """Raises `Unusable` when the checkpoint holds a tensor that the model would ignore."""
        if self._left:
            some = ", ".join(sorted(self._left)[:5])
            raise Unusable(
                f"the checkpoint holds {len(self._left)} tensors that this model family does not"
                f" use, among them {some}: it is another kind of model than its config says"
            )


def read_attention(
    reader: Reader,
    prefix: str,
    spec: ModelSpec,
    layer: LayerSpec,
    *,
    q_norm: torch.Tensor | None = None,
    k_norm: torch.Tensor | None = None,
) -> AttentionWeights:
    """`{prefix}.q_proj` and its like, with the norms of q and k that the family has read."""
    q_rows, kv_rows = spec.heads * layer.head_dim, layer.kv_heads * layer.head_dim
    rows = {"q_proj": q_rows, "k_proj": kv_rows}
    if not layer.k_is_v:
        rows["v_proj"] = kv_rows
    return AttentionWeights(
        qkv=reader.stacked({f"{prefix}.{n}.weight": r for n, r in rows.items()}, spec.hidden),
        out=reader.tensor(f"{prefix}.o_proj.weight", spec.hidden, q_rows),
        qkv_bias=reader.stacked({f"{prefix}.{n}.bias": r for n, r in rows.items()})
        if spec.attention_bias
        else None,
        out_bias=reader.tensor(f"{prefix}.o_proj.bias", spec.hidden)
        if spec.attention_bias
        else None,
        q_norm=q_norm,
        k_norm=k_norm,
    )


def read_mlp(reader: Reader, prefix: str, spec: ModelSpec) -> MlpWeights:
    """`{prefix}.gate_proj` and its like."""
    rows = {"gate_proj": spec.intermediate, "up_proj": spec.intermediate}
    return MlpWeights(
        gate_up=reader.stacked({f"{prefix}.{n}.weight": r for n, r in rows.items()}, spec.hidden),
        down=reader.tensor(f"{prefix}.down_proj.weight", spec.hidden, spec.intermediate),
        gate_up_bias=reader.stacked({f"{prefix}.{n}.bias": r for n, r in rows.items()})
        if spec.mlp_bias
        else None,
        down_bias=reader.tensor(f"{prefix}.down_proj.bias", spec.hidden) if spec.mlp_bias else None,
    )


def read_head(reader: Reader, spec: ModelSpec, embedding: torch.Tensor) -> torch.Tensor:
    """[V, C] output head: the embedding table when tied."""
    if spec.tied:
        reader.skip("lm_head.weight")
        return embedding
    return reader.tensor("lm_head.weight", spec.vocab, spec.hidden)


def affine(
    ops: Ops, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """Linear layer; x [N, K] -> [N, M]."""
    out = ops.linear(x, weight)
    return out if bias is None else out + bias


def attend(
    ops: Ops,
    layout: Layout,
    index: int,
    x: torch.Tensor,
    weights: AttentionWeights,
    spec: ModelSpec,
    rotary: RotaryRows,
    *,
    norm_values: bool,
    reads_only: bool,
) -> torch.Tensor:
    """Attention block of layer `index`, output projection included.

    x is [N, C]; the result is [N, C], or [R, C] of the read rows with `reads_only`. `norm_values`
    norms v head by head, without weight.
    """
    layer = spec.layers[index]
    q, k, v = _project(ops, layout, x, weights, spec, layer, reads_only=reads_only)
    if weights.q_norm is not None and weights.k_norm is not None:
        q = ops.rms_norm(q, weights.q_norm, spec.norm_eps, cast_first=False)
        k = ops.rms_norm(k, weights.k_norm, spec.norm_eps, cast_first=False)
    if norm_values:
        v = ops.rms_norm(v, None, spec.norm_eps, cast_first=False)
    cos, sin = rotary
    k = ops.rotate(k, cos, sin)
    if reads_only:
        cos, sin = keep_reads(layout, cos), keep_reads(layout, sin)
    q = ops.rotate(q, cos, sin)
    out = ops.attention(
        layout,
        index,
        q,
        k,
        v,
        scale=spec.attention_scale,
        window=layer.window,
        reads_only=reads_only,
    )
    return affine(ops, out, weights.out, weights.out_bias)


def _project(
    ops: Ops,
    layout: Layout,
    x: torch.Tensor,
    weights: AttentionWeights,
    spec: ModelSpec,
    layer: LayerSpec,
    *,
    reads_only: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """q [N or R, H, D], k and v [N, G, D]; k and v are one tensor where a layer's keys are both."""
    count, kv_heads = spec.heads, layer.kv_heads
    if not reads_only:
        heads = _by_head(affine(ops, x, weights.qkv, weights.qkv_bias), layer)
        return heads[:, :count], heads[:, count : count + kv_heads], heads[:, -kv_heads:]
    q_rows, bias = spec.heads * layer.head_dim, weights.qkv_bias
    q_bias, kv_bias = (None, None) if bias is None else (bias[:q_rows], bias[q_rows:])
    q = _by_head(affine(ops, keep_reads(layout, x), weights.qkv[:q_rows], q_bias), layer)
    kv = _by_head(affine(ops, x, weights.qkv[q_rows:], kv_bias), layer)
    return q, kv[:, :kv_heads], kv[:, -kv_heads:]


def _by_head(x: torch.Tensor, layer: LayerSpec) -> torch.Tensor:
    """[N, heads * D] -> [N, heads, D]."""
    return x.view(x.shape[0], x.shape[1] // layer.head_dim, layer.head_dim)


def gated_mlp(
    ops: Ops,
    x: torch.Tensor,
    weights: MlpWeights,
    gate: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """`down(gate(gate_up(x)))`; x [N, C] -> [N, C]."""
    inner = gate(affine(ops, x, weights.gate_up, weights.gate_up_bias))
    return affine(ops, inner, weights.down, weights.down_bias)


def refuse(family: str, unsupported: Iterable[tuple[str, bool]]) -> None:
    """Raises `Unusable` naming what a spec asks for and the family lacks."""
    asked = [name for name, is_asked in unsupported if is_asked]
    if asked:
        raise Unusable(f"models of the {family} family are not served with {', '.join(asked)}")


def check_heads(spec: ModelSpec) -> None:
    """Raises `Unusable` when query heads do not share a layer's key and value heads evenly."""
    for layer in spec.layers:
        uneven = spec.heads % layer.kv_heads != 0
        refuse(
            spec.family,
            [(f"{spec.heads} query heads over {layer.kv_heads} key/value heads", uneven)],
        )


def keep_reads(layout: Layout, x: torch.Tensor) -> torch.Tensor:
    """The read rows of x [N, ...] -> [R, ...]."""
    return x.index_select(0, layout.read_rows)
