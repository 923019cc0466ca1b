"""What `spinf_serve.evals.certify` answers with: values, without the way to them."""

from dataclasses import dataclass
from typing import Literal

from spinf_serve.evals.cuts import Target
from spinf_serve.evals.intervals import Interval

Why = Literal[
    "not_a_number",
    "no_rows",
    "not_random",
    "one_class",
    "no_information",
    "too_few_rows",
    "failed",
    "spent",
]


@dataclass(frozen=True, slots=True)
class Point:
    """What the rows say at one cut.

    Attributes:
        cut: rows with this score and above are flagged.
        n: rows that the promise counts there: the flagged for precision, the unflagged for npv,
            those that hold for recall, all for flag_rate.
        k: of these, the ones that hold; for npv those that do not, for recall and flag_rate the
            flagged ones.
        estimate: the promised rate; k / n, or that re-weighted to the stated base rate.
        bound: wrong with chance delta at most; a lower bound, for flag_rate an upper one.
        interval: of the rate, at 95 %: Wilson's; with a stated base rate an exact one.
        coverage: share flagged, re-weighted to the stated base rate.
        recall: share of the rows that hold that is flagged; None without such rows.
        effective_n: rows drawn at random from the traffic that would bound the same rate as well.
        gap: the nearest scores below the cut, and at it or above; every cut above the first and up
            to the second flags the same of these rows. None where there is none.
    """

    cut: float
    n: int
    k: int
    estimate: float
    bound: float
    interval: Interval
    coverage: float
    recall: float | None
    effective_n: float
    gap: tuple[float | None, float | None]


@dataclass(frozen=True, slots=True)
class Certificate:
    """A cut that holds its target, except with chance `delta`, for rows drawn like these.

    Attributes:
        target, delta: what is promised, and the chance that was really used.
        point: the cut and what was seen there.
        rows: rows that were counted, of both classes.
        base_rate: share of positives in the traffic that the promise is for: the stated one, or that
            of the rows. None when no label was needed.
        stated: whether the base rate was stated, with rows drawn class by class.
        approximate: the cuts came from the same rows' scores, so delta may be passed slightly.
        passed: every cut that passed on the way, in that order; all are promised at once.
        notes: sentences: which rows were left out, and what to know.
    """

    target: Target
    delta: float
    point: Point
    rows: int
    base_rate: float | None
    stated: bool
    approximate: bool
    passed: tuple[float, ...]
    notes: tuple[str, ...]

    @property
    def cut(self) -> float:
        """Rows with this score and above are flagged."""
        return self.point.cut


@dataclass(frozen=True, slots=True)
class NotReachable:
    """No cut can be promised yet.

    Attributes:
        why: the kind of reason.
        words: one or two sentences for a reader.
        point: the best cut of those given, which is no promise; None where there is nothing to show.
        labels_needed: how many more rows like these, at the rates seen there, would carry the
            promise; None where that is not known or no number would.
    """

    target: Target
    delta: float
    why: Why
    words: str
    point: Point | None
    rows: int
    base_rate: float | None
    labels_needed: int | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Bands:
    """Two cuts: act at `act` and above, pass below `pass_`, review between.

    Attributes:
        review_per_1000: rows between the cuts per 1,000 of traffic; a band that has no cut is empty.
    """

    act: Certificate | NotReachable
    pass_: Certificate | NotReachable
    review_per_1000: float
