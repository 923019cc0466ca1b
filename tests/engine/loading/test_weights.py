"""Safetensors folders: the tensors are those that were saved, and every fault names its file."""

import json
import struct

import pytest
import torch
from safetensors.torch import load_file, save_file

from spinf_serve.engine.loading.checkpoint import FileCheckpoint
from spinf_serve.engine.loading.weights import checkpoint_from_folder, weight_files
from spinf_serve.packs.errors import Unusable
from tests.support.model_folders import edit_json, save_tiny


def values(checkpoint: FileCheckpoint, name: str, dtype=torch.float32) -> torch.Tensor:
    out = torch.full(checkpoint.shape(name), float("nan"), dtype=dtype)
    checkpoint.read_into(name, out)
    return out


@pytest.mark.parametrize("name", ["llama_tied", "llama_scaled_untied", "gemma3"])
@pytest.mark.parametrize("shard", ["5GB", "60KB"])
def test_every_tensor_is_the_one_that_was_saved(tmp_path, name, shard):
    model = save_tiny(tmp_path, name, shard=shard)
    assert (len(weight_files(tmp_path)) > 1) is (shard == "60KB")
    checkpoint = checkpoint_from_folder(tmp_path, tied=model.spec.tied)
    assert checkpoint.names() == model.checkpoint.names()
    for tensor in checkpoint.names():
        assert torch.equal(values(checkpoint, tensor), model.checkpoint.state[tensor])


@pytest.mark.parametrize("stored", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("wanted", [torch.float32, torch.bfloat16])
def test_each_float_type_is_read_and_rounded_once(tmp_path, stored, wanted):
    tensors = {"a": torch.randn(3, 40_000).to(stored), "b.bias": torch.randn(7).to(stored)}
    save_file(tensors, tmp_path / "model.safetensors")
    checkpoint = checkpoint_from_folder(tmp_path, tied=False)
    for name, tensor in tensors.items():
        assert torch.equal(values(checkpoint, name, wanted), tensor.float().to(wanted))


def test_a_text_model_inside_a_larger_one_has_its_plain_names(tmp_path):
    one = torch.ones(2)
    for old in (True, False):
        prefix = "language_model.model." if old else "model.language_model."
        other = "" if old else "model."
        save_file(
            {
                f"{prefix}embed_tokens.weight": one,
                f"{prefix}layers.0.self_attn.rotary_emb.inv_freq": one.clone(),
                f"{other}vision_tower.encoder.weight": one.clone(),
                f"{other}multi_modal_projector.weight": one.clone(),
                "model.vision_embedder.patch_dense.weight": one.clone(),
                "model.embed_vision.embedding_projection.weight": one.clone(),
                "model.embed_audio.embedding_projection.weight": one.clone(),
                "language_model.lm_head.weight" if old else "lm_head.weight": one.clone(),
            },
            tmp_path / "model.safetensors",
        )
        tied = checkpoint_from_folder(tmp_path, tied=True).names()
        assert tied == {"model.embed_tokens.weight"}
        loose = checkpoint_from_folder(tmp_path, tied=False).names()
        assert loose == {"model.embed_tokens.weight", "lm_head.weight"}


def test_two_tensors_for_one_name_are_refused(tmp_path):
    names = ("model.norm.weight", "language_model.model.norm.weight")
    save_file({name: torch.ones(2) for name in names}, tmp_path / "model.safetensors")
    with pytest.raises(Unusable, match=r"two tensors both stand for model\.norm\.weight"):
        checkpoint_from_folder(tmp_path, tied=True)


def test_missing_tensors_and_wrong_shapes_are_named(tmp_path):
    save_file({"a": torch.ones(2)}, tmp_path / "model.safetensors")
    checkpoint = checkpoint_from_folder(tmp_path, tied=False)
    with pytest.raises(Unusable, match="the tensor b is missing"):
        checkpoint.shape("b")
    with pytest.raises(
        Unusable, match=r"model\.safetensors: the tensor a has the shape \(2,\), expected \(3,\)"
    ):
        checkpoint.read_into("a", torch.empty(3))


def test_a_folder_without_weights_is_named(tmp_path):
    with pytest.raises(Unusable, match=r"no weights, neither model\.safetensors nor"):
        weight_files(tmp_path)


def test_an_index_that_does_not_fit_its_files_is_named(tmp_path):
    save_tiny(tmp_path, "llama_tied", shard="60KB")
    index_path = tmp_path / "model.safetensors.index.json"
    index = json.loads(index_path.read_text())["weight_map"]
    first, other = "model.norm.weight", "model.layers.0.mlp.up_proj.weight"
    cases = [
        ({**index, "model.extra.weight": index[first]}, r"should hold the tensor model\.extra"),
        ({**index, first: index[other]}, r"should hold the tensor model\.norm\.weight and does"),
        ({key: name for key, name in index.items() if key != first}, r"does not list model\.norm"),
        ({**index, first: "absent.safetensors"}, r"names absent\.safetensors, which is missing"),
        ({**index, first: "../model.safetensors"}, "not a file name"),
        ({**index, first: 7}, "not a file name"),
        ({}, "weight_map is missing or empty"),
    ]
    for changed, message in cases:
        edit_json(index_path, weight_map=changed)
        with pytest.raises(Unusable, match=message):
            checkpoint_from_folder(tmp_path, tied=True)


def test_two_files_with_one_tensor_are_refused(tmp_path):
    save_tiny(tmp_path, "llama_tied", shard="60KB")
    first, second = weight_files(tmp_path)[:2]
    save_file(load_file(first) | load_file(second), second)
    with pytest.raises(Unusable, match="two files hold the tensor") as caught:
        checkpoint_from_folder(tmp_path, tied=True)
    assert f", {first.name} and {second.name}; " in str(caught.value)


def test_the_order_is_that_of_the_bytes(tmp_path):
    save_tiny(tmp_path, "llama_tied", shard="60KB")
    checkpoint = checkpoint_from_folder(tmp_path, tied=True)
    order = checkpoint.order()
    assert frozenset(order) == checkpoint.names() and len(order) == len(checkpoint.names())
    places = [(checkpoint.stored(name).path, checkpoint.stored(name).entry.start) for name in order]
    assert places == sorted(places) and len(set(places)) == len(places)
    assert list(order) != sorted(order)


def test_the_order_within_a_file_is_not_that_of_the_names(tmp_path):
    # Wider types come first in a file.
    save_file({"a": torch.ones(2).half(), "b": torch.ones(2)}, tmp_path / "model.safetensors")
    assert checkpoint_from_folder(tmp_path, tied=False).order() == ("b", "a")


@pytest.mark.parametrize("length", [0, 5, 8, 60, -1])
def test_a_file_that_is_cut_short_is_named(tmp_path, length):
    path = tmp_path / "model.safetensors"
    save_file({"a": torch.ones(50)}, path)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(Unusable, match=r"model\.safetensors: .*cut short"):
        checkpoint_from_folder(tmp_path, tied=False)


def header(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def row(name: str, start: int, end: int) -> bytes:
    """A table that holds one float32, without its last brace."""
    return b'{"%b": {"dtype": "F32", "shape": [1], "data_offsets": [%d, %d]}' % (
        name.encode(),
        start,
        end,
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (header(b"no json"), "its header is not JSON"),
        (header(b"[1]"), "its header is not an object"),
        (header(b'{"a": {"dtype": "F32"}}'), "row of the tensor a is broken"),
        (
            header(b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}') + bytes(8),
            "the tensor a takes 4 bytes, expected 8",
        ),
        (
            header(b'{"a": {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [0, 4]}}') + bytes(4),
            "the tensor a has the type F8_E4M3, and config.json has no quantization_config",
        ),
        (
            header(b'{"a": {"dtype": "F4", "shape": [4], "data_offsets": [0, 4]}}') + bytes(4),
            r"the tensor a has the type F4, which is not supported \(supported are F32, F16, BF16\)",
        ),
        (header(row("a", 0, 4) + b"}") + bytes(8), "4 bytes behind its last tensor"),
        (
            header(row("a", 0, 4) + b", " + row("b", 2, 6)[1:] + b"}") + bytes(6),
            "the tensor b overlaps the one before it",
        ),
        (
            header(row("a", 0, 4) + b", " + row("b", 6, 10)[1:] + b"}") + bytes(10),
            "the tensor b comes after a gap",
        ),
        (
            header(row("a", 0, 4) + b", " + row("a", 4, 8)[1:] + b"}") + bytes(8),
            "its table lists a twice",
        ),
        (struct.pack("<Q", 2**60) + bytes(100), "not a safetensors file, or cut short"),
    ],
)
def test_a_broken_file_is_named_with_what_is_wrong(tmp_path, content, message):
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(Unusable, match=message) as caught:
        checkpoint_from_folder(tmp_path, tied=False)
    assert "\n" not in str(caught.value)
