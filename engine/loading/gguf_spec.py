"""Sizes and constants of a model from the metadata of its GGUF file.

Whatever in the metadata would change the maths and is not implemented is refused by name.
"""

import math
from typing import Final

import numpy as np
import torch

from spinf_serve.engine.loading.checkpoint import read_tensor
from spinf_serve.engine.loading.gguf import GgufFile
from spinf_serve.engine.loading.gguf_names import ARCHITECTURES, ROPE_FACTORS
from spinf_serve.engine.models.spec import LayerSpec, ModelSpec, Rope
from spinf_serve.packs.errors import Unusable

# Keys whose presence with another value than the listed one means maths that no family here has.
_UNSUPPORTED: Final[dict[str, tuple[object, str]]] = {
    "expert_count": (0, "mixture of experts"),
    "attn_logit_softcapping": (0.0, "attention soft-cap"),
    "attention.scale": (None, "own attention scale"),
    "attention.clamp_kqv": (0.0, "clamped q, k and v"),
    "attention.max_alibi_bias": (0.0, "position bias in attention"),
    "attention.causal": (True, "attention that is not causal"),
    "use_parallel_residual": (False, "parallel residual"),
    "logit_scale": (None, "scaled logits"),
    "embedding_scale": (None, "own embedding scale"),
    "residual_scale": (None, "scaled residual"),
}
_GEMMA_PATTERN: Final = 6
_GEMMA_LOCAL_THETA: Final = 10_000.0


def spec_from_gguf(file: GgufFile, bos_id: int | None) -> ModelSpec:
    """The model in the file.

    Args:
        file: its table of contents.
        bos_id: the token that starts every sequence, as the tokenizer says.

    Raises `Unusable` naming the file and what is missing or not supported.
    """
    architecture = file.text("general.architecture")
    if architecture not in ARCHITECTURES:
        raise Unusable(
            f"{file.path}: the architecture {architecture} is not supported "
            f"(supported are {', '.join(ARCHITECTURES)})"
        )
    _refuse_unsupported(file, architecture)
    tensors = file.tensors
    if "token_embd.weight" not in tensors:
        raise Unusable(f"{file.path}: the tensor token_embd.weight is missing")
    _check_counts(file, architecture)
    hidden = file.integer(f"{architecture}.embedding_length")
    heads = file.integer(f"{architecture}.attention.head_count")
    head_dim = file.integer(f"{architecture}.attention.key_length", hidden // heads)
    layers = (_llama_layers if architecture == "llama" else _gemma_layers)(file, head_dim)
    soft_cap = file.number(f"{architecture}.final_logit_softcapping", 0.0)
    return ModelSpec(
        family=architecture,
        hidden=hidden,
        intermediate=file.integer(f"{architecture}.feed_forward_length"),
        vocab=tensors["token_embd.weight"].shape[0],
        heads=heads,
        layers=layers,
        norm_eps=_exact(file.number(f"{architecture}.attention.layer_norm_rms_epsilon")),
        attention_scale=_attention_scale(architecture, hidden, heads, head_dim, len(layers)),
        tied="output.weight" not in tensors,
        context=file.integer(f"{architecture}.context_length"),
        logit_soft_cap=soft_cap or None,
        attention_bias="blk.0.attn_q.bias" in tensors,
        mlp_bias="blk.0.ffn_up.bias" in tensors,
        bos_id=bos_id,
    )


def _refuse_unsupported(file: GgufFile, architecture: str) -> None:
    for key, (neutral, what) in _UNSUPPORTED.items():
        value = file.values.get(f"{architecture}.{key}")
        if value is not None and value != neutral:
            raise Unusable(f"{file.path}: {what} ({architecture}.{key} = {value}) is not supported")
    if architecture == "llama" and "llama.attention.sliding_window" in file.values:
        raise Unusable(
            f"{file.path}: sliding windows in the architecture llama are not supported "
            f"(llama.attention.sliding_window)"
        )


def _llama_layers(file: GgufFile, head_dim: int) -> tuple[LayerSpec, ...]:
    rope = _rope(file, "llama", default_theta=10_000.0, head_dim=head_dim)
    kv_heads = file.integer(
        "llama.attention.head_count_kv", file.integer("llama.attention.head_count")
    )
    layer = LayerSpec(window=None, rope=rope, kv_heads=kv_heads, head_dim=head_dim)
    return (layer,) * file.integer("llama.block_count")


def _gemma_layers(file: GgufFile, head_dim: int) -> tuple[LayerSpec, ...]:
    """Every sixth layer sees everything; rotary scaling is for those layers only."""
    kv_heads = file.integer("gemma3.attention.head_count_kv")
    full = _rope(file, "gemma3", default_theta=1_000_000.0, head_dim=head_dim)
    local = Rope("default", file.number("gemma3.rope.freq_base_swa", _GEMMA_LOCAL_THETA))
    window = file.integer("gemma3.attention.sliding_window")
    pattern = file.integer("gemma3.attention.sliding_window_pattern", _GEMMA_PATTERN)
    return tuple(
        LayerSpec(None, full, kv_heads, head_dim)
        if (number + 1) % pattern == 0
        else LayerSpec(window, local, kv_heads, head_dim)
        for number in range(file.integer("gemma3.block_count"))
    )


def _check_counts(file: GgufFile, architecture: str) -> None:
    """Refuses sizes that nothing can be made of, before something is made of them."""
    for key in ("embedding_length", "attention.head_count", "block_count"):
        count = file.integer(f"{architecture}.{key}")
        if count < 1:
            raise Unusable(f"{file.path}: {architecture}.{key} is {count}, it must be positive")
    blocks = file.integer(f"{architecture}.block_count")
    if blocks > len(file.tensors):
        raise Unusable(
            f"{file.path}: {architecture}.block_count is {blocks}, but the file has only "
            f"{len(file.tensors)} tensors: it is damaged"
        )
    heads = file.integer(f"{architecture}.attention.head_count")
    kv_heads = file.integer(f"{architecture}.attention.head_count_kv", heads)
    if kv_heads < 1 or heads % kv_heads:
        raise Unusable(
            f"{file.path}: {architecture}.attention.head_count_kv is {kv_heads}, which does not "
            f"divide the {heads} heads"
        )


def _attention_scale(
    architecture: str, hidden: int, heads: int, head_dim: int, layers: int
) -> float:
    # The format has no key for it. Of Gemma 3 only the 27B model, the one with 62 layers, scales
    # by hidden / heads and not by the head size.
    if architecture == "gemma3" and layers == 62:
        return float((hidden / heads) ** -0.5)
    return float(head_dim**-0.5)


def _rope(file: GgufFile, architecture: str, default_theta: float, head_dim: int) -> Rope:
    theta = file.number(f"{architecture}.rope.freq_base", default_theta)
    turned = file.integer(f"{architecture}.rope.dimension_count", head_dim)
    if turned != head_dim:
        raise Unusable(
            f"{file.path}: rotary embedding of {turned} of {head_dim} dimensions is not supported"
        )
    kind = file.values.get(f"{architecture}.rope.scaling.type", "none")
    if ROPE_FACTORS in file.tensors:
        return _llama3_rope(file, theta, head_dim)
    if kind == "none":
        return Rope("default", theta)
    if kind != "linear":
        raise Unusable(f"{file.path}: rotary scaling of type {kind} is not supported")
    return Rope("linear", theta, factor=file.number(f"{architecture}.rope.scaling.factor"))


def _llama3_rope(file: GgufFile, theta: float, head_dim: int) -> Rope:
    """The format keeps only the resulting factors: find the parameters that give them."""
    factors = torch.empty(head_dim // 2)
    read_tensor(file.path, file.tensors[ROPE_FACTORS], factors)
    found = factors.numpy().astype(np.float64)
    rope = Rope(
        "llama3",
        theta,
        factor=round(float(found.max()), 4),
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_context=8192,
    )
    if not np.allclose(found, llama3_factors(rope, head_dim), rtol=1e-5):
        raise Unusable(
            f"{file.path}: the rotary factors in {ROPE_FACTORS} are not those of llama3 scaling"
        )
    return rope


def llama3_factors(rope: Rope, head_dim: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """What llama3 scaling divides each frequency by.  -> [head_dim / 2] f64"""
    frequencies = rope.theta ** (-np.arange(0, head_dim, 2) / head_dim)
    turns = rope.original_context * frequencies / (2 * math.pi)
    blend = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    blend = np.clip(blend, 0.0, 1.0)
    factors: np.ndarray[tuple[int], np.dtype[np.float64]]
    factors = 1.0 / ((1.0 - blend) / rope.factor + blend)
    return factors


def _exact(number: float) -> float:
    """The shortest decimal that is this float32: 1e-05 and not 9.999999747378752e-06."""
    return float(str(np.float32(number)))
