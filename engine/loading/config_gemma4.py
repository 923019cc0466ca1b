"""Gemma 4 in a config.json: both spellings of its two kinds of heads, and what of it is not served.

Published files say `global_head_dim` and `num_global_key_value_heads`; files that transformers
saves say `per_layer_config`, the layers by number with what differs in each.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from spinf_serve.engine.loading.config_values import Unsupported, Values
from spinf_serve.engine.models.spec import LayerSpec, Rope

# What a file leaves out equals the default of its class, of which there are two.
_SHARED: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "vocab_size": 262_144,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 30,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "rms_norm_eps": 1e-6,
        "hidden_activation": "gelu_pytorch_tanh",
        "tie_word_embeddings": True,
    }
)
_OF_A_TOWER: Final[Mapping[str, Any]] = MappingProxyType(
    {
        **_SHARED,
        "max_position_embeddings": 131_072,
        "sliding_window": 512,
        "hidden_size_per_layer_input": 256,
    }
)
_UNIFIED: Final[Mapping[str, Any]] = MappingProxyType(
    {**_SHARED, "max_position_embeddings": 262_144, "sliding_window": 1024}
)
_ROPES: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25},
        "sliding_attention": {"rope_type": "default"},
    }
)
_FULL_THETA: Final = 1_000_000.0
_SLIDING_THETA: Final = 10_000.0
_PATTERN: Final = 6
_GLOBAL_HEAD_DIM: Final = 512
_DIFFERENCES: Final = ("head_dim", "num_key_value_heads")

GEMMA4_UNSUPPORTED: Final[Unsupported] = (
    ("hidden_size_per_layer_input", (None, 0), "per-layer embeddings"),
    ("num_kv_shared_layers", (None, 0), "keys and values shared between layers"),
    ("use_double_wide_mlp", (None, False), "a double-wide MLP"),
    # With "vision" it is only images that see what comes after.
    ("use_bidirectional_attention", (None, False, "vision"), "attention that is not causal"),
)


def gemma4_defaults(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Values of the keys that a file leaves out, by the `model_type` of its text model."""
    unified = str(config.get("model_type")).startswith("gemma4_unified")
    defaults = dict(_UNIFIED if unified else _OF_A_TOWER)
    if config.get("hidden_size_per_layer_input", 0) is None:
        # Here null is not the default but none at all.
        defaults.pop("hidden_size_per_layer_input", None)
    return defaults


def gemma4_layers(values: Values) -> tuple[LayerSpec, ...]:
    """Windowed layers and full ones, which have their own heads and rotary embedding."""
    count = values.layer_count()
    is_full = _full_layers(values, count)
    full, sliding = _ropes(values)
    window, k_is_v = values.size("sliding_window"), values.flag("attention_k_eq_v")
    heads = _heads(values, is_full)
    return tuple(
        LayerSpec(None, full, kv_heads, head_dim, k_is_v)
        if whole
        else LayerSpec(window, sliding, kv_heads, head_dim)
        for whole, (kv_heads, head_dim) in zip(is_full, heads, strict=True)
    )


def _full_layers(values: Values, count: int) -> list[bool]:
    found = values.full_layers(count)
    if found is None:
        return [(i + 1) % _PATTERN == 0 or i == count - 1 for i in range(count)]
    if not found[-1]:
        raise values.wrong(
            "the last layer is of type sliding_attention (layer_types); "
            "that of a Gemma 4 model is a full one"
        )
    return found


def _ropes(values: Values) -> tuple[Rope, Rope]:
    """The rotary embeddings of full and of sliding layers."""
    table = values.rope_table() or _ROPES
    missing = sorted(_ROPES.keys() - table.keys())
    if missing:
        raise values.wrong(f"rope_parameters lacks {missing[0]}, rotary settings by type of layer")
    return (
        values.rope(table["full_attention"], _FULL_THETA),
        values.rope(table["sliding_attention"], _SLIDING_THETA),
    )


def _heads(values: Values, is_full: list[bool]) -> list[tuple[int, int]]:
    """For each layer its key/value heads and their size; the spellings must not contradict."""
    plain = (values.size("num_key_value_heads"), values.size("head_dim"))
    wide = (plain[0], _GLOBAL_HEAD_DIM)
    if "global_head_dim" in values:
        wide = (wide[0], values.size("global_head_dim"))
    if "num_global_key_value_heads" in values and values.flag("attention_k_eq_v"):
        wide = (values.size("num_global_key_value_heads"), wide[1])
    by_type = [wide if whole else plain for whole in is_full]
    if "per_layer_config" not in values:
        return by_type
    found = [plain] * len(is_full)
    for number, own in _differences(values, len(is_full)).items():
        found[number] = (
            own.size("num_key_value_heads") if "num_key_value_heads" in own else plain[0],
            own.size("head_dim") if "head_dim" in own else plain[1],
        )
    both = "global_head_dim" in values or "num_global_key_value_heads" in values
    if both and found != by_type:
        raise values.wrong(
            "per_layer_config contradicts global_head_dim or num_global_key_value_heads"
        )
    return found


def _differences(values: Values, count: int) -> dict[int, Values]:
    """What `per_layer_config` says of layers, by number; the file's numbers may have zeros before."""
    found: dict[int, Values] = {}
    for key, own in values.table("per_layer_config", {}).items():
        number = int(key) if key.isdecimal() else count
        if number >= count or number in found:
            raise values.wrong(
                f"per_layer_config: {key!r} is no layer of {count}, or is named twice"
            )
        if not isinstance(own, dict):
            raise values.wrong(f"per_layer_config: {key} is {own!r}, not an object")
        unknown = sorted(own.keys() - set(_DIFFERENCES))
        if unknown:
            raise values.wrong(
                f"per_layer_config: layers that differ in {unknown[0]} are not served"
            )
        found[number] = values.nested(own)
    return found
