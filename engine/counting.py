"""What a model makes of texts, its tokens and its tree, without its weights."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from spinf_serve.engine.config import AUTO, EngineConfig
from spinf_serve.engine.text.tokenizer import Tokenizer
from spinf_serve.engine.work import Counts, Limits, Work


class Compiles(Protocol):
    """What turns a work into tokens."""

    def __call__(self, work: Work) -> Counts:
        """Its token counts. Raises `Refused` as an engine does."""
        ...


@dataclass(frozen=True, slots=True)
class Counting:
    """What a model makes of texts.

    Attributes:
        model: its id.
        count: a work's tokens.
        lint_residual, lint_floor: see `spinf_serve.engine.models.served`.
    """

    model: str
    tokenizer: Tokenizer
    limits: Limits
    count: Compiles
    lint_residual: float | None = None
    lint_floor: float | None = None


def counting_without_weights(
    config: EngineConfig, limits: Limits, say: Callable[[str], None]
) -> Counting:
    """The configured model's, whose weights are not read. Raises `Unusable`."""
    from spinf_serve.engine.card import find_card
    from spinf_serve.engine.loading.locate import obtainable
    from spinf_serve.engine.loading.open import open_checkpoint
    from spinf_serve.engine.placement import default_model, place
    from spinf_serve.engine.scoring.job import compile_job
    from spinf_serve.engine.scoring.question_set import Compiler

    name = config.model
    if name == AUTO:
        card = place(config, find_card).card
        name, _ = default_model(card, partial(obtainable, offline=config.offline))
    opened = open_checkpoint(name, offline=config.offline, say=say)
    # As an engine takes them: the model's own where nobody set one.
    own = {name: most for name, most in opened.limits.items() if name in config.open_limits}
    taken: Limits = replace(limits, **own)
    compiler = Compiler(opened.tokenizer, taken)

    def count(work: Work) -> Counts:
        return compile_job(work, compiler, opened.tokenizer, taken, opened.spec.context).counts

    served = opened.served
    return Counting(
        served.id, opened.tokenizer, taken, count, served.lint_residual, served.lint_floor
    )
