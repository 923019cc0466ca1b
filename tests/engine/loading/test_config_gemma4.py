"""Gemma 4 in config.json: both spellings give one model; what is not served is named."""

from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoConfig

from spinf_serve.engine.loading.config_json import spec_from_config
from spinf_serve.engine.models.spec import LayerSpec, ModelSpec, Rope
from spinf_serve.packs.errors import Unusable
from tests.support.tiny_models import TINY, TINY_WITH_MEDIA, weight_shapes

SPEC = TINY["gemma4"][0]
WHERE = Path("folder/config.json")
FULL = Rope("proportional", 1_000_000.0, moving=0.25)
SLIDING = Rope("default", 10_000.0)


def published(**changes: Any) -> dict[str, Any]:
    """The tiny model's config.json with the keys of the published files."""
    config = {
        "vocab_size": 320,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 6,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": True,
        "max_position_embeddings": 1024,
        **TINY["gemma4"][1],
        **changes,
    }
    return {key: value for key, value in config.items() if value != "absent"}


def by_layer(**changes: Any) -> dict[str, Any]:
    """The same as transformers saves it."""
    own = {"head_dim": 32, "num_key_value_heads": 1}
    config = published(
        global_head_dim="absent",
        num_global_key_value_heads="absent",
        per_layer_config={"2": own, "5": own},
    )
    return {**config, **changes}


def spec(config: dict[str, Any]) -> ModelSpec:
    return spec_from_config(config, WHERE, None)


@pytest.mark.parametrize("kind", ["gemma4_text", "gemma4_unified_text"])
@pytest.mark.parametrize("spelt", [published, by_layer])
def test_both_spellings_give_one_model(kind, spelt):
    assert spec(spelt(model_type=kind)) == SPEC


@pytest.mark.parametrize("name", TINY_WITH_MEDIA)
@pytest.mark.parametrize("spelt", [published, by_layer])
def test_the_text_model_of_one_that_reads_images(name, spelt):
    text, own, _ = TINY_WITH_MEDIA[name]
    inner = spelt(model_type=TINY[text][1]["model_type"])
    assert spec({**own, "text_config": inner}) == SPEC


@pytest.mark.parametrize(
    ("kind", "sizes", "scale", "parameters"),
    [
        (
            "gemma4_unified",
            {"hidden_size": 3840, "intermediate_size": 15_360, "num_attention_heads": 16},
            (48, 8, 1),
            11_907_350_272,
        ),
        (
            "gemma4",
            {"hidden_size": 5376, "intermediate_size": 21_504, "num_attention_heads": 32},
            (60, 16, 4),
            30_697_345_280,
        ),
    ],
)
def test_the_published_sizes_have_the_published_count_of_parameters(kind, sizes, scale, parameters):
    """Of the text model; each layer has a scalar besides."""
    layers, kv_heads, global_kv_heads = scale
    text = published(
        **sizes,
        model_type=f"{kind}_text",
        vocab_size=262_144,
        num_hidden_layers=layers,
        layer_types="absent",
        num_key_value_heads=kv_heads,
        num_global_key_value_heads=global_kv_heads,
        head_dim=256,
        global_head_dim=512,
        sliding_window=1024,
    )
    found = spec({"model_type": kind, "text_config": text, "vision_config": {}})
    assert sum(layer.window is None for layer in found.layers) == layers // 6
    shapes = weight_shapes(found)
    shapes.pop("lm_head.weight")
    assert sum(map(prod, shapes.values())) == parameters + layers


def test_numbers_of_layers_may_have_zeros_before_them():
    """So transformers writes them from eleven layers on."""
    kinds = ["sliding_attention"] * 5 + ["full_attention"]
    config = AutoConfig.for_model(
        **published(num_hidden_layers=12, layer_types=kinds * 2)
    ).to_dict()
    assert list(config["per_layer_config"]) == ["05", "11"]
    layers = spec(config).layers
    assert [i for i, layer in enumerate(layers) if layer.head_dim == 32] == [5, 11]
    assert layers[5] == LayerSpec(None, FULL, 1, 32, k_is_v=True)
    assert layers[6] == LayerSpec(8, SLIDING, 2, 16)


def test_a_layer_may_differ_in_one_thing_only():
    layers = spec(by_layer(per_layer_config={"2": {"head_dim": 24}, "5": {}, "0": {}})).layers
    assert [(x.kv_heads, x.head_dim) for x in layers] == [
        (2, 24) if i == 2 else (2, 16) for i in range(6)
    ]


@pytest.mark.parametrize(
    ("changes", "heads"),
    [
        ({"num_global_key_value_heads": None}, (2, 32)),
        ({"num_global_key_value_heads": 4}, (4, 32)),
        ({"attention_k_eq_v": False}, (2, 32)),
        ({"global_head_dim": None}, (1, 512)),
    ],
)
def test_heads_of_full_layers(changes, heads):
    layer = spec(published(**changes)).layers[2]
    assert (layer.kv_heads, layer.head_dim) == heads
    assert layer.k_is_v is changes.get("attention_k_eq_v", True)


@pytest.mark.parametrize(
    ("kind", "more"),
    [("gemma4_text", {"hidden_size_per_layer_input": 0}), ("gemma4_unified_text", {})],
)
def test_files_that_leave_out_what_is_default(kind, more):
    found = spec({"model_type": kind, **more})
    reference = AutoConfig.for_model(kind, **more)
    windows = [
        None if x == "full_attention" else reference.sliding_window for x in reference.layer_types
    ]
    assert [layer.window for layer in found.layers] == windows
    for layer, own in zip(found.layers, reference.per_layer_config, strict=True):
        assert (layer.kv_heads, layer.head_dim) == (own.num_key_value_heads, own.head_dim)
        assert layer.rope == (SLIDING if layer.window else FULL)
        assert not layer.k_is_v
    assert found.context == reference.max_position_embeddings
    assert (found.hidden, found.vocab) == (reference.hidden_size, reference.vocab_size)
    assert (found.intermediate, found.heads) == (reference.intermediate_size, 8)
    assert (found.tied, found.logit_soft_cap) == (True, None)
    assert (found.norm_eps, found.attention_scale) == (reference.rms_norm_eps, 1.0)


def test_the_last_layer_is_full_by_default():
    found = spec(published(num_hidden_layers=8, layer_types="absent"))
    assert [i for i, layer in enumerate(found.layers) if layer.window is None] == [5, 7]


def test_settings_that_are_not_the_tiny_models():
    assert spec(published(attention_bias=True)) == replace(SPEC, attention_bias=True)
    assert spec(published(tie_word_embeddings=False)) == replace(SPEC, tied=False)
    assert spec(published(final_logit_softcapping=None)) == replace(SPEC, logit_soft_cap=None)
    # With null it has none of these, other than without the key.
    assert spec(published(hidden_size_per_layer_input=None)) == SPEC


E2B = {
    "hidden_size_per_layer_input": 8,
    "num_kv_shared_layers": 3,
    "use_double_wide_mlp": True,
    "attention_k_eq_v": False,
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size_per_layer_input": 8}, r"per-layer embeddings \(hidden_size_per_layer_inp"),
        ({"hidden_size_per_layer_input": "absent"}, r"per-layer embeddings \(.*: 256\) is not"),
        ({"num_kv_shared_layers": 3}, r"keys and values shared between layers \(num_kv_shared"),
        ({"use_double_wide_mlp": True}, r"a double-wide MLP \(use_double_wide_mlp: True\)"),
        (E2B, "per-layer embeddings .* shared between layers .*, a double-wide MLP .* are not"),
        ({"enable_moe_block": True}, r"mixture of experts \(enable_moe_block: True\)"),
        ({"enable_moe_block": True, "num_experts": 128}, r"mixture of experts \(num_experts: 128"),
        ({"use_bidirectional_attention": "all"}, r"not causal \(use_bidirectional_attention: all"),
        ({"attn_logit_softcapping": 50.0}, "attention soft-cap"),
        ({"hidden_activation": "silu"}, r"the activation silu \(hidden_activation\)"),
        ({"layer_types": ["sliding_attention"] * 6}, "the last layer is of type sliding_attention"),
        ({"layer_types": ["full_attention"]}, "layer_types should list 6 layers"),
        ({"global_head_dim": 0}, "global_head_dim should be a positive whole number, found 0"),
        ({"num_global_key_value_heads": "1"}, "num_global_key_value_heads should be a positive"),
        ({"sliding_window": True}, "sliding_window should be a positive whole number"),
        ({"rope_parameters": {"rope_theta": 1e6}}, "rope_parameters lacks full_attention"),
        (
            {"rope_parameters": {"full_attention": {}, "sliding_attention": 7}},
            "rotary settings are 7, not an object",
        ),
        (
            {
                "rope_parameters": {
                    "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 1.5},
                    "sliding_attention": {},
                }
            },
            "partial_rotary_factor is 1.5, not a share of the dimensions",
        ),
        (
            {"per_layer_config": {"2": {"head_dim": 32, "num_key_value_heads": 1}}},
            "per_layer_config contradicts global_head_dim",
        ),
        ({"per_layer_config": [1]}, r"per_layer_config is \[1\], not an object"),
        ({"per_layer_config": {"6": {}}}, "per_layer_config: '6' is no layer of 6"),
        ({"per_layer_config": {"-1": {}}}, "per_layer_config: '-1' is no layer of 6"),
        ({"per_layer_config": {"2": {}, "02": {}}}, "'02' is no layer of 6, or is named twice"),
        ({"per_layer_config": {"2": 3}}, "per_layer_config: 2 is 3, not an object"),
        ({"per_layer_config": {"2": {"sliding_window": 4}}}, "that differ in sliding_window are"),
        ({"per_layer_config": {"2": {"head_dim": "x"}}}, "head_dim should be a positive whole"),
    ],
)
def test_what_is_not_served_or_broken_is_named_in_one_line(changes, message):
    with pytest.raises(Unusable, match=message) as caught:
        spec(published(**changes))
    assert str(caught.value).startswith("folder/config.json: ")
    assert "\n" not in str(caught.value)


def test_a_text_model_of_another_family_is_refused():
    with pytest.raises(Unusable, match="text model of type llama in one of type gemma4 is not"):
        spec({"model_type": "gemma4", "text_config": published(model_type="llama")})
    with pytest.raises(Unusable, match="the model type mamba is not supported"):
        spec({"model_type": "gemma4", "text_config": published(model_type="mamba")})
