"""Rotary tables: frequencies of each kind, and values that do not depend on how a table grew."""

import math

import pytest
import torch
from transformers import AutoConfig, LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from spinf_serve.engine.models.rope import BLOCK, RopeTable, RopeTables, frequencies
from spinf_serve.engine.models.spec import LayerSpec, Rope

CPU = torch.device("cpu")
KINDS = {
    "default": (Rope("default", 10_000.0), {}),
    "linear": (Rope("linear", 10_000.0, 8.0), {"factor": 8.0}),
    "llama3": (
        Rope("llama3", 500_000.0, 8.0, 1.0, 4.0, 8192),
        {
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_frequencies_are_those_of_transformers(kind):
    rope, own = KINDS[kind]
    config = LlamaConfig(
        hidden_size=128,
        num_attention_heads=2,
        max_position_embeddings=131_072,
        rope_parameters={"rope_type": kind, "rope_theta": rope.theta, **own},
    )
    expected = LlamaRotaryEmbedding(config).inv_freq
    torch.testing.assert_close(frequencies(rope, 64), expected, rtol=3e-7, atol=0)


@pytest.mark.parametrize(
    ("size", "moving", "factor"), [(512, 0.25, 1.0), (24, 0.4, 8.0), (32, 1.0, 1.0)]
)
def test_proportional_frequencies_are_those_of_transformers(size, moving, factor):
    table = {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": moving}
    config = AutoConfig.for_model(
        "gemma4_text",
        num_hidden_layers=1,
        global_head_dim=size,
        rope_parameters={"full_attention": {**table, "factor": factor}},
    )
    make = ROPE_INIT_FUNCTIONS["proportional"]
    expected, _ = make(
        config.per_layer_config["full_attention"], "cpu", layer_type="full_attention"
    )
    found = frequencies(Rope("proportional", 1e6, factor=factor, moving=moving), size)
    assert int((found > 0).sum()) == int(moving * size // 2)
    torch.testing.assert_close(found, expected, rtol=3e-7, atol=0)


def test_layers_of_one_embedding_and_other_heads_have_their_own_tables():
    rope = KINDS["default"][0]
    layers = [LayerSpec(None, rope, 1, size) for size in (64, 24, 64)]
    first, second, third = RopeTables(layers, CPU).rows(torch.arange(9), 9)
    for found, size in ((first, 64), (second, 24), (third, 64)):
        for one, expected in zip(
            found, RopeTable(rope, size, CPU).rows(torch.arange(9), 9), strict=True
        ):
            assert torch.equal(one, expected)


def test_far_positions_are_exact():
    rope, positions = KINDS["default"][0], torch.tensor([0, 1, 8191, 30_000])
    cos, sin = RopeTable(rope, 64, CPU).rows(positions, 30_001)
    for row, position in enumerate(positions.tolist()):
        for pair, frequency in enumerate(frequencies(rope, 64).double().tolist()):
            assert float(cos[row, pair]) == pytest.approx(math.cos(position * frequency), abs=6e-8)
            assert float(sin[row, pair]) == pytest.approx(math.sin(position * frequency), abs=6e-8)


def test_growing_a_table_changes_nothing():
    rope, positions = KINDS["llama3"][0], torch.arange(BLOCK)
    grown = RopeTable(rope, 24, CPU)
    early = grown.rows(positions, BLOCK)
    late = grown.rows(positions, 5 * BLOCK + 1)
    at_once = RopeTable(rope, 24, CPU).rows(positions, 5 * BLOCK + 1)
    for a, b, c in zip(early, late, at_once, strict=True):
        assert torch.equal(a, b) and torch.equal(a, c)
