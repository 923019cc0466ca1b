"""Sizes of a model before its weights are read: those of its tensors."""

import pytest

from spinf_serve.engine.loading.sizes import model_sizes
from spinf_serve.engine.quantization.choose import AttentionSizes
from tests.support.tiny_models import tiny


@pytest.mark.parametrize("name", ["llama_tied", "llama_scaled_untied", "gemma3", "gemma4"])
def test_sizes_are_those_of_the_tensors(name):
    model = tiny(name)
    sizes = model_sizes(model.spec, model.checkpoint)
    state = model.checkpoint.state
    assert sizes.linear_weights + sizes.other_weights == sum(x.numel() for x in state.values())
    linear = [x for key, x in state.items() if key.endswith("_proj.weight")]
    assert sizes.linear_weights == sum(x.numel() for x in linear)
    assert sizes.linear_rows == sum(len(x) for x in linear)
    assert (sizes.hidden, sizes.intermediate) == (model.spec.hidden, model.spec.intermediate)
    for index, layer in enumerate(model.spec.layers):
        prefix = f"model.layers.{index}.self_attn"
        assert sizes.attention[index] == AttentionSizes(
            len(state[f"{prefix}.q_proj.weight"]),
            len(state[f"{prefix}.k_proj.weight"]),
            layer.window,
        )
