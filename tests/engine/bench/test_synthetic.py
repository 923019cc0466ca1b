"""Synthetic weights: the same bits everywhere, of the shape and spread that a model needs."""

import hashlib

import pytest
import torch

from spinf_serve.engine.bench.synthetic import (
    AMPLITUDE,
    SyntheticCheckpoint,
    SyntheticScheme,
    parameters,
)
from spinf_serve.engine.bench.synthetic_models import SYNTHETIC_MODELS, synthetic_spec
from spinf_serve.engine.kernels.cpu import CpuOps
from spinf_serve.engine.models.registry import build
from spinf_serve.packs.errors import Unusable

CPU = torch.device("cpu")
TINY = SYNTHETIC_MODELS["gemma-4-tiny"]
DOWN = "model.layers.1.mlp.down_proj.weight"


def checkpoint(scheme: SyntheticScheme, seed: int = 0) -> SyntheticCheckpoint:
    return SyntheticCheckpoint(TINY, scheme, CPU, seed)


def values(source: SyntheticCheckpoint, name: str) -> torch.Tensor:
    out = torch.empty(source.shape(name))
    source.read_into(name, out)
    return out


@pytest.mark.parametrize(
    ("name", "published", "layers"),
    [("gemma-4-12b", 11_907_350_272, 48), ("gemma-4-31b", 30_697_345_280, 60)],
)
def test_sizes_are_the_published_ones(name: str, published: int, layers: int) -> None:
    # Published without the layers' scalars.
    assert parameters(synthetic_spec(name)) == published + layers


def test_an_unknown_model_is_refused_by_name() -> None:
    with pytest.raises(Unusable, match="gemma-5 is no known model; the known ones are gemma-4-12b"):
        synthetic_spec("gemma-5")


def test_the_bits_are_those_of_every_other_machine() -> None:
    source = checkpoint("static")
    quantized = source.read_quantized(DOWN)
    assert quantized is not None
    codes = quantized.values.view(torch.uint8).numpy().tobytes()
    embedding = values(source, "model.embed_tokens.weight").to(torch.bfloat16)
    bits = embedding.view(torch.int16).numpy().tobytes()
    assert hashlib.sha256(codes).hexdigest()[:16] == "035da7543a902aba"
    assert hashlib.sha256(bits).hexdigest()[:16] == "412edb1450a48f92"


def test_numbers_do_not_depend_on_the_pieces_they_are_made_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = values(checkpoint("bf16"), "model.embed_tokens.weight")
    monkeypatch.setattr("spinf_serve.engine.bench.synthetic._PIECE", 1000)
    assert torch.equal(values(checkpoint("bf16"), "model.embed_tokens.weight"), whole)


@pytest.mark.parametrize("scheme", ["static", "rows", "int8", "bf16"])
def test_weights_have_the_stated_spread_and_no_pattern(scheme: SyntheticScheme) -> None:
    weight = values(checkpoint(scheme), "model.embed_tokens.weight").flatten()
    linear = values(checkpoint(scheme), DOWN).flatten()
    for found in (weight, linear):
        size = len(found) ** 0.5
        # Four deviations of what a sample of this size shows; a row's scale adds an eighth at most.
        assert abs(found.mean().item()) < 4 * AMPLITUDE / 6**0.5 / size
        assert found.std().item() == pytest.approx(AMPLITUDE / 6**0.5, rel=0.05)
        assert found.abs().max().item() <= AMPLITUDE * 1.125
        for lag in (1, 2, 64):
            correlation = (found[:-lag] * found[lag:]).mean().item() / found.var().item()
            assert abs(correlation) < 4 / size


def test_tensors_and_seeds_differ() -> None:
    gate = values(checkpoint("bf16"), "model.layers.0.mlp.gate_proj.weight")
    up = values(checkpoint("bf16"), "model.layers.0.mlp.up_proj.weight")
    other = values(checkpoint("bf16", seed=1), "model.layers.0.mlp.gate_proj.weight")
    for one in (up, other):
        assert (one == gate).float().mean() < 0.01
    assert checkpoint("bf16").digest != checkpoint("bf16", seed=1).digest


@pytest.mark.parametrize("scheme", ["static", "rows", "int8"])
def test_codes_times_scales_are_the_values(scheme: SyntheticScheme) -> None:
    source = checkpoint(scheme)
    quantized = source.read_quantized(DOWN)
    assert quantized is not None
    assert torch.equal(quantized.values.float() * quantized.scale, values(source, DOWN))
    assert quantized.scale.shape == (() if scheme == "static" else (TINY.hidden, 1))
    assert (quantized.input_scale is not None) == (scheme == "static")
    if scheme != "static":
        assert len(quantized.scale.unique()) > TINY.hidden // 2


def test_only_linear_layers_are_in_8_bits() -> None:
    source = checkpoint("static")
    coded = {name for name in source.names() if source.read_quantized(name) is not None}
    assert coded == {name for name in source.names() if "_proj." in name}
    assert not any(checkpoint("bf16").read_quantized(name) for name in source.names())


def test_a_wrong_name_or_shape_is_refused() -> None:
    with pytest.raises(Unusable, match="no tensor model.head"):
        checkpoint("static").shape("model.head")
    with pytest.raises(Unusable, match=r"is \[64, 64\], not \[64, 63\]"):
        checkpoint("static").read_into(DOWN, torch.empty(64, 63))


def test_the_family_reads_every_tensor() -> None:
    # Raises for a tensor that is missing or left over.
    build(TINY, checkpoint("bf16"), CpuOps(torch.float32))
