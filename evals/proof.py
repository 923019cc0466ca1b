"""The proof that a pack's file carries: what its cuts promise, and everything they rest on.

A pack is certified on a model when every cut in force has a promise. Then the proof names the digests
that `spinf_serve.packs.evaluate.state` looks for; with a cut left open it names them not, and the pack
stays provisional. Who made it stands in the project file, not here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spinf_serve.evals.certificates import Certificate
from spinf_serve.evals.judged import DECISION
from spinf_serve.evals.wishes import Answer
from spinf_serve.packs.digests import asked_digest, constants_digest
from spinf_serve.packs.pack import Constants, Pack

METHOD = "fixed-sequence exact binomial"
REWEIGHTED = "fixed-sequence exact bounds, re-weighted to the base rate"


@dataclass(frozen=True, slots=True)
class Basis:
    """What a proof rests on.

    Attributes:
        model: digest of weights, scheme, dtype and numerics, 64 hex digits.
        fingerprint: digest that also tells machines apart, 64 hex digits.
        data: digest of the rows and labels, 64 hex digits.
        rows: how many there are.
        date: when the proof was made, ISO.
    """

    model: str
    fingerprint: str
    data: str
    rows: int
    date: str


def proof(
    pack: Pack, constants: Constants, answers: Sequence[Answer], basis: Basis
) -> dict[str, Any] | None:
    """What goes into the file; None when nothing is promised.

    Args:
        constants: as they will be saved.
        answers: those whose cuts are in force.
    """
    promises = {
        promise.name: _told(promise.result, promise.cut)
        for given in answers
        for promise in given.promises
        if isinstance(promise.result, Certificate) and promise.cut is not None
    }
    if not promises:
        return None
    left_open = open_cuts(pack, constants, promises)
    made: dict[str, Any] = {"model": basis.model}
    if not left_open:
        made |= {"constants": constants_digest(constants), "asked": asked_digest(pack.body)}
    made |= {
        "fingerprint": basis.fingerprint,
        "data": basis.data,
        "rows": basis.rows,
        "date": basis.date,
        "promises": promises,
    }
    return made | ({"open": left_open} if left_open else {})


def open_cuts(pack: Pack, constants: Constants, promises: Mapping[str, Any]) -> list[str]:
    """The cuts in force that nothing is promised of, by the names that promises have."""
    bands = constants.bands
    wanted: list[tuple[str, str]] = []
    for id, fit in constants.categories.items():
        if fit.threshold is not None:
            wanted.append((id, f"{id}/act"))
    decided = pack.decision.mode == "max" and constants.max_threshold is not None
    if decided or (pack.decision.mode == "micro_layer" and constants.layer is not None):
        wanted.append((DECISION, f"{DECISION}/act"))
    # A band's cuts are promises of their own, whoever set them.
    banded = [
        *(bands.categories if bands else ()),
        *([DECISION] if bands and bands.decision else ()),
    ]
    wanted += [(f"{id}/{band}", f"{id}/{band}") for id in banded for band in ("act", "review")]
    return [name for name, other in wanted if name not in promises and other not in promises]


def _told(made: Certificate, cut: float | None) -> dict[str, Any]:
    """A promise in plain values, at full precision."""
    point = made.point
    return {
        "target": made.target.kind,
        "value": made.target.value,
        "delta": made.delta,
        "method": REWEIGHTED if made.stated else METHOD,
        "cut": cut,
        "rows": point.n,
        "hits": point.k,
        "rate": point.estimate,
        "bound": point.bound,
        "interval": [point.interval.low, point.interval.high],
        "coverage": point.coverage,
        "base_rate": made.base_rate,
    }
