"""Which 8-bit layouts of published checkpoints are served, told from their config.json.

Layouts that are known and not served are refused by name. Knows the settings, not the tensors.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

from spinf_serve.engine.quantization.tensor import Kind
from spinf_serve.packs.errors import Unusable

QUANTIZATION: Final = "quantization_config"

SERVED: Final = (
    "served are float32, float16 and bfloat16 weights, and of compressed-tensors fp8 "
    "(float-quantized) and int8 (int-quantized), symmetric, with one scale a tensor or an output "
    "channel"
)
_PATTERN: Final = "re:"
_EVERY_LINEAR: Final = "Linear"
_KINDS: Final[Mapping[str, Kind]] = MappingProxyType({"float": "fp8", "int": "int8"})
# Format -> the types of weights it may have. The naive one is written for inputs in 16 bits.
_LAYOUTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "float-quantized": ("float",),
        "int-quantized": ("int",),
        "naive-quantized": ("float", "int"),
    }
)
_TEXT: Final = "text_config"


@dataclass(frozen=True, slots=True)
class StoredFormat:
    """How the linear layers of a checkpoint are stored.

    Attributes:
        kind: what a weight is.
        by_row: one scale an output channel, [M, 1], not one for the tensor.
        activations: scales of the inputs: `static` lie in the checkpoint, `token` are made for each
            row while computing, `none` means inputs in 16 bits.
        targets: which modules are quantised: `Linear` for every linear layer, names, or regular
            expressions after `re:`.
        ignored: which of them are not; names or expressions.
    """

    kind: Kind
    by_row: bool
    activations: Literal["static", "token", "none"]
    targets: tuple[str, ...]
    ignored: tuple[str, ...]

    def covers(self, *modules: str) -> bool:
        """Whether a linear layer is quantised.

        Args:
            modules: its names: in the checkpoint, and as part of the text model alone.
        """
        if any(_matches(entry, name) for entry in self.ignored for name in modules):
            return False
        return any(
            entry == _EVERY_LINEAR or any(_matches(entry, name) for name in modules)
            for entry in self.targets
        )

    def __str__(self) -> str:
        scales = "channel" if self.by_row else "tensor"
        inputs = {
            "static": "static inputs",
            "token": "inputs by token",
            "none": "inputs in 16 bits",
        }
        return f"{self.kind}, one scale a {scales}, {inputs[self.activations]}"


def stored_format(config: Mapping[str, Any], where: Path) -> StoredFormat | None:
    """The layout that a config.json names, or None for weights that are not quantised.

    Args:
        config: its content.
        where: the file, for errors.

    Raises `Unusable`, one line, for a layout that is not served or settings that are broken.
    """
    found = config.get(QUANTIZATION)
    text = config.get(_TEXT)
    if found is None and isinstance(text, dict):
        found = text.get(QUANTIZATION)
    if found is None:
        return None
    if not isinstance(found, dict):
        raise Unusable(f"{where}: {QUANTIZATION} should be an object, found {found!r}")
    if found.get("quant_method") != "compressed-tensors":
        raise _not_served(where, _other_method(found))
    return _compressed_tensors(found, where)


def without_quantization(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json without what `stored_format` reads of it."""
    rest = {key: value for key, value in config.items() if key != QUANTIZATION}
    if isinstance(rest.get(_TEXT), dict):
        rest[_TEXT] = {key: x for key, x in rest[_TEXT].items() if key != QUANTIZATION}
    return rest


def _not_served(where: Path, layout: str) -> Unusable:
    return Unusable(f"{where}: weights quantised as {layout} are not served; {SERVED}")


def _other_method(found: Mapping[str, Any]) -> str:
    """The name of a layout of another method than compressed-tensors."""
    method = found.get("quant_method")
    bits, group = found.get("bits", found.get("w_bit")), found.get("group_size")
    sizes = f"{bits} bits, groups of {group}"
    match method:
        case "fp8" if found.get("weight_block_size") is not None:
            return f"block fp8 (quant_method fp8, blocks of {_by(found['weight_block_size'])})"
        case "fp8":
            return "fp8 of another method (quant_method fp8 without blocks)"
        case "gptq":
            return f"GPTQ ({sizes})"
        case "awq":
            return f"AWQ ({sizes})"
        case "mxfp4":
            return "MXFP4 (quant_method mxfp4)"
        case "modelopt" | "modelopt_fp4":
            return f"{found.get('quant_algo', '?')} of modelopt (quant_method {method})"
        case "bitsandbytes":
            return f"bitsandbytes ({4 if found.get('load_in_4bit') else 8} bits)"
        case None if "load_in_4bit" in found or "load_in_8bit" in found:
            return f"bitsandbytes ({4 if found.get('load_in_4bit') else 8} bits)"
    return f"an unknown layout (quant_method {method!r})"


def _by(sizes: object) -> str:
    return "x".join(map(str, sizes)) if isinstance(sizes, list) else str(sizes)


def _compressed_tensors(found: Mapping[str, Any], where: Path) -> StoredFormat:
    groups = found.get("config_groups")
    if not isinstance(groups, dict) or not groups:
        raise Unusable(f"{where}: {QUANTIZATION}.config_groups is missing or empty")
    if len(groups) > 1:
        raise _not_served(where, f"{len(groups)} config_groups with different schemes")
    name, group = next(iter(groups.items()))
    at = f"{QUANTIZATION}.config_groups.{name}"
    if not isinstance(group, dict) or not isinstance(group.get("weights"), dict):
        raise Unusable(f"{where}: {at}.weights is missing or no object")
    weights = group["weights"]
    layout = group.get("format") or found.get("format")
    if not isinstance(layout, str) or layout not in _LAYOUTS:
        raise _not_served(where, _other_compressed(layout, weights))
    _refuse_extras(found, group, where)
    strategy, number = weights.get("strategy"), weights.get("type")
    if strategy == "block":
        blocks = _by(weights.get("block_structure"))
        name = _KINDS.get(str(number), str(number))
        raise _not_served(where, f"block {name} (compressed-tensors, blocks of {blocks})")
    plain = {
        "num_bits": (weights.get("num_bits"), (8,)),
        "type": (number, _LAYOUTS[layout]),
        "strategy": (strategy, ("tensor", "channel")),
        "symmetric": (weights.get("symmetric", True), (True,)),
        "dynamic": (weights.get("dynamic", False), (False,)),
        "actorder": (weights.get("actorder"), (None, False)),
    }
    for key, (value, allowed) in plain.items():
        if value not in allowed:
            raise _not_served(where, f"{layout} with weights.{key} {value!r}")
    kind = _KINDS[str(number)]
    return StoredFormat(
        kind=kind,
        by_row=strategy == "channel",
        activations=_activations(group.get("input_activations"), kind, layout, where),
        targets=_entries(group.get("targets", [_EVERY_LINEAR]), f"{at}.targets", where),
        ignored=(
            *_entries(found.get("ignore"), f"{QUANTIZATION}.ignore", where),
            *_entries(
                found.get("modules_to_not_convert"), f"{QUANTIZATION}.modules_to_not_convert", where
            ),
        ),
    )


def _other_compressed(layout: object, weights: Mapping[str, Any]) -> str:
    bits, group = weights.get("num_bits"), weights.get("group_size")
    match layout:
        case "nvfp4-pack-quantized":
            return "NVFP4 (compressed-tensors, nvfp4-pack-quantized)"
        case "mxfp4-pack-quantized":
            return "MXFP4 (compressed-tensors, mxfp4-pack-quantized)"
        case "pack-quantized":
            return f"int{bits} packed (compressed-tensors, pack-quantized, groups of {group})"
    return f"compressed-tensors of the format {layout!r}"


def _refuse_extras(found: Mapping[str, Any], group: Mapping[str, Any], where: Path) -> None:
    """What would change the maths besides the weights and inputs of linear layers."""
    if found.get("kv_cache_scheme"):
        raise _not_served(where, "compressed-tensors with quantised keys and values")
    if group.get("output_activations"):
        raise _not_served(where, "compressed-tensors with quantised outputs")
    sparsity = found.get("sparsity_config") or {}
    if not isinstance(sparsity, dict) or sparsity.get("format", "dense") != "dense":
        raise _not_served(where, "compressed-tensors with sparse weights")
    if found.get("transform_config"):
        raise _not_served(where, "compressed-tensors with weights that were rotated")


def _activations(
    inputs: object, kind: Kind, layout: str, where: Path
) -> Literal["static", "token", "none"]:
    if inputs is None:
        return "none"
    if not isinstance(inputs, dict):
        raise Unusable(f"{where}: {QUANTIZATION} has input_activations {inputs!r}, not an object")
    same = inputs.get("num_bits") == 8 and inputs.get("type") == ("float", "int")[kind == "int8"]
    if same and inputs.get("symmetric", True) is True:
        match inputs.get("dynamic"), inputs.get("strategy"):
            case (False | None, "tensor"):
                return "static"
            case (True, "token"):
                return "token"
    known = {
        key: inputs.get(key) for key in ("num_bits", "type", "strategy", "dynamic", "symmetric")
    }
    shown = ", ".join(f"{key} {value}" for key, value in known.items())
    raise _not_served(where, f"{layout} with inputs of {shown}")


def _entries(found: object, key: str, where: Path) -> tuple[str, ...]:
    if found is None:
        return ()
    if not isinstance(found, list) or not all(isinstance(entry, str) and entry for entry in found):
        raise Unusable(f"{where}: {key} should be a list of names, found {found!r}")
    for entry in found:
        if entry.startswith(_PATTERN):
            try:
                re.compile(entry.removeprefix(_PATTERN))
            except re.error as error:
                raise Unusable(f"{where}: {key} has {entry!r}, no expression ({error})") from None
    return tuple(found)


def _matches(entry: str, module: str) -> bool:
    """Whether an entry of a list means a module.

    An expression is matched from the start of the name. A name means the module itself, what lies in
    it, and, as some lists leave out the first parts, a module whose last parts it is.
    """
    if entry.startswith(_PATTERN):
        return re.match(entry.removeprefix(_PATTERN), module) is not None
    return f".{module}".endswith(f".{entry}") or module.startswith(f"{entry}.")
