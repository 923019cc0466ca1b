"""A pack fitted on a project's labelled rows and kept scores, with cuts that hold what they promise.

Read constants, maps, quantiles and the micro layer come from `spinf_serve.packs.fit`, on every row but
those of split `test`; cuts from `spinf_serve.evals.promising`. Rows of split `test` are held back: they
judge what was fitted, and carry the promises of scores that labels had a part in. Asks no model and
writes no file; every certification is noted in the project.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256

import numpy as np

from spinf_serve.evals.beta_maps import with_beta_maps
from spinf_serve.evals.certify import allowance
from spinf_serve.evals.data.rows import data_digest, rows
from spinf_serve.evals.judged import DECISION, QUESTION
from spinf_serve.evals.ledger import Spent, now, spend, spent
from spinf_serve.evals.project import Project
from spinf_serve.evals.promising import answer, any_holds, sight, with_cuts
from spinf_serve.evals.proof import Basis, proof
from spinf_serve.evals.ridge import best_ridge
from spinf_serve.evals.score_tables import Identity, identity_of
from spinf_serve.evals.scored import Answers, Numbers, arranged, score, taken, vectors
from spinf_serve.evals.store import Matrix, matrix
from spinf_serve.evals.wishes import ONLY_CATEGORIES, Answer, Rows, Wish, check_wishes
from spinf_serve.packs.digests import asked_digest
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.fit import LAYER_RIDGE, LEAST_NORMAL_ROWS, Fitting, fit
from spinf_serve.packs.metrics import PackReport, judge
from spinf_serve.packs.pack import Constants, Pack

TEST = "test"
"""Rows of this split are held back from every fit."""

LEAST_ROWS = 10
"""Fewest rows of a fit: below, numbers would follow single rows."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """What a fit gave.

    Attributes:
        identity: who answered.
        data_digest: of the rows and labels, 64 hex digits.
        constants: for the model, with their proof where anything is promised.
        answers: one per wish, in order.
        report: of the rows that were held back; None when there are none.
        fit_rows, test_rows: rows with answers.
        refused: row -> code of the rows that the model refused: they are in neither part.
        notes: what the rows did not tell, or told against the pack.
    """

    pack: Pack
    identity: Identity
    data_digest: str
    constants: Constants
    answers: tuple[Answer, ...]
    report: PackReport | None
    fit_rows: int
    test_rows: int
    refused: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def met(self) -> bool:
        """Whether every target has its cut."""
        return all(given.met for given in self.answers)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Rows with their answers."""

    rows: Rows
    answers: Answers


def fit_pack(
    project: Project,
    dataset: str,
    pack: Pack,
    bits: str,
    wishes: Sequence[Wish] = (),
    *,
    by: str,
    planned: int | None = 1,
) -> Fitted:
    """Fit a pack on kept scores.

    Args:
        bits: whose scores; the whole digest or the beginning of it.
        wishes: what cuts are to hold. A category without one keeps the cut of highest Youden J.
        by: who asks, for the project's ledger.
        planned: how many certifications of a target are meant to be made on these rows in all, see
            `certify.allowance`.

    Raises:
        Unusable: there is no such dataset or model, scores are missing, rows are too few, or a wish
            cannot be asked of the pack.
    """
    check_wishes(pack, wishes)
    with project.open(write=False) as connection:
        identity = identity_of(connection, bits)
    check_identity(identity, wishes)
    digest = data_digest(project, dataset)
    kept = matrix(project, dataset, pack, identity.bits)
    part, held, refused = _parts(project, dataset, pack, kept)
    if len(part.rows.ids) < LEAST_ROWS:
        raise Unusable(
            f"{dataset} has {len(part.rows.ids)} rows to fit on, those of split {TEST} aside; at"
            f" least {LEAST_ROWS} are needed, and some hundreds for cuts that hold: label more"
        )
    fitting = _fit(pack, identity.served, part, _base_rates(pack, wishes))
    book = _Book(project, dataset, pack, identity.bits, digest, by, planned)
    mapped = with_beta_maps(
        pack,
        fitting.constants,
        score(pack, fitting.constants, part.answers),
        part.rows,
        _base_rates(pack, wishes),
    )
    constants, answers = _promised(pack, mapped.constants, part, held, wishes, book)
    basis = Basis(
        identity.model,
        identity.bits,
        digest,
        len(part.rows.ids) + len(held.rows.ids),
        datetime.now(UTC).date().isoformat(),
    )
    constants = replace(
        constants, proof=proof(pack, constants, [one for one in answers if one.met], basis)
    )
    report = None
    if held.rows.ids:
        report = judge(pack, constants, vectors(pack, held.answers), held.rows.labels)
    return Fitted(
        pack,
        identity,
        digest,
        constants,
        answers,
        report,
        len(part.rows.ids),
        len(held.rows.ids),
        refused,
        (*fitting.notes, *mapped.notes, *_unused(part.rows)),
    )


@dataclass(frozen=True, slots=True)
class Budget:
    """What a certification may still take of the chance of a wrong promise.

    Attributes:
        split: the part of the dataset whose rows it counts; None for all.
        delta: the chance it would take; 0 when nothing is left.
        before: certifications of the target that counted these rows, oldest first.
        made: the same one, made before: made again it shows nothing new and spends nothing.
    """

    split: str | None
    delta: float
    before: tuple[Spent, ...]
    made: Spent | None


def budget(
    project: Project,
    dataset: str,
    pack: Pack,
    bits: str,
    wish: Wish,
    planned: int | None = 1,
    digest: str | None = None,
) -> Budget:
    """What `fit_pack` would spend on a wish; nothing is noted.

    Args:
        bits: whole.
        digest: of the rows and labels, where it is known already.
        planned: as for `fit_pack`.

    A target of cost spends nothing. Raises `Unusable` when there is no such dataset.
    """
    digest = digest or data_digest(project, dataset)
    with project.open(write=False) as connection:
        held = connection.execute(
            "SELECT 1 FROM item WHERE dataset = ? AND split = ? LIMIT 1", [dataset, TEST]
        ).fetchone()
    split = carrier(pack, wish.name, held is not None)
    book = _Book(project, dataset, pack, bits, digest, "", planned)
    found = book.look(wish, split)[0]
    return replace(found, delta=0.0) if wish.targets[0].kind == "cost" else found


def carrier(pack: Pack, name: str, has_held: bool) -> str | None:
    """The part of the rows that carries the promise of a cut, see `promising.Sight.label_free`."""
    if name == DECISION or pack.categories[name].requires:
        return TEST
    return "fit" if has_held else None


@dataclass(frozen=True, slots=True)
class _Book:
    """What certifications on a dataset may spend."""

    project: Project
    dataset: str
    pack: Pack
    bits: str
    data_digest: str
    by: str
    planned: int | None

    def delta(self, wish: Wish, split: str | None) -> float:
        """The chance that a wish's promise may take; noted before a label is looked at."""
        found, key = self.look(wish, split)
        if found.made is None and found.delta > 0:
            entry = Spent(wish.name, found.delta, wish.kind, split, now(), self.by, key)
            spend(self.project, self.dataset, [entry])
        return found.delta

    def look(self, wish: Wish, split: str | None) -> tuple[Budget, str]:
        """What a wish may take, and the key of its certification; nothing is noted."""
        wanted = min(target.delta for target in wish.targets)
        named = [asked_digest(self.pack.body), self.bits, self.data_digest, split]
        told = json.dumps([*named, wish.name, wish.kind, wish.base_rate, wanted])
        key = sha256(told.encode()).hexdigest()
        before = tuple(spent(self.project, self.dataset, wish.name, split))
        made = next((one for one in before if one.key == key), None)
        if made is not None:
            return Budget(split, made.delta, before, made), key
        left = allowance(wanted, [one.delta for one in before], self.planned)
        return Budget(split, left, before, None), key


def _promised(
    pack: Pack,
    constants: Constants,
    part: _Part,
    held: _Part,
    wishes: Sequence[Wish],
    book: _Book,
) -> tuple[Constants, tuple[Answer, ...]]:
    """The constants with every cut that is promised, and the answers in the order of the wishes."""
    on_part, on_held = (score(pack, constants, one.answers) for one in (part, held))
    answers: dict[str, Answer] = {}
    # What another cut decides about comes behind it.
    for wish in sorted(wishes, key=lambda one: _rank(pack, one)):
        fitted = sight(pack, constants, on_part, part.rows.labels, wish.name)
        split = carrier(pack, wish.name, bool(held.rows.ids))
        seen, counted = fitted, part.rows
        if not fitted.label_free:
            if not held.rows.ids:
                raise Unusable(
                    f"labels have a part in the score of {wish.name}, so its cut is certified on rows"
                    f" that nothing was fitted on, and no row is in split {TEST}: hold some back with"
                    " `spinf-serve data split`"
                )
            seen = sight(pack, constants, on_held, held.rows.labels, wish.name)
            counted = held.rows
        promised = wish.targets[0].kind != "cost"
        delta = book.delta(wish, split) if promised else 0.0
        given = answer(wish, pack, seen, fitted, counted, delta)
        constants = with_cuts(pack, constants, given)
        answers[wish.name] = given
    return constants, tuple(answers[wish.name] for wish in wishes)


def _rank(pack: Pack, wish: Wish) -> int:
    """Categories that stand alone, those that require others, the decision."""
    category = pack.categories.get(wish.name)
    return 2 if category is None else int(bool(category.requires))


def check_identity(identity: Identity, wishes: Sequence[Wish]) -> None:
    """Raises `Unusable` when nothing can be proven on the scores of a model."""
    if not wishes:
        return
    if not identity.model:
        raise Unusable(
            f"the server of {identity.served} does not tell its model's digest, so nothing can be"
            " proven on it: give the token of a trusted caller, or start it with --debug"
        )
    if identity.rounded:
        raise Unusable(
            f"the scores of {identity.served} were rounded on the way, so a cut might flag other rows"
            " on the server: score in process, or on a server of this version"
        )


def _parts(
    project: Project, dataset: str, pack: Pack, kept: Matrix
) -> tuple[_Part, _Part, Mapping[str, str]]:
    """Rows to fit on, rows held back, and those that were refused."""
    answers, indexes = arranged(pack, kept.logprobs, kept.floors, kept.starts)
    answered = {kept.rows[index] for index in indexes.tolist()}
    found = {row.id: row for row in rows(project, dataset)}
    open_rows = [id for id in kept.rows if id not in answered and id not in kept.refused]
    if open_rows or len(found) != len(kept.rows) or not found.keys() >= answered:
        raise Unusable(
            f"{len(open_rows):,} of {len(found):,} rows of {dataset} have no score of this model for"
            f" every question of {pack.id} (such as row {(open_rows or ['?'])[0]!r}); score them"
            " first, with the command without --bits"
        )
    ordered = [found[kept.rows[index]] for index in indexes.tolist()]
    weights = [np.nan if row.weight is None else row.weight for row in ordered]
    everything = Rows(
        tuple(row.id for row in ordered),
        tuple(row.labels for row in ordered),
        tuple(row.group for row in ordered),
        tuple(row.drawn for row in ordered),
        np.array(weights, dtype=np.float64),
        tuple(row.classes for row in ordered),
        tuple(row.chosen for row in ordered),
    )
    back = np.array([row.split == TEST for row in ordered], dtype=bool)
    parts = [
        _Part(everything.taken(at), taken(answers, at))
        for at in (np.flatnonzero(~back), np.flatnonzero(back))
    ]
    return parts[0], parts[1], {id: code for id, code in kept.refused.items() if id in found}


def _base_rates(pack: Pack, wishes: Sequence[Wish]) -> dict[str, float]:
    """What is stated of categories; a decision's scores have no map of their own."""
    stated = {wish.name: wish.base_rate for wish in wishes if wish.name in pack.categories}
    return {name: rate for name, rate in stated.items() if rate is not None}


def _unused(part: Rows) -> list[str]:
    """Labels that no number of a pack could be fitted on."""
    named = {target for labels in (*part.labels, *part.classes) for target in labels}
    found = sorted(target for target in named if target.startswith(QUESTION))
    if not found:
        return []
    return [f"labels of {', '.join(found)} take no part: {ONLY_CATEGORIES}"]


def _fit(pack: Pack, model: str, part: _Part, base_rates: Mapping[str, float]) -> Fitting:
    given = vectors(pack, part.answers)
    labels = [
        {id: value for id, value in one.items() if id in pack.categories}
        for one in part.rows.labels
    ]
    normal = _normal(part.rows, labels)
    fitting = fit(pack, given, labels, model, normal=normal, base_rates=base_rates)
    layer = fitting.constants.layer
    if layer is None:
        return fitting
    truths = [any_holds(_deciding(pack, fitting.constants), one) for one in labels]
    known = np.array([index for index, truth in enumerate(truths) if truth is not None])
    inputs = _inputs(pack, fitting.constants, part.answers, layer.inputs)
    groups = part.rows.taken(known).groups
    ridge = best_ridge(inputs[known], np.array(truths)[known].astype(bool), groups)
    if ridge in (None, LAYER_RIDGE):
        return fitting
    return fit(pack, given, labels, model, normal=normal, ridge=ridge, base_rates=base_rates)


def _normal(part: Rows, labels: Sequence[Mapping[str, bool]]) -> list[bool] | None:
    """Unlabelled rows drawn at random are ordinary traffic; None leaves it to the labels."""
    pairs = zip(labels, part.drawn, strict=True)
    found = [not label and drawn == "random" for label, drawn in pairs]
    return found if sum(found) >= LEAST_NORMAL_ROWS else None


def _deciding(pack: Pack, constants: Constants) -> list[str]:
    return [
        id
        for id, one in pack.categories.items()
        if one.decides and constants.categories[id].threshold is not None
    ]


def _inputs(pack: Pack, constants: Constants, answers: Answers, names: Sequence[str]) -> Numbers:
    """What a micro layer is given, [N, D]."""
    scored = score(pack, constants, answers)
    columns: list[Numbers] = [
        scored.macros[name[2:]] if name.startswith("c:") else scored.z[name[2:]] for name in names
    ]
    return np.stack(columns, axis=1)
