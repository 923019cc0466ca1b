"""Weights rounded to 8 bits while they are read: as if the whole matrix had been rounded at once."""

import pytest
import torch
from safetensors.torch import save_file
from tokenizers.pre_tokenizers import ByteLevel

from spinf_serve.engine.loading.gguf import read_gguf
from spinf_serve.engine.loading.gguf_checkpoint import checkpoint_from_gguf
from spinf_serve.engine.loading.quantizing import QuantizingCheckpoint, is_linear
from spinf_serve.engine.loading.weights import checkpoint_from_folder
from spinf_serve.engine.quantization import fp8, int8
from spinf_serve.packs.errors import Unusable
from tests.support.gguf_files import learned_byte_level, write_model
from tests.support.tiny_models import tiny

CODERS = {"fp8": fp8, "int8": int8}
Q = "model.layers.0.self_attn.q_proj.weight"


def plain(folder, tensors):
    save_file(tensors, folder / "model.safetensors")
    return checkpoint_from_folder(folder, tied=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("by_row", [True, False])
@pytest.mark.parametrize("kind", ["fp8", "int8"])
def test_pieces_make_the_same_codes_as_the_whole(tmp_path, kind, by_row, dtype):
    # One row is more than a piece, several rows are one, and a last piece is shorter.
    shapes = [(3, 600_001), (1100, 1000), (1, 1), (64, 64)]
    tensors = {
        f"model.layers.{number}.mlp.up_proj.weight": (torch.randn(shape) * 3).to(dtype)
        for number, shape in enumerate(shapes)
    }
    tensors["model.layers.3.mlp.up_proj.weight"][5] = 0
    checkpoint = QuantizingCheckpoint(plain(tmp_path, tensors), kind, by_row=by_row)
    for name, tensor in tensors.items():
        found, whole = checkpoint.read_quantized(name), CODERS[kind].quantize(tensor, by_row=by_row)
        assert found is not None and found.values.dtype == whole.values.dtype
        assert torch.equal(found.scale, whole.scale) and found.scale.shape == whole.scale.shape
        assert torch.equal(found.values.view(torch.uint8), whole.values.view(torch.uint8))
        unrounded = torch.full(tensor.shape, float("nan"))
        checkpoint.read_into(name, unrounded)
        assert torch.equal(unrounded, tensor.float())


def test_only_linear_layers_inside_the_decoder_are_rounded(tmp_path):
    one = torch.ones(2, 2)
    tensors = {
        name: one.clone()
        for name in (Q, "model.embed_tokens.weight", "lm_head.weight", "model.layers.0.x.weight")
    }
    tensors |= {name: torch.ones(2) for name in ("model.norm.weight", Q.replace("weight", "bias"))}
    checkpoint = QuantizingCheckpoint(plain(tmp_path, tensors), "fp8", by_row=True)
    assert checkpoint.names() == tensors.keys()
    assert {name for name in tensors if checkpoint.read_quantized(name) is not None} == {Q}
    assert not is_linear("model.layers.0.odd_proj.weight", (3,))


@pytest.mark.parametrize("kind", ["fp8", "int8"])
def test_the_rows_of_a_gguf_file_come_in_the_order_of_the_model(tmp_path, kind):
    model = tiny("llama_scaled_untied")
    vocabulary = learned_byte_level([ByteLevel(add_prefix_space=False)], size=318)
    path = write_model(
        tmp_path / "a.gguf", model.spec, model.checkpoint.state, vocabulary, pre="gpt-2"
    )
    checkpoint = QuantizingCheckpoint(checkpoint_from_gguf(read_gguf(path)), kind, by_row=True)
    for name in checkpoint.names():
        found = checkpoint.read_quantized(name)
        assert (found is not None) is name.endswith("_proj.weight")
        if found is not None:
            whole = CODERS[kind].quantize(model.checkpoint.state[name], by_row=True)
            assert torch.equal(found.scale, whole.scale)
            assert torch.equal(found.values.view(torch.uint8), whole.values.view(torch.uint8))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("by_row", [True, False])
def test_a_weight_that_is_not_finite_is_named(tmp_path, by_row, bad):
    weight = torch.ones(70, 1000)
    weight[69, 999] = bad
    checkpoint = QuantizingCheckpoint(plain(tmp_path, {Q: weight}), "fp8", by_row=by_row)
    with pytest.raises(
        Unusable, match=rf"model\.safetensors: the tensor {Q} holds values .* finite"
    ):
        checkpoint.read_quantized(Q)


def test_a_file_that_became_shorter_is_named(tmp_path):
    checkpoint = QuantizingCheckpoint(
        plain(tmp_path, {Q: torch.ones(70, 1000)}), "fp8", by_row=True
    )
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Unusable, match=rf"model\.safetensors: .*cut short while {Q} was read"):
        checkpoint.read_quantized(Q)
