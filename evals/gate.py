"""Rules, and one verdict: what a command's words and its exit code both come from.

Three kinds of rules: limits that a caller writes (`spam.precision >= 0.9`), "not worse than the
baseline" on the same rows, and promises of the pack that new labels must bear out. Each ends in one
of five words. Knows no files and no pack.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Literal

from spinf_serve.evals.compare import Comparison, holm
from spinf_serve.evals.drift import Counted, RateDrift, ScoreDrift
from spinf_serve.evals.judged import QUESTION, Evaluation, Judged, Measured
from spinf_serve.packs.errors import Unusable

Word = Literal["pass", "regression", "cannot judge", "stale fingerprint", "error"]

EXIT_CODES: Mapping[Word, int] = {
    "pass": 0,
    "regression": 1,
    "error": 2,
    "cannot judge": 3,
    "stale fingerprint": 4,
}

MEANINGS: Mapping[Word, str] = {
    "pass": "every rule holds",
    "regression": "at least one rule is broken",
    "error": "nothing was judged: a file, a setting or the model is at fault, as the message says",
    "cannot judge": "no rule is broken, but the rows do not suffice to tell whether one holds",
    "stale fingerprint": "the scores are of other numbers than the pack was fitted under, or the"
    " baseline was made under: nothing can be compared",
}

LEVEL = 0.05
"""Chance of a false alarm that all comparisons of a run share."""

LEAST_ROWS = 20
"""Rows below which a figure is not held against a limit."""

LEAST_UNITS = 10
"""Groups (or single rows) below which the bootstrap of a score's change says nothing."""

LEAST_DISTANCE = 0.15
"""Distance of two distributions of scores from which on they count as unlike, if it is no chance:
with many rows any distance is no chance."""

_ORDER: tuple[Word, ...] = ("error", "stale fingerprint", "regression", "cannot judge", "pass")

_OF_CHOICES = ("accuracy", "macro_f1", "brier", "log_loss", "risk_area")
_OF_QUESTIONS = ("lift_accuracy", "logit_lift_accuracy")
_OF_VERDICTS = (
    "accuracy",
    "precision",
    "recall",
    "f1",
    "kappa",
    "roc_area",
    "pr_area",
    "brier",
    "log_loss",
    "ece",
    "flag_rate",
)

METRICS = (*dict.fromkeys((*_OF_VERDICTS, *_OF_CHOICES, *_OF_QUESTIONS)), "refused")
"""What a limit can be about. `refused` is the share of all rows that the model refused."""

_RULE = re.compile(
    r"\s*(?:(?P<target>question:.*\S|\S+)\.)?(?P<metric>[a-z0-9_]+)\s*(?P<sign>>=|<=)\s*(?P<limit>\S+)"
    r"(?P<surely>\s+surely)?\s*"
)


@dataclass(frozen=True, slots=True)
class Rule:
    """A limit.

    Attributes:
        target: None for every target.
        sign: `>=` or `<=`.
        surely: whether the whole 95 % interval has to keep the limit, and not the figure alone.
    """

    target: str | None
    metric: str
    sign: str
    limit: float
    surely: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one rule.

    Attributes:
        rule: what it asks for.
        target: what it is about; empty for all.
        saw: the numbers that were met, next to those asked for.
        rows: ids that the reader will want to look at.
    """

    rule: str
    target: str
    word: Word
    saw: str
    rows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The word for all rules together, and theirs."""

    word: Word
    outcomes: tuple[Outcome, ...]

    @property
    def exit_code(self) -> int:
        """The exit code that belongs to the word, and to no other."""
        return EXIT_CODES[self.word]

    @property
    def sentence(self) -> str:
        """The verdict in a line, with the number of rules by word."""
        if not self.outcomes:
            return "pass: measured only; there was no rule to hold the pack to"
        counts = {
            word: count
            for word in _ORDER
            if (count := sum(one.word == word for one in self.outcomes))
        }
        told = ", ".join(f"{count} {word}" for word, count in counts.items())
        return f"{self.word}: {MEANINGS[self.word]} ({told})"


def verdict(outcomes: Sequence[Outcome]) -> Verdict:
    """The gravest word: a stale fingerprint before a regression before what cannot be judged."""
    words = {one.word for one in outcomes}
    return Verdict(next((word for word in _ORDER if word in words), "pass"), tuple(outcomes))


def parse_rule(text: str) -> Rule:
    """A limit as people write it: `[TARGET.]METRIC >= LIMIT [surely]`. Raises `Unusable`."""
    found = _RULE.fullmatch(text)
    if found is None:
        raise Unusable(
            f"{text!r} is no rule; write one like 'spam.precision >= 0.9', 'accuracy >= 0.8' (every"
            " target) or 'decision.recall >= 0.7 surely'"
        )
    metric = found["metric"]
    if metric not in METRICS:
        raise Unusable(f"{text!r}: there is no metric {metric!r}; there are {', '.join(METRICS)}")
    if metric == "refused" and found["target"] is not None:
        raise Unusable(f"{text!r}: refused is about rows, not about a target; write 'refused …'")
    try:
        limit = float(found["limit"])
    except ValueError:
        limit = float("nan")
    if not isfinite(limit):
        raise Unusable(f"{text!r}: {found['limit']!r} is not a finite number")
    return Rule(found["target"], metric, found["sign"], limit, found["surely"] is not None)


def hold(rules: Sequence[Rule], evaluation: Evaluation) -> list[Outcome]:
    """Hold the figures of an evaluation against limits.

    A rule for every target holds for those that have such a figure. Raises `Unusable` when a rule
    names a target that the pack does not have, or a figure that the target cannot have.
    """
    outcomes = []
    for rule in rules:
        if rule.metric == "refused":
            share = len(evaluation.refused) / evaluation.rows if evaluation.rows else None
            seen = Measured(share, n=evaluation.rows, k=len(evaluation.refused))
            rows = tuple(one.row for one in evaluation.refused)
            outcomes.append(_limited(rule, "", seen, rows))
            continue
        if rule.target is not None and evaluation.target(rule.target) is None:
            names = ", ".join(one.judged.target for one in evaluation.targets)
            raise Unusable(
                f"the rule {_asked(rule)!r}: there is no target {rule.target!r} in {names}"
            )
        held = [one for one in evaluation.targets if rule.target in (None, one.judged.target)]
        having = [one for one in held if rule.metric in _metrics_of(one.judged)]
        if not having:
            has = f"; it has {', '.join(_metrics_of(held[0].judged))}" if rule.target else ""
            raise Unusable(
                f"the rule {_asked(rule)!r}: {rule.target or 'no target'} has"
                f"{' no' if rule.target else ''} {rule.metric}{has}"
            )
        for target in having:
            seen = target.metrics.get(rule.metric, Measured(None))
            outcomes.append(_limited(rule, target.judged.target, seen))
    return outcomes


def _metrics_of(judged: Judged) -> tuple[str, ...]:
    """What can be measured of a target, whether its rows tell it or not."""
    if not judged.target.startswith(QUESTION):
        return _OF_VERDICTS
    return (*(_OF_VERDICTS if judged.choices is None else _OF_CHOICES), *_OF_QUESTIONS)


def _limited(rule: Rule, target: str, seen: Measured, rows: tuple[str, ...] = ()) -> Outcome:
    asked = _asked(rule)
    if seen.value is None:
        return Outcome(asked, target, "cannot judge", "the rows do not tell this figure")
    told = f"{rule.metric} is {seen.value:.4f}"
    if seen.k is not None:
        told += f" ({seen.k} of {seen.n})"
    if seen.low is not None and seen.high is not None:
        told += f", 95 % interval {seen.low:.4f} to {seen.high:.4f}"
    told += f"; asked for {rule.sign} {rule.limit:g}{' surely' if rule.surely else ''}"
    if seen.n < LEAST_ROWS:
        told += f"; {seen.n} rows are fewer than the {LEAST_ROWS} that a limit needs"
        return Outcome(asked, target, "cannot judge", told, rows)
    if not rule.surely:
        word: Word = "pass" if _keeps(rule, seen.value) else "regression"
        return Outcome(asked, target, word, told, rows)
    if seen.low is None or seen.high is None:
        return Outcome(asked, target, "cannot judge", f"{told}; it has no interval", rows)
    ends = {_keeps(rule, seen.low), _keeps(rule, seen.high)}
    if len(ends) == 2:
        return Outcome(asked, target, "cannot judge", f"{told}; label more rows", rows)
    return Outcome(asked, target, "pass" if True in ends else "regression", told, rows)


def not_worse(comparisons: Sequence[Comparison], level: float = LEVEL) -> list[Outcome]:
    """Hold each target to its baseline on the same rows.

    A target's verdicts and its scores are one test each; the level is shared by all of them, as
    S. Holm's correction does.
    """
    tests: dict[str, float] = {}
    for one in comparisons:
        if one.flips is not None:
            tests[f"verdicts {one.target}"] = one.flips.p_worse
        if one.brier is not None and one.brier.units >= LEAST_UNITS:
            tests[f"scores {one.target}"] = one.brier.p_worse
    adjusted = holm(tests)
    outcomes = []
    for one in comparisons:
        if one.flips is None and one.brier is None:
            saw = f"{len(one.pairing.both)} shared rows, of which none has a label and two answers"
            outcomes.append(Outcome(_NOT_WORSE, one.target, "cannot judge", saw))
        if one.flips is not None:
            p = adjusted[f"verdicts {one.target}"]
            outcomes.append(_verdicts(one, p, level, len(tests)))
        if one.brier is not None:
            p_scores = adjusted.get(f"scores {one.target}")
            outcomes.append(_scores(one, p_scores, level, len(tests)))
    return outcomes


_NOT_WORSE = "not worse than the baseline"


def _verdicts(one: Comparison, p: float, level: float, tests: int) -> Outcome:
    flips = one.flips
    if flips is None:
        raise AssertionError(f"{one.target} has no verdicts to compare")
    saw = (
        f"{flips.right_now} of {flips.rows} verdicts right, {flips.right_before} in the baseline;"
        f" {len(flips.fixes)} fixed, {len(flips.breaks)} broken; p {flips.p_worse:.4f},"
        f" {_after(p, tests, level)}"
    )
    rule = f"verdicts {_NOT_WORSE}"
    if p < level:
        return Outcome(rule, one.target, "regression", saw, flips.breaks)
    if 0.5**flips.units * tests >= level:
        saw += f"; {flips.units} rows are so few that no number of breaks would be noticed"
        return Outcome(rule, one.target, "cannot judge", saw, flips.breaks)
    return Outcome(rule, one.target, "pass", saw, flips.breaks)


def _after(p: float, tests: int, level: float) -> str:
    return f"{p:.4f} after correction for {tests} tests (level {level:g})"


def _scores(one: Comparison, p: float | None, level: float, tests: int) -> Outcome:
    change = one.brier
    if change is None:
        raise AssertionError(f"{one.target} has no scores to compare")
    saw = (
        f"Brier score {change.now:.4f}, {change.before:.4f} in the baseline (lower is better);"
        f" 95 % interval of the change {change.low:+.4f} to {change.high:+.4f}"
    )
    rule = f"scores {_NOT_WORSE}"
    if p is None:
        saw += f"; {change.units} rows are fewer than the {LEAST_UNITS} that this needs"
        return Outcome(rule, one.target, "cannot judge", saw)
    saw += f"; p {change.p_worse:.4f}, {_after(p, tests, level)}"
    return Outcome(rule, one.target, "regression" if p < level else "pass", saw)


def promise_kept(target: str, promise: str, drift: RateDrift, level: float = LEVEL) -> Outcome:
    """Hold new labels to what a promise was made on.

    Args:
        promise: what was promised, such as `precision >= 0.9`.
        level: of this test; divide it when there are several.
    """
    old, new = drift.recorded, drift.new
    saw = (
        f"{new.k} of {new.n} on these rows, {old.k} of {old.n} when it was made; p of so few by"
        f" chance {drift.p_worse:.4f} (level {level:g})"
    )
    if drift.low is not None and drift.high is not None:
        saw += f", 95 % interval of the change {drift.low:+.4f} to {drift.high:+.4f}"
    rule = f"still as when promised: {promise}"
    if drift.p_worse < level:
        return Outcome(rule, target, "regression", saw)
    if drift.least_p >= level:
        return Outcome(rule, target, "cannot judge", f"{saw}; so few rows cannot show a fall")
    return Outcome(rule, target, "pass", saw)


def fulfilled(
    target: str, promise: str, new: Counted, p_worse: float, least_p: float, level: float = LEVEL
) -> Outcome:
    """Hold new labels to a promise's limit itself.

    Args:
        p_worse: one-sided p of "the limit is kept".
        least_p: the smallest p that as many rows could give.
    """
    rule = f"new labels do not belie: {promise}"
    saw = f"{new.k} of {new.n} on these rows, p of so few by chance {p_worse:.4f} (level {level:g})"
    if p_worse < level:
        return Outcome(rule, target, "regression", saw)
    if least_p >= level:
        return Outcome(rule, target, "cannot judge", f"{saw}; so few rows cannot show a fall")
    return Outcome(rule, target, "pass", saw)


def rows_alike(target: str, drift: ScoreDrift, level: float = LEVEL) -> Outcome:
    """Whether new rows are like the baseline's, by their scores alone.

    Unlike rows are no regression: a promise made on other rows just says nothing of these.
    """
    rule = "rows like the baseline's"
    told = f"{drift.rows_now} new scores, {drift.rows_before} in the baseline"
    if drift.distance is None or drift.p_differs is None or drift.delta is None:
        return Outcome(rule, target, "cannot judge", f"{told}: too few")
    told += (
        f"; distance {drift.distance:.3f} (p {drift.p_differs:.4f}, unlike from {LEAST_DISTANCE}"
        f" on), delta {drift.delta:+.3f}"
    )
    if drift.flagged_before is not None and drift.flagged_now is not None:
        told += f"; flagged {drift.flagged_now:.1%}, {drift.flagged_before:.1%} in the baseline"
    if drift.p_differs < level and drift.distance >= LEAST_DISTANCE:
        told += "; label some of the new rows to tell whether the pack still holds on them"
        return Outcome(rule, target, "cannot judge", told)
    return Outcome(rule, target, "pass", told)


def same_pack(before: str, now: str) -> list[Outcome]:
    """Nothing to say when a baseline is of the same pack, by id; else that it may be the wrong one."""
    if before == now:
        return []
    saw = (
        f"the baseline is of {before}, and this is {now}: say `spinf-serve compare` to compare two"
        " packs, or name the pack's own baseline"
    )
    return [Outcome("the baseline is of the same pack", "", "cannot judge", saw)]


def still_there(before: Evaluation, now: Evaluation) -> list[Outcome]:
    """Hold a pack to every target that its baseline has.

    One that flagged and decided is missed by whoever relied on it; of another one, such as a question
    whose labels are gone, nothing can be told.
    """
    outcomes = []
    for one in before.targets:
        target = one.judged.target
        if now.target(target) is not None:
            continue
        relied_on = one.decides and one.judged.flagged is not None
        word: Word = (
            "regression" if relied_on and not target.startswith(QUESTION) else "cannot judge"
        )
        saw = "the baseline has it, and here it is no target any more"
        outcomes.append(Outcome("still a target", target, word, saw))
    return outcomes


def same_numbers(what: str, made_under: str, now: str) -> Outcome:
    """Whether two digests of a model are one.

    Args:
        what: whose digest the first is, such as `the pack's proof`.
    """
    rule = f"the model that {what} was made under"
    if not made_under or not now:
        saw = "a digest is not told: give the token of a trusted caller"
        return Outcome(rule, "", "cannot judge", saw)
    saw = f"{made_under[:12]}, now {now[:12]}"
    return Outcome(rule, "", "pass" if made_under == now else "stale fingerprint", saw)


def _keeps(rule: Rule, value: float) -> bool:
    return value >= rule.limit if rule.sign == ">=" else value <= rule.limit


def _asked(rule: Rule) -> str:
    target = "" if rule.target is None else f"{rule.target}."
    surely = " surely" if rule.surely else ""
    return f"{target}{rule.metric} {rule.sign} {rule.limit:g}{surely}"
