"""`spinf-serve doctor`: checks on this machine that a score is what it should be, and says so."""

import hashlib
import importlib.util
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from spinf_serve.engine.api import Engine
from spinf_serve.engine.bench.checks import Check, answer_bits, digest_of, invariance_checks
from spinf_serve.engine.bench.machine import commit
from spinf_serve.engine.bench.output import write_json
from spinf_serve.engine.bench.passes import rows_of, without_floors, works_of_many_lengths
from spinf_serve.engine.bench.results import today
from spinf_serve.engine.bench.sweep import MOST_ROWS, sweep
from spinf_serve.engine.bench.synthetic import SyntheticScheme
from spinf_serve.engine.card import Card, find_card
from spinf_serve.engine.config import GPU_TOKEN_BUDGET, EngineConfig
from spinf_serve.engine.opening import opened_engine
from spinf_serve.engine.work import Limits, Result, Work

Say = Callable[[str], None]

# Of `--invariance`: passes as large as a card's, on the CPU too.
_SWEEP_BUDGET = max(MOST_ROWS, GPU_TOKEN_BUDGET)
_SHOWN_SIZES = 8


@dataclass(frozen=True, slots=True)
class MadeUp:
    """A model with weights from a seed, to look at a card without a model's files.

    Attributes:
        name: a key of `synthetic_models.SYNTHETIC_MODELS`.
        scheme: how its weights present themselves.
        tokenizer: where one lies; None takes the embedded model's.
    """

    name: str
    scheme: SyntheticScheme
    tokenizer: Path | None


def run(
    config: EngineConfig,
    *,
    invariance: bool = False,
    made_up: MadeUp | None = None,
    out: Path | None = None,
    say: Say = print,
) -> bool:
    """Opens the model, compares scores bit for bit, prints what it finds; True when all is well.

    Args:
        invariance: also sweeps numbers of contents, questions and rows in a pass.
        made_up: looks at this instead of the configuration's model.
        out: gets what was found as JSON, with digests of the answers' bits: two machines with one
            `bits` digest have one `answers_sha256` too.
    """
    card = find_card()
    for line in _machine(card):
        say(line)
    if invariance and config.token_budget is None:
        config = replace(config, token_budget=_SWEEP_BUDGET)
    start = time.perf_counter()
    engine = _opened(config, made_up, lambda line: say(f"  {line}"))
    how = engine.fingerprint.facts["scheme"] if _on_card(engine) else engine.config.dtype
    say(f"model         {engine.served.id} ({how}), {time.perf_counter() - start:.2f} s")
    say(f"model digest  {engine.fingerprint.model}")
    say(f"bits digest   {engine.fingerprint.bits}")
    works = works_of_many_lengths(engine.tokenizer)
    answers = engine.run(works)
    say(f"answers       {digest_of(answers)} (sha256 of their bits)")
    say("checks        every answer compared bit for bit")
    checks = _told(invariance_checks(engine, works), say)
    if invariance:
        checks += _told(sweep(engine, say), say)
    good = all(one.passed for one in checks)
    say("all checks passed" if good else "CHECKS FAILED: scores on this machine are not pure")
    if out is not None:
        write_json(out, _report(engine, card, works, answers, checks))
    return good


def _opened(config: EngineConfig, made_up: MadeUp | None, tell: Say) -> Engine:
    """The engine, without the check at load, which would refuse a card before one sees why."""
    if made_up is None:
        return opened_engine(config, Limits(), tell, checked=False)
    # It needs Triton, which not every machine has.
    from spinf_serve.engine.bench.synthetic_engine import synthetic_engine, tokenizer_at

    tokenizer = tokenizer_at(made_up.tokenizer)
    return synthetic_engine(made_up.name, made_up.scheme, tokenizer, config, Limits(), tell).engine


def _told(checks: Iterable[Check], say: Say) -> list[Check]:
    """Runs checks and says each as it comes."""
    found = []
    for one in checks:
        found.append(one)
        verdict = "same bits"
        if not one.passed:
            verdict = f"{one.different} of {one.compared} DIFFER"
        if one.sizes:
            more = ", …" if len(one.sizes) > _SHOWN_SIZES else ""
            verdict += f", at {', '.join(map(str, one.sizes[:_SHOWN_SIZES]))}{more}"
        say(f"  {one.name:36} {one.compared:5d} answers  {verdict}")
    return found


def _report(
    engine: Engine,
    card: object,
    works: Sequence[Work],
    answers: Sequence[Result],
    checks: Sequence[Check],
) -> dict[str, Any]:
    return {
        "format": "spinf-doctor-1",
        "command": " ".join(["spinf-serve", *sys.argv[1:]]),
        "commit": commit(),
        "date": today(),
        "model": engine.served.id,
        "revision": engine.served.revision,
        "model_digest": engine.fingerprint.model,
        "bits_digest": engine.fingerprint.bits,
        "facts": dict(engine.fingerprint.facts),
        "card": str(card) if isinstance(card, Card) else None,
        "libraries": _libraries(),
        "token_budget": engine.config.pass_tokens,
        "checks": [{**asdict(one), "passed": one.passed} for one in checks],
        "answers_sha256": digest_of(answers),
        "answers": [
            {
                "rows": rows_of(engine, without_floors(work)),
                "sha256": hashlib.sha256(b"".join(answer_bits(answer))).hexdigest(),
            }
            for work, answer in zip(works, answers, strict=True)
        ],
    }


def _on_card(engine: Engine) -> bool:
    return engine.fingerprint.facts["backend"] == "cuda"


def _machine(card: object) -> list[str]:
    """Versions, processor and card, a line each."""
    capability = torch.backends.cpu.get_cpu_capability()
    shown = ", ".join(f"{name} {number}" for name, number in _libraries().items())
    lines = [f"processor     {capability}, {torch.get_num_threads()} threads"]
    if isinstance(card, Card):
        lines.append(f"card          {card}")
    return [*lines, f"libraries     {shown}"]


def _libraries() -> dict[str, str]:
    optional = [name for name in ("triton", "transformers") if importlib.util.find_spec(name)]
    found = {name: version(name) for name in ("torch", "numpy", "tokenizers", *optional)}
    return found if torch.version.cuda is None else {**found, "cuda": torch.version.cuda}
