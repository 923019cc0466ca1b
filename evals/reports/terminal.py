"""A verdict as lines for a terminal, with the word and the exit code first."""

from collections.abc import Sequence

from spinf_serve.evals.compare import Comparison
from spinf_serve.evals.gate import Verdict
from spinf_serve.evals.judged import Evaluation
from spinf_serve.evals.reports.told import choice_lines, facts, figure, listed, pairing_lines

_SHOWN = 10
_SHORT = (
    "accuracy",
    "precision",
    "recall",
    "f1",
    "macro_f1",
    "lift_accuracy",
    "logit_lift_accuracy",
    "roc_area",
    "brier",
    "ece",
)
_MORE_OF_CHOICES = ("log_loss", "risk_area")
_MORE_OF_CALIBRATED = ("calibrated_brier", "calibrated_ece", "log_loss", "calibrated_log_loss")


def lines(
    evaluation: Evaluation, verdict: Verdict, comparisons: Sequence[Comparison] = ()
) -> list[str]:
    """The lines. Control characters in texts of others are written out."""
    told = [f"{verdict.sentence}, exit code {verdict.exit_code}", ""]
    told += [f"{title:<8}{text}" for title, text in facts(evaluation)]
    if verdict.outcomes:
        told.append("")
        for one in verdict.outcomes:
            about = f"{one.target}: " if one.target else ""
            told.append(f"{one.word:<18}{about}{one.rule}")
            told.append(f"{'':<18}{one.saw}")
            if one.word != "pass" and one.rows:
                told.append(f"{'':<18}{', '.join(listed(one.rows, _SHOWN))}")
    for target in evaluation.targets:
        told += ["", target.judged.target]
        choices = target.judged.choices
        more: tuple[str, ...] = () if choices is None else _MORE_OF_CHOICES
        if target.judged.calibrated is not None:
            more = _MORE_OF_CALIBRATED
        names = [name for name in (*_SHORT, *more) if name in target.metrics]
        width = max(10, *(len(name) + 1 for name in names)) if names else 10
        told += [f"  {name:<{width}}{figure(target.metrics[name])}" for name in names]
        if choices is not None:
            told += [f"  {line}" for line in listed(choice_lines(choices), _SHOWN)]
        if target.ece_noise is not None:
            told.append(f"  {'':<{width}}an ece of {target.ece_noise:.3f} is chance here")
        told += [f"  {note}" for note in target.notes]
    if comparisons:
        refused = [one.row for one in evaluation.refused]
        told += ["", *pairing_lines(comparisons[0], refused)]
        for change in comparisons:
            if change.flips is not None and change.flips.fixes + change.flips.breaks:
                fixes, breaks = change.flips.fixes, change.flips.breaks
                told.append(f"{change.target}: {len(fixes)} fixed, {len(breaks)} broken")
                told += [f"  broken: {row}" for row in listed(breaks, _SHOWN)]
    if evaluation.notes:
        told += ["", *evaluation.notes]
    return [_printable(line) for line in told]


def _printable(line: str) -> str:
    return "".join(
        one if ord(one) >= 0x20 and not 0x7F <= ord(one) <= 0x9F else f"\\x{ord(one):02x}"
        for one in line
    )
