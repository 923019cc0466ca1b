"""The table of static activation scales of one model: saved, loaded, checked against the model.

A static scale maps the inputs of a product to 8 bits without looking at them, so that every row is
rounded alike. Knows where inputs are rounded, not how a scale is found.
"""

import json
import math
import os
import secrets
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from spinf_serve.packs.errors import Unusable

SITES: Final = ("self_attn.qkv", "self_attn.out", "mlp.gate_up", "mlp.down")
"""The inputs of a layer's four products: q, k and v read one input, and so do gate and up."""

_FORMAT: Final = "spinf-activation-scales-1"
_KINDS: Final = (
    ("model", str, "a text"),
    ("corpus", str, "a text"),
    ("headroom", float, "a number such as 2.0"),
    ("scales", dict, "an object"),
)


@dataclass(frozen=True, slots=True)
class ActivationScales:
    """Static scales of a model's inputs.

    Attributes:
        model: sha256 of the weights that they were found with, 64 hex digits.
        corpus: what texts they were found on, in a line.
        headroom: factor on the largest magnitude that was seen.
        scales: `model.layers.<number>.<site>` -> scale, each a float32 above zero: the input
            `x / scale` is rounded to 8 bits.
    """

    model: str
    corpus: str
    headroom: float
    scales: Mapping[str, float]

    def scale(self, layer: int, site: str) -> float:
        """The scale of one of `SITES` of a layer."""
        return self.scales[key(layer, site)]


def key(layer: int, site: str) -> str:
    """What the table calls an input."""
    return f"model.layers.{layer}.{site}"


def save_scales(path: Path, table: ActivationScales) -> None:
    """Write a table as JSON, beside its place and then renamed.

    Raises `Unusable` for a scale that is no float32 above zero, or a file that cannot be written.
    """
    for name, scale in table.scales.items():
        _check_scale(path, name, scale)
    values = {"format": _FORMAT, **asdict(table), "scales": dict(table.scales)}
    beside = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        try:
            with beside.open("x", encoding="utf-8") as file:
                json.dump(values, file, indent=1)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise Unusable(f"{path}: cannot be written ({error.strerror})") from error


def load_scales(path: Path) -> ActivationScales:
    """Read a table. Raises `Unusable`, one line, naming the file and what is wrong in it."""
    try:
        # A name that stands twice would hide one of its values.
        values = json.loads(path.read_bytes(), object_pairs_hook=lambda x: _once(path, x))
    except OSError as error:
        raise Unusable(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise Unusable(f"{path}: not valid JSON ({error})") from error
    if not isinstance(values, dict) or values.pop("format", None) != _FORMAT:
        raise Unusable(f"{path}: no table of activation scales (format should be {_FORMAT})")
    known = {field.name for field in fields(ActivationScales)}
    wrong = sorted(known ^ values.keys())
    if wrong:
        what = "is missing" if wrong[0] in known else "is not a known key"
        raise Unusable(f"{path}: {wrong[0]} {what}")
    for name, kind, what in _KINDS:
        if not isinstance(values[name], kind):
            raise Unusable(f"{path}: {name} should be {what}, found {values[name]!r}")
    for name, scale in values["scales"].items():
        _check_scale(path, name, scale)
    return ActivationScales(**{**values, "scales": MappingProxyType(values["scales"])})


def check_scales(path: Path, table: ActivationScales, *, model: str, layers: int) -> None:
    """Raises `Unusable` unless the table is of this model and has every input of it, and no other.

    Args:
        path: where the table lies, for errors.
        model: sha256 of the weights to be served, 64 hex digits.
        layers: how many layers the model has.
    """
    if table.model != model:
        raise Unusable(
            f"{path}: the activation scales are of other weights (sha256 {table.model}, these are "
            f"{model}): calibrate again with the model that is served"
        )
    expected = {key(layer, site) for layer in range(layers) for site in SITES}
    for names, what in (
        (expected - table.scales.keys(), "is missing"),
        (table.scales.keys() - expected, f"is no input of a model with {layers} layers"),
    ):
        if names:
            raise Unusable(f"{path}: the scale {min(names)} {what} ({len(names)} such scales)")


def _check_scale(path: Path, name: str, scale: object) -> None:
    if not isinstance(scale, float) or not math.isfinite(scale) or scale <= 0:
        raise Unusable(f"{path}: the scale {name} should be a number above zero, found {scale!r}")
    try:
        exact = struct.unpack("f", struct.pack("f", scale))[0] == scale
    except OverflowError:
        exact = False
    if not exact:
        # Rounding it here would be a second table.
        raise Unusable(f"{path}: the scale {name} is {scale!r}, which is no float32")


def _once(path: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Unusable(f"{path}: {twice} stands there twice")
    return found
