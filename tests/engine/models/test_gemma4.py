"""Gemma 4 from folders as they are published, against transformers; and tests of the tests: what is
easily got wrong in this family must break the parity. What it shares with others: test_parity."""

import dataclasses
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from spinf_serve.engine.kernels.cpu import CpuOps
from spinf_serve.engine.loading.config_json import spec_from_config
from spinf_serve.engine.loading.open import open_checkpoint
from spinf_serve.engine.models import registry
from spinf_serve.engine.models.families import FAMILIES
from spinf_serve.engine.models.spec import Checkpoint, LayerSpec, ModelSpec, Rope
from spinf_serve.packs.errors import Unusable
from tests.support.model_folders import save_tiny
from tests.support.passes import Part, make_pass
from tests.support.tiny_models import PROMPT, TINY, StateCheckpoint, TinyModel, fill, tiny

TOLERANCE = 2e-5
PREFIX = PROMPT[:20]
BRANCHES = sorted(
    [(37 * n * n + 11 * i * i + 5 * i) % 317 + 3 for i in range(n)] for n in (6, 3, 9, 1, 12)
)
SPEC = TINY["gemma4"][0]


@cache
def _tiny() -> TinyModel:
    return tiny("gemma4")


def _reference(model: Any) -> torch.Tensor:
    """[branches, V] log-probabilities of prefix + branch alone in transformers."""
    with torch.inference_mode():
        logits = [model(input_ids=torch.tensor([PREFIX + b])).logits[0, -1] for b in BRANCHES]
    return torch.log_softmax(torch.stack(logits), -1)


@cache
def _expected() -> torch.Tensor:
    return _reference(_tiny().reference)


def _packed(spec: ModelSpec, checkpoint: Checkpoint) -> torch.Tensor:
    """[branches, V] log-probabilities of all the branches in one pass of ours."""
    model = registry.build(spec, checkpoint, CpuOps(torch.float32))
    with torch.inference_mode():
        layout = model.layout(make_pass(Part(PREFIX, BRANCHES), columns=range(spec.vocab)))
        found = model.read(model.forward(layout), layout.column_start, layout.columns)
    return found.view(-1, spec.vocab)


def _error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).abs().max())


def _off(spec: ModelSpec = SPEC, checkpoint: StateCheckpoint | None = None) -> float:
    """How far off a model is that should be wrong."""
    return _error(_packed(spec, checkpoint or _tiny().checkpoint), _expected())


@pytest.mark.parametrize(
    ("name", "shard", "left_out"),
    [
        ("gemma4", "5GB", None),
        ("gemma4_unified", "60KB", None),
        ("gemma4_with_tower", "60KB", "31 tensors (model.embed_vision, model.vision_tower)"),
        (
            "gemma4_unified_with_media",
            "5GB",
            "11 tensors (model.embed_audio, model.embed_vision, model.vision_embedder)",
        ),
    ],
)
def test_a_saved_folder_equals_transformers(name, shard, left_out, tmp_path):
    made = save_tiny(tmp_path, name, shard=shard)
    said: list[str] = []
    opened = open_checkpoint(str(tmp_path), offline=True, say=said.append)
    assert said == ([] if left_out is None else [f"only text is read: left out {left_out}"])
    assert opened.spec == dataclasses.replace(SPEC, bos_id=2)
    names = opened.checkpoint.names()
    assert {x.split(".")[1] for x in names} == {"embed_tokens", "layers", "norm"}
    found = _packed(opened.spec, opened.checkpoint)
    assert _error(found, _reference(made.reference)) <= TOLERANCE
    model = registry.build(opened.spec, opened.checkpoint, CpuOps(torch.float32))
    with torch.inference_mode():
        layout = model.layout(make_pass(Part((), [PROMPT]), columns=range(320)))
        logprobs = model.read(model.forward(layout), layout.column_start, layout.columns)
        logits = made.reference(input_ids=torch.tensor([PROMPT])).logits[0, -1]
    golden = torch.tensor(made.golden)
    assert logits[:8].tolist() == pytest.approx(made.golden, abs=TOLERANCE)
    # Logits less their log-sum-exp: differences of the golden ones hold without it.
    assert _error(logprobs[:8] - logprobs[0], golden - golden[0]) <= 2 * TOLERANCE


@pytest.mark.parametrize(
    ("heads", "changes"),
    [
        ((8, 4, 2), {}),
        ((8, 4, 2), {"attention_k_eq_v": False}),
        ((6, 3, 6), {"attention_bias": True}),
        ((4, 2, 1), {"sliding_window": 16, "final_logit_softcapping": None}),
    ],
)
def test_other_heads_and_settings_equal_transformers(heads, changes):
    count, sliding, full = heads
    config = AutoConfig.for_model(
        **{
            **_tiny().reference.config.to_dict(),
            "num_attention_heads": count,
            "num_key_value_heads": sliding,
            "num_global_key_value_heads": full,
            "global_head_dim": 24,
            "per_layer_config": {
                i: {"head_dim": 24}
                | ({"num_key_value_heads": full} if changes.get("attention_k_eq_v", True) else {})
                for i in (2, 5)
            },
            **changes,
        }
    )
    made = AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        fill(made.state_dict(), centred_norms=False)
    made.tie_weights()
    spec = spec_from_config(config.to_dict(), Path("config.json"), None)
    assert spec.layers[2].k_is_v is changes.get("attention_k_eq_v", True)
    found = _packed(spec, StateCheckpoint(made.state_dict(), tied=True))
    assert _error(found, _reference(made)) <= TOLERANCE


def _layers(sliding: dict[str, Any], full: dict[str, Any]) -> ModelSpec:
    """The spec with changes in its windowed and in its full layers."""

    def changed(layer: LayerSpec) -> LayerSpec:
        return dataclasses.replace(layer, **(full if layer.window is None else sliding))

    return dataclasses.replace(SPEC, layers=tuple(map(changed, SPEC.layers)))


FULL = SPEC.layers[2].rope


@pytest.mark.parametrize(
    "wrong",
    [
        _layers({"rope": Rope("default", 20_000.0)}, {}),
        _layers({"rope": Rope("proportional", 10_000.0, moving=0.25)}, {}),
        _layers({}, {"rope": dataclasses.replace(FULL, theta=900_000.0)}),
        _layers({}, {"rope": dataclasses.replace(FULL, moving=0.5)}),
        _layers({}, {"rope": dataclasses.replace(FULL, factor=2.0)}),
        _layers({}, {"rope": Rope("default", 1_000_000.0)}),
        # Exponents over the moving dimensions only, as in ordinary partial embeddings.
        _layers({}, {"rope": dataclasses.replace(FULL, theta=1_000_000.0**4)}),
        _layers({"window": 7}, {}),
        _layers({"window": 9}, {}),
        _layers({"window": None}, {}),
        _layers({}, {"window": 8}),
        dataclasses.replace(SPEC, attention_scale=16**-0.5),
        dataclasses.replace(SPEC, attention_scale=32**-0.5),
        dataclasses.replace(SPEC, logit_soft_cap=None),
        dataclasses.replace(SPEC, logit_soft_cap=29.0),
    ],
)
def test_a_wrong_constant_breaks_parity(wrong):
    assert _off(wrong) > 1e-3


@pytest.mark.parametrize(
    "change",
    [{"norm_offset": 1.0}, {"value_norms": False}, {"embedding_scaled": False}],
)
def test_a_wrong_rule_breaks_parity(change, monkeypatch):
    family = dataclasses.replace(FAMILIES["gemma4"], **change)
    monkeypatch.setattr(registry, "FAMILIES", {"gemma4": family})
    assert _off() > 1e-2


def test_layers_that_are_not_scaled_break_parity():
    checkpoint = _tiny().checkpoint
    for index in range(len(SPEC.layers)):
        checkpoint.state[f"model.layers.{index}.layer_scalar"] = torch.ones(1)
    assert _off(checkpoint=checkpoint) > 1e-2


def test_a_family_without_layer_scalars_does_not_take_them(monkeypatch):
    family = dataclasses.replace(FAMILIES["gemma4"], layer_scalars=False)
    monkeypatch.setattr(registry, "FAMILIES", {"gemma4": family})
    with pytest.raises(Unusable, match=r"6 tensors .* model\.layers\.0\.layer_scalar"):
        _off()


def test_values_that_are_rotated_keys_break_parity(monkeypatch):
    plain = CpuOps.attention

    def of_keys(self, layout, layer, q, k, v, **how):
        return plain(self, layout, layer, q, k, k if how["window"] is None else v, **how)

    monkeypatch.setattr(CpuOps, "attention", of_keys)
    assert _off() > 1e-2


def test_values_that_are_normed_keys_break_parity(monkeypatch):
    """Values of full layers from keys behind the norm with the keys' weight, before the rotation."""
    plain = CpuOps.rms_norm
    weights: list[torch.Tensor | None] = []

    def of_keys(self, x, weight, eps, **how):
        if weight is None and x.shape[-1] == SPEC.layers[2].head_dim:
            x = plain(self, x, weights[-1], eps, **how)
        weights.append(weight)
        return plain(self, x, weight, eps, **how)

    monkeypatch.setattr(CpuOps, "rms_norm", of_keys)
    assert _off() > 1e-2


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (_layers({}, {"kv_heads": 2}), r"layers\.2\.self_attn\.k_proj\.weight"),
        (_layers({}, {"head_dim": 16}), r"layers\.2\.self_attn\.q_norm\.weight"),
        (_layers({}, {"k_is_v": False}), r"layers\.2\.self_attn\.v_proj\.weight"),
        (_layers({"k_is_v": True}, {}), r"4 tensors .*layers\.0\.self_attn\.v_proj\.weight"),
    ],
)
def test_heads_that_are_not_those_of_the_weights_are_named(wrong, named):
    with pytest.raises(Unusable, match=named):
        _off(wrong)
