"""What a model is built from is checked: family, spec and exactly the tensors of such a model."""

import dataclasses

import pytest
import torch

from spinf_serve.engine.kernels.cpu import CpuOps
from spinf_serve.engine.models import registry
from spinf_serve.packs.errors import Unusable
from tests.support.tiny_models import TINY, random_checkpoint

LLAMA, UNTIED, GEMMA = (TINY[x][0] for x in ("llama_tied", "llama_scaled_untied", "gemma3"))


def _build(spec, checkpoint=None, dtype=torch.float32):
    return registry.build(spec, checkpoint or random_checkpoint(spec), CpuOps(dtype))


def test_an_unknown_family_is_refused_by_name():
    spec = dataclasses.replace(LLAMA, family="mamba")
    with pytest.raises(
        Unusable, match="'mamba' is not served; known families: gemma3, gemma4, llama"
    ):
        _build(spec, random_checkpoint(LLAMA))


def test_heads_of_any_layer_are_checked():
    *rest, last = LLAMA.layers
    layers = (*rest, dataclasses.replace(last, kv_heads=3))
    with pytest.raises(Unusable, match="5 query heads over 3 key/value heads"):
        _build(dataclasses.replace(LLAMA, layers=layers))


def test_biases_that_a_family_lacks_are_refused():
    with pytest.raises(Unusable, match="gemma3 family .* biases in the MLP"):
        _build(dataclasses.replace(GEMMA, mlp_bias=True))


def test_query_heads_that_do_not_share_evenly_are_refused():
    with pytest.raises(Unusable, match="7 query heads over 2 key/value heads"):
        _build(dataclasses.replace(UNTIED, heads=7))


def test_a_missing_tensor_is_named():
    checkpoint = random_checkpoint(LLAMA)
    del checkpoint.state["model.layers.1.mlp.up_proj.weight"]
    with pytest.raises(Unusable, match="model.layers.1.mlp.up_proj.weight"):
        _build(LLAMA, checkpoint)


def test_a_tensor_of_another_shape_is_named():
    checkpoint = random_checkpoint(LLAMA)
    checkpoint.state["model.norm.weight"] = torch.zeros(61)
    with pytest.raises(Unusable, match="model.norm.weight"):
        _build(LLAMA, checkpoint)


def test_a_tensor_that_would_be_ignored_is_named():
    checkpoint = random_checkpoint(LLAMA)
    checkpoint.state["model.layers.0.self_attn.q_proj.bias"] = torch.zeros(60)
    with pytest.raises(Unusable, match="1 tensors .* model.layers.0.self_attn.q_proj.bias"):
        _build(LLAMA, checkpoint)


def test_a_head_beside_a_tied_table_is_skipped():
    checkpoint = random_checkpoint(LLAMA)
    checkpoint.state["lm_head.weight"] = checkpoint.state["model.embed_tokens.weight"]
    _build(LLAMA, checkpoint)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_weights_are_held_once(dtype):
    """Every element of the checkpoint is in the model once, in its dtype, and nothing else is."""
    spec = UNTIED
    checkpoint = random_checkpoint(spec)
    asked = []
    real = torch.empty

    def counting(*shape, **how):
        asked.append(real(*shape, **how))
        return asked[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "empty", counting)
        _build(spec, checkpoint, dtype)
    weights = [x for x in asked if x.dtype == dtype and x.numel()]
    assert sum(x.numel() for x in weights) == sum(x.numel() for x in checkpoint.state.values())
