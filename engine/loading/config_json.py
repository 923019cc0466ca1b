"""Sizes and constants of a model from the config.json of its folder.

Understands the spellings of old and new files. Whatever would change the maths and is not
implemented is refused by name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from spinf_serve.engine.loading.config_gemma4 import (
    GEMMA4_UNSUPPORTED,
    gemma4_defaults,
    gemma4_layers,
)
from spinf_serve.engine.loading.config_values import Unsupported, Values
from spinf_serve.engine.models.spec import LayerSpec, ModelSpec, Rope
from spinf_serve.packs.errors import Unusable

CONFIG: Final = "config.json"

_FAMILIES: Final = MappingProxyType(
    {
        "llama": "llama",
        "mistral": "llama",
        "gemma3_text": "gemma3",
        "gemma3": "gemma3",
        "gemma4_text": "gemma4",
        "gemma4": "gemma4",
        "gemma4_unified_text": "gemma4",
        "gemma4_unified": "gemma4",
    }
)
# Published Gemma 3 files leave out what equals the default of their class.
_GEMMA_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "vocab_size": 262_208,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 131_072,
        "rms_norm_eps": 1e-6,
        "query_pre_attn_scalar": 256,
        "sliding_window": 4096,
        "hidden_activation": "gelu_pytorch_tanh",
        "tie_word_embeddings": True,
        "rope_theta": 1_000_000.0,
        "rope_local_base_freq": 10_000.0,
    }
)
_LLAMA_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "rope_theta": 10_000.0,
    }
)
# Unlike everywhere else, leaving out the window means one of 4096 here; null means none.
_MISTRAL_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType(
    {"sliding_window": 4096, "num_key_value_heads": 8, "max_position_embeddings": 131_072}
)
_UNSUPPORTED: Final[Unsupported] = (
    ("quantization_config", (None,), "quantised weights"),
    ("attn_logit_softcapping", (None,), "attention soft-cap"),
    ("num_local_experts", (None, 0, 1), "mixture of experts"),
    ("num_experts", (None, 0, 1), "mixture of experts"),
    ("enable_moe_block", (None, False), "mixture of experts"),
    ("partial_rotary_factor", (None, 1, 1.0), "rotary embedding of a part of the dimensions"),
)
_CAUSAL: Final[Unsupported] = (
    ("use_bidirectional_attention", (None, False), "attention that is not causal"),
)
# What a model that also reads images says outside `text_config`, and holds for the text model too.
_OUTER: Final = ("quantization_config", "tie_word_embeddings")


def spec_from_config(config: Mapping[str, Any], where: Path, bos_id: int | None) -> ModelSpec:
    """The model that a config.json describes.

    Args:
        config: its content; a model that also reads images keeps the text model in `text_config`.
        where: the file, for errors.
        bos_id: the token that starts every sequence, as the tokenizer says.

    Raises `Unusable` naming the file and what is missing or not supported.
    """
    kind = config.get("model_type")
    family = _family(kind, where)
    text = config.get("text_config")
    if isinstance(text, dict):
        outer = {key: config[key] for key in _OUTER if key in config}
        config = {"model_type": kind, **outer, **text}
        if _family(config["model_type"], where) != family:
            raise Unusable(
                f"{where}: a text model of type {config['model_type']} in one of type {kind} "
                "is not supported"
            )
    read = _READINGS[family]
    given = {key: value for key, value in config.items() if value is not None}
    values = Values({**read.defaults(config), **given}, where)
    values.refuse((*_UNSUPPORTED, *read.unsupported))
    key, activation = read.activation
    if values.get(key) != activation:
        raise values.wrong(f"the activation {values.get(key)} ({key}) is not supported")
    layers, attention_scale = read.layers(values)
    cap = "final_logit_softcapping"
    return ModelSpec(
        family=family,
        hidden=values.size("hidden_size"),
        intermediate=values.size("intermediate_size"),
        vocab=values.size("vocab_size"),
        heads=values.size("num_attention_heads"),
        layers=layers,
        norm_eps=values.number("rms_norm_eps"),
        attention_scale=attention_scale,
        tied=values.flag("tie_word_embeddings"),
        context=values.size("max_position_embeddings"),
        logit_soft_cap=values.number(cap) if cap in values else None,
        attention_bias=values.flag("attention_bias"),
        mlp_bias=values.flag("mlp_bias"),
        bos_id=bos_id,
    )


def _family(kind: object, where: Path) -> str:
    family = _FAMILIES.get(kind) if isinstance(kind, str) else None
    if family is None:
        raise Unusable(
            f"{where}: the model type {kind} is not supported "
            f"(supported are {', '.join(_FAMILIES)})"
        )
    return family


@dataclass(frozen=True, slots=True)
class _Reading:
    """How a family's config is read.

    Attributes:
        defaults: values of the keys that a text model's config leaves out.
        activation: key of the MLP's activation, and the one that is supported.
        unsupported: what this family has besides that is not supported.
        layers: the layers, and the factor of q.k.
    """

    defaults: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    activation: tuple[str, str]
    unsupported: Unsupported
    layers: Callable[[Values], tuple[tuple[LayerSpec, ...], float]]


def _llama_defaults(config: Mapping[str, Any]) -> Mapping[str, Any]:
    if config.get("model_type") != "mistral":
        return _LLAMA_DEFAULTS
    defaults = {**_LLAMA_DEFAULTS, **_MISTRAL_DEFAULTS}
    if config.get("sliding_window", "") is None:
        defaults.pop("sliding_window")
    return defaults


def _llama_layers(values: Values) -> tuple[tuple[LayerSpec, ...], float]:
    if "sliding_window" in values:
        window = values.get("sliding_window")
        raise values.wrong(
            f"sliding windows of Mistral (sliding_window: {window}) are not supported"
        )
    heads = values.size("num_attention_heads")
    head_dim = (
        values.size("head_dim") if "head_dim" in values else values.size("hidden_size") // heads
    )
    kv_heads = values.get("num_key_value_heads", heads)
    if not isinstance(kv_heads, int) or kv_heads < 1 or heads % kv_heads:
        raise values.wrong(f"num_key_value_heads {kv_heads} does not divide {heads} heads")
    rope = values.rope(values.rope_table(), values.number("rope_theta"))
    layer = LayerSpec(None, rope, kv_heads, head_dim)
    return (layer,) * values.layer_count(), float(head_dim**-0.5)


def _gemma3_layers(values: Values) -> tuple[tuple[LayerSpec, ...], float]:
    """Full layers and windowed ones, each kind with its own rotary table."""
    table = values.rope_table()
    theta, local_theta = values.number("rope_theta"), values.number("rope_local_base_freq")
    if "full_attention" in table or "sliding_attention" in table:
        full = values.rope(table.get("full_attention") or {}, theta)
        local = values.rope(table.get("sliding_attention") or {}, local_theta)
    else:
        # The old spelling: scaling is for full layers only.
        full, local = values.rope(table, theta), Rope("default", local_theta)
    window, kv_heads = values.size("sliding_window"), values.size("num_key_value_heads")
    head_dim = values.size("head_dim")
    layers = tuple(
        LayerSpec(None, full, kv_heads, head_dim)
        if is_full
        else LayerSpec(window, local, kv_heads, head_dim)
        for is_full in _gemma3_full_layers(values)
    )
    return layers, float(values.number("query_pre_attn_scalar") ** -0.5)


def _gemma3_full_layers(values: Values) -> list[bool]:
    count = values.layer_count()
    kinds = values.full_layers(count)
    if kinds is not None:
        return kinds
    pattern = values.get("sliding_window_pattern", values.get("_sliding_window_pattern", 6))
    if not isinstance(pattern, int) or pattern < 1:
        raise values.wrong(f"sliding_window_pattern {pattern!r} is not a count of layers")
    return [(number + 1) % pattern == 0 for number in range(count)]


_READINGS: Final[Mapping[str, _Reading]] = MappingProxyType(
    {
        "llama": _Reading(_llama_defaults, ("hidden_act", "silu"), _CAUSAL, _llama_layers),
        "gemma3": _Reading(
            lambda config: _GEMMA_DEFAULTS,
            ("hidden_activation", "gelu_pytorch_tanh"),
            _CAUSAL,
            _gemma3_layers,
        ),
        "gemma4": _Reading(
            gemma4_defaults,
            ("hidden_activation", "gelu_pytorch_tanh"),
            GEMMA4_UNSUPPORTED,
            # Queries and keys are normed: their products are not scaled.
            lambda values: (gemma4_layers(values), 1.0),
        ),
    }
)
