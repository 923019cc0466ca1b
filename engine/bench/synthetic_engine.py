"""An engine around synthetic weights on a card, or under Triton's interpreter for a tiny model."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Final

import torch
from triton import knobs

from spinf_serve.engine.api import Engine
from spinf_serve.engine.bench.machine import card_of
from spinf_serve.engine.bench.synthetic import SyntheticCheckpoint, SyntheticScheme, parameters
from spinf_serve.engine.bench.synthetic_models import synthetic_spec
from spinf_serve.engine.card import Card, NoCard, find_card
from spinf_serve.engine.config import GPU_TOKEN_BUDGET, EngineConfig
from spinf_serve.engine.fingerprint import CardFacts, GpuScheme, gpu_fingerprint
from spinf_serve.engine.forward import ModelForward
from spinf_serve.engine.kernels.device import capability_of
from spinf_serve.engine.kernels.gpu import GpuOps
from spinf_serve.engine.kernels.ops import WeightScheme
from spinf_serve.engine.loading.embedded import embedded_file, embedded_source
from spinf_serve.engine.loading.gguf import read_gguf
from spinf_serve.engine.loading.gguf_tokenizer import tokenizer_from_gguf
from spinf_serve.engine.loading.json_tokenizer import TOKENIZER, tokenizer_from_folder
from spinf_serve.engine.loading.sizes import model_sizes
from spinf_serve.engine.models.decoder import Decoder
from spinf_serve.engine.models.families import FAMILIES
from spinf_serve.engine.models.served import ServedModel
from spinf_serve.engine.opening import recorded_graphs
from spinf_serve.engine.placement import check_on_card
from spinf_serve.engine.quantization.choose import Scheme, choose_scheme, fitting_scheme
from spinf_serve.engine.text.tokenizer import Tokenizer
from spinf_serve.engine.work import Limits
from spinf_serve.packs.errors import Unusable

Say = Callable[[str], None]

_TINY: Final = "gemma-4-tiny"
_SCHEMES: Final = {
    "static": WeightScheme("fp8", "rows"),
    "rows": WeightScheme("fp8", "rows"),
    "int8": WeightScheme("int8", "16bit"),
    "bf16": WeightScheme(),
}
_KINDS: Final[dict[SyntheticScheme, Scheme]] = {
    "static": "fp8",
    "rows": "fp8",
    "int8": "int8",
    "bf16": "bf16",
}


@dataclass(frozen=True, slots=True)
class Synthetic:
    """An engine and what of it a measurement looks into.

    Attributes:
        engine: opened, on `device`.
        model: its model.
        load_seconds: how long the weights took.
    """

    engine: Engine
    model: Decoder
    device: torch.device
    load_seconds: float


def synthetic_engine(
    name: str,
    scheme: SyntheticScheme,
    tokenizer: Tokenizer,
    config: EngineConfig,
    limits: Limits,
    say: Say,
) -> Synthetic:
    """Makes the weights on the card and opens an engine on them.

    Args:
        name: a key of `SYNTHETIC_MODELS`; the tiny one also runs where there is no card.
        scheme: how the weights present themselves.
        tokenizer: of another model: ids below its size are used, of the vocabulary that the model
            has.
        config: its token budget, and what else is not of the model.

    Raises `Unusable` without a card, for one that is too small or does not compute in the scheme, for
    an unknown name, or a tokenizer with too many tokens.
    """
    spec = synthetic_spec(name)
    if name == _TINY:
        # As small as its tokenizer allows; tiles of the head are a multiple of this.
        spec = replace(spec, vocab=-(-tokenizer.vocab_size // 64) * 64)
    if tokenizer.vocab_size > spec.vocab:
        raise Unusable(
            f"the tokenizer has {tokenizer.vocab_size} tokens, more than the {spec.vocab} of {name}"
        )
    config = replace(config, token_budget=config.token_budget or GPU_TOKEN_BUDGET)
    card = _card(name, config)
    device = torch.device("cpu") if card is None else card.device
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    say(f"making {parameters(spec) / 1e9:.1f} billion weights of {name} on {device}")
    start = time.perf_counter()
    checkpoint = SyntheticCheckpoint(spec, scheme, device)
    if card is not None:
        _check(card, checkpoint, config, limits)
    ops = GpuOps(dtype, device, _SCHEMES[scheme])
    try:
        model = Decoder(FAMILIES[spec.family], spec, checkpoint, ops)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
            # What the making of weights took besides is wanted for passes.
            torch.cuda.empty_cache()
        ops.keep_up_to(config.trunk_cache_bytes or 0, model.shapes)
        seconds = time.perf_counter() - start
        graphs = recorded_graphs(model, ops, say)
    except torch.OutOfMemoryError as error:
        raise Unusable(
            f"the card ran out of memory while weights of {name} were made: another process may hold "
            "some; free it, or lower the token budget"
        ) from error
    activations = {"static": "static", "rows": "rows"}.get(scheme, "16bit")
    engine = Engine(
        served=_served(name),
        tokenizer=tokenizer,
        forward=ModelForward(model, ops, graphs),
        fingerprint=gpu_fingerprint(
            checkpoint.digest,
            GpuScheme(_KINDS[scheme], activations, str(dtype).removeprefix("torch.")),
            _card_facts(device),
        ),
        config=config,
        limits=limits,
        context_tokens=spec.context,
    )
    return Synthetic(engine, model, device, seconds)


def tokenizer_at(path: Path | None) -> Tokenizer:
    """The tokenizer of a tokenizer.json, of the folder of one, or of a GGUF file; None: the embedded
    model's.

    Raises `Unusable` with the remedy when there is none.
    """
    if path is None:
        return tokenizer_from_gguf(read_gguf(embedded_file(embedded_source())))
    if not path.exists():
        raise Unusable(f"--tokenizer {path} does not exist")
    if path.is_dir():
        return tokenizer_from_folder(path)
    if path.suffix == ".gguf":
        return tokenizer_from_gguf(read_gguf(path))
    if path.name != TOKENIZER:
        raise Unusable(f"--tokenizer {path} should be a {TOKENIZER}, its folder, or a GGUF file")
    return tokenizer_from_folder(path.parent)


def _card(name: str, config: EngineConfig) -> Card | None:
    """The card; None for the interpreter, under which the tiny model runs."""
    found = NoCard("--device cpu was asked for", "leave it out")
    if config.device != "cpu":
        looked = find_card()
        if isinstance(looked, Card):
            return looked
        found = looked
    if name != _TINY:
        raise Unusable(
            f"{name} needs an NVIDIA GPU, and {found.why}: {found.remedy}; "
            f"--synthetic {_TINY} runs under Triton's interpreter, with TRITON_INTERPRET=1 set"
        )
    if config.device == "cuda":
        raise Unusable(f"--device cuda: {found.why}; {found.remedy}, or leave --device out")
    if not knobs.runtime.interpret:
        raise Unusable(
            f"{name} runs under Triton's interpreter here, as {found.why}: set TRITON_INTERPRET=1"
        )
    return None


def _check(
    card: Card, checkpoint: SyntheticCheckpoint, config: EngineConfig, limits: Limits
) -> None:
    """Raises `Unusable` where the card does not compute in the scheme, or is too small."""
    kind = _KINDS[checkpoint.scheme]
    fitting = fitting_scheme(card.capability, card.has_fp8)
    if kind == "fp8" and fitting != "fp8":
        raise Unusable(
            f"--scheme {checkpoint.scheme} is fp8, which {card.name} does not compute in; take "
            f"--scheme {fitting}"
        )
    check_on_card(checkpoint.spec, card.capability, config.pass_tokens)
    choose_scheme(
        card.capability,
        card.has_fp8,
        card.free_bytes,
        model_sizes(checkpoint.spec, checkpoint),
        wanted=kind,
        pass_tokens=config.pass_tokens,
        kept_tokens=min(limits.max_content_tokens, checkpoint.spec.context),
    )


def _card_facts(device: torch.device) -> CardFacts:
    return CardFacts(
        name=card_of(device).name if device.type == "cuda" else "interpreter",
        capability=".".join(map(str, capability_of(device))),
        torch=torch.__version__,
        triton=version("triton"),
        cuda=torch.version.cuda or "none",
    )


def _served(name: str) -> ServedModel:
    return ServedModel(
        id=f"synthetic/{name}",
        name=f"synthetic/{name}",
        description=f"Made-up weights of the size of {name}: its answers mean nothing",
        release_date="2026-01-01",
        aliases=(),
        base_model=f"synthetic/{name}",
        family="gemma4",
        capabilities=("score", "extract", "generate"),
        media=(),
        stand_in=True,
        note="the weights are made up, so are the answers",
        revision="1",
    )
