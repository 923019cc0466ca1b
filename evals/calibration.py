"""Maps from a stated probability to the share that holds: Platt, beta, isotonic.

All rise or stay level, so none changes the order of rows. Platt's and the beta map keep ties and
distinct values apart and serve below a cut too; the isotonic one has plateaus, where a cut would
fall into a tie, and is for display only. Knows no dataset; a map is only as good as the rows that
it was made from, and is judged on others (`held_out`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, assert_never

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special
from sklearn.isotonic import IsotonicRegression

from spinf_serve.evals.columns import (
    Numbers,
    Truths,
    effective_count,
    group_codes,
    probabilities,
    same_length,
    truths,
    weights_of,
)
from spinf_serve.evals.cross_fit import split
from spinf_serve.evals.metrics.areas import gap
from spinf_serve.evals.metrics.probability import LEAST_P, logit
from spinf_serve.packs.errors import Refused
from spinf_serve.packs.logistic import platt as platt_of

Kind = Literal["platt", "beta", "isotonic"]

BETA_ROWS = 100
"""Labels from which the beta map's third number pays; below, Platt's map is better."""

ISOTONIC_ROWS = 1000
"""Labels below which an isotonic map is refused: it is worse than no map at all at 50."""

FEW_ROWS = 30
"""Labels, and labels of the rarer kind 10, below which a map is called provisional."""

_FEW_OF_A_KIND = 10
_FLAT_SPREAD = 1e-9


@dataclass(frozen=True, slots=True)
class PlattMap:
    """`sigmoid(slope * logit p + shift)`, slope at least 0."""

    slope: float
    shift: float

    def apply(self, p: ArrayLike) -> Numbers:
        """Map probabilities [N] to probabilities [N]."""
        return np.asarray(special.expit(self.slope * logit(p) + self.shift))


@dataclass(frozen=True, slots=True)
class BetaMap:
    """`sigmoid(on_p * ln p - on_rest * ln(1 - p) + shift)`, both slopes at least 0."""

    on_p: float
    on_rest: float
    shift: float

    def apply(self, p: ArrayLike) -> Numbers:
        """Map probabilities [N] to probabilities [N]."""
        inputs = _beta_inputs(probabilities("p", p))
        return np.asarray(special.expit(inputs @ [self.on_p, self.on_rest] + self.shift))


@dataclass(frozen=True, slots=True)
class IsotonicMap:
    """Straight lines between points, level beyond the first and last; for display, not for cuts.

    Attributes:
        p: rising, what goes in.
        share: never falling, what comes out there.
    """

    p: tuple[float, ...]
    share: tuple[float, ...]

    def apply(self, p: ArrayLike) -> Numbers:
        """Map probabilities [N] to probabilities [N]."""
        return np.interp(probabilities("p", p), self.p, self.share)


Map = PlattMap | BetaMap | IsotonicMap


@dataclass(frozen=True, slots=True)
class Calibration:
    """A fitted map.

    Attributes:
        kind: which.
        map: with `apply`.
        rows, positives: what it was made from.
        notes: what the rows did not tell, in words.
    """

    kind: Kind
    map: Map
    rows: int
    positives: int
    notes: tuple[str, ...]


def choose(rows: int) -> Kind:
    """The map for this many labels: Platt's below `BETA_ROWS`, then beta.

    Never isotonic: with 3,000 labels it is no better than beta, with 50 worse than the raw scores
    (A. Niculescu-Mizil and R. Caruana, "Predicting good probabilities with supervised learning",
    ICML 2005, found it to over-fit below about 1,000).
    """
    return "platt" if rows < BETA_ROWS else "beta"


def fit(
    p: ArrayLike,
    holds: ArrayLike,
    kind: Kind | None = None,
    *,
    weights: ArrayLike | None = None,
    for_cuts: bool = False,
) -> Calibration:
    """Fit a map of one kind, with notes on what the rows do not tell.

    Args:
        p: [N], at least one row.
        holds: [N] bools, all known.
        kind: None takes that of `choose`.
        weights: [N], see `columns.weights_of`. Groups change no map, only how sure it is.
        for_cuts: whether a cut will be put on what comes out.

    Raises `Refused` (`invalid_field`) without rows, for an isotonic map with fewer than
    `ISOTONIC_ROWS` rows or below a cut, and for values that are no probabilities.
    """
    score, label = _pair(p, holds)
    if not len(score):
        raise Refused("invalid_field", "no labelled row: a calibration map needs at least one")
    kind = kind or choose(len(score))
    if kind == "isotonic" and for_cuts:
        raise Refused(
            "invalid_field",
            "an isotonic map has plateaus, where a cut falls into a tie; take platt or beta",
        )
    if kind == "isotonic" and len(score) < ISOTONIC_ROWS:
        raise Refused(
            "invalid_field",
            f"{len(score)} labelled rows, fewer than {ISOTONIC_ROWS}: an isotonic map would"
            f" over-fit; take {choose(len(score))}",
        )
    found = _map(kind, score, label, weights)
    return Calibration(kind, found, len(score), int(label.sum()), _notes(found, score, label))


def platt(p: ArrayLike, holds: ArrayLike, *, weights: ArrayLike | None = None) -> PlattMap:
    """Platt's map on logit p against his smoothed targets, see `packs.logistic.platt`.

    With weights the targets count the effective numbers of rows of each kind.
    """
    score, label = _pair(p, holds)
    x = logit(score)
    if weights is None:
        found = platt_of(x, label)
        return PlattMap(found.slope, found.shift)
    weight = weights_of(weights, len(score))
    (slope,), shift = _rising(x[:, None], _targets(label, weight), weight)
    return PlattMap(slope, shift)


def beta(p: ArrayLike, holds: ArrayLike, *, weights: ArrayLike | None = None) -> BetaMap:
    """The beta map of least log loss among those with both slopes at least 0.

    M. Kull, T. Silva Filho and P. Flach, "Beyond sigmoids: how to obtain well-calibrated
    probabilities from binary classifiers with beta calibration", Electronic Journal of Statistics
    11, 2017, doi 10.1214/17-EJS1338SI; here against Platt's smoothed targets, which keep the slopes
    finite where the rows are separable.
    """
    score, label = _pair(p, holds)
    weight = weights_of(weights, len(score))
    slopes, shift = _rising(_beta_inputs(score), _targets(label, weight), weight)
    return BetaMap(slopes[0], slopes[1], shift)


def isotonic(p: ArrayLike, holds: ArrayLike, *, weights: ArrayLike | None = None) -> IsotonicMap:
    """The rising steps of least squared error, joined by lines (scikit-learn's).

    B. Zadrozny and C. Elkan, "Transforming classifier scores into accurate multiclass probability
    estimates", KDD 2002, doi 10.1145/775047.775151.
    """
    score, label = _pair(p, holds)
    weight = weights_of(weights, len(score))
    found = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
    found.fit(score, label.astype(np.float64), sample_weight=weight)
    return IsotonicMap(
        tuple(np.asarray(found.X_thresholds_).tolist()),
        tuple(np.asarray(found.y_thresholds_).tolist()),
    )


def held_out(
    p: ArrayLike,
    holds: ArrayLike,
    kind: Kind | None = None,
    *,
    folds: int = 5,
    seed: int = 0,
    weights: ArrayLike | None = None,
    groups: Sequence[Any] | NDArray[Any] | None = None,
) -> Numbers:
    """Each row's calibrated p from a map that was fitted without it and its group, [N].

    The folds are stratified and by group. Raises `Refused` (`invalid_field`) when either kind has
    fewer groups than there are folds: some fold would then hold none of it.
    """
    score, label = _pair(p, holds)
    codes = group_codes(groups, len(score))
    weight = weights_of(weights, len(score))
    fewest = min(len(np.unique(codes[label])), len(np.unique(codes[~label])))
    if fewest < folds:
        raise Refused(
            "invalid_field",
            f"{fewest} independent rows of the rarer label, fewer than {folds} folds;"
            " label more, or ask for fewer folds",
        )
    # The kind for all rows: what is judged is the map that will be used.
    kind = kind or choose(len(score))
    out = np.empty(len(score))
    for kept, left in split(codes, label, folds, seed):
        given = None if weights is None else weight[kept]
        out[left] = _map(kind, score[kept], label[kept], given).apply(score[left])
    return out


def _map(kind: Kind, p: Numbers, holds: Truths, weights: ArrayLike | None) -> Map:
    match kind:
        case "platt":
            return platt(p, holds, weights=weights)
        case "beta":
            return beta(p, holds, weights=weights)
        case "isotonic":
            return isotonic(p, holds, weights=weights)
        case _:
            assert_never(kind)


def _pair(p: ArrayLike, holds: ArrayLike) -> tuple[Numbers, Truths]:
    score, label = probabilities("p", p), truths("labels", holds)
    same_length(len(label), p=score)
    return score, label


def _beta_inputs(p: Numbers) -> Numbers:
    held = np.clip(p, LEAST_P, 1 - LEAST_P)
    return np.column_stack([np.log(held), -np.log1p(-held)])


def _targets(holds: Truths, weight: Numbers) -> Numbers:
    """Platt's smoothed targets at the effective numbers of rows that hold and that do not."""

    def count(rows: Truths) -> float:
        return effective_count(weight[rows], np.arange(int(rows.sum())))

    positives, negatives = count(holds), count(~holds)
    return np.where(holds, (positives + 1) / (positives + 2), 1 / (negatives + 2))


def _rising(inputs: Numbers, targets: Numbers, weight: Numbers) -> tuple[list[float], float]:
    """Slopes, none below 0, and shift of least weighted mean log loss against soft targets.

    The loss is convex: where the bounded search stops is the optimum. The inputs are centred and
    scaled for it, so that its tolerances mean the same for every column.
    """
    share = weight / weight.sum()
    level = float(share @ targets)
    middle = share @ inputs
    spread = np.sqrt(share @ (inputs - middle) ** 2)
    tells = spread > _FLAT_SPREAD
    flat = float(np.log(level / (1 - level)))
    if not tells.any() or np.ptp(targets) == 0:
        return [0.0] * inputs.shape[1], flat
    scaled = np.where(tells, (inputs - middle) / np.where(tells, spread, 1), 0.0)
    rows = np.column_stack([scaled, np.ones(len(scaled))])

    def loss(given: Numbers) -> tuple[float, Numbers]:
        out = rows @ given
        fall = share * (special.expit(out) - targets)
        return float(share @ (np.logaddexp(0, out) - targets * out)), rows.T @ fall

    start = np.append(np.zeros(scaled.shape[1]), flat)
    found = optimize.minimize(
        loss,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * scaled.shape[1] + [(None, None)],
        options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 2000, "maxfun": 5000},
    )
    slopes = np.where(tells, found.x[:-1] / np.where(tells, spread, 1), 0.0)
    return slopes.tolist(), float(found.x[-1] - slopes @ middle)


def _notes(found: Map, score: Numbers, label: Truths) -> tuple[str, ...]:
    notes = []
    positives, rows = int(label.sum()), len(label)
    rarer = min(positives, rows - positives)
    edges = int(((score < LEAST_P) | (score > 1 - LEAST_P)).sum())
    if rarer == 0:
        notes.append(
            f"all {rows} rows are {'positive' if positives else 'negative'}: the map is one"
            " number, whatever p is; label rows of the other kind"
        )
    elif np.ptp(score) == 0:
        notes.append("all rows have one score: it tells nothing, and the map is one number")
    elif _is_level(found, score):
        notes.append("the score runs against its labels or tells nothing: the map is one number")
    between = gap(score, label)
    if between is not None:
        notes.append(
            f"separable: any cut in ({between.below!r}, {between.above!r}] fits the rows; how steep"
            " the map should be is not known, its slope is finite by its smoothed targets"
        )
    if rarer and (rows < FEW_ROWS or rarer < _FEW_OF_A_KIND):
        notes.append(
            f"provisional: {rows} rows with {rarer} of the rarer label; {FEW_ROWS} with"
            f" {_FEW_OF_A_KIND} are the least to go by"
        )
    if edges:
        notes.append(f"{edges} rows have a p of 0 or 1 and count as {LEAST_P:.2g} away from it")
    return tuple(notes)


def _is_level(found: Map, score: Numbers) -> bool:
    out = found.apply(np.array([score.min(), score.max()]))
    return float(out[1] - out[0]) < _FLAT_SPREAD
