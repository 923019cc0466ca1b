"""Sizes and constants of a model, read from a checkpoint's configuration; what a family is built from."""

from dataclasses import dataclass
from typing import Literal, Protocol

import torch


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary embedding of one kind of layer.

    Attributes:
        kind: `default`, `linear` (frequencies divided by factor), `llama3` (blended by wavelength) or
            `proportional` (the first `moving` of the pairs as in `linear`, the others stand still).
        theta: base.
        factor, low_freq_factor, high_freq_factor, original_context: parameters of the scaled kinds.
        moving: share of the pairs that rotate; 1 but for `proportional`.
    """

    kind: Literal["default", "linear", "llama3", "proportional"]
    theta: float
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_context: int = 0
    moving: float = 1.0


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """What may differ from layer to layer.

    Attributes:
        window: tokens that a token sees, itself included; None means full attention.
        rope: rotary embedding.
        kv_heads, head_dim: key and value heads, and the size of all heads.
        k_is_v: the layer has no value projection: values are its keys as projected, before the
            norm of the keys and the rotation.
    """

    window: int | None
    rope: Rope
    kv_heads: int
    head_dim: int
    k_is_v: bool = False


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model of a supported family.

    Attributes:
        family: key of `spinf_serve.engine.models.registry`.
        hidden, intermediate, vocab, heads: sizes.
        layers: one entry per layer.
        norm_eps: epsilon of every norm.
        attention_scale: factor of q.k.
        tied: the head is the embedding table.
        context: longest sequence the model was made for, in tokens.
        logit_soft_cap: final soft-cap or None.
        attention_bias, mlp_bias: whether the linears have biases.
        bos_id: token that starts every sequence, or None.
    """

    family: str
    hidden: int
    intermediate: int
    vocab: int
    heads: int
    layers: tuple[LayerSpec, ...]
    norm_eps: float
    attention_scale: float
    tied: bool
    context: int
    logit_soft_cap: float | None = None
    attention_bias: bool = False
    mlp_bias: bool = False
    bos_id: int | None = None


class Checkpoint(Protocol):
    """Weights under their Hugging Face names and in the Hugging Face conventions.

    A GGUF source undoes what its format changed (row order of q and k, the +1 in norms), so a
    family is written once.
    """

    def names(self) -> frozenset[str]:
        """Every tensor name in the checkpoint."""
        ...

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor. Raises `Unusable` when the checkpoint lacks it."""
        ...

    def read_into(self, name: str, out: torch.Tensor) -> None:
        """Fill `out` (any float dtype, the tensor's shape) with the tensor's values.

        Raises `Unusable` naming the tensor, what was found and what was expected.
        """
        ...
