"""A verdict as a Markdown page, as job summaries and pull requests show it."""

from collections.abc import Iterable, Sequence

from spinf_serve.evals.compare import Comparison
from spinf_serve.evals.gate import Verdict
from spinf_serve.evals.judged import Evaluation
from spinf_serve.evals.reports.told import (
    choice_lines,
    facts,
    figure,
    listed,
    pairing_lines,
    volume_lines,
)
from spinf_serve.evals.volumes import VOLUMES

_PLAIN = set(" .,:;()%/=+-'–—→≥≤…")
_SHOWN = 50


def markdown(
    evaluation: Evaluation,
    verdict: Verdict,
    comparisons: Sequence[Comparison] = (),
    *,
    per_day: float | None = None,
) -> str:
    """The page. Texts of others are escaped: an id can be neither markup nor a mention.

    Args:
        per_day: messages a day, for figures per day; None when nobody said.
    """
    lines = [f"## {escaped(verdict.sentence)}", ""]
    lines += [f"- {title}: {escaped(text)}" for title, text in facts(evaluation)]
    lines.append("")
    if verdict.outcomes:
        rows = [(one.word, one.target, one.rule, one.saw) for one in verdict.outcomes]
        lines += _table(("verdict", "target", "rule", "seen"), rows)
    names = list(dict.fromkeys(name for one in evaluation.targets for name in one.metrics))
    lines += _table(
        ("target", *names),
        [
            (one.judged.target, *(figure(one.metrics.get(name)) for name in names))
            for one in evaluation.targets
        ],
    )
    lines += _volumes(evaluation, per_day)
    for one in evaluation.targets:
        if one.judged.choices is not None and (told := choice_lines(one.judged.choices)):
            lines += _details(f"{one.judged.target}: labelled and chosen options", told)
    refused = [one.row for one in evaluation.refused]
    lines += _compared(comparisons, refused)
    lines += _slices(evaluation)
    notes = [*evaluation.notes, *_target_notes(evaluation)]
    lines += [f"- {escaped(note)}" for note in notes]
    if refused:
        told = [f"{one.row} ({one.code})" for one in evaluation.refused]
        lines += _details(f"{len(refused)} refused rows", told)
    return "\n".join(lines).rstrip("\n") + "\n"


def escaped(text: str) -> str:
    """A text that reads the same and means nothing to Markdown or HTML."""
    return "".join(one if one.isalnum() or one in _PLAIN else f"&#{_number(one)};" for one in text)


def _number(one: str) -> int:
    # A control character or half a pair has no entity: the replacement character stands for it.
    code = ord(one)
    shown = 0x20 <= code < 0x7F or (code >= 0xA0 and not 0xD800 <= code <= 0xDFFF)
    return code if shown else 0xFFFD


def _compared(comparisons: Sequence[Comparison], refused: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for number, one in enumerate(comparisons):
        if not number:
            lines += ["### Against the baseline", ""]
            # All targets are judged on the same rows.
            lines += [f"- {escaped(line)}" for line in pairing_lines(one, refused)]
            lines.append("")
        if one.flips is not None and one.flips.fixes + one.flips.breaks:
            fixes, breaks = one.flips.fixes, one.flips.breaks
            title = f"{one.target}: {len(fixes)} fixed, {len(breaks)} broken"
            told = [*(f"broken: {row}" for row in breaks), *(f"fixed: {row}" for row in fixes)]
            lines += _details(title, told)
    return lines


def _volumes(evaluation: Evaluation, per_day: float | None) -> list[str]:
    rows = [
        (one.judged.target, *(text for _, text in told))
        for one in evaluation.targets
        if (told := volume_lines(one, per_day))
    ]
    return _table(("in such traffic", *VOLUMES), rows) if rows else []


def _slices(evaluation: Evaluation) -> list[str]:
    rows = []
    names: dict[str, None] = {}
    for target in evaluation.targets:
        for part in target.slices:
            names.update(dict.fromkeys(part.metrics))
            rows.append((target.judged.target, part))
    if not rows:
        return []
    told = [
        (
            target,
            f"{part.name} = {part.value}",
            str(part.rows),
            *(figure(part.metrics.get(name)) for name in names),
            part.warning or "",
        )
        for target, part in rows
    ]
    return ["### Slices", "", *_table(("target", "slice", "rows", *names, "careful"), told)]


def _target_notes(evaluation: Evaluation) -> list[str]:
    return [f"{one.judged.target}: {note}" for one in evaluation.targets for note in one.notes]


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(map(escaped, header))} |",
        f"|{'---|' * len(header)}",
        *(f"| {' | '.join(map(escaped, row))} |" for row in rows),
        "",
    ]


def _details(title: str, told: Sequence[str]) -> list[str]:
    items = [f"<li>{escaped(line)}</li>" for line in listed(told, _SHOWN)]
    return [f"<details><summary>{escaped(title)}</summary><ul>", *items, "</ul></details>", ""]
