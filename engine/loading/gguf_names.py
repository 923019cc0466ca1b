"""GGUF tensor names of each supported architecture and the Hugging Face names they stand for."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

# Factors of the llama3 rotary embedding: read with the sizes, not one of the weights.
ROPE_FACTORS: Final = "rope_freqs.weight"

_OUTSIDE: Final = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_IN_EVERY_LAYER: Final = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_LAYERS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "llama": {**_IN_EVERY_LAYER, "ffn_norm": "post_attention_layernorm"},
        "gemma3": {
            **_IN_EVERY_LAYER,
            "attn_q_norm": "self_attn.q_norm",
            "attn_k_norm": "self_attn.k_norm",
            "post_attention_norm": "post_attention_layernorm",
            "ffn_norm": "pre_feedforward_layernorm",
            "post_ffw_norm": "post_feedforward_layernorm",
        },
    }
)
_PARTS: Final = re.compile(r"(?:blk\.(\d+)\.)?([a-z_]+)\.(weight|bias)")

ARCHITECTURES: Final = tuple(_LAYERS)


def hugging_face_name(architecture: str, name: str) -> str | None:
    """The Hugging Face name of a tensor, or None for one that the architecture does not have.

    Args:
        architecture: one of `ARCHITECTURES`.
        name: as in the GGUF file, for instance `blk.3.attn_q.weight`.
    """
    parts = _PARTS.fullmatch(name)
    if parts is None:
        return None
    layer, stem, kind = parts.groups()
    if layer is None:
        found = _OUTSIDE.get(stem)
        return None if found is None else f"{found}.{kind}"
    found = _LAYERS[architecture].get(stem)
    return None if found is None else f"model.layers.{int(layer)}.{found}.{kind}"
