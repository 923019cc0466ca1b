"""The flow around a pack on labelled rows: who answered, what is measured, what is judged, compared.

Knows no command line and no screen: what is told goes to a function, and whoever answers is given.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np

from spinf_serve.evals.compare import Comparison, compare
from spinf_serve.evals.data.rows import data_digest, rows
from spinf_serve.evals.drift import Counted, rate_drift, score_drift
from spinf_serve.evals.gate import (
    LEAST_ROWS,
    LEVEL,
    Outcome,
    Rule,
    Verdict,
    hold,
    not_worse,
    promise_kept,
    rows_alike,
    same_numbers,
    same_pack,
    still_there,
    verdict,
)
from spinf_serve.evals.judged import Evaluation, Judged, Made
from spinf_serve.evals.measuring import Known, evaluate, known
from spinf_serve.evals.project import Project
from spinf_serve.evals.promises import notes_of, promises_kept, promises_of, proof_stands
from spinf_serve.evals.runner import run
from spinf_serve.evals.score_tables import Identity, column
from spinf_serve.evals.scorer import Scorer
from spinf_serve.evals.store import matrix
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import is_there
from spinf_serve.packs.pack import Constants, Pack

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Data:
    """A dataset, or one split of it."""

    project: Project
    name: str
    split: str | None

    def __str__(self) -> str:
        return f"{self.project.path.name}:{self.name}"


@dataclass(frozen=True, slots=True)
class Who:
    """Whose scores are judged.

    Attributes:
        scorer: None when kept scores are judged and nobody is asked.
        names: those under which a pack's numbers may stand.
    """

    identity: Identity
    names: tuple[str, ...]
    scorer: Scorer | None


@dataclass(frozen=True, slots=True)
class Side:
    """A pack measured on a dataset.

    Attributes:
        constants, rows: None for an evaluation that was read from a file.
    """

    evaluation: Evaluation
    constants: Constants | None = None
    rows: tuple[Known, ...] = ()
    pack: Pack | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """What came of it all."""

    evaluation: Evaluation
    verdict: Verdict
    comparisons: tuple[Comparison, ...]


def data_of(
    given: str, split: str | None, slices: Sequence[str] | None = None, *, say: Say
) -> Data:
    """The dataset that `PROJECT[:DATASET]` names; a project's only one need not be named.

    Args:
        split: one that it was divided into; None for all rows.
        slices: columns that its rows keep for reports.
        say: told whom an operation of the project waits for.

    Raises `Unusable`: there is no such project, split or column, or it is to be said which of its
    datasets.
    """
    file, _, name = given.rpartition(":")
    if is_there(Path(given)) or not file:
        file, name = given, ""
    project = Project(Path(file), say=say)
    with project.open(write=False) as connection:
        names = column(connection, "SELECT name FROM dataset ORDER BY name", [])
        if not name and len(names) == 1:
            name = names[0]
        splits = column(connection, _SPLITS, [name])
        columns = column(connection, _SLICES, [name])
    if not name:
        has = f"has {', '.join(names)}: say which, as {file}:NAME" if names else "has no dataset"
        raise Unusable(f"{file} {has}")
    if name not in names:
        raise Unusable(f"{file} has no dataset {name!r}; it has {', '.join(names) or 'none'}")
    data = Data(project, name, split)
    if split is not None and split not in splits:
        raise Unusable(f"{data} has no split {split!r}; it has {', '.join(splits) or 'none'}")
    for one in slices or ():
        if one not in columns:
            has = ", ".join(columns) or "none"
            raise Unusable(f"--slice {one}: no row of {data} has such a column; it has {has}")
    return data


_SPLITS: Final = (
    "SELECT DISTINCT split FROM item WHERE dataset = ? AND split IS NOT NULL ORDER BY split"
)
_SLICES: Final = (
    "SELECT DISTINCT unnest(map_keys(slices)) AS name FROM item WHERE dataset = ? ORDER BY name"
)


def refuse_draft(pack: Pack) -> None:
    """Raise `Unusable` for a pack without any numbers, before a model is loaded for it."""
    if not pack.fitted:
        raise Unusable(f"{pack.id} is a draft, so it decides nothing on any model: fit it first")


def measure(
    pack: Pack, data: Data, who: Who, say: Say, slices: Sequence[str] | None = None
) -> Side:
    """Ask what is missing, and measure.

    Raises `Unusable`: the pack has no numbers for the model, or rows have no kept score at all.
    """
    refuse_draft(pack)
    constants = pack.constants(who.names)
    if constants is None:
        fitted = ", ".join(pack.fitted)
        raise Unusable(
            f"{pack.id} has no numbers for {who.names[0]}, so it decides nothing there; it has some for"
            f" {fitted}: fit it first"
        )
    if who.scorer is not None:
        say(str(run(data.project, data.name, pack, who.scorer, say, split=data.split)))
    # Rows that come between these looks are left out by the second, and rows that go by the first.
    held = matrix(data.project, data.name, pack, who.identity.bits, split=data.split)
    seen = tuple(known(rows(data.project, data.name, split=data.split)))
    made = Made(
        pack.id,
        pack.version,
        pack.digest,
        who.identity.served,
        who.identity.model,
        who.identity.bits,
        who.identity.rounded,
        str(data),
        data_digest(data.project, data.name, data.split),
        data.split,
        datetime.now(UTC).date().isoformat(),
    )
    found = evaluate(pack, constants, seen, held, made, slices=slices)
    if not found.rows:
        where = str(data) if data.split is None else f"split {data.split} of {data}"
        raise Unusable(f"{where} has no row")
    if len(found.refused) == found.rows:
        raise Unusable(
            f"none of the {found.rows:,} rows of {data} has a whole answer from {made.model}; first:"
            f" {found.refused[0].row} ({found.refused[0].code})"
        )
    return Side(found, constants, seen, pack)


def judge(
    side: Side, rules: Sequence[Rule], baseline: Side | None = None, *, new_rows: bool = False
) -> Judgement:
    """Hold a measured pack to its proof, to limits, and to a baseline.

    Args:
        new_rows: whether the rows are others than the baseline's, so that nothing is compared row
            by row.
    """
    evaluation = side.evaluation
    outcomes: list[Outcome] = []
    notes = list(evaluation.notes)
    if side.pack is not None and side.constants is not None:
        proof = side.constants.proof
        promises = promises_of(proof)
        outcomes += proof_stands(side.pack, side.constants, evaluation.made.model_digest)
        notes += notes_of(promises, proof, evaluation.made.data_digest)
        if not _stale(outcomes):
            outcomes += promises_kept(promises, evaluation, side.rows)
    outcomes += hold(rules, evaluation)
    comparisons: tuple[Comparison, ...] = ()
    if baseline is not None:
        before = baseline.evaluation
        under = same_numbers("the baseline", before.made.model_digest, evaluation.made.model_digest)
        # What was measured just now was measured by one model.
        judged_by = [under] if baseline.pack is None else []
        outcomes += judged_by
        if not _stale(judged_by):
            compared, comparisons, more = _compared(before, evaluation, new_rows)
            outcomes += compared
            # A pack that was named is meant to be another one.
            if baseline.pack is None:
                outcomes += same_pack(before.made.pack, evaluation.made.pack)
                outcomes += still_there(before, evaluation)
            notes += more
    return Judgement(replace(evaluation, notes=tuple(notes)), verdict(outcomes), comparisons)


def compared(before: Side, now: Side) -> Judgement:
    """Two sides on the same rows, whatever the models."""
    outcomes, comparisons, notes = _compared(before.evaluation, now.evaluation, False)
    evaluation = replace(now.evaluation, notes=(*now.evaluation.notes, *notes))
    return Judgement(evaluation, verdict(outcomes), comparisons)


def _stale(outcomes: Sequence[Outcome]) -> bool:
    return any(one.word == "stale fingerprint" for one in outcomes)


def _compared(
    before: Evaluation, now: Evaluation, new_rows: bool
) -> tuple[list[Outcome], tuple[Comparison, ...], list[str]]:
    pairs: list[tuple[Judged, Judged]] = []
    alone: list[str] = []
    idle: list[str] = []
    for one in now.targets:
        theirs = before.target(one.judged.target)
        if theirs is None:
            alone.append(one.judged.target)
        elif not (one.decides or len(one.judged.labelled()) or len(theirs.judged.labelled())):
            idle.append(one.judged.target)
        else:
            pairs.append((theirs.judged, one.judged))
    gone = [one.judged.target for one in before.targets if now.target(one.judged.target) is None]
    notes = []
    if alone:
        notes.append(f"only here, and compared with nothing: {', '.join(alone)}")
    if gone:
        notes.append(f"only in the baseline, and compared with nothing: {', '.join(gone)}")
    if idle:
        notes.append(
            f"not compared, as nobody labelled it and it decides nothing: {', '.join(idle)}"
        )
    if not pairs:
        raise Unusable("the two sides have no category in common: nothing can be compared")
    outcomes: list[Outcome] = []
    comparisons: tuple[Comparison, ...] = ()
    if not new_rows:
        comparisons = tuple(compare(old, new) for old, new in pairs)
        outcomes += not_worse(comparisons)
    # With one threshold or without, unlike rows show in the scores.
    level = LEVEL / len(pairs)
    for old, new in pairs:
        if new_rows:
            outcomes += _right_as_often(old, new, level)
        outcomes += _alike(old, new, level, new_rows)
    return outcomes, comparisons, notes


def _right_as_often(old: Judged, new: Judged, level: float) -> list[Outcome]:
    counts = [_right(one) for one in (old, new)]
    if None in counts or not counts[1]:
        return []
    recorded, fresh = (one or Counted(0, 0) for one in counts)
    if not fresh.n:
        return []
    return [promise_kept(new.target, "accuracy", rate_drift(recorded, fresh), level)]


def _right(one: Judged) -> Counted | None:
    if one.flagged is None:
        return None
    at = one.labelled()
    right = sum(one.flagged[index] == one.labels[index] for index in at)
    return Counted(int(right), len(at))


def _alike(old: Judged, new: Judged, level: float, new_rows: bool) -> list[Outcome]:
    """Scores of rows that the baseline lacks, beside all of its own."""
    if old.scores is None or new.scores is None:
        return []
    had = set(zip(old.rows, old.contents, strict=True))
    fresh = np.array(
        [one not in had for one in zip(new.rows, new.contents, strict=True)], dtype=bool
    )
    if not new_rows and fresh.sum() < LEAST_ROWS:
        return []
    drift = score_drift(old.scores, new.scores[fresh], new.threshold)
    return [rows_alike(new.target, drift, level)]
