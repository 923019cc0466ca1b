"""One content's answers to categories, a decision and a route: the one evaluator of all callers.

Server, command line, evals and workbench call this. Knows no text, no engine and no HTTP.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from spinf_serve.packs.categories import CategoryScore, category_macros, category_scores
from spinf_serve.packs.decision import (
    DecisionCall,
    Routed,
    Verdict,
    choose,
    decide,
    thresholds,
)
from spinf_serve.packs.digests import asked_digest, constants_digest
from spinf_serve.packs.errors import Fault
from spinf_serve.packs.pack import Constants, Pack, State
from spinf_serve.packs.reads import Vectors, read_z


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a pack says of one content. All numbers are unrounded float64.

    Attributes:
        z: read -> distance of its value from the usual one, in standard deviations.
        macros: category -> mean z.
        categories: category -> score, percentile, flag, band; in the order of the file.
        verdict: safe or unsafe, and why.
        route: where the content goes; None when the pack has no route.
    """

    z: Mapping[str, float]
    macros: Mapping[str, float]
    categories: Mapping[str, CategoryScore]
    verdict: Verdict
    route: Routed | None


def evaluate(
    pack: Pack, constants: Constants, chunks: Sequence[Vectors], call: DecisionCall
) -> Evaluation:
    """Evaluate one content.

    Args:
        constants: what was fitted on the model that answered.
        chunks: the content's answers, see `reads.vectors`; one, unless the content was cut as the
            pack's `on_long` says: then each read's z is the `max` or `mean` over the chunks.
        call: has passed `decision.check_call`.

    Raises `Fault` when an answer, or what follows from it, is not a finite number.
    """
    if not chunks or (len(chunks) > 1 and pack.on_long == "refuse"):
        raise ValueError(
            f"{len(chunks)} chunks for the pack {pack.id}, whose on_long is {pack.on_long!r}"
        )
    z = combined(pack, [read_z(pack, constants, chunk) for chunk in chunks])
    macros = category_macros(pack, z)
    scores = category_scores(pack, constants, macros, thresholds(pack, constants, call))
    verdict = decide(pack, constants, call, scores, macros, z)
    numbers = (*z.values(), *macros.values(), verdict.score or 0.0)
    if not all(map(isfinite, numbers)):
        raise Fault(f"the pack {pack.id} gives a number that is not finite on this content")
    route = None if pack.route is None else choose(pack.route, scores)
    return Evaluation(z, macros, scores, verdict, route)


def state(pack: Pack, constants: Constants | None, model_digest: str) -> State:
    """How far the pack's thresholds can be trusted on a model.

    A proof names what it was made on: the model, the constants, and what the pack asks. With any of
    them changed it proves nothing.

    Args:
        constants: what was fitted on it; None for a draft.
        model_digest: the serving engine's digest of weights, scheme, dtype and numerics, 64 hex
            digits: a proof made on other numbers proves nothing here.
    """
    if constants is None:
        return "draft"
    proof = constants.proof
    if (
        proof is not None
        and proof.get("model") == model_digest
        and proof.get("constants") == constants_digest(constants)
        and proof.get("asked") == asked_digest(pack.body)
    ):
        return "certified"
    return "provisional"


def combined(pack: Pack, chunks: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Each read's z of a content from those of its chunks, one or more, as `on_long` says."""
    if len(chunks) == 1:
        return dict(chunks[0])
    if pack.on_long == "max":
        return {read.id: max(z[read.id] for z in chunks) for read in pack.reads}
    return {read.id: sum(z[read.id] for z in chunks) / len(chunks) for read in pack.reads}
