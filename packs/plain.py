"""The plain form of a pack: one JSON object with one model's constants in it; and its lock.

`split` takes the fitted numbers out of a file's object and `inlined` puts a model's numbers in.
Checks nothing.
"""

import json
import struct
from base64 import b64encode
from collections.abc import Mapping, Sequence
from copy import deepcopy
from hashlib import sha256
from typing import Any

from spinf_serve.packs.pack import Bands, Constants, Cuts, MicroLayer, Pack

Object = dict[str, Any]


def plain(pack: Pack, model: str | None) -> Object:
    """The pack as one plain JSON object, as `packs export` and the API give it out.

    Args:
        pack: any pack.
        model: a name of `pack.fitted`, whose constants stand in the object; None, or a model that
            nothing was fitted on, makes a draft without fitted numbers.
    """
    constants = pack.constants((model,)) if model is not None else None
    return deepcopy(dict(pack.body)) if constants is None else inlined(pack.body, constants)


def canonical(value: object) -> str:
    """JSON with sorted keys, no spaces, ASCII only, numbers as Python prints them."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def lock_of(file: Mapping[str, Any], inputs: Sequence[str]) -> str:
    """`sha256:` and the digest of what a micro layer's weights rely on.

    Args:
        file: a plain object with constants.
        inputs: the layer's inputs, in order.
    """
    relied = {
        "queries": file["scoring"]["queries"],
        "reads": file["reads"],
        "platt": {name: category["platt"] for name, category in file["categories"].items()},
        "inputs": list(inputs),
    }
    return f"sha256:{sha256(canonical(relied).encode()).hexdigest()}"


def block_of(constants: Constants, body: Mapping[str, Any]) -> Object:
    """A model's constants as a mapping under `fitted`. `body` is the pack's."""
    kinds = {read["id"]: read["kind"] for read in body["reads"]}
    block: Object = {"reads": {}, "categories": {}}
    for name, fit in constants.reads.items():
        block["reads"][name] = {"mean": fit.mean, "sd": fit.sd}
        if fit.mu:
            block["reads"][name]["mu"] = fit.mu[0] if kinds[name] == "option" else list(fit.mu)
    for name, category in constants.categories.items():
        row: Object = {"platt": list(category.platt)}
        if category.beta is not None:
            row["beta"] = list(category.beta)
        row["threshold"] = category.threshold
        if category.quantiles is not None:
            row["normal_quantiles"] = {
                "levels": list(category.quantiles.levels),
                "values": list(category.quantiles.values),
            }
        block["categories"][name] = row
    decision: Object = {}
    if constants.max_threshold is not None:
        decision["max"] = {"threshold": constants.max_threshold}
    if constants.layer is not None:
        decision["micro_layer"] = layer_block(constants.layer)
    if decision:
        block["decision"] = decision
    if constants.bands is not None:
        bands = bands_block(constants.bands)
        if bands != body.get("bands"):
            block["bands"] = bands
    if constants.proof is not None:
        block["proof"] = dict(constants.proof)
    return block


def layer_block(layer: MicroLayer) -> Object:
    """A micro layer as the file has it."""
    weights = struct.pack(f"<{len(layer.weights)}f", *layer.weights)
    return {
        "inputs": list(layer.inputs),
        "weights": b64encode(weights).decode(),
        "dtype": "float32",
        "hidden": layer.hidden,
        "lock": layer.lock,
    }


def bands_block(bands: Bands) -> Object:
    """Bands as the file has them."""
    block: Object = {}
    if bands.decision is not None:
        block["decision"] = _cuts(bands.decision)
    if bands.categories:
        block["categories"] = {name: _cuts(cuts) for name, cuts in bands.categories.items()}
    return block


def _cuts(cuts: Cuts) -> Object:
    return {"act": cuts.act, "review": cuts.review}


def inlined(body: Mapping[str, Any], constants: Constants) -> Object:
    """The plain object of a pack with one model's constants in it."""
    block = block_of(constants, body)
    file = {"pack": body["pack"], "version": body["version"], "model": constants.model}
    file |= deepcopy({k: v for k, v in body.items() if k not in file and k != "proof"})
    for read in file["reads"]:
        read |= block["reads"][read["id"]]
    for name, category in file["categories"].items():
        category |= block["categories"][name]
    if constants.layer is None:
        _take_layer_out(file["decision"])
    for mode, part in block.get("decision", {}).items():
        file["decision"][mode] = {**(file["decision"].get(mode) or {}), **part}
    for key in ("bands", "proof"):
        if key in block:
            file[key] = block[key]
    return file


def _take_layer_out(decision: Object) -> None:
    """Where a fit found no layer for the model, the fallback decides."""
    decision.pop("micro_layer", None)
    if decision["mode"] == "micro_layer":
        decision["mode"] = decision.get("fallback", "per_category")


def has_inline(file: Mapping[str, Any]) -> bool:
    """Whether numbers that only a fit can give stand in the object's reads, categories or layer."""
    layer = file["decision"].get("micro_layer") or {}
    return (
        any(read.get(key) is not None for read in file["reads"] for key in _fitted_keys(read))
        or any(
            category.get(key) is not None
            for category in file["categories"].values()
            for key in ("platt", "beta", "normal_quantiles")
        )
        or any(layer.get(key) is not None for key in ("weights", "lock"))
    )


def split(file: Mapping[str, Any]) -> tuple[Object, Object | None]:
    """A file's object as a pack's body, and its inline constants as a mapping under `fitted`.

    Thresholds without any other number are no constants of a model: they stay in the body, hold
    for the models whose block under `fitted` has none, and in a draft wait for a fit. The second is
    then None.
    """
    body = {key: value for key, value in file.items() if key != "fitted"}
    if not has_inline(file):
        return body, None
    block: Object = {"reads": {}, "categories": {}, "decision": {}}
    body["reads"] = []
    for read in file["reads"]:
        keys = _fitted_keys(read)
        block["reads"][read["id"]] = {key: read[key] for key in keys if key in read}
        body["reads"].append({key: value for key, value in read.items() if key not in keys})
    body["categories"] = {}
    for name, category in file["categories"].items():
        keys = ("platt", "beta", "threshold", "normal_quantiles")
        block["categories"][name] = {key: category[key] for key in keys if key in category}
        body["categories"][name] = {k: v for k, v in category.items() if k not in keys}
    body["decision"] = dict(file["decision"])
    for mode, keys in (("max", ("threshold",)), ("micro_layer", ("weights", "lock"))):
        part = file["decision"].get(mode)
        if part is not None:
            block["decision"][mode] = part
            body["decision"][mode] = {k: v for k, v in part.items() if k not in keys}
    if "proof" in body:
        block["proof"] = body.pop("proof")
    body.pop("model", None)
    return body, block


def _fitted_keys(read: Mapping[str, Any]) -> tuple[str, ...]:
    # A pair has no `mu`; where a JSON file writes one all the same, it is no number of ours.
    return ("mean", "sd") if read.get("kind") == "pair" else ("mean", "sd", "mu")
