"""Gemma 3 text: four norms a layer with (1 + w), norms of q and k, sliding and full layers."""

from dataclasses import dataclass

import torch

from spinf_serve.engine.kernels.ops import Layout, Ops
from spinf_serve.engine.models.layers import (
    AttentionWeights,
    MlpWeights,
    Reader,
    attend,
    gated_mlp,
    keep_reads,
    one_geometry,
    read_attention,
    read_head,
    read_mlp,
    refuse,
)
from spinf_serve.engine.models.rope import RopeTables
from spinf_serve.engine.models.spec import Checkpoint, ModelSpec
from spinf_serve.engine.tree.plan import Pass


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    attention: AttentionWeights
    mlp: MlpWeights
    input_norm: torch.Tensor
    attended_norm: torch.Tensor
    mlp_norm: torch.Tensor
    output_norm: torch.Tensor


class Gemma3Model:
    """A loaded model of the family. Raises `Unusable` for a checkpoint that does not fit the spec."""

    def __init__(self, spec: ModelSpec, checkpoint: Checkpoint, ops: Ops) -> None:
        refuse(spec.family, [("biases in the MLP", spec.mlp_bias)])
        self.spec = spec
        self.ops = ops
        self._geometry = one_geometry(spec)
        reader = Reader(checkpoint, ops)
        self._embedding = reader.tensor("model.embed_tokens.weight", spec.vocab, spec.hidden)
        self._layers = [_read_layer(reader, spec, i) for i in range(len(spec.layers))]
        self._norm = _norm(reader, "model.norm.weight", spec.hidden)
        self._head = read_head(reader, spec, self._embedding)
        reader.finish()
        self._rope = RopeTables(spec.layers, ops.device)
        self._embedding_scale = embedding_scale(spec.hidden, ops.dtype)

    def layout(self, plan: Pass) -> Layout:
        """A pass made ready for `forward`."""
        return self.ops.layout(
            plan, len(self.spec.layers), self._geometry.kv_heads, self._geometry.head_dim
        )

    def forward(self, layout: Layout) -> torch.Tensor:
        """Hidden states of the read rows after the final norm, [R, C]."""
        ropes = self._rope.rows(layout.positions, layout.longest)
        x = self._embedding[layout.tokens] * self._embedding_scale
        last = len(self._layers) - 1
        for index, layer in enumerate(self._layers):
            attended = attend(
                self.ops,
                layout,
                index,
                self._normed(x, layer.input_norm),
                layer.attention,
                self.spec,
                ropes[self.spec.layers[index].rope],
                reads_only=index == last,
            )
            if index == last:
                x = keep_reads(layout, x)
            x += self._normed(attended, layer.attended_norm)
            inner = gated_mlp(
                self.ops, self._normed(x, layer.mlp_norm), layer.mlp, self.ops.gelu_tanh_gate
            )
            x += self._normed(inner, layer.output_norm)
        return self._normed(x, self._norm)

    def read(
        self, hidden: torch.Tensor, column_start: torch.Tensor, columns: torch.Tensor
    ) -> torch.Tensor:
        """Log-probabilities of the wanted columns, [columns] float32, from hidden [R, C]."""
        cap = self.spec.logit_soft_cap
        return self.ops.read_options(hidden, self._head, column_start, columns, soft_cap=cap)

    def _normed(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return self.ops.rms_norm(x, weight, self.spec.norm_eps, cast_first=False)


def embedding_scale(hidden: int, dtype: torch.dtype) -> float:
    """Factor of the embeddings: sqrt(hidden), which the family rounds to the table's dtype."""
    return float(torch.tensor(hidden**0.5).to(dtype))


def _norm(reader: Reader, name: str, size: int) -> torch.Tensor:
    """The factor of a norm, 1 + w in float32: a stored weight of zero leaves a row as it is."""
    return 1 + reader.tensor(name, size).float()


def _read_layer(reader: Reader, spec: ModelSpec, index: int) -> _Layer:
    name, layer = f"model.layers.{index}", spec.layers[index]
    return _Layer(
        attention=read_attention(
            reader,
            f"{name}.self_attn",
            spec,
            layer,
            q_norm=_norm(reader, f"{name}.self_attn.q_norm.weight", layer.head_dim),
            k_norm=_norm(reader, f"{name}.self_attn.k_norm.weight", layer.head_dim),
        ),
        mlp=read_mlp(reader, f"{name}.mlp", spec),
        input_norm=_norm(reader, f"{name}.input_layernorm.weight", spec.hidden),
        attended_norm=_norm(reader, f"{name}.post_attention_layernorm.weight", spec.hidden),
        mlp_norm=_norm(reader, f"{name}.pre_feedforward_layernorm.weight", spec.hidden),
        output_norm=_norm(reader, f"{name}.post_feedforward_layernorm.weight", spec.hidden),
    )
