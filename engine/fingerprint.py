"""What can move a score, as two digests: of the model, and of the model on this machine."""

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from spinf_serve.engine.steady import products_mode

NUMERICS_VERSION = 1
"""Raised by every change of precision, reduction order, tile or tokenisation: a "Scores change"."""

_LIBRARIES = ("torch", "numpy", "tokenizers")
_CPU_KEYS = ("vendor_id", "cpu family", "model", "flags")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Two digests of 64 hex digits, and the facts they were made from.

    Attributes:
        model: weights, scheme, dtype, numerics version; what a threshold's proof is compared with.
        bits: `model` plus processor and library versions; equal digests mean equal bits.
        facts: name -> value of everything that went into `bits`.
    """

    model: str
    bits: str
    facts: Mapping[str, str]

    @property
    def short(self) -> str:
        """`fp_` and the first 10 hex digits of `bits`: the `system_fingerprint` of a response."""
        return f"fp_{self.bits[:10]}"


def cpu_fingerprint(weights_digest: str, dtype: str, cpu_capability: str) -> Fingerprint:
    """Fingerprint of a model on the CPU backend of this machine.

    Args:
        weights_digest: sha256 of the weights' bytes, 64 hex digits.
        dtype: compute dtype.
        cpu_capability: instruction set that torch uses, as torch names it.
    """
    model_facts = _model_facts(weights_digest, dtype)
    machine_facts = {
        "backend": "cpu",
        "capability": cpu_capability,
        "processor": _processor(),
        "products": products_mode(),
        **{name: version(name) for name in _LIBRARIES},
    }
    model = _digest(model_facts)
    facts = model_facts | machine_facts
    return Fingerprint(model=model, bits=_digest(facts), facts=facts)


def model_digest(weights_digest: str, dtype: str) -> str:
    """`Fingerprint.model` of a model that is not opened; arguments as for `cpu_fingerprint`."""
    return _digest(_model_facts(weights_digest, dtype))


def difference(a: Fingerprint, b: Fingerprint) -> list[str]:
    """Lines that say in which facts two fingerprints differ; empty when their bits are equal."""
    names = sorted(a.facts.keys() | b.facts.keys())
    return [
        f"{name}: {a.facts.get(name, 'absent')} -> {b.facts.get(name, 'absent')}"
        for name in names
        if a.facts.get(name) != b.facts.get(name)
    ]


def _model_facts(weights_digest: str, dtype: str) -> dict[str, str]:
    return {
        "weights": weights_digest,
        "dtype": dtype,
        "scheme": "none",
        "numerics": str(NUMERICS_VERSION),
    }


def _digest(facts: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _processor() -> str:
    """What a maths library may choose its code path by; flags are sorted and digested."""
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return f"{platform.machine()} {platform.processor()}"
    found: dict[str, str] = {}
    for line in info.read_text().splitlines():
        name, _, value = line.partition(":")
        found.setdefault(name.strip(), value.strip())
    flags = " ".join(sorted(found.get("flags", found.get("Features", "")).split()))
    known = [found.get(key, "") for key in _CPU_KEYS[:-1]]
    return " ".join([*known, hashlib.sha256(flags.encode()).hexdigest()[:16]])
