"""config.json in its old and new spellings gives the model; what is not implemented is named."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoConfig

from spinf_serve.engine.loading.config_json import spec_from_config
from spinf_serve.engine.models.spec import ModelSpec, Rope
from spinf_serve.packs.errors import Unusable
from tests.support.tiny_models import TINY, tiny

WHERE = Path("folder/config.json")


def published(name: str) -> dict[str, Any]:
    """The tiny model's config.json as transformers writes it now."""
    found = json.loads(tiny(name).reference.config.to_json_string(use_diff=False))
    assert isinstance(found, dict)
    return found


def spec(config: dict[str, Any], **changes: Any) -> ModelSpec:
    return spec_from_config({**config, **changes}, WHERE, None)


def without(config: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in keys}


@pytest.mark.parametrize("name", sorted(TINY))
def test_the_new_spelling(name):
    assert spec(published(name)) == TINY[name][0]


@pytest.mark.parametrize(
    ("name", "old"),
    [
        ("llama_tied", {"rope_theta": 100_000.0, "rope_scaling": None}),
        (
            "llama_scaled_untied",
            {
                "rope_theta": 500_000.0,
                "rope_scaling": {
                    "rope_type": "llama3",
                    "factor": 8.0,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 64,
                },
            },
        ),
        ("gemma3", {"rope_theta": 1e6, "rope_local_base_freq": 1e4, "sliding_window_pattern": 3}),
        (
            "gemma3_linear_rope",
            {
                "rope_theta": 1_000_000,
                "rope_local_base_freq": 10_000,
                "rope_scaling": {"type": "linear", "factor": 8.0},
                "sliding_window_pattern": 6,
            },
        ),
    ],
)
def test_the_old_spelling(name, old):
    config = without(published(name), "rope_parameters", "layer_types", "_sliding_window_pattern")
    assert spec(config, **old) == TINY[name][0]


@pytest.mark.parametrize("name", ["gemma3", "gemma3_linear_rope"])
def test_the_text_model_of_one_that_reads_images(name):
    nested = {
        "model_type": "gemma3",
        "text_config": without(published(name), "tie_word_embeddings"),
        "vision_config": {"hidden_size": 7, "num_hidden_layers": 99},
        "tie_word_embeddings": True,
    }
    assert spec(nested) == TINY[name][0]
    untied = spec({**nested, "tie_word_embeddings": False})
    assert untied == replace(TINY[name][0], tied=False)


def test_gemma_files_that_leave_out_what_is_default():
    sparse = {
        "model_type": "gemma3",
        "text_config": {
            "model_type": "gemma3_text",
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "num_hidden_layers": 34,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
            "sliding_window": 1024,
        },
    }
    found = spec(sparse)
    reference = AutoConfig.for_model("gemma3", **without(sparse, "model_type")).text_config
    assert [layer.window for layer in found.layers] == [
        None if kind == "full_attention" else 1024 for kind in reference.layer_types
    ]
    assert {layer.rope for layer in found.layers if layer.window is None} == {
        Rope("linear", 1e6, 8.0)
    }
    assert {layer.rope for layer in found.layers if layer.window} == {Rope("default", 1e4)}
    assert (found.vocab, found.context) == (reference.vocab_size, reference.max_position_embeddings)
    layer = found.layers[0]
    assert (found.heads, layer.kv_heads, layer.head_dim) == (8, 4, 256)
    assert reference.num_attention_heads, reference.num_key_value_heads == (8, 4)
    assert (found.norm_eps, found.tied) == (reference.rms_norm_eps, True)
    assert found.attention_scale == reference.query_pre_attn_scalar**-0.5


def test_llama_files_that_leave_out_what_is_default():
    config = {
        "model_type": "llama",
        "vocab_size": 32000,
        "hidden_size": 2048,
        "intermediate_size": 5632,
        "num_hidden_layers": 2,
        "num_attention_heads": 32,
        "head_dim": None,
    }
    reference = AutoConfig.for_model("llama", **without(config, "model_type"))
    found = spec(config)
    assert (found.layers[0].kv_heads, found.layers[0].head_dim) == (32, 64)
    assert found.layers[0].rope == Rope("default", reference.rope_parameters["rope_theta"])
    assert (found.norm_eps, found.tied) == (reference.rms_norm_eps, reference.tie_word_embeddings)
    assert found.context == reference.max_position_embeddings
    assert spec(config, attention_bias=True, mlp_bias=True) == replace(
        found, attention_bias=True, mlp_bias=True
    )


def test_mistral_without_a_window_is_a_llama():
    config = {**published("llama_tied"), "model_type": "mistral"}
    assert spec(config, sliding_window=None) == TINY["llama_tied"][0]
    with pytest.raises(Unusable, match=r"sliding windows of Mistral \(sliding_window: 4096\)"):
        spec(config)
    with pytest.raises(Unusable, match=r"sliding windows of Mistral \(sliding_window: 128\)"):
        spec(config, sliding_window=128)


def test_a_final_soft_cap_is_kept():
    assert spec(published("gemma3"), final_logit_softcapping=30.0).logit_soft_cap == 30.0


def test_bos_is_what_the_tokenizer_says():
    assert spec_from_config(published("gemma3"), WHERE, 2).bos_id == 2
    assert spec(published("gemma3")).bos_id is None


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("gemma3", {"attn_logit_softcapping": 50.0}, r"attention soft-cap \(attn_logit_soft"),
        ("gemma3", {"use_bidirectional_attention": True}, "attention that is not causal"),
        ("gemma3", {"hidden_activation": "relu"}, r"activation relu \(hidden_activation\)"),
        ("gemma3", {"layer_types": ["full_attention"]}, "layer_types should list 6 layers"),
        ("gemma3", {"layer_types": ["linear_attention"] * 6}, "layers of type linear_attention"),
        ("gemma3", {"query_pre_attn_scalar": "x"}, "query_pre_attn_scalar should be a number"),
        ("llama_tied", {"hidden_act": "gelu"}, r"the activation gelu \(hidden_act\)"),
        ("llama_tied", {"num_local_experts": 8}, r"mixture of experts \(num_local_experts: 8\)"),
        ("llama_tied", {"sliding_window": 128}, "sliding windows of Mistral"),
        ("llama_tied", {"hidden_size": "64"}, "hidden_size should be a positive whole number"),
        ("llama_tied", {"vocab_size": None}, "vocab_size should be a positive whole number"),
        ("llama_tied", {"num_hidden_layers": 2**31}, "2147483648, more than any model has"),
        ("llama_tied", {"num_key_value_heads": 3}, "num_key_value_heads 3 does not divide 5"),
        ("llama_tied", {"tie_word_embeddings": "yes"}, "tie_word_embeddings should be true or"),
        ("llama_tied", {"rope_parameters": [1]}, "is \\[1\\], not an object"),
        (
            "llama_tied",
            {"quantization_config": {"quant_method": "gptq"}},
            r"quantised weights \(quantization_config: gptq\) is not supported",
        ),
        (
            "llama_tied",
            {"rope_parameters": {"rope_type": "yarn", "factor": 4.0}},
            "rotary scaling of type yarn is not supported",
        ),
        (
            "llama_tied",
            {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}},
            "rotary embedding of a part of the dimensions",
        ),
        (
            "llama_tied",
            {"rope_parameters": {"rope_type": "linear"}},
            "factor should be a number, found None",
        ),
        (
            "llama_tied",
            {"model_type": "mamba"},
            r"the model type mamba is not supported \(supported are llama, mistral, gemma3_text",
        ),
        ("llama_tied", {"model_type": ["llama"]}, "the model type"),
    ],
)
def test_what_is_not_implemented_or_broken_is_named(name, changes, message):
    with pytest.raises(Unusable, match=message) as caught:
        spec(published(name), **changes)
    assert str(caught.value).startswith("folder/config.json: ")
    assert "\n" not in str(caught.value)
