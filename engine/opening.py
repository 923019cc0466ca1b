"""From a configuration to an engine: picks a device, finds a model, loads, checks.

Everything here needs torch; `engine.api.open_engine` is the door.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

import torch

from spinf_serve.engine.api import Engine
from spinf_serve.engine.bench.self_check import self_check
from spinf_serve.engine.card import Card, find_card
from spinf_serve.engine.config import (
    AUTO,
    CPU_TOKEN_BUDGET,
    CPU_TRUNK_CACHE_BYTES,
    GPU_TOKEN_BUDGET,
    EngineConfig,
)
from spinf_serve.engine.fingerprint import (
    CardFacts,
    Fingerprint,
    GpuScheme,
    cpu_fingerprint,
    gpu_fingerprint,
)
from spinf_serve.engine.forward import ModelForward
from spinf_serve.engine.kernels.cpu import CpuOps
from spinf_serve.engine.kernels.ops import WeightScheme
from spinf_serve.engine.loading.locate import obtainable
from spinf_serve.engine.loading.open import OpenedModel, in_style, open_checkpoint
from spinf_serve.engine.loading.progress import ReportingCheckpoint
from spinf_serve.engine.loading.sizes import model_sizes
from spinf_serve.engine.loading.staged import StagedCheckpoint
from spinf_serve.engine.models.layers import check_heads
from spinf_serve.engine.models.registry import Model, build
from spinf_serve.engine.placement import check_on_card, default_model, place
from spinf_serve.engine.quantization.choose import Choice, Scheme, choose_scheme
from spinf_serve.engine.work import Limits
from spinf_serve.packs.errors import Unusable

if TYPE_CHECKING:
    from spinf_serve.engine.graphs import Graphs
    from spinf_serve.engine.kernels.gpu import GpuOps

Tell = Callable[[str], None]

_SCHEMES: Final[dict[Scheme, WeightScheme]] = {
    "fp8": WeightScheme("fp8", "rows"),
    "int8": WeightScheme("int8", "16bit"),
    "bf16": WeightScheme(None, "16bit"),
}


def opened_engine(
    config: EngineConfig, limits: Limits, tell: Tell, *, checked: bool = True
) -> Engine:
    """An engine around the model that a configuration names; see `engine.api.open_engine`.

    Its `config` says what was picked where the given one left that open.

    Args:
        checked: whether a card must pass the self-check; only who runs the checks himself may
            leave it out.
    """
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    placement = place(config, find_card)
    tell(placement.why)
    card = placement.card
    name = config.model
    if name == AUTO:
        name, why = default_model(card, partial(obtainable, offline=config.offline))
        tell(why)
    tell(f"opening model {name}")
    opened = in_style(open_checkpoint(name, offline=config.offline, say=tell), config.prompt_style)
    limits = _limits(limits, config, opened)
    config = replace(
        config,
        model=name,
        device="cpu" if card is None else "cuda",
        token_budget=_token_budget(config, opened, card),
        trunk_cache_bytes=_cache_bytes_on_cpu(config) if card is None else config.trunk_cache_bytes,
    )
    if card is None:
        return _on_cpu(opened, config, limits, tell)
    check_heads(opened.spec)
    check_on_card(opened.spec, card.capability, config.pass_tokens)
    choice = choose_scheme(
        card.capability,
        card.has_fp8,
        card.free_bytes,
        model_sizes(opened.spec, opened.checkpoint),
        wanted=placement.quant,
        stored=opened.stored_as,
        pass_tokens=config.pass_tokens,
        kept_tokens=min(limits.max_content_tokens, opened.spec.context),
    )
    config = replace(config, trunk_cache_bytes=_cache_bytes_on_card(config, choice))
    forward, fingerprint = _on_card(opened, card, choice, config, tell)
    if checked:
        # An engine of its own, so that the one that serves has counted and remembered nothing; and
        # with limits of its own, since those of the one that serves may leave nothing to ask.
        # None of its contents is continued either: what is checked has to be read.
        apart = replace(config, trunk_cache_bytes=0)
        self_check(_engine(opened, forward, fingerprint, apart, Limits()), tell)
    return _engine(opened, forward, fingerprint, config, limits)


def _on_cpu(opened: OpenedModel, config: EngineConfig, limits: Limits, tell: Tell) -> Engine:
    with ThreadPoolExecutor(1) as beside:
        # Reading and hashing the file take about as long; hashing needs no interpreter lock.
        digest = beside.submit(opened.digest)
        tell(f"reading weights of {opened.served.id} as {config.dtype}")
        ops = CpuOps(getattr(torch, config.dtype))
        model = build(opened.spec, ReportingCheckpoint(opened.checkpoint, tell), ops)
        ops.keep_up_to(config.trunk_cache_bytes or 0, model.shapes)
        fingerprint = cpu_fingerprint(
            digest.result(), config.dtype, torch.backends.cpu.get_cpu_capability()
        )
    return _engine(opened, ModelForward(model, ops), fingerprint, config, limits)


def _on_card(
    opened: OpenedModel, card: Card, choice: Choice, config: EngineConfig, tell: Tell
) -> tuple[ModelForward, Fingerprint]:
    """The model on a card."""
    tell(str(choice))
    with ThreadPoolExecutor(1) as beside:
        digest = beside.submit(opened.digest)
        tell(f"reading weights of {opened.served.id} onto {card.name}")
        ops = gpu_ops(card.device, choice.scheme)
        staged = StagedCheckpoint(opened.checkpoint, ops.device)
        try:
            model = build(opened.spec, ReportingCheckpoint(staged, tell), ops)
            ops.keep_up_to(config.trunk_cache_bytes or 0, model.shapes)
            graphs = recorded_graphs(model, ops, tell)
        except torch.OutOfMemoryError as error:
            raise Unusable(
                f"the card ran out of memory while the model was loaded, although {choice}: another "
                "process has taken some meanwhile; free it, or take a smaller model"
            ) from error
        fingerprint = gpu_fingerprint(
            digest.result(), scheme_facts(opened, choice.scheme), card_facts(card)
        )
    return ModelForward(model, ops, graphs), fingerprint


def gpu_ops(device: torch.device, scheme: Scheme) -> "GpuOps":
    """The operations of a card, with the weights of linear layers in a scheme."""
    # Triton is not there on every machine that serves from its CPU.
    from spinf_serve.engine.kernels.gpu import GpuOps

    return GpuOps(dtype=torch.bfloat16, device=device, scheme=_SCHEMES[scheme])


def recorded_graphs(model: Model, ops: "GpuOps", tell: Tell) -> "Graphs | None":
    """Small passes of a model, recorded; None under Triton's interpreter, which launches nothing."""
    if ops.device.type != "cuda":
        return None
    from spinf_serve.engine.graphs import Graphs

    # What loading took besides the weights is wanted for passes.
    torch.cuda.empty_cache()
    tell("compiling kernels and recording small passes")
    graphs = Graphs(model, ops)
    graphs.record()
    return graphs


def scheme_facts(opened: OpenedModel, scheme: Scheme) -> GpuScheme:
    """What of a scheme goes into the fingerprint."""
    stored = opened.stored_as
    static = scheme == "fp8" and stored is not None and stored.activations == "static"
    return GpuScheme(scheme, "static" if static else _SCHEMES[scheme].activations, "bfloat16")


def card_facts(card: Card) -> CardFacts:
    """What of a card and its libraries goes into the fingerprint."""
    major, minor = card.capability
    return CardFacts(
        name=card.name,
        capability=f"{major}.{minor}",
        torch=version("torch"),
        triton=version("triton"),
        cuda=str(torch.version.cuda),
    )


def _engine(
    opened: OpenedModel,
    forward: ModelForward,
    fingerprint: Fingerprint,
    config: EngineConfig,
    limits: Limits,
) -> Engine:
    return Engine(
        served=opened.served,
        tokenizer=opened.tokenizer,
        forward=forward,
        fingerprint=fingerprint,
        config=config,
        limits=limits,
        context_tokens=opened.spec.context,
    )


def _limits(limits: Limits, config: EngineConfig, opened: OpenedModel) -> Limits:
    """The limits, with those of the model's manifest where nobody set one."""
    return replace(
        limits,
        **{name: most for name, most in opened.limits.items() if name in config.open_limits},
    )


def _cache_bytes_on_cpu(config: EngineConfig) -> int:
    """Memory for kept trunks; the process takes it as they come."""
    wanted = config.trunk_cache_bytes
    return CPU_TRUNK_CACHE_BYTES if wanted is None else wanted


def _cache_bytes_on_card(config: EngineConfig, choice: Choice) -> int:
    """Memory for kept trunks: a quarter of what the model leaves, if nobody says.

    The rest stays for other processes, for recorded passes, and for trees that need more of their
    own trunk than there is room for.

    Raises:
        Unusable: more was asked for than the model leaves.
    """
    left = max(0, choice.free_bytes - choice.memory.total)
    wanted = config.trunk_cache_bytes
    if wanted is None:
        return left // 4
    if wanted > left:
        raise Unusable(
            f"trunk_cache_bytes is {wanted:,}, and the model leaves {left:,} bytes of the card's "
            "memory; lower it, or leave it out for a quarter of what is left"
        )
    return wanted


def _token_budget(config: EngineConfig, opened: OpenedModel, card: Card | None) -> int:
    if config.token_budget is not None:
        return config.token_budget
    if card is None:
        return CPU_TOKEN_BUDGET
    return opened.token_budget or GPU_TOKEN_BUDGET
