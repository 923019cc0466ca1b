"""Sizes of the models that can be measured without their weights: published ones, and one for tests."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from spinf_serve.engine.models.spec import LayerSpec, ModelSpec, Rope
from spinf_serve.packs.errors import Unusable

_SLIDING: Final = Rope("default", theta=10_000.0)
_FULL: Final = Rope("proportional", theta=1_000_000.0, moving=0.25)
_PATTERN: Final = 6


def _gemma4(
    layers: int,
    *,
    hidden: int,
    intermediate: int,
    vocab: int,
    heads: int,
    sliding: tuple[int, int],
    full: tuple[int, int],
    window: int,
    context: int,
    pattern: int = _PATTERN,
) -> ModelSpec:
    """A dense model; `sliding` and `full` are key/value heads and their size."""
    windowed = LayerSpec(window, _SLIDING, *sliding)
    whole = LayerSpec(None, _FULL, *full, k_is_v=True)
    return ModelSpec(
        family="gemma4",
        hidden=hidden,
        intermediate=intermediate,
        vocab=vocab,
        heads=heads,
        layers=tuple(whole if (n + 1) % pattern == 0 else windowed for n in range(layers)),
        norm_eps=1e-6,
        attention_scale=1.0,
        tied=True,
        context=context,
        logit_soft_cap=30.0,
    )


SYNTHETIC_MODELS: Final[Mapping[str, ModelSpec]] = MappingProxyType(
    {
        "gemma-4-12b": _gemma4(
            48,
            hidden=3840,
            intermediate=15_360,
            vocab=262_144,
            heads=16,
            sliding=(8, 256),
            full=(1, 512),
            window=1024,
            context=262_144,
        ),
        "gemma-4-31b": _gemma4(
            60,
            hidden=5376,
            intermediate=21_504,
            vocab=262_144,
            heads=32,
            sliding=(16, 256),
            full=(4, 512),
            window=1024,
            context=262_144,
        ),
        "gemma-4-tiny": _gemma4(
            2,
            hidden=64,
            intermediate=64,
            vocab=512,
            heads=2,
            sliding=(1, 32),
            full=(1, 64),
            window=32,
            context=8192,
            pattern=2,
        ),
    }
)
"""The text models of the two published checkpoints by their sizes, and one that tests can afford."""


def synthetic_spec(name: str) -> ModelSpec:
    """The sizes of a model. Raises `Unusable` for another name."""
    if name not in SYNTHETIC_MODELS:
        raise Unusable(
            f"--synthetic {name} is no known model; the known ones are "
            f"{', '.join(SYNTHETIC_MODELS)}"
        )
    return SYNTHETIC_MODELS[name]
