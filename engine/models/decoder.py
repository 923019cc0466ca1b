"""The decoder that all families share: layers of attention and a gated MLP around a residual.

What a family does in its own way is a `Family`; sizes are a `ModelSpec`. Knows no device.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from spinf_serve.engine.kernels.ops import (
    Activation,
    HeadNorms,
    LayerShape,
    Layout,
    Linear,
    Norm,
    Ops,
)
from spinf_serve.engine.models.layers import (
    AttentionWeights,
    MlpWeights,
    attend,
    check_heads,
    gated_mlp,
    layer_shape,
    read_attention,
    read_head,
    read_mlp,
    refuse,
)
from spinf_serve.engine.models.rope import RopeTables
from spinf_serve.engine.models.spec import Checkpoint, ModelSpec
from spinf_serve.engine.models.weights import Reader
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

    activation: Activation
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
    input_norm: Norm
    attended_norm: Norm | None
    mlp_norm: Norm
    output_norm: Norm | None
    scalar: torch.Tensor | None


class Decoder:
    """A loaded model. Raises `Unusable` for a checkpoint that does not fit family and spec."""

    def __init__(self, family: Family, spec: ModelSpec, checkpoint: Checkpoint, ops: Ops) -> None:
        refuse(spec.family, [("biases in the MLP", spec.mlp_bias and not family.mlp_biases)])
        check_heads(spec)
        self.spec = spec
        self.ops = ops
        self._family = family
        reader = Reader(checkpoint, ops)
        self._embedding = reader.tensor("model.embed_tokens.weight", spec.vocab, spec.hidden)
        self._layers = [_read_layer(reader, family, spec, i) for i in range(len(spec.layers))]
        self._norm = _read_norm(reader, family, spec, "model.norm.weight")
        self._head = read_head(reader, spec, self._embedding)
        reader.finish()
        self._ropes = RopeTables(spec.layers, ops.device)
        self.shapes: Sequence[LayerShape] = [layer_shape(spec, i) for i in range(len(spec.layers))]
        self._embedding_scale = (
            embedding_scale(spec.hidden, ops.dtype) if family.embedding_scaled else 1.0
        )

    def linears(self) -> Iterator[tuple[str, Linear]]:
        """Every linear layer inside the decoder, layer by layer, by what it does."""
        for layer in self._layers:
            yield "qkv", layer.attention.qkv
            yield "out", layer.attention.out
            yield "gate_up", layer.mlp.gate_up
            yield "down", layer.mlp.down

    @property
    def tables(self) -> list[torch.Tensor]:
        """Tensors that `forward` reads and a longer pass replaces."""
        return self._ropes.tensors

    def layout(self, plan: Pass) -> Layout:
        """A pass made ready for `forward`."""
        return self.ops.layout(plan, self.shapes)

    def forward(self, layout: Layout) -> torch.Tensor:
        """Hidden states of the read rows after the final norm, [R, C]."""
        ops, layers = self.ops, self._layers
        ropes = self._ropes.rows(layout.positions, layout.longest)
        x = ops.embed(self._embedding, layout.tokens, self._embedding_scale)
        rows = ops.norm(x, layers[0].input_norm, layers[0].attention.qkv)
        for index, layer in enumerate(layers):
            following = layers[index + 1] if index + 1 < len(layers) else None
            attended = attend(
                ops,
                layout,
                index,
                rows,
                layer.attention,
                self.spec,
                ropes[index],
                reads_only=following is None,
            )
            if following is None:
                # Of the last layer nobody wants more than the read rows.
                x = x.index_select(0, layout.read_rows)
            x, rows = ops.add_norm(
                x,
                attended,
                branch_norm=layer.attended_norm,
                scalar=None,
                norm=layer.mlp_norm,
                into=layer.mlp.gate_up,
            )
            x, rows = ops.add_norm(
                x,
                gated_mlp(ops, rows, layer.mlp, self._family.activation),
                branch_norm=layer.output_norm,
                scalar=layer.scalar,
                norm=self._norm if following is None else following.input_norm,
                into=None if following is None else following.attention.qkv,
            )
        return rows.values

    def read(
        self, hidden: torch.Tensor, column_start: torch.Tensor, columns: torch.Tensor
    ) -> torch.Tensor:
        """Log-probabilities of the wanted columns, [columns] float32, from hidden [R, C]."""
        cap = self.spec.logit_soft_cap
        return self.ops.read_options(hidden, self._head, column_start, columns, soft_cap=cap)

    def read_with_top(
        self, layout: Layout, hidden: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What `read` gives for a layout, and the most probable tokens of its top reads."""
        cap = self.spec.logit_soft_cap
        return self.ops.read_with_top(layout, hidden, self._head, soft_cap=cap)


def embedding_scale(hidden: int, dtype: torch.dtype) -> float:
    """Factor of scaled embeddings: sqrt(hidden), rounded to the table's dtype."""
    return float(torch.tensor(hidden**0.5).to(dtype))


def _read_layer(reader: Reader, family: Family, spec: ModelSpec, index: int) -> _Layer:
    name, layer = f"model.layers.{index}", spec.layers[index]

    def norm(place: str) -> Norm:
        return _read_norm(reader, family, spec, f"{name}.{place}.weight")

    def of_heads(place: str) -> torch.Tensor | None:
        if not family.head_norms:
            return None
        return _read_factors(reader, family, f"{name}.self_attn.{place}.weight", layer.head_dim)

    norms = HeadNorms(of_heads("q_norm"), of_heads("k_norm"), family.value_norms, spec.norm_eps)
    # Where branches have norms of their own, the name that the MLP's norm has elsewhere is theirs.
    branch, mlp = family.branch_norms, "pre_feedforward_layernorm"
    return _Layer(
        attention=read_attention(reader, f"{name}.self_attn", spec, layer, norms),
        mlp=read_mlp(reader, f"{name}.mlp", spec),
        input_norm=norm("input_layernorm"),
        attended_norm=norm("post_attention_layernorm") if branch else None,
        mlp_norm=norm(mlp if branch else "post_attention_layernorm"),
        output_norm=norm("post_feedforward_layernorm") if branch else None,
        scalar=reader.tensor(f"{name}.layer_scalar", 1) if family.layer_scalars else None,
    )


def _read_norm(reader: Reader, family: Family, spec: ModelSpec, name: str) -> Norm:
    factors = _read_factors(reader, family, name, spec.hidden)
    return Norm(factors, spec.norm_eps, family.cast_first)


def _read_factors(reader: Reader, family: Family, name: str, size: int) -> torch.Tensor:
    """Factors of a norm, [size]: in the model's dtype where that holds them, else float32."""
    stored = reader.tensor(name, size)
    if family.cast_first or not family.norm_offset:
        return stored
    return stored.float() + family.norm_offset
