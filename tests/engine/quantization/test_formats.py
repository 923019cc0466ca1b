"""Layouts are told from config.json: the served ones with their scales, the others by their name."""

from pathlib import Path
from typing import Any

import pytest

from spinf_serve.engine.quantization.formats import (
    StoredFormat,
    stored_format,
    without_quantization,
)
from spinf_serve.packs.errors import Unusable

WHERE = Path("folder/config.json")


def compressed(layout="float-quantized", *, inputs=None, top=None, group=None, **weights):
    """A config.json with weights as compressed-tensors writes them."""
    number = {"int-quantized": "int", "pack-quantized": "int"}.get(layout, "float")
    scheme = {
        "num_bits": 8,
        "type": number,
        "strategy": "channel",
        "symmetric": True,
        "dynamic": False,
        "group_size": None,
        "block_structure": None,
        **weights,
    }
    return {
        "model_type": "llama",
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "format": layout,
            "quantization_status": "compressed",
            "kv_cache_scheme": None,
            "sparsity_config": {},
            "ignore": ["lm_head"],
            "config_groups": {
                "group_0": {
                    "targets": ["Linear"],
                    "weights": scheme,
                    "input_activations": inputs,
                    "output_activations": None,
                    **(group or {}),
                }
            },
            **(top or {}),
        },
    }


def inputs(number="float", **changes):
    return {"num_bits": 8, "type": number, "strategy": "token", "dynamic": True, **changes}


STATIC = {"strategy": "tensor", "dynamic": False}


@pytest.mark.parametrize(
    ("config", "kind", "by_row", "activations"),
    [
        (compressed(strategy="tensor", inputs=inputs(**STATIC)), "fp8", False, "static"),
        (compressed(inputs=inputs()), "fp8", True, "token"),
        (compressed(), "fp8", True, "none"),
        (compressed("int-quantized", inputs=inputs("int")), "int8", True, "token"),
        (compressed("int-quantized", strategy="tensor"), "int8", False, "none"),
        (compressed("int-quantized", inputs=inputs("int", **STATIC)), "int8", True, "static"),
        (compressed("naive-quantized"), "fp8", True, "none"),
        (compressed("naive-quantized", type="int", strategy="tensor"), "int8", False, "none"),
    ],
)
def test_served_layouts(config, kind, by_row, activations):
    found = stored_format(config, WHERE)
    assert found == StoredFormat(kind, by_row, activations, ("Linear",), ("lm_head",))
    assert stored_format({"model_type": "x", "text_config": config}, WHERE) == found


def test_weights_that_are_not_quantised_have_no_layout():
    for config in ({}, {"quantization_config": None}, {"text_config": {"hidden_size": 1}}):
        assert stored_format(config, WHERE) is None


def test_the_layout_is_taken_out_wherever_it_stands():
    config: dict[str, Any] = {
        "a": 1,
        "quantization_config": {},
        "text_config": {"b": 2, "quantization_config": {}},
    }
    assert without_quantization(config) == {"a": 1, "text_config": {"b": 2}}
    assert "quantization_config" in config["text_config"]


def other(method, **keys):
    return {"quantization_config": {"quant_method": method, **keys}}


@pytest.mark.parametrize(
    ("config", "layout"),
    [
        (
            compressed("nvfp4-pack-quantized", num_bits=4, strategy="tensor_group"),
            r"NVFP4 \(compressed-tensors, nvfp4-pack-quantized\)",
        ),
        (other("modelopt", quant_algo="NVFP4"), r"NVFP4 of modelopt"),
        (
            compressed(strategy="block", block_structure=[128, 128]),
            r"block fp8 \(compressed-tensors, blocks of 128x128\)",
        ),
        (
            other("fp8", weight_block_size=[128, 128], activation_scheme="dynamic"),
            r"block fp8 \(quant_method fp8, blocks of 128x128\)",
        ),
        (other("fp8", activation_scheme="static"), "fp8 of another method"),
        (
            compressed("pack-quantized", num_bits=4, group_size=128, strategy="group"),
            r"int4 packed \(compressed-tensors, pack-quantized, groups of 128\)",
        ),
        (other("gptq", bits=4, group_size=128), r"GPTQ \(4 bits, groups of 128\)"),
        (other("awq", bits=4, group_size=64), r"AWQ \(4 bits, groups of 64\)"),
        (other("bitsandbytes", load_in_4bit=True), r"bitsandbytes \(4 bits\)"),
        ({"quantization_config": {"load_in_8bit": True}}, r"bitsandbytes \(8 bits\)"),
        (other("mxfp4"), r"MXFP4 \(quant_method mxfp4\)"),
        (other("hqq"), r"an unknown layout \(quant_method 'hqq'\)"),
        (other(None), r"an unknown layout \(quant_method None\)"),
        (compressed("marlin-24"), "compressed-tensors of the format 'marlin-24'"),
        (compressed(symmetric=False), "float-quantized with weights.symmetric False"),
        (compressed(num_bits=4), "float-quantized with weights.num_bits 4"),
        (compressed(type="int"), "float-quantized with weights.type 'int'"),
        (compressed(strategy="group"), "float-quantized with weights.strategy 'group'"),
        (compressed(actorder="group"), "float-quantized with weights.actorder 'group'"),
        (compressed(top={"kv_cache_scheme": {"num_bits": 8}}), "quantised keys and values"),
        (compressed(group={"output_activations": {"num_bits": 8}}), "quantised outputs"),
        (compressed(top={"transform_config": {"config_groups": {}}}), "weights that were rotated"),
        (compressed("naive-quantized", num_bits=4), "naive-quantized with weights.num_bits 4"),
        (compressed("int-quantized", type="float"), "int-quantized with weights.type 'float'"),
        (compressed(top={"sparsity_config": {"format": "sparse-24-bitmask"}}), "sparse weights"),
        (
            compressed(inputs=inputs(strategy="group")),
            "float-quantized with inputs of num_bits 8, type float, strategy group, dynamic True",
        ),
        (compressed(inputs=inputs("int")), "inputs of num_bits 8, type int"),
        (compressed(inputs=inputs(symmetric=False)), "symmetric False"),
        (
            compressed(top={"config_groups": {"a": {"weights": {}}, "b": {"weights": {}}}}),
            "2 config_groups",
        ),
    ],
)
def test_other_layouts_are_refused_by_name_with_what_is_served(config, layout):
    with pytest.raises(Unusable, match=layout) as caught:
        stored_format(config, WHERE)
    text = str(caught.value)
    assert text.startswith("folder/config.json: weights quantised as ") and "\n" not in text
    assert "are not served; served are float32, float16 and bfloat16" in text


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"quantization_config": [1]}, "should be an object"),
        (compressed(top={"config_groups": {}}), "config_groups is missing or empty"),
        (compressed(top={"config_groups": {"g": {"weights": 1}}}), r"config_groups\.g\.weights"),
        (compressed(top={"ignore": "lm_head"}), r"ignore should be a list of names"),
        (compressed(top={"ignore": ["re:("]}), r"ignore has 're:\(', no expression"),
        (compressed(group={"targets": [1]}), r"group_0\.targets should be a list of names"),
        (compressed(inputs=7), "input_activations 7, not an object"),
    ],
)
def test_broken_settings_are_named(config, message):
    with pytest.raises(Unusable, match=rf"^folder/config\.json: .*{message}"):
        stored_format(config, WHERE)


NAME = "model.language_model.layers.3.self_attn.q_proj"


@pytest.mark.parametrize(
    ("entries", "ignored"),
    [
        ([], False),
        (["lm_head"], False),
        ([NAME], True),
        (["self_attn.q_proj"], True),
        (["model.language_model.layers.3"], True),
        (["model.language_model.layers.30"], False),
        (["attn.q_proj"], False),
        (["re:.*q_proj"], True),
        (["re:.*q_proj$"], True),
        (["re:q_proj"], False),
        (["re:.*k_proj", "re:model\\.language_model\\.layers\\.[0-3]\\."], True),
        (["re:model\\.layers\\.3\\."], True),
    ],
)
@pytest.mark.parametrize("key", ["ignore", "modules_to_not_convert"])
def test_modules_left_in_16_bits_are_told_by_name_or_expression(key, entries, ignored):
    found = stored_format(compressed(top={"ignore": [], key: entries}), WHERE)
    assert found is not None
    assert found.covers(NAME, "model.layers.3.self_attn.q_proj") is not ignored


def test_targets_are_every_linear_layer_or_those_named():
    named = stored_format(compressed(group={"targets": ["re:.*mlp.*", NAME]}), WHERE)
    assert named is not None
    assert named.covers("model.layers.0.mlp.up_proj") and named.covers(NAME)
    assert not named.covers("model.layers.0.self_attn.k_proj")
