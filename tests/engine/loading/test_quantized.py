"""Checkpoints in 8 bits: the values are codes times scales, exactly, and each fault is named."""

import pytest
import torch
from safetensors.torch import load_file

from spinf_serve.engine.kernels.cpu import CpuOps
from spinf_serve.engine.loading.open import open_checkpoint
from spinf_serve.engine.loading.quantized import QuantizedCheckpoint
from spinf_serve.engine.models import registry
from spinf_serve.engine.quantization import fp8
from spinf_serve.engine.quantization.tensor import dequantize
from spinf_serve.packs.errors import Unusable
from tests.support.model_folders import edit_json, save_tiny
from tests.support.passes import Part, make_pass
from tests.support.quantized_folders import WEIGHTS, change, quantize_folder, settings, split
from tests.support.tiny_models import PROMPT, StateCheckpoint

Q = "model.layers.1.self_attn.q_proj"
LAYOUTS = [
    ("fp8", False, "static"),
    ("fp8", True, "token"),
    ("fp8", True, "none"),
    ("int8", True, "token"),
    ("int8", False, "none"),
    ("int8", True, "static"),
]


def opened(folder) -> QuantizedCheckpoint:
    checkpoint = open_checkpoint(str(folder), offline=True).checkpoint
    assert isinstance(checkpoint, QuantizedCheckpoint)
    return checkpoint


def values(checkpoint, name: str, dtype=torch.float32) -> torch.Tensor:
    out = torch.full(checkpoint.shape(name), float("nan"), dtype=dtype)
    checkpoint.read_into(name, out)
    return out


@pytest.mark.parametrize("model", ["llama_scaled_untied", "gemma4"])
@pytest.mark.parametrize(("kind", "by_row", "activations"), LAYOUTS)
def test_every_value_is_its_code_times_its_scale(tmp_path, model, kind, by_row, activations):
    plain = save_tiny(tmp_path, model).checkpoint
    expected = quantize_folder(tmp_path, kind, by_row=by_row, activations=activations)
    split(tmp_path, 3)
    checkpoint = opened(tmp_path)
    assert checkpoint.names() == plain.names() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(values(checkpoint, name), value)
        assert torch.equal(values(checkpoint, name, torch.bfloat16), value.bfloat16())
        raw = checkpoint.read_quantized(name)
        linear = name.endswith("_proj.weight")
        assert (raw is not None) is linear
        if raw is not None:
            rows = checkpoint.shape(name)[0]
            assert raw.scale.shape == ((rows, 1) if by_row else ())
            assert (raw.input_scale is not None) is (activations == "static")
            assert torch.equal(dequantize(raw, torch.float32), value)
            error = (value - plain.state[name]).abs().max()
            assert 0 < error < plain.state[name].abs().max() / 16


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_scales_in_16_bits_are_taken_as_they_are(tmp_path, dtype):
    save_tiny(tmp_path, "llama_tied")
    expected = quantize_folder(tmp_path, scale_dtype=dtype)
    for name, value in expected.items():
        assert torch.equal(values(opened(tmp_path), name), value)


@pytest.mark.parametrize("model", ["llama_tied", "gemma3", "gemma4"])
def test_the_model_is_the_one_with_those_values(tmp_path, model):
    """Every family on the CPU: the same bits as from a checkpoint that holds the products."""
    made = save_tiny(tmp_path, model)
    expected = quantize_folder(tmp_path)
    found = []
    for checkpoint in (opened(tmp_path), StateCheckpoint(expected, tied=made.spec.tied)):
        built = registry.build(made.spec, checkpoint, CpuOps(torch.float32))
        with torch.inference_mode():
            layout = built.layout(make_pass(Part(PROMPT[:9], [PROMPT[9:12]])))
            found.append(built.read(built.forward(layout), layout.column_start, layout.columns))
    assert torch.equal(*found)
    with torch.inference_mode():
        made.reference.load_state_dict(expected, strict=False)
        logits = made.reference(input_ids=torch.tensor([PROMPT[:12]])).logits[0, -1]
    assert (found[0] - torch.log_softmax(logits, -1)[:3]).abs().max() < 2e-5


def test_part_of_a_matrix_and_more_rows_than_a_piece_are_read(tmp_path):
    save_tiny(tmp_path, "llama_tied")
    wide = torch.randn(65, 4099)
    made = fp8.quantize(wide, by_row=True)
    extra = "model.layers.0.extra_proj"
    quantize_folder(tmp_path)
    change(tmp_path, **{f"{extra}.weight": made.values, f"{extra}.weight_scale": made.scale})
    around = torch.full((67, 4100), float("nan"))
    opened(tmp_path).read_into(f"{extra}.weight", around[1:66, 1:])
    assert torch.equal(around[1:66, 1:], dequantize(made, torch.float32))
    assert around[0].isnan().all() and around[66].isnan().all() and around[:, 0].isnan().all()


def test_layers_that_are_left_out_stay_as_they_are(tmp_path):
    plain = save_tiny(tmp_path, "llama_tied").checkpoint
    quantize_folder(
        tmp_path,
        ignored=lambda name: "layers.0." in name or "down_proj" in name,
        ignore=("re:.*down_proj$", "model.layers.0"),
    )
    checkpoint = opened(tmp_path)
    for name in ("model.layers.0.self_attn.q_proj.weight", "model.layers.2.mlp.down_proj.weight"):
        assert checkpoint.read_quantized(name) is None
        assert torch.equal(values(checkpoint, name), plain.state[name])
    assert checkpoint.read_quantized("model.layers.2.mlp.up_proj.weight") is not None


@pytest.mark.parametrize("model", ["gemma4_with_tower", "gemma4_unified_with_media"])
@pytest.mark.parametrize("entry", ["re:model.language_model.*o_proj", "re:model.layers.*o_proj"])
def test_a_text_model_inside_a_larger_one_is_read(tmp_path, model, entry):
    """A file's own names and those of the text model alone may both stand in `ignore`."""
    save_tiny(tmp_path, model)
    found = quantize_folder(
        tmp_path,
        ignored=lambda name: "o_proj" in name or "vision" in name,
        ignore=(entry, "re:.*vision.*"),
    )
    checkpoint = opened(tmp_path)
    text = "model.language_model."
    expected = {name.replace(text, "model."): x for name, x in found.items() if text in name}
    assert checkpoint.names() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(values(checkpoint, name), value)
        assert (checkpoint.read_quantized(name) is None) is (
            "o_proj" in name or not name.endswith("_proj.weight")
        )


def nan_scale(value: float) -> torch.Tensor:
    scale = torch.ones(60, 1)
    scale[7] = value
    return scale


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({f"{Q}.weight_scale": None}, rf"{Q}\.weight is in 8 bits and its weight_scale is missing"),
        ({f"{Q}.weight": None}, rf"{Q}\.weight_scale belongs to no weight in fp8"),
        ({f"{Q}.input_scale": torch.ones(1)}, rf"{Q}\.input_scale belongs to no weight in fp8 \("),
        (
            {f"{Q}.weight": torch.zeros(60, 60)},
            rf"{Q}\.weight has the type F32, but config\.json says fp8: F8_E4M3",
        ),
        (
            {f"{Q}.weight": torch.zeros(60, 60, dtype=torch.int8)},
            rf"{Q}\.weight has the type I8, but config\.json says fp8",
        ),
        (
            {"model.norm.weight": torch.zeros(60).to(fp8.DTYPE)},
            r"model\.norm\.weight has the type F8_E4M3, expected one of F32, F16, BF16",
        ),
        (
            {"model.embed_tokens.weight": torch.zeros(320, 60).to(fp8.DTYPE)},
            r"embed_tokens\.weight has the type F8_E4M3, but config\.json leaves it out of quan",
        ),
        (
            {f"{Q}.weight_scale": torch.ones(1)},
            rf"{Q}\.weight_scale has the shape \(1,\), expected \(60, 1\)",
        ),
        ({f"{Q}.weight_scale": torch.ones(30, 2)}, r"has the shape \(30, 2\), expected"),
        (
            {f"{Q}.weight_scale": torch.ones(60, 1, dtype=torch.int32)},
            rf"{Q}\.weight_scale has the type I32, expected one of F32",
        ),
        ({f"{Q}.weight_scale": nan_scale(float("nan"))}, r"holds 1 scales .* such as nan"),
        ({f"{Q}.weight_scale": nan_scale(0.0)}, rf"{Q}\.weight_scale holds 1 scales .* as 0\.0"),
        ({f"{Q}.weight_scale": nan_scale(-1.0)}, r"no number above zero, such as -1\.0"),
        ({f"{Q}.weight_scale": nan_scale(float("inf"))}, r"no number above zero, such as inf"),
        (
            {f"{Q}.weight_zero_point": torch.ones(60, 1, dtype=torch.int8)},
            rf"{Q}\.weight_zero_point is not zero, but config\.json says that the weights are sym",
        ),
    ],
)
def test_a_fault_is_told_when_the_folder_is_opened(tmp_path, tensors, message):
    save_tiny(tmp_path, "llama_tied")
    quantize_folder(tmp_path)
    change(tmp_path, **tensors)
    with pytest.raises(Unusable, match=message) as x:
        opened(tmp_path)
    assert "\n" not in str(x.value) and str(x.value).startswith(str(tmp_path / WEIGHTS))


def test_a_static_scale_that_is_missing_is_named(tmp_path):
    save_tiny(tmp_path, "llama_tied")
    quantize_folder(tmp_path, by_row=False, activations="static")
    change(tmp_path, **{f"{Q}.input_scale": None})
    with pytest.raises(Unusable, match=rf"{Q}\.weight is in 8 bits and its input_scale is missing"):
        opened(tmp_path)


def test_zero_points_that_are_zero_are_those_of_symmetric_weights(tmp_path):
    save_tiny(tmp_path, "llama_tied")
    expected = quantize_folder(tmp_path, "int8")
    change(tmp_path, **{f"{Q}.weight_zero_point": torch.zeros(60, 1, dtype=torch.int8)})
    assert torch.equal(values(opened(tmp_path), f"{Q}.weight"), expected[f"{Q}.weight"])


def test_a_layer_in_8_bits_that_the_list_leaves_out_is_named(tmp_path):
    save_tiny(tmp_path, "llama_tied")
    quantize_folder(tmp_path, ignore=("model.layers.1",))
    with pytest.raises(
        Unusable, match=r"layers\.1\..*\.weight has the type F8_E4M3, but .* leaves"
    ):
        opened(tmp_path)


def test_a_code_that_is_nan_is_told_when_it_is_read(tmp_path):
    save_tiny(tmp_path, "llama_tied")
    quantize_folder(tmp_path)
    codes = load_file(tmp_path / WEIGHTS)[f"{Q}.weight"]
    codes.view(torch.uint8)[33, 7] = 0xFF
    change(tmp_path, **{f"{Q}.weight": codes})
    checkpoint = opened(tmp_path)
    for read in (
        lambda: values(checkpoint, f"{Q}.weight"),
        lambda: checkpoint.read_quantized(f"{Q}.weight"),
    ):
        with pytest.raises(Unusable, match=rf"safetensors: the tensor {Q}\.weight holds NaN"):
            read()


def test_8_bits_without_an_explanation_are_refused(tmp_path):
    save_tiny(tmp_path, "llama_tied")
    quantize_folder(tmp_path)
    edit_json(tmp_path / "config.json", quantization_config=None)
    with pytest.raises(Unusable, match="has the type F8_E4M3, and config.json has no quantization"):
        opened(tmp_path)


def test_a_layout_that_is_not_served_is_told_before_any_weight_is_looked_at(tmp_path):
    save_tiny(tmp_path, "llama_tied")
    found = settings("fp8", by_row=True, activations="token", ignore=[])
    edit_json(tmp_path / "config.json", quantization_config={**found, "format": "marlin-24"})
    (tmp_path / WEIGHTS).unlink()
    with pytest.raises(Unusable, match="format 'marlin-24' are not served"):
        opened(tmp_path)


def test_names_and_shapes_that_are_not_there_are_refused(tmp_path):
    save_tiny(tmp_path, "llama_tied")
    quantize_folder(tmp_path)
    checkpoint = opened(tmp_path)
    for read in (checkpoint.shape, checkpoint.read_quantized):
        with pytest.raises(Unusable, match="the tensor absent is missing"):
            read("absent")
    with pytest.raises(Unusable, match=r"q_proj\.weight has the shape \(60, 60\), expected \(3,\)"):
        checkpoint.read_into(f"{Q}.weight", torch.empty(3))
