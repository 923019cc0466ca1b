"""The decoder that all families share: layers of attention and a gated MLP around a residual.

What a family does in its own way is a `Family`; sizes are a `ModelSpec`. Knows no device.
"""

from dataclasses import dataclass
from typing import Literal

import torch

from spinf_serve.engine.kernels.ops import Layout, Ops
from spinf_serve.engine.models.layers import (
    AttentionWeights,
    MlpWeights,
    Reader,
    attend,
    check_heads,
    gated_mlp,
    keep_reads,
    read_attention,
    read_head,
    read_mlp,
    refuse,
)
from spinf_serve.engine.models.rope import RopeTables
from spinf_serve.engine.models.spec import Checkpoint, ModelSpec
from spinf_serve.engine.tree.plan import Pass


@dataclass(frozen=True, slots=True)
class Family:
    """What tells one family from another.

    Attributes:
        activation: of the MLP's gate.
        cast_first: norms cast to the model's dtype before they multiply by their weight.
        norm_offset: added to each stored norm weight; with 1 a weight of zero changes nothing.
        branch_norms: what attention and MLP give is normed before it is added to the residual.
        head_norms: q and k are normed head by head before the rotation.
        value_norms: v is normed head by head, by a norm without weight.
        layer_scalars: a layer's output, residual included, is multiplied by a stored number.
        embedding_scaled: embeddings are multiplied by sqrt(hidden).
        mlp_biases: whether a spec may ask for biases in the MLP.
    """

    activation: Literal["silu", "gelu_tanh"]
    cast_first: bool = False
    norm_offset: float = 0.0
    branch_norms: bool = False
    head_norms: bool = False
    value_norms: bool = False
    layer_scalars: bool = False
    embedding_scaled: bool = False
    mlp_biases: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """Weights of one layer; what the family lacks is None."""

    attention: AttentionWeights
    mlp: MlpWeights
    input_norm: torch.Tensor
    attended_norm: torch.Tensor | None
    mlp_norm: torch.Tensor
    output_norm: torch.Tensor | None
    scalar: torch.Tensor | None


class Decoder:
    """A loaded model. Raises `Unusable` for a checkpoint that does not fit family and spec."""

    def __init__(self, family: Family, spec: ModelSpec, checkpoint: Checkpoint, ops: Ops) -> None:
        refuse(spec.family, [("biases in the MLP", spec.mlp_bias and not family.mlp_biases)])
        check_heads(spec)
        self.spec = spec
        self.ops = ops
        self._family = family
        self._gate = ops.silu_gate if family.activation == "silu" else ops.gelu_tanh_gate
        reader = Reader(checkpoint, ops)
        self._embedding = reader.tensor("model.embed_tokens.weight", spec.vocab, spec.hidden)
        self._layers = [_read_layer(reader, family, spec, i) for i in range(len(spec.layers))]
        self._norm = _read_norm(reader, family, "model.norm.weight", spec.hidden)
        self._head = read_head(reader, spec, self._embedding)
        reader.finish()
        self._ropes = RopeTables(spec.layers, ops.device)
        self._embedding_scale = embedding_scale(spec.hidden, ops.dtype)

    def layout(self, plan: Pass) -> Layout:
        """A pass made ready for `forward`."""
        return self.ops.layout(plan, [(x.kv_heads, x.head_dim) for x in self.spec.layers])

    def forward(self, layout: Layout) -> torch.Tensor:
        """Hidden states of the read rows after the final norm, [R, C]."""
        ropes = self._ropes.rows(layout.positions, layout.longest)
        x = self._embedding[layout.tokens]
        if self._family.embedding_scaled:
            x *= self._embedding_scale
        last = len(self._layers) - 1
        for index, layer in enumerate(self._layers):
            attended = attend(
                self.ops,
                layout,
                index,
                self._normed(x, layer.input_norm),
                layer.attention,
                self.spec,
                ropes[index],
                norm_values=self._family.value_norms,
                reads_only=index == last,
            )
            if index == last:
                x = keep_reads(layout, x)
            x += self._branch(attended, layer.attended_norm)
            inner = gated_mlp(self.ops, self._normed(x, layer.mlp_norm), layer.mlp, self._gate)
            x += self._branch(inner, layer.output_norm)
            if layer.scalar is not None:
                x *= layer.scalar
        return self._normed(x, self._norm)

    def read(
        self, hidden: torch.Tensor, column_start: torch.Tensor, columns: torch.Tensor
    ) -> torch.Tensor:
        """Log-probabilities of the wanted columns, [columns] float32, from hidden [R, C]."""
        cap = self.spec.logit_soft_cap
        return self.ops.read_options(hidden, self._head, column_start, columns, soft_cap=cap)

    def _normed(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        cast_first = self._family.cast_first
        return self.ops.rms_norm(x, weight, self.spec.norm_eps, cast_first=cast_first)

    def _branch(self, x: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
        """What a branch adds to the residual."""
        return x if weight is None else self._normed(x, weight)


def embedding_scale(hidden: int, dtype: torch.dtype) -> float:
    """Factor of scaled embeddings: sqrt(hidden), rounded to the table's dtype."""
    return float(torch.tensor(hidden**0.5).to(dtype))


def _read_layer(reader: Reader, family: Family, spec: ModelSpec, index: int) -> _Layer:
    name, layer = f"model.layers.{index}", spec.layers[index]

    def norm(place: str, size: int = spec.hidden) -> torch.Tensor:
        return _read_norm(reader, family, f"{name}.{place}.weight", size)

    # Where branches have norms of their own, the name that the MLP's norm has elsewhere is theirs.
    branch, mlp = family.branch_norms, "pre_feedforward_layernorm"
    return _Layer(
        attention=read_attention(
            reader,
            f"{name}.self_attn",
            spec,
            layer,
            q_norm=norm("self_attn.q_norm", layer.head_dim) if family.head_norms else None,
            k_norm=norm("self_attn.k_norm", layer.head_dim) if family.head_norms else None,
        ),
        mlp=read_mlp(reader, f"{name}.mlp", spec),
        input_norm=norm("input_layernorm"),
        attended_norm=norm("post_attention_layernorm") if branch else None,
        mlp_norm=norm(mlp if branch else "post_attention_layernorm"),
        output_norm=norm("post_feedforward_layernorm") if branch else None,
        scalar=reader.tensor(f"{name}.layer_scalar", 1) if family.layer_scalars else None,
    )


def _read_norm(reader: Reader, family: Family, name: str, size: int) -> torch.Tensor:
    """Factors of a norm, [size]: as stored where they multiply in the model's dtype, else float32."""
    stored = reader.tensor(name, size)
    return stored if family.cast_first else stored.float() + family.norm_offset
