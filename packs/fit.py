"""Constants of a pack from labelled rows: usual levels, maps to probabilities, thresholds.

Works on the rows it is given and looks at no others; whether they are the `fit` part of a sample
is the caller's affair. Every number is rounded to the digits that a file holds before anything
that follows from it is computed, so that memory and file agree. Nothing here is ever NaN: what the
rows do not tell is left at a stated value, with a note.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np
from numpy.typing import NDArray

from spinf_serve.packs.build_fitted import read_bands
from spinf_serve.packs.categories import category_macros, sigmoid
from spinf_serve.packs.cuts import best_cut
from spinf_serve.packs.evaluate import combined
from spinf_serve.packs.layer import layer_value
from spinf_serve.packs.logistic import logistic, platt
from spinf_serve.packs.notes import Notes
from spinf_serve.packs.pack import (
    Bands,
    CategoryFit,
    Constants,
    MicroLayer,
    Pack,
    Quantiles,
    Read,
    ReadFit,
)
from spinf_serve.packs.plain import inlined, lock_of
from spinf_serve.packs.reads import Vectors, log_shares, read_value, read_z

Labels = Mapping[str, bool | None]
"""Category -> whether it holds; None, or no entry, when that is not known."""

LEAST_SD = 0.01
"""Least `sd` of a read, in nats: below, differences are no more than rounding."""

LEAST_NORMAL_ROWS = 20
"""Normal rows below which there are no quantiles."""

LEVELS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 1.0)
"""Fractions of normal content whose scores are kept."""

LAYER_RIDGE = 1e-2
"""Hold on the micro layer's weights, see `logistic.logistic`."""

NO_THRESHOLD = "no threshold tells its rows apart; it only reports"
"""The note on a category without a cut."""

_DIGITS = 6
# In nats: what the rounding of `mu` leaves of a mean that is 0 by its making.
_LEAST_MEAN = 1e-5


@dataclass(frozen=True, slots=True)
class Fitting:
    """What a fit gives.

    Attributes:
        constants: for one model, without proof.
        notes: what the rows did not tell, or told against the pack; `<place>: <sentence>`.
    """

    constants: Constants
    notes: tuple[str, ...]


def fit(
    pack: Pack,
    rows: Sequence[Sequence[Vectors]],
    labels: Sequence[Labels],
    model: str,
    *,
    normal: Sequence[bool] | None = None,
    ridge: float = LAYER_RIDGE,
    base_rates: Mapping[str, float] | None = None,
) -> Fitting:
    """Fit every constant of a pack on one model.

    For each read `mu` is the mean log share of its options over the contents that were read, chunks
    of long ones each for itself, `mean` and `sd` (over N) are those of its value with that `mu`:
    they tell what is usual of a content as it is read. All else is of rows. For each category `platt` is Platt's map of the macro
    (`logistic.platt`, slope never below 0) and the threshold the cut of highest Youden J
    (`cuts.best_cut`); quantiles are those of its scores over the normal rows, interpolated
    linearly. The cut of the mode `max` and a linear micro layer, a ridged logistic regression, are
    fitted on "any deciding category holds" where the pack has the mode.

    Args:
        rows: the chunks of each row, see `evaluate.evaluate`; mostly one. At least two rows.
        labels: what is known of each row. Unknown labels take no part.
        model: the name under which the constants are kept.
        normal: which rows are ordinary content; None takes those where every category is known not
            to hold.
        ridge: hold on the micro layer's weights, see `logistic.logistic`; above 0.
        base_rates: category -> share of the traffic that holds, 0 to 1, where rows were drawn class
            by class: its map is moved there, and what follows from its scores with it. Which rows a
            fitted cut flags stays.

    A category that every model's constants so far only report (`threshold: null`), or that a draft
    writes so, stays reported. A threshold that a draft gives as a number stays.
    Raises ValueError when the lengths differ, there are under two rows, or a label names no
    category.
    """
    _check(pack, rows, labels, normal)
    notes: list[str] = []
    contents = [chunk for row in rows for chunk in row]
    reads = {read.id: _fit_read(read, contents, notes) for read in pack.reads}
    started = Constants(model, reads, {}, bands=_bands(pack, model, notes))
    z = [combined(pack, [read_z(pack, started, chunk) for chunk in row]) for row in rows]
    macros = [category_macros(pack, one) for one in z]
    ordinary = _ordinary(pack, labels) if normal is None else np.array(normal, dtype=bool)
    if ordinary.sum() < LEAST_NORMAL_ROWS:
        notes.append(
            f"categories: {int(ordinary.sum())} normal rows, fewer than {LEAST_NORMAL_ROWS}:"
            " no quantiles, so no percentiles"
        )
    categories = {}
    scores = {}
    for id in pack.categories:
        macro = np.array([one[id] for one in macros])
        rate = (base_rates or {}).get(id)
        categories[id], scores[id] = _fit_category(
            pack, model, id, macro, labels, ordinary, rate, notes
        )
    constants = replace(started, categories=categories)
    deciding = [
        id
        for id, category in pack.categories.items()
        if category.decides and categories[id].threshold is not None
    ]
    known, holds = _any_holds(deciding, labels)
    if "max" in pack.modes:
        cut = _max_cut(deciding, scores, known, holds, notes)
        constants = replace(constants, max_threshold=cut)
    if "micro_layer" in pack.modes:
        layer = _fit_layer(pack, constants, z, macros, known, holds, ridge, notes)
        constants = replace(constants, layer=layer)
    return Fitting(constants, tuple(notes))


def rounded(value: float) -> float:
    """A number as the file holds it, 6 significant digits."""
    return float(f"{value:.{_DIGITS}g}")


def _check(
    pack: Pack,
    rows: Sequence[Sequence[Vectors]],
    labels: Sequence[Labels],
    normal: Sequence[bool] | None,
) -> None:
    if len(rows) < 2:
        raise ValueError(f"{len(rows)} rows; a fit needs at least 2")
    if len(labels) != len(rows) or (normal is not None and len(normal) != len(rows)):
        given = "" if normal is None else f", {len(normal)} marks of normal rows"
        raise ValueError(f"{len(rows)} rows but {len(labels)} labels{given}")
    for index, one in enumerate(labels):
        for id in one:
            if id not in pack.categories:
                raise ValueError(f"row {index}: the pack {pack.id} has no category {id!r}")


def _fit_read(read: Read, contents: Sequence[Vectors], notes: list[str]) -> ReadFit:
    answers = [one[read.query, read.value] for one in contents]
    mu: tuple[float, ...] = ()
    if read.kind != "pair":
        usual = np.mean([log_shares(p) for p in answers], axis=0)
        mu = tuple(rounded(one) for one in usual.tolist())
        if read.option is not None:
            mu = (mu[read.option],)
    values = np.array([read_value(read, mu, p) for p in answers])
    mean, sd = rounded(float(values.mean())), rounded(float(values.std()))
    if abs(mean) < _LEAST_MEAN:
        mean = 0.0
    if sd < LEAST_SD:
        notes.append(
            f"reads.{read.id}: its value hardly moves over the rows (sd {sd:.2g}); sd is held at"
            f" {LEAST_SD}: the question tells these rows nothing"
        )
        sd = LEAST_SD
    return ReadFit(mean, sd, mu)


def _fit_category(
    pack: Pack,
    model: str,
    id: str,
    macro: NDArray[np.float64],
    labels: Sequence[Labels],
    ordinary: NDArray[np.bool_],
    base_rate: float | None,
    notes: list[str],
) -> tuple[CategoryFit, NDArray[np.float64]]:
    """One category's constants, and its scores on all rows, [N].

    A stated base rate moves the map's shift by the difference of the log-odds of both shares, as
    Bayes' rule has it where each class scores as in the traffic (M. Saerens, P. Latinne and C.
    Decaestecker, "Adjusting the outputs of a classifier to new a priori probabilities", Neural
    Computation 14, 2002).
    """
    known, holds = _column(id, labels)
    where = f"categories.{id}"
    if not known.any():
        notes.append(f"{where}: no row is labelled; its map is sigmoid(macro) and not fitted")
        slope, shift = 1.0, 0.0
    else:
        found = platt(macro[known], holds[known])
        slope, shift = rounded(found.slope), rounded(found.shift)
        positives = int(holds[known].sum())
        if positives in (0, int(known.sum())):
            kind = "none" if positives == 0 else "all"
            notes.append(
                f"{where}: {kind} of {int(known.sum())} labelled rows hold; its map is flat"
            )
        elif found.turned:
            notes.append(
                f"{where}: its reads run against the labels; the slope is held at 0 and the score"
                " says nothing: check wording, sign and options"
            )
        elif slope == 0:
            notes.append(f"{where}: its reads do not move over the labelled rows; its map is flat")
        if base_rate is not None and 0 < positives < int(known.sum()):
            own = positives / int(known.sum())
            shift = rounded(shift + log_odds(base_rate) - log_odds(own))
            notes.append(
                f"{where}: {own:.3g} of its labelled rows hold, and its map is moved to the stated"
                f" base rate of {base_rate:.3g}"
            )
    scores = np.array([sigmoid(slope * one + shift) for one in macro.tolist()])
    given, threshold = _given_threshold(pack, model, id)
    if not given:
        threshold = best_cut(scores[known], holds[known], rounded)
        if threshold is None:
            notes.append(f"{where}: {NO_THRESHOLD}")
    quantiles = None
    if ordinary.sum() >= LEAST_NORMAL_ROWS:
        at = np.quantile(scores[ordinary], LEVELS)
        quantiles = Quantiles(LEVELS, tuple(rounded(one) for one in at.tolist()))
    return CategoryFit((slope, shift), threshold, quantiles), scores


def _given_threshold(pack: Pack, model: str, id: str) -> tuple[bool, float | None]:
    """Whether the author has settled the threshold, and to what."""
    if not pack.fitted:
        written = pack.body.get("categories", {}).get(id, {})
        return "threshold" in written, written.get("threshold")
    own = pack.constants((model,))
    before = [own] if own is not None else list(pack.fitted.values())
    return all(constants.categories[id].threshold is None for constants in before), None


def _bands(pack: Pack, model: str, notes: list[str]) -> Bands | None:
    """The pack's bands. Those fitted with the model's numbers so far go with these numbers."""
    noted = Notes()
    written = read_bands(pack.body.get("bands"), ("bands",), pack.categories, noted)
    if noted.found:
        raise AssertionError(f"the bands of {pack.id} passed the loader: {noted.found}")
    own = pack.constants((model,))
    if own is not None and own.bands is not None and own.bands != written:
        notes.append("bands: those fitted with the numbers before are gone; fit them again")
    return written


def _column(id: str, labels: Sequence[Labels]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which rows are labelled, and which of them hold, [N] each."""
    values = [one.get(id) for one in labels]
    known = np.array([value is not None for value in values])
    return known, np.array([value is True for value in values])


def _ordinary(pack: Pack, labels: Sequence[Labels]) -> NDArray[np.bool_]:
    return np.array([all(one.get(id) is False for id in pack.categories) for one in labels])


def _any_holds(
    deciding: Sequence[str], labels: Sequence[Labels]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which rows are known to be unsafe or safe, and which are unsafe, [N] each."""
    values = [[one.get(id) for id in deciding] for one in labels]
    holds = np.array([any(value is True for value in row) for row in values])
    known = holds | np.array([all(value is False for value in row) for row in values])
    return known, holds


def _max_cut(
    deciding: Sequence[str],
    scores: Mapping[str, NDArray[np.float64]],
    known: NDArray[np.bool_],
    holds: NDArray[np.bool_],
    notes: list[str],
) -> float:
    cut = None
    if deciding:
        highest = np.max([scores[id] for id in deciding], axis=0)
        cut = best_cut(highest[known], holds[known], rounded)
    if cut is None:
        notes.append("decision.max.threshold: no cut tells the rows apart; 0.5 stands in")
        return 0.5
    return cut


def _fit_layer(
    pack: Pack,
    constants: Constants,
    z: Sequence[Mapping[str, float]],
    macros: Sequence[Mapping[str, float]],
    known: NDArray[np.bool_],
    holds: NDArray[np.bool_],
    ridge: float,
    notes: list[str],
) -> MicroLayer | None:
    where = "decision.micro_layer"
    if holds[known].all() or not holds[known].any():
        notes.append(f"{where}: the rows are all of one kind; no layer, the fallback mode decides")
        return None
    inputs = _layer_inputs(pack, constants.model)
    x = np.array(
        [
            [macro[name[2:]] if name.startswith("c:") else one[name[2:]] for name in inputs]
            for macro, one in zip(macros, z, strict=True)
        ]
    )
    targets = holds[known].astype(np.float64)
    weights = tuple(map(_float32, logistic(x[known], targets, ridge).tolist()))
    lock = lock_of(inlined(pack.body, constants), inputs)
    layer = MicroLayer(inputs, (*weights, 0.0), 0, lock, True)
    pairs = zip(macros, z, strict=True)
    values = np.array([layer_value(layer, macro, one) for macro, one in pairs])
    cut = best_cut(values[known], holds[known], _float32)
    if cut is None:
        notes.append(f"{where}: no cut tells the rows apart; no layer, the fallback mode decides")
        return None
    return replace(layer, weights=(*weights, cut))


def _layer_inputs(pack: Pack, model: str) -> tuple[str, ...]:
    """Those of the layer so far, else of the file, else every category."""
    own = pack.constants((model,))
    for constants in (own, *pack.fitted.values()):
        if constants is not None and constants.layer is not None:
            return constants.layer.inputs
    written = pack.body["decision"].get("micro_layer") or {}
    return tuple(written.get("inputs") or (f"c:{id}" for id in pack.categories))


def log_odds(share: float) -> float:
    """ln(share / (1 - share)) of a share between 0 and 1."""
    return log(share / (1 - share))


def _float32(value: float) -> float:
    return float(np.float32(value))
