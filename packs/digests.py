"""Digests that tie scores and proofs to what they were made from. All are SHA-256, 64 hex digits."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from typing import Any

from spinf_serve.packs.pack import Constants


def content_digest(wrapped: str) -> str:
    """Of a content as the model reads it, with the pack's context around it."""
    return sha256(wrapped.encode()).hexdigest()


def prompt_digest(
    text: str, options: Sequence[str], case_insensitive: bool, prompt_style: str
) -> str:
    """Of one filled template and everything else on its side that moves a score.

    Args:
        text: the filled template, `Prompt.text`.
        options: in order.
        case_insensitive: whether other spellings of an option count for it.
        prompt_style: how the model wants its text put, as its manifest says.
    """
    return _of([text, list(options), case_insensitive, prompt_style])


def constants_digest(constants: Constants) -> str:
    """Of the fitted numbers: what a proof stands for.

    Left out are the model's name, which has aliases (the proof names the model by its own digest),
    the proof, whether the micro layer's lock holds, which follows from the rest of the file, and
    the categories' `beta`, which no cut looks at. An int and the float of the same value count as
    one.
    """
    layer = constants.layer
    return _of(
        {
            "reads": {id: _floats(asdict(fit)) for id, fit in constants.reads.items()},
            "categories": {
                id: {key: _floats(part) for key, part in asdict(fit).items() if key != "beta"}
                for id, fit in constants.categories.items()
            },
            "max_threshold": _floats(constants.max_threshold),
            "layer": None
            if layer is None
            else [list(layer.inputs), _floats(layer.weights), layer.hidden, layer.lock],
            "bands": None if constants.bands is None else _floats(asdict(constants.bands)),
        }
    )


ASKED = ("answers", "contexts", "scoring", "reads", "categories", "decision")
"""Parts of a plain pack that its scores and decision follow from, fitted numbers aside."""


def asked_digest(body: Mapping[str, Any]) -> str:
    """Of what a pack asks and how it is evaluated: the other half of what a proof stands for.

    Args:
        body: `Pack.body`. Names, descriptions and the like are left out.
    """
    return _of({part: body[part] for part in ASKED if part in body})


def _floats(value: Any) -> Any:
    """The same with every number as a float."""
    if isinstance(value, dict):
        return {key: _floats(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_floats(item) for item in value]
    return value if value is None else float(value)


def _of(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return sha256(text.encode()).hexdigest()
