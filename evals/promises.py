"""Promises in a pack's proof, held to new labels by the counts that they were made on.

Only rows that a promise could have been made on count: labelled, drawn at random (or thinned by
their weights to be), one of each group. Knows the layout of a proof, and no file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from spinf_serve.evals.drift import Counted, rate_drift
from spinf_serve.evals.eligible import eligible
from spinf_serve.evals.gate import LEVEL, Outcome, fulfilled, promise_kept, same_numbers
from spinf_serve.evals.judged import Evaluation, Judged
from spinf_serve.evals.measuring import Known
from spinf_serve.evals.proof import REWEIGHTED
from spinf_serve.packs.digests import asked_digest, constants_digest
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.pack import Constants, Pack

_KINDS = ("precision", "recall", "npv", "flag_rate")


@dataclass(frozen=True, slots=True)
class Promise:
    """One promise.

    Attributes:
        name: as the proof has it: a target, or target and band as `spam/act`.
        kind: what was promised: `precision`, `recall`, `npv` or `flag_rate`.
        value: the limit.
        delta: the chance of being wrong that it was made with.
        cut: rows with this score and above are flagged.
        recorded: rows that kept it when it was made, of those it counts; of `flag_rate` the rows
            that were not flagged, so that fewer is worse for each kind.
        reweighted: whether those rows were drawn class by class: new ones at random then differ
            from them in their counts, and are held to the limit itself.
    """

    name: str
    kind: str
    value: float
    delta: float
    cut: float
    recorded: Counted
    reweighted: bool

    @property
    def target(self) -> str:
        """A category, or `decision`."""
        return self.name.partition("/")[0]

    @property
    def is_threshold(self) -> bool:
        """Whether it is about what is flagged, and not about a band."""
        return self.target == self.name

    def __str__(self) -> str:
        sign = "<=" if self.kind == "flag_rate" else ">="
        band = "" if self.is_threshold else f"{self.name.partition('/')[2]}: "
        return f"{band}{self.kind} {sign} {self.value:g}"


def promises_of(proof: Mapping[str, Any] | None) -> list[Promise]:
    """The promises that a proof tells; none without one. Raises `Unusable` for what is none."""
    if proof is None:
        return []
    found = []
    told = proof.get("promises", {})
    if not isinstance(told, Mapping):
        raise Unusable("the pack's proof: promises is no mapping; fit the pack again")
    for name, one in told.items():
        try:
            kind, rows, hits = one["target"], one["rows"], one["hits"]
            if kind not in _KINDS:
                raise ValueError(f"target {kind!r}")
            kept = rows - hits if kind == "flag_rate" else hits
            found.append(
                Promise(
                    str(name),
                    kind,
                    float(one["value"]),
                    float(one["delta"]),
                    float(one["cut"]),
                    Counted(kept, rows),
                    one["method"] == REWEIGHTED,
                )
            )
        except (KeyError, TypeError, ValueError) as fault:
            raise Unusable(
                f"the pack's proof: the promise {name!r} cannot be read ({fault}); fit the pack again"
            ) from None
    return found


def proof_stands(pack: Pack, constants: Constants, model_digest: str) -> list[Outcome]:
    """Whether the proof is about the model that answers, and about the pack as it stands.

    Args:
        model_digest: 64 hex digits; empty when a server does not tell it.
    """
    proof = constants.proof
    if proof is None:
        return []
    rule = "the proof is about this pack as it stands"
    outcomes = [same_numbers("the pack's proof", str(proof.get("model", "")), model_digest)]
    for part, digest, what in (
        ("constants", constants_digest(constants), "its numbers were changed since"),
        ("asked", asked_digest(pack.body), "what it asks was changed since"),
    ):
        if part in proof and proof[part] != digest:
            saw = f"{what} the proof was made: fit it again"
            outcomes.append(Outcome(rule, "", "cannot judge", saw))
    return outcomes


def notes_of(promises: Sequence[Promise], proof: Mapping[str, Any] | None, data: str) -> list[str]:
    """What to know of a pack's promises, a line each.

    Args:
        data: digest of the rows that they are held to.
    """
    if proof is None:
        return ["the pack has no proof on this model: nothing is promised"]
    notes = []
    if len(promises) > 1:
        wrong = sum(one.delta for one in promises)
        notes.append(
            f"the pack makes {len(promises)} promises; up to {wrong:.2g} of them are wrong on average"
        )
    left_open = proof.get("open", [])
    if left_open:
        notes.append(f"no promise stands behind {', '.join(map(str, left_open))}")
    if promises and proof.get("data") == data:
        notes.append("the promises were made on these very rows, which then can only bear them out")
    return notes


def counted(promise: Promise, judged: Judged, rows: Sequence[Known]) -> Counted:
    """How new rows keep a promise; `rows` are those of `judged`, in its order."""
    flagged = _flagged(promise, judged)
    if flagged is None:
        return Counted(0, 0)
    labelled = np.array([label is not None for label in judged.labels], dtype=bool)
    weights = [np.nan if row.weight is None else row.weight for row in rows]
    drawn = [row.drawn for row in rows]
    chosen = eligible(labelled, judged.groups, np.array(weights, dtype=np.float64), drawn).rows
    holds = np.array([judged.labels[index] for index in chosen], dtype=bool)
    return _counted(promise.kind, flagged[chosen], holds)


def _flagged(promise: Promise, judged: Judged) -> NDArray[np.bool_] | None:
    """What the promise is about: the verdicts where it is about these, else the rows at its cut."""
    in_force = judged.threshold in (None, promise.cut)
    if promise.is_threshold and in_force and judged.flagged is not None:
        return np.array(judged.flagged, dtype=bool)
    return None if judged.scores is None else judged.scores >= promise.cut


def _counted(kind: str, flagged: NDArray[np.bool_], holds: NDArray[np.bool_]) -> Counted:
    kept, of = {
        "precision": (flagged & holds, flagged),
        "recall": (flagged & holds, holds),
        "npv": (~flagged & ~holds, ~flagged),
        "flag_rate": (~flagged, np.ones_like(flagged)),
    }[kind]
    return Counted(int(kept.sum()), int(of.sum()))


def promises_kept(
    promises: Sequence[Promise], evaluation: Evaluation, rows: Sequence[Known]
) -> list[Outcome]:
    """Test each promise on new rows; the level is shared by all (C. E. Bonferroni)."""
    by_id = {row.id: row for row in rows}
    outcomes = []
    for promise in promises:
        target = evaluation.target(promise.target)
        if target is None:
            saw = f"the pack has no verdict of the name {promise.target}"
            outcomes.append(Outcome(str(promise), promise.target, "cannot judge", saw))
            continue
        judged = target.judged
        new = counted(promise, judged, [by_id[id] for id in judged.rows])
        level = LEVEL / len(promises)
        if promise.reweighted:
            outcomes.append(_held_to_limit(promise, new, level))
        else:
            drift = rate_drift(promise.recorded, new)
            outcomes.append(promise_kept(promise.target, str(promise), drift, level))
    return outcomes


def _held_to_limit(promise: Promise, new: Counted, level: float) -> Outcome:
    """One-sided exact binomial test of the limit, by new rows alone."""
    least = 1 - promise.value if promise.kind == "flag_rate" else promise.value
    p = least_p = 1.0
    if new.n:
        p = float(binomtest(new.k, new.n, least, alternative="less").pvalue)
        least_p = (1 - least) ** new.n
    return fulfilled(promise.target, str(promise), new, p, least_p, level)
