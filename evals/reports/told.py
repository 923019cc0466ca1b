"""Lines that every report shares: numbers, what was evaluated, lists cut with their count.

Knows no markup: whoever puts a line into a file escapes it.
"""

from collections import Counter
from collections.abc import Sequence

from spinf_serve.evals.compare import Comparison
from spinf_serve.evals.judged import Choices, Evaluation, Measured, TargetReport
from spinf_serve.evals.volumes import volume, volumes

MOST_LISTED = 200
"""Ids that a list shows; the JSON file has all."""


def figure(measured: Measured | None) -> str:
    """A figure with its interval and counts, `—` where the rows do not tell."""
    if measured is None or measured.value is None:
        return "—"
    told = f"{measured.value:.3f}"
    if measured.low is not None and measured.high is not None:
        told += f" ({measured.low:.3f} to {measured.high:.3f})"
    if measured.k is not None:
        told += f", {measured.k} of {measured.n}"
    return told


def listed(ids: Sequence[str], most: int = MOST_LISTED) -> list[str]:
    """The ids, with a line for those beyond `most`."""
    more = len(ids) - most
    return [*ids[:most], *([f"and {more:,} more, all in the JSON file"] if more > 0 else [])]


def choice_lines(choices: Choices) -> list[str]:
    """What was chosen for rows of each labelled option, most first; options without rows are left out."""
    lines = []
    for true, counts in choices.counts():
        pairs = zip(choices.options, counts, strict=True)
        picked = sorted(((one, count) for one, count in pairs if count), key=lambda pair: -pair[1])
        if picked:
            told = ", ".join(f"{count:,} as {option}" for option, count in picked)
            lines.append(f"{true} answered: {told}")
    return lines


def volume_lines(target: TargetReport, per_day: float | None) -> list[tuple[str, str]]:
    """What its verdicts amount to in such traffic, a title and its text each; empty without verdicts."""
    return [(name, volume(share, per_day)) for name, share in (volumes(target) or {}).items()]


def facts(evaluation: Evaluation) -> list[tuple[str, str]]:
    """What was evaluated on what, a title and its text each."""
    made = evaluation.made
    scored = evaluation.rows - len(evaluation.refused)
    split = "all rows" if made.split is None else f"split {made.split}"
    rounded = "; rounded by the server" if made.rounded else ""
    return [
        ("pack", f"{made.pack} {made.version} (file {made.pack_digest[:12]})"),
        ("model", f"{made.model} (numbers {made.model_digest[:12]}{rounded})"),
        ("data", f"{made.data}, {split} (digest {made.data_digest[:12]})"),
        ("rows", f"{scored:,} of {evaluation.rows:,} answered{refusals(evaluation)}"),
        ("date", made.date),
    ]


def refusals(evaluation: Evaluation) -> str:
    """How many rows were refused and why, in brackets; empty when none was."""
    if not evaluation.refused:
        return ""
    codes = Counter(one.code for one in evaluation.refused)
    told = ", ".join(f"{count:,} {code}" for code, count in sorted(codes.items()))
    return f" ({len(evaluation.refused):,} refused: {told})"


def pairing_lines(comparison: Comparison, refused: Sequence[str] = ()) -> list[str]:
    """How the rows of two sides met.

    Args:
        refused: ids that the model refuses now.
    """
    pairing = comparison.pairing
    lines = [f"{len(pairing.both):,} rows on both sides"]
    gone = set(refused) & set(pairing.only_baseline)
    for ids, what in (
        (pairing.only_baseline, "only in the baseline"),
        (tuple(sorted(gone)), "of these refused by the model now"),
        (pairing.only_candidate, "only here"),
        (pairing.changed, "with another content than in the baseline, compared with nothing"),
        (comparison.relabelled, "with another label than in the baseline; the label here counts"),
    ):
        if ids:
            lines.append(f"{len(ids):,} {what}: {', '.join(listed(ids, 20))}")
    return lines
