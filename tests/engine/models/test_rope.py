"""Rotary tables: frequencies of each kind, and values that do not depend on how a table grew."""

import math

import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from spinf_serve.engine.models.rope import BLOCK, RopeTable, frequencies
from spinf_serve.engine.models.spec import Rope

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
