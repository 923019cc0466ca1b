"""Sizes and constants of a model from the config.json of its folder.

Understands the spellings of old and new files. Whatever would change the maths and is not
implemented is refused by name.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from spinf_serve.engine.models.spec import LayerSpec, ModelSpec, Rope
from spinf_serve.packs.errors import Unusable

CONFIG: Final = "config.json"

_MOST_LAYERS: Final = 10_000

_FAMILIES: Final = MappingProxyType(
    {"llama": "llama", "mistral": "llama", "gemma3_text": "gemma3", "gemma3": "gemma3"}
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
# Key, values that mean "not used", and what another value would ask for.
_UNSUPPORTED: Final[tuple[tuple[str, tuple[object, ...], str], ...]] = (
    ("quantization_config", (None,), "quantised weights"),
    ("attn_logit_softcapping", (None,), "attention soft-cap"),
    ("use_bidirectional_attention", (None, False), "attention that is not causal"),
    ("num_local_experts", (None, 0, 1), "mixture of experts"),
    ("num_experts", (None, 0, 1), "mixture of experts"),
    ("enable_moe_block", (None, False), "mixture of experts"),
    ("partial_rotary_factor", (None, 1, 1.0), "rotary embedding of a part of the dimensions"),
)


def spec_from_config(config: Mapping[str, Any], where: Path, bos_id: int | None) -> ModelSpec:
    """The model that a config.json describes.

    Args:
        config: its content; a model that also reads images keeps the text model in `text_config`.
        where: the file, for errors.
        bos_id: the token that starts every sequence, as the tokenizer says.

    Raises `Unusable` naming the file and what is missing or not supported.
    """
    kind = config.get("model_type")
    family = _FAMILIES.get(kind) if isinstance(kind, str) else None
    if family is None:
        raise Unusable(
            f"{where}: the model type {kind} is not supported "
            f"(supported are {', '.join(_FAMILIES)})"
        )
    text = config.get("text_config")
    if isinstance(text, dict):
        # What the outer file says of weights and tying holds for the text model too.
        outer = {key: config[key] for key in ("quantization_config",) if key in config}
        if "tie_word_embeddings" in config:
            outer["tie_word_embeddings"] = config["tie_word_embeddings"]
        config = {**outer, **text}
    defaults = dict(_GEMMA_DEFAULTS if family == "gemma3" else _LLAMA_DEFAULTS)
    if kind == "mistral":
        defaults |= _MISTRAL_DEFAULTS
        if config.get("sliding_window", "") is None:
            defaults.pop("sliding_window")
    given = {key: value for key, value in config.items() if value is not None}
    return _Config({**defaults, **given}, where, family).spec(bos_id)


class _Config:
    """A flat config with its defaults filled in; nulls count as absent."""

    def __init__(self, values: Mapping[str, Any], where: Path, family: str) -> None:
        self._values = values
        self._where = where
        self._family = family

    def spec(self, bos_id: int | None) -> ModelSpec:
        self._refuse_unsupported()
        hidden = self._size("hidden_size")
        heads = self._size("num_attention_heads")
        head_dim = self._size("head_dim") if "head_dim" in self._values else hidden // heads
        layers = self._gemma_layers() if self._family == "gemma3" else self._llama_layers(head_dim)
        scalar = self._number("query_pre_attn_scalar") if self._family == "gemma3" else head_dim
        cap = self._values.get("final_logit_softcapping")
        return ModelSpec(
            family=self._family,
            hidden=hidden,
            intermediate=self._size("intermediate_size"),
            vocab=self._size("vocab_size"),
            heads=heads,
            layers=layers,
            norm_eps=self._number("rms_norm_eps"),
            attention_scale=float(scalar**-0.5),
            tied=self._flag("tie_word_embeddings"),
            context=self._size("max_position_embeddings"),
            logit_soft_cap=None if cap is None else self._number("final_logit_softcapping"),
            attention_bias=self._flag("attention_bias"),
            mlp_bias=self._flag("mlp_bias"),
            bos_id=bos_id,
        )

    def _refuse_unsupported(self) -> None:
        for key, neutral, what in _UNSUPPORTED:
            value = self._values.get(key)
            if value not in neutral:
                shown = value.get("quant_method", "?") if isinstance(value, dict) else value
                raise self._wrong(f"{what} ({key}: {shown}) is not supported")
        key, expected = (
            ("hidden_activation", "gelu_pytorch_tanh")
            if self._family == "gemma3"
            else ("hidden_act", "silu")
        )
        if self._values[key] != expected:
            raise self._wrong(f"the activation {self._values[key]} ({key}) is not supported")
        if self._family == "llama" and "sliding_window" in self._values:
            window = self._values["sliding_window"]
            raise self._wrong(
                f"sliding windows of Mistral (sliding_window: {window}) are not supported"
            )

    def _llama_layers(self, head_dim: int) -> tuple[LayerSpec, ...]:
        heads = self._size("num_attention_heads")
        kv_heads = self._values.get("num_key_value_heads", heads)
        if not isinstance(kv_heads, int) or kv_heads < 1 or heads % kv_heads:
            raise self._wrong(f"num_key_value_heads {kv_heads} does not divide {heads} heads")
        rope = self._rope(self._rope_table(), self._number("rope_theta"))
        return (LayerSpec(None, rope, kv_heads, head_dim),) * self._layer_count()

    def _gemma_layers(self) -> tuple[LayerSpec, ...]:
        """Full layers and windowed ones, each kind with its own rotary table."""
        table = self._rope_table()
        theta, local_theta = self._number("rope_theta"), self._number("rope_local_base_freq")
        if "full_attention" in table or "sliding_attention" in table:
            full = self._rope(table.get("full_attention") or {}, theta)
            local = self._rope(table.get("sliding_attention") or {}, local_theta)
        else:
            # The old spelling: scaling is for full layers only.
            full, local = self._rope(table, theta), Rope("default", local_theta)
        window, kv_heads = self._size("sliding_window"), self._size("num_key_value_heads")
        head_dim = self._size("head_dim")
        return tuple(
            LayerSpec(None, full, kv_heads, head_dim)
            if is_full
            else LayerSpec(window, local, kv_heads, head_dim)
            for is_full in self._full_layers()
        )

    def _full_layers(self) -> list[bool]:
        count = self._layer_count()
        kinds = self._values.get("layer_types")
        if kinds is None:
            pattern = self._values.get("sliding_window_pattern")
            pattern = self._values.get("_sliding_window_pattern", 6) if pattern is None else pattern
            if not isinstance(pattern, int) or pattern < 1:
                raise self._wrong(f"sliding_window_pattern {pattern!r} is not a count of layers")
            return [(number + 1) % pattern == 0 for number in range(count)]
        if not isinstance(kinds, list) or len(kinds) != count:
            raise self._wrong(f"layer_types should list {count} layers")
        for kind in kinds:
            if kind not in ("full_attention", "sliding_attention"):
                raise self._wrong(f"layers of type {kind} (layer_types) are not supported")
        return [kind == "full_attention" for kind in kinds]

    def _rope_table(self) -> Mapping[str, Any]:
        """The rotary settings under their new or their old key."""
        table = self._values.get("rope_parameters", self._values.get("rope_scaling", {}))
        if not isinstance(table, dict):
            raise self._wrong(f"rope_parameters or rope_scaling is {table!r}, not an object")
        return table

    def _rope(self, table: Mapping[str, Any], theta: float) -> Rope:
        given = {key: value for key, value in table.items() if value is not None}
        kind = given.get("rope_type", given.get("type", "default"))
        values = _Config({"rope_theta": theta, **given}, self._where, self._family)
        if values._values.get("partial_rotary_factor", 1.0) != 1.0:
            raise self._wrong("rotary embedding of a part of the dimensions is not supported")
        theta = values._number("rope_theta")
        if kind == "default":
            return Rope("default", theta)
        if kind == "linear":
            return Rope("linear", theta, factor=values._number("factor"))
        if kind == "llama3":
            context = given.get(
                "original_max_position_embeddings", self._values["max_position_embeddings"]
            )
            if not isinstance(context, int):
                raise self._wrong(f"original_max_position_embeddings is {context!r}, not a count")
            return Rope(
                "llama3",
                theta,
                factor=values._number("factor"),
                low_freq_factor=values._number("low_freq_factor"),
                high_freq_factor=values._number("high_freq_factor"),
                original_context=context,
            )
        raise self._wrong(f"rotary scaling of type {kind} is not supported")

    def _size(self, key: str) -> int:
        value = self._values.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self._wrong(f"{key} should be a positive whole number, found {value!r}")
        return value

    def _layer_count(self) -> int:
        count = self._size("num_hidden_layers")
        if count > _MOST_LAYERS:
            raise self._wrong(f"num_hidden_layers is {count}, more than any model has")
        return count

    def _number(self, key: str) -> float:
        value = self._values.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(f"{key} should be a number, found {value!r}")
        return float(value)

    def _flag(self, key: str) -> bool:
        value = self._values.get(key, False)
        if not isinstance(value, bool):
            raise self._wrong(f"{key} should be true or false, found {value!r}")
        return value

    def _wrong(self, what: str) -> Unusable:
        return Unusable(f"{self._where}: {what}")
