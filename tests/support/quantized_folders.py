"""Model folders in 8 bits as they are published: codes, scales, and what config.json says of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from spinf_serve.engine.quantization import fp8, int8
from spinf_serve.engine.quantization.tensor import Kind, dequantize
from tests.support.model_folders import edit_json

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"


def settings(kind: Kind, *, by_row: bool, activations: str, ignore: list[str]) -> dict[str, Any]:
    """The quantization_config that says how `quantize_folder` wrote."""
    number = {"fp8": "float", "int8": "int"}[kind]
    inputs: dict[str, Any] | None = {"num_bits": 8, "type": number, "symmetric": True}
    if activations == "none":
        inputs = None
    elif inputs is not None:
        dynamic = activations == "token"
        inputs |= {"dynamic": dynamic, "strategy": "token" if dynamic else "tensor"}
    weights = {"num_bits": 8, "type": number, "symmetric": True, "dynamic": False}
    weights["strategy"] = "channel" if by_row else "tensor"
    return {
        "quant_method": "compressed-tensors",
        "format": f"{number}-quantized",
        "ignore": ignore,
        "config_groups": {
            "group_0": {"targets": ["Linear"], "weights": weights, "input_activations": inputs}
        },
    }


def quantize_folder(
    folder: Path,
    kind: Kind = "fp8",
    *,
    by_row: bool = True,
    activations: str = "token",
    ignored: Callable[[str], bool] = lambda name: name.startswith("lm_head"),
    ignore: tuple[str, ...] = ("lm_head",),
    scale_dtype: torch.dtype = torch.float32,
) -> dict[str, torch.Tensor]:
    """Put the linear layers of a folder with one file into 8 bits; the values, by name, float32.

    `ignored` says which weights stay as they are, `ignore` what config.json says of that.
    """
    coder = {"fp8": fp8, "int8": int8}[kind]
    written: dict[str, torch.Tensor] = {}
    values: dict[str, torch.Tensor] = {}
    for name, tensor in load_file(folder / WEIGHTS).items():
        linear = tensor.ndim == 2 and "embed" not in name and not ignored(name)
        if not linear:
            written[name] = values[name] = tensor
            continue
        made = coder.quantize(tensor, by_row=by_row)
        # Published scales may be rounded to 16 bits after the codes were made.
        scale = made.scale.to(scale_dtype)
        module = name.removesuffix(".weight")
        written[name] = made.values
        written[f"{module}.weight_scale"] = scale if by_row else scale.view(1)
        if activations == "static":
            written[f"{module}.input_scale"] = torch.full((1,), 0.5 + len(values) / 64)
        values[name] = dequantize(type(made)(made.values, scale.float()), torch.float32)
    save_file(written, folder / WEIGHTS)
    edit_json(
        folder / "config.json",
        quantization_config=settings(
            kind, by_row=by_row, activations=activations, ignore=list(ignore)
        ),
    )
    return values


def change(folder: Path, **tensors: torch.Tensor | None) -> None:
    """Set or (None) take out tensors of a folder with one file; `__` in a name stands for a dot."""
    found = load_file(folder / WEIGHTS)
    for name, tensor in tensors.items():
        name = name.replace("__", ".")
        found.pop(name, None)
        if tensor is not None:
            found[name] = tensor
    save_file(found, folder / WEIGHTS)


def split(folder: Path, files: int) -> None:
    """Spread the tensors of a folder over several files with an index, in turn."""
    found = load_file(folder / WEIGHTS)
    names = [f"model-{number:05}-of-{files:05}.safetensors" for number in range(files)]
    shards: list[dict[str, torch.Tensor]] = [{} for _ in names]
    for number, (name, tensor) in enumerate(sorted(found.items())):
        shards[number % files][name] = tensor
    for name, shard in zip(names, shards, strict=True):
        save_file(shard, folder / name)
    index = {key: name for name, shard in zip(names, shards, strict=True) for key in shard}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": index}))
    (folder / WEIGHTS).unlink()
