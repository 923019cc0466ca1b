"""The families side by side: what each does in its own way. Sizes are in a `ModelSpec`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from spinf_serve.engine.models.decoder import Family

LLAMA: Final = Family(activation="silu", cast_first=True, mlp_biases=True)
"""Llama 2 and 3, SmolLM2, Mistral without windows."""

GEMMA3: Final = Family(
    activation="gelu_tanh",
    norm_offset=1.0,
    branch_norms=True,
    head_norms=True,
    embedding_scaled=True,
)
"""Gemma 3 text: four norms a layer with (1 + w), sliding and full layers."""

GEMMA4: Final = Family(
    activation="gelu_tanh",
    branch_norms=True,
    head_norms=True,
    value_norms=True,
    layer_scalars=True,
    embedding_scaled=True,
)
"""Gemma 4 text, the dense models without per-layer embeddings: plain norm weights, sliding and full
layers that differ in their heads, full layers whose values are their unrotated keys."""

FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {"llama": LLAMA, "gemma3": GEMMA3, "gemma4": GEMMA4}
)
