"""What was found on labelled rows: a target's scores and verdicts, and figures with their intervals.

Values only. A target is a category of a pack, `decision`, or a labelled question. Knows no pack and no
project file.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spinf_serve.evals.intervals import Interval

DECISION = "decision"
"""The target that is the pack's decision, beside its categories."""

QUESTION = "question:"
"""What a target begins with that is a question and no category."""


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """One of several options chosen for each of N rows.

    Attributes:
        options: their texts, unique.
        chosen: the option of the largest p, [N].
        true: the labelled one; None where it is not known, [N].
        p: of the chosen option, [N] float64.
    """

    options: tuple[str, ...]
    chosen: tuple[str, ...]
    true: tuple[str | None, ...]
    p: NDArray[np.float64]

    def of(self, rows: NDArray[np.int64]) -> tuple[list[str], list[str]]:
        """Chosen and true options of those of the rows that are labelled, by index."""
        pairs = [(self.chosen[row], self.true[row]) for row in rows.tolist()]
        known = [(chosen, true) for chosen, true in pairs if true is not None]
        return [chosen for chosen, _ in known], [true for _, true in known]

    def counts(self) -> list[tuple[str, list[int]]]:
        """Labelled rows by true option, and by chosen option in the order of `options`."""
        chosen, true = self.of(np.arange(len(self.true)))
        pairs = Counter(zip(true, chosen, strict=True))
        return [(one, [pairs[one, other] for other in self.options]) for one in self.options]


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """One target on the rows that a model answered.

    Attributes:
        rows: their ids, unique, [N].
        contents: digest of what each row held, [N]: a row with another content is another row.
        groups: rows of one group count once where independence matters; None is a group of its
            own, [N].
        labels: whether it holds; None where that is not known, [N].
        scores: 0 to 1, [N] float64; None for a decision that has no score.
        flagged: the verdicts, [N]; None without a threshold.
        threshold: flagged at this score and above; None likewise, and for a decision by category.
        choices: of a question with other than two options; None for all else. It has no scores
            then, its labels are True where known, and its verdicts tell whether the choice is right.
        calibrated: the scores of a category through its `beta` map, [N]; None without one.
    """

    target: str
    rows: tuple[str, ...]
    contents: tuple[str, ...]
    groups: tuple[str | None, ...]
    labels: tuple[bool | None, ...]
    scores: NDArray[np.float64] | None
    flagged: tuple[bool, ...] | None
    threshold: float | None = None
    choices: Choices | None = None
    calibrated: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        lengths = {
            "contents": self.contents,
            "groups": self.groups,
            "labels": self.labels,
            "scores": self.scores,
            "calibrated scores": self.calibrated,
            "flagged": self.flagged,
            "choices": None if self.choices is None else self.choices.chosen,
            "labelled options": None if self.choices is None else self.choices.true,
            "chosen p": None if self.choices is None else self.choices.p,
        }
        for name, values in lengths.items():
            if values is not None and len(values) != len(self.rows):
                raise ValueError(f"{len(self.rows)} rows but {len(values)} {name}")
        if len(set(self.rows)) < len(self.rows):
            raise ValueError(f"{self.target}: a row's id occurs twice")
        if self.scores is not None and not np.isfinite(self.scores).all():
            raise ValueError(f"{self.target}: a score is not a finite number")

    def labelled(self) -> NDArray[np.int64]:
        """Indexes of the rows whose label is known, in order."""
        return np.array([i for i, label in enumerate(self.labels) if label is not None], dtype=int)


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure with what stands behind it.

    Attributes:
        value: None where the rows do not tell.
        low, high: its 95 % interval; None where there is none.
        n: rows it is about.
        k: rows that counted for it, where it is a share k of n.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    k: int | None = None


def figure_of(value: float, interval: Interval | None, rows: int) -> Measured:
    """A figure with its interval, if it has one."""
    if interval is None:
        return Measured(value, n=rows)
    return Measured(value, interval.low, interval.high, rows)


@dataclass(frozen=True, slots=True)
class Slice:
    """A target on part of the rows: those whose column `name` says `value`."""

    name: str
    value: str
    rows: int
    metrics: Mapping[str, Measured]
    warning: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Lifts:
    """Answers of a target's questions beside the same on empty content, a point each.

    Attributes:
        floor_p, p: probability of the option that speaks for the target, [M] each.
        holds: the row's label, [M] bool.
        left_out: points that are not shown, to keep a report small.
    """

    floor_p: NDArray[np.float64]
    p: NDArray[np.float64]
    holds: NDArray[np.bool_]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class ReadReport:
    """One answer of a question, and how well it alone tells a category's rows apart.

    Attributes:
        read, question: ids; `value` fills the question's placeholder, None without one.
        roc_area: of the answer's p, and as well of its lift, since one floor moves no row past
            another.
        floor_p: p on empty content; None when it is not known, and then so are lifts.
        lift_yes, lift_no: mean of p - floor_p over rows where the category holds, and where not.
        logit_lift_yes, logit_lift_no: the same of logit p - logit floor_p, which keeps small p
            apart.
    """

    read: str
    question: str
    value: str | None
    roc_area: Measured
    floor_p: float | None
    lift_yes: float | None
    lift_no: float | None
    logit_lift_yes: float | None
    logit_lift_no: float | None


@dataclass(frozen=True, slots=True, eq=False)
class TargetReport:
    """A target with its figures.

    Attributes:
        metrics: name -> figure, in the order of showing.
        confusion: right and wrong verdicts as `tp`, `fp`, `fn`, `tn`; None without a threshold.
        ece_noise: what the calibration error of a perfectly calibrated score would be here.
        decides: whether the pack's decision rests on it, so that it has to be labelled.
    """

    judged: Judged
    metrics: Mapping[str, Measured]
    confusion: Mapping[str, int] | None = None
    ece_noise: float | None = None
    slices: tuple[Slice, ...] = ()
    lifts: Lifts | None = None
    reads: tuple[ReadReport, ...] = ()
    notes: tuple[str, ...] = ()
    decides: bool = True


@dataclass(frozen=True, slots=True)
class Refusal:
    """A row that the model refused, with the error's code."""

    row: str
    code: str


@dataclass(frozen=True, slots=True)
class Made:
    """What an evaluation was made of.

    Attributes:
        pack, version, pack_digest: the pack and its file.
        model, model_digest, bits: the model; digests are 64 hex digits.
        rounded: whether scores come from a server that rounds them.
        data, data_digest: the dataset and the digest of its rows and labels.
        split: None for all rows.
        date: of the evaluation, ISO.
    """

    pack: str
    version: str
    pack_digest: str
    model: str
    model_digest: str
    bits: str
    rounded: bool
    data: str
    data_digest: str
    split: str | None
    date: str


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """A pack on a dataset, measured.

    Attributes:
        rows: of the dataset or split, the refused ones among them.
        notes: what to know of it, a line each.
    """

    made: Made
    rows: int
    refused: tuple[Refusal, ...]
    targets: tuple[TargetReport, ...]
    notes: tuple[str, ...] = ()

    def target(self, name: str) -> TargetReport | None:
        """The report of a target; None when there is none of that name."""
        return next((one for one in self.targets if one.judged.target == name), None)


def units(groups: Sequence[str | None], indexes: Sequence[int]) -> list[list[int]]:
    """The given rows by group, each without a group for itself; in order of first appearance."""
    found: dict[tuple[str, str | int], list[int]] = {}
    for index in indexes:
        group = groups[index]
        key = ("row", index) if group is None else ("group", group)
        found.setdefault(key, []).append(index)
    return list(found.values())
