"""What can move a score, as two digests: of the model, and of the model on this machine."""

import hashlib
import json
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.metadata import version
from importlib.resources.abc import Traversable
from pathlib import Path

from spinf_serve.engine.steady import products_mode

NUMERICS_VERSION = 1
"""Raised by every change of precision, reduction order, tile or tokenisation: a "Scores change"."""

_LIBRARIES = ("torch", "numpy", "tokenizers")
# What computes on a card: an edit of any of it may move a bit.
_COMPUTING = ("kernels", "models", "quantization")
_CPU_KEYS = ("vendor_id", "cpu family", "model", "flags")


@dataclass(frozen=True, slots=True)
class GpuScheme:
    """How a card computes a model.

    Attributes:
        kind: what the linear layers' weights are in: fp8, int8 or bf16.
        activations: what meets them: `rows` rounded by a scale each, `static` by one that lies in
            the checkpoint, or `16bit`.
        dtype: of everything else.
        static_scales: sha256 of a table of static scales that is no part of the checkpoint.
    """

    kind: str
    activations: str
    dtype: str
    static_scales: str | None = None


@dataclass(frozen=True, slots=True)
class CardFacts:
    """What of a card and its libraries can move a bit.

    Attributes:
        name: the card's.
        capability: its compute capability, such as 9.0.
        torch, triton, cuda: versions; cuda is the runtime that torch was built with.
    """

    name: str
    capability: str
    torch: str
    triton: str
    cuda: str


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
    machine_facts = {
        "backend": "cpu",
        "capability": cpu_capability,
        "processor": _processor(),
        "products": products_mode(),
        **{name: version(name) for name in _LIBRARIES},
    }
    return _fingerprint(_model_facts(weights_digest, dtype), machine_facts)


def gpu_fingerprint(weights_digest: str, scheme: GpuScheme, card: CardFacts) -> Fingerprint:
    """Fingerprint of a model on a card of this machine.

    The driver is not in it: kernels are compiled by the compiler that comes with Triton. What they
    are compiled from is, since another tile or order of a sum may move a bit.

    Args:
        weights_digest: sha256 of the weights' bytes, 64 hex digits.
        scheme: how the card computes the model.
        card: the card and its libraries.
    """
    model_facts = _model_facts(weights_digest, scheme.dtype) | {
        "scheme": f"{scheme.kind} weights, {scheme.activations} activations"
    }
    if scheme.static_scales is not None:
        model_facts["static scales"] = scheme.static_scales
    machine_facts = {
        "backend": "cuda",
        "card": card.name,
        "capability": card.capability,
        "torch": card.torch,
        "triton": card.triton,
        "cuda": card.cuda,
        "numpy": version("numpy"),
        "tokenizers": version("tokenizers"),
        "kernels": kernels_digest(),
    }
    return _fingerprint(model_facts, machine_facts)


def kernels_digest(engine: Traversable | None = None) -> str:
    """sha256 over the names and sources of kernels, families and rounding, 64 hex digits.

    Args:
        engine: the folder that holds them; None means this package's.
    """
    root = resources.files("spinf_serve.engine") if engine is None else engine
    lines = sorted(
        f"{name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n"
        for folder in _COMPUTING
        for name, file in _sources(root / folder, f"{folder}/")
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _sources(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _sources(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".py"):
            yield prefix + entry.name, entry


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


def _fingerprint(model_facts: Mapping[str, str], machine_facts: Mapping[str, str]) -> Fingerprint:
    facts = {**model_facts, **machine_facts}
    return Fingerprint(model=_digest(model_facts), bits=_digest(facts), facts=facts)


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
