"""Parts that families share: attention and gated MLP, their weights, checks of a spec.

Written over `Ops`, so it knows no device.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from spinf_serve.engine.kernels.ops import (
    Activation,
    HeadNorms,
    LayerShape,
    Layout,
    Linear,
    Ops,
    Rows,
)
from spinf_serve.engine.models.spec import LayerSpec, ModelSpec
from spinf_serve.engine.models.weights import Reader
from spinf_serve.packs.errors import Unusable

RotaryRows = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class AttentionWeights:
    """Projections of one layer. The q, k and v rows lie in one matrix, in this order.

    Attributes:
        qkv: [(H + 2 G) D, C]; [(H + G) D, C] in a layer whose keys are its values.
        out: [C, H D].
        norms: of the heads.
    """

    qkv: Linear
    out: Linear
    norms: HeadNorms


@dataclass(frozen=True, slots=True, eq=False)
class MlpWeights:
    """Gated MLP of one layer.

    Attributes:
        gate_up: [2 I, C], as the backend's `gate_block` says.
        down: [C, I].
    """

    gate_up: Linear
    down: Linear


def read_attention(
    reader: Reader, prefix: str, spec: ModelSpec, layer: LayerSpec, norms: HeadNorms
) -> AttentionWeights:
    """`{prefix}.q_proj` and its like, with the norms of heads that the family has read."""
    q_rows, kv_rows = spec.heads * layer.head_dim, layer.kv_heads * layer.head_dim
    rows = {f"{prefix}.q_proj": q_rows, f"{prefix}.k_proj": kv_rows}
    if not layer.k_is_v:
        rows[f"{prefix}.v_proj"] = kv_rows
    return AttentionWeights(
        qkv=reader.linear(rows, spec.hidden, biased=spec.attention_bias),
        out=reader.linear({f"{prefix}.o_proj": spec.hidden}, q_rows, biased=spec.attention_bias),
        norms=norms,
    )


def read_mlp(reader: Reader, prefix: str, spec: ModelSpec) -> MlpWeights:
    """`{prefix}.gate_proj` and its like."""
    size, biased = spec.intermediate, spec.mlp_bias
    gate, up = f"{prefix}.gate_proj", f"{prefix}.up_proj"
    return MlpWeights(
        gate_up=reader.gate_up(gate, up, size, spec.hidden, biased=biased),
        down=reader.linear({f"{prefix}.down_proj": spec.hidden}, size, biased=biased),
    )


def read_head(reader: Reader, spec: ModelSpec, embedding: torch.Tensor) -> torch.Tensor:
    """[V, C] output head: the embedding table when tied."""
    if spec.tied:
        reader.skip("lm_head.weight")
        return embedding
    return reader.tensor("lm_head.weight", spec.vocab, spec.hidden)


def attend(
    ops: Ops,
    layout: Layout,
    index: int,
    x: Rows,
    weights: AttentionWeights,
    spec: ModelSpec,
    rotary: RotaryRows,
    *,
    reads_only: bool,
) -> torch.Tensor:
    """Attention block of layer `index`, output projection included.

    x is [N, C]; the result is [N, C], or [R, C] of the read rows with `reads_only`.
    """
    layer, shape = spec.layers[index], layer_shape(spec, index)
    if reads_only:
        q_rows = shape.heads * shape.head_dim
        of_q, of_kv = weights.qkv.part(0, q_rows), weights.qkv.part(q_rows, weights.qkv.rows)
        rows = layout.read_rows
        chosen = (rotary[0].index_select(0, rows), rotary[1].index_select(0, rows))
        asked = ops.linear(x.select(rows), of_q)
        q, _, _ = ops.heads(asked, weights.norms, chosen, shape._replace(kv_heads=0))
        _, k, v = ops.heads(ops.linear(x, of_kv), weights.norms, rotary, shape._replace(heads=0))
    else:
        q, k, v = ops.heads(ops.linear(x, weights.qkv), weights.norms, rotary, shape)
    attended = ops.attend(
        layout,
        index,
        q,
        k,
        v,
        scale=spec.attention_scale,
        window=layer.window,
        reads_only=reads_only,
        into=weights.out,
    )
    return ops.linear(attended, weights.out)


def gated_mlp(ops: Ops, x: Rows, weights: MlpWeights, activation: Activation) -> torch.Tensor:
    """`down(activation(gate) * up)`; x [N, C] -> [N, C]."""
    inner = ops.gated_linear(x, weights.gate_up, activation, weights.down)
    return ops.linear(inner, weights.down)


def layer_shape(spec: ModelSpec, index: int) -> LayerShape:
    """Shape of a layer's attention."""
    layer = spec.layers[index]
    return LayerShape(spec.heads, layer.kv_heads, layer.head_dim, layer.window)


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
