"""Where an engine runs and on which model, decided from its configuration and the card at hand.

Pure but for the question whether a model can be had. Every choice says why; what contradicts itself
is refused before anything is loaded.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from spinf_serve.engine.card import Card, NoCard
from spinf_serve.engine.config import AUTO, EMBEDDED, EngineConfig
from spinf_serve.engine.kernels.tree_attention.tiling import tiling
from spinf_serve.engine.models.spec import ModelSpec
from spinf_serve.engine.quantization.choose import Scheme, fitting_scheme
from spinf_serve.packs.errors import Unusable

LARGE_MODEL: Final = "spinf/gemma-4-12b-fp8"
"""The default where a card can hold it."""

# What a card sold with 24 GB has at least, once the driver has taken its part.
_LARGE_BYTES: Final = int(22.5 * (1 << 30))
_GIB: Final = 1 << 30
# Heads above have no tiles; offsets into the queries of a pass are 32 bit.
_LARGEST_HEAD: Final = 512
_MOST_QUERY_VALUES: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Placement:
    """What computes.

    Attributes:
        card: the card, or None for the CPU.
        quant: the scheme that was asked for by name, or None.
        why: for the start-up log, in a line.
    """

    card: Card | None
    quant: Scheme | None
    why: str


def place(config: EngineConfig, look: Callable[[], Card | NoCard]) -> Placement:
    """What computes, by a configuration.

    Args:
        look: finds the card; not called when the configuration says CPU.

    Raises `Unusable`, one line with the remedy, for a card that is wanted and cannot be used, and
    for settings that contradict each other.
    """
    found = NoCard("as asked", "") if config.device == "cpu" else look()
    if isinstance(found, NoCard):
        return _on_cpu(config, found)
    if config.device == "cuda" and config.dtype != "float32":
        raise Unusable(
            f"--dtype {config.dtype} is for the CPU and the device is cuda: leave it out (--quant "
            "says what weights are kept in on a card), or use --device cpu"
        )
    quant = None if config.quant == AUTO else config.quant
    ignored = f"; --dtype {config.dtype} is for the CPU" if config.dtype != "float32" else ""
    how = "as asked" if config.device == "cuda" else "a usable card is here"
    return Placement(found, quant, f"device cuda ({how}): {found}{ignored}")


def _on_cpu(config: EngineConfig, found: NoCard) -> Placement:
    if config.device == "cuda":
        raise Unusable(f"--device cuda: {found.why}; {found.remedy}, or use --device cpu")
    if config.quant != AUTO:
        missing = f", as {found.why}" if config.device == AUTO else ""
        remedy = f"{found.remedy}, or leave --quant" if config.device == AUTO else "leave --quant"
        raise Unusable(
            f"--quant {config.quant} is for a card and the device is the CPU{missing}: {remedy} out "
            "(--dtype is what the CPU computes in)"
        )
    return Placement(None, None, f"device cpu: {found.why}")


def check_on_card(spec: ModelSpec, capability: tuple[int, int], pass_tokens: int) -> None:
    """Raises `Unusable` for a model, or passes, that the kernels of a card have no tiles for.

    Args:
        spec: of the model, before its weights are read.
        capability: of the card.
        pass_tokens: rows of the largest pass.
    """
    for layer in spec.layers:
        if layer.head_dim > _LARGEST_HEAD:
            raise Unusable(
                f"heads of {layer.head_dim} are not served on a GPU, whose kernels take at most "
                f"{_LARGEST_HEAD}; take --device cpu"
            )
        group, most = spec.heads // layer.kv_heads, tiling(capability, layer.head_dim).rows
        if group > most:
            raise Unusable(
                f"{group} query heads of {layer.head_dim} that share a key/value head are not served "
                f"on this card, whose kernels take at most {most}; take --device cpu"
            )
        fitting = _MOST_QUERY_VALUES // (spec.heads * layer.head_dim)
        if pass_tokens > fitting:
            raise Unusable(
                f"--token-budget {pass_tokens}: passes of this model have at most {fitting} tokens "
                "on a card; lower it"
            )


def default_model(card: Card | None, obtainable: Callable[[str], bool]) -> tuple[str, str]:
    """The model where none was named, and why, in a line for the start-up log.

    Args:
        card: what computes, None for the CPU.
        obtainable: whether a model's weights are on this machine, or may be fetched.
    """
    if card is None:
        return EMBEDDED, f"model {EMBEDDED}: the default on the CPU"
    scheme = fitting_scheme(card.capability, card.has_fp8)
    size = f"{card.total_bytes / _GIB:.1f} GiB"
    if scheme != "fp8":
        return EMBEDDED, f"model {EMBEDDED}: {LARGE_MODEL} wants a card that computes in fp8"
    if card.total_bytes < _LARGE_BYTES:
        return EMBEDDED, f"model {EMBEDDED}: {LARGE_MODEL} wants a card of 24 GB, this has {size}"
    if not obtainable(LARGE_MODEL):
        return EMBEDDED, (
            f"model {EMBEDDED}: {LARGE_MODEL} is the default for this card, but not in the hub's "
            "cache, and the hub may not be asked (offline)"
        )
    return LARGE_MODEL, (
        f"model {LARGE_MODEL}: the default on a card of {size} that computes in fp8; name another "
        f"one, for instance {EMBEDDED}, to change that"
    )
