"""A verdict as one HTML page with its charts: no server, no script, nothing from elsewhere."""

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from spinf_serve.evals.compare import Comparison
from spinf_serve.evals.gate import Verdict
from spinf_serve.evals.judged import Choices, Evaluation, Judged, TargetReport
from spinf_serve.evals.metrics.areas import pr_curve, roc_curve
from spinf_serve.evals.metrics.probability import logit, reliability, risk_coverage
from spinf_serve.evals.reports.charts import (
    curve_chart,
    histogram_chart,
    lift_chart,
    reliability_chart,
    risk_chart,
)
from spinf_serve.evals.reports.told import facts, figure, listed, pairing_lines, volume_lines

_STYLE = """
:root{color-scheme:light dark;--ink:#1a1a1a;--page:#fff;--faint:#ddd;--yes:#b3401f;--no:#2b6ca3;
--unknown:#999;--band:#bbb;--pass:#21702f;--regression:#a8201a;--other:#8a5a00}
@media(prefers-color-scheme:dark){:root{--ink:#eee;--page:#161616;--faint:#3a3a3a;--yes:#f2946f;
--no:#7db8ea;--unknown:#888;--band:#666;--pass:#6fcf7f;--regression:#ff8a80;--other:#e6b655}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:1120px;
margin:2em auto;padding:0 1em}
h1{font-size:1.4em}h2{font-size:1.2em;margin-top:2em}
table{border-collapse:collapse;display:block;overflow-x:auto;margin:.8em 0}
.back{fill:var(--page);fill-opacity:.8}
td,th{border:1px solid var(--faint);padding:.25em .6em;text-align:left;vertical-align:top}
.pass{color:var(--pass)}.regression{color:var(--regression)}.other{color:var(--other)}
.charts{display:flex;flex-wrap:wrap;gap:1em}figure{margin:0;width:340px}
figcaption{font-weight:600}svg text{fill:var(--ink);font-size:11px}
.grid{stroke:var(--faint)}.guide{stroke:var(--unknown);stroke-dasharray:4 3}
.band{stroke:var(--band);stroke-width:9}.whisker{stroke:var(--no);stroke-width:1.5}
.cut{stroke:var(--regression);stroke-width:1.5}.curve{fill:none;stroke:var(--no);stroke-width:2}
.dot,.no{fill:var(--no)}.yes{fill:var(--yes)}.unknown{fill:var(--unknown)}
circle.yes,circle.no{fill-opacity:.55}
"""


def html(
    evaluation: Evaluation,
    verdict: Verdict,
    comparisons: Sequence[Comparison] = (),
    *,
    per_day: float | None = None,
) -> str:
    """The page; every text of others is escaped.

    Args:
        per_day: messages a day, for figures per day; None when nobody said.
    """
    made = evaluation.made
    refused = [one.row for one in evaluation.refused]
    parts = [
        f'<h1 class="{_kind(verdict.word)}">{_text(verdict.sentence)}</h1>',
        _list(f"{title}: {text}" for title, text in facts(evaluation)),
    ]
    if verdict.outcomes:
        rows = [(one.word, one.target, one.rule, one.saw) for one in verdict.outcomes]
        parts += ["<h2>Rules</h2>", _table(("verdict", "target", "rule", "seen"), rows)]
    if evaluation.notes:
        parts += ["<h2>To know</h2>", _list(evaluation.notes)]
    if comparisons:
        parts += ["<h2>Against the baseline</h2>", _list(pairing_lines(comparisons[0], refused))]
        parts += [_flips(one) for one in comparisons]
    parts += [_target(one, per_day) for one in evaluation.targets]
    if refused:
        told = [f"{one.row} ({one.code})" for one in evaluation.refused]
        parts += ["<h2>Refused rows</h2>", _list(listed(told))]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy"'
        " content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
        '<meta name="viewport" content="width=device-width">'
        f"<title>{_text(f'{made.pack} {made.version}: {verdict.word}')}</title>"
        f"<style>{_STYLE}</style></head>\n<body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _target(target: TargetReport, per_day: float | None) -> str:
    judged = target.judged
    parts = [f"<h2>{_text(judged.target)}</h2>"]
    parts.append(_table(("figure", "value (95 % interval)"), _figures(target)))
    if amounts := volume_lines(target, per_day):
        parts.append(_table(("in such traffic", "messages"), amounts))
    if target.confusion is not None:
        counts = {name: str(count) for name, count in target.confusion.items()}
        parts.append(
            _table(
                ("", "flagged", "not flagged"),
                [("holds", counts["tp"], counts["fn"]), ("does not", counts["fp"], counts["tn"])],
            )
        )
    if judged.choices is not None:
        rows = [(true, *map(str, counts)) for true, counts in judged.choices.counts()]
        parts.append(_table(("labelled, and chosen:", *judged.choices.options), rows))
    parts.append(f'<div class="charts">{"".join(_charts(target))}</div>')
    if target.slices:
        names = list(dict.fromkeys(name for one in target.slices for name in one.metrics))
        of_slices = [
            (
                f"{one.name} = {one.value}",
                str(one.rows),
                *(figure(one.metrics.get(name)) for name in names),
                one.warning or "",
            )
            for one in target.slices
        ]
        parts.append(_table(("slice", "rows", *names, "careful"), of_slices))
    if target.reads:
        parts.append(_reads(target))
    if target.notes:
        parts.append(_list(target.notes))
    return "\n".join(parts)


def _reads(target: TargetReport) -> str:
    header = ("read", "question", "ROC area", "floor p", "lift: holds", "not", "logit lift: holds")
    rows = [
        (
            one.read,
            one.question if one.value is None else f"{one.question}: {one.value}",
            figure(one.roc_area),
            *map(
                _number,
                (one.floor_p, one.lift_yes, one.lift_no, one.logit_lift_yes, one.logit_lift_no),
            ),
        )
        for one in target.reads
    ]
    table = _table((*header, "not"), rows)
    return f"<details><summary>{len(rows)} answers, one by one</summary>{table}</details>"


def _number(value: float | None) -> str:
    return "—" if value is None else f"{value:.3f}"


def _figures(target: TargetReport) -> list[tuple[str, str]]:
    rows = [(name, figure(measured)) for name, measured in target.metrics.items()]
    if target.ece_noise is not None:
        rows.append(("ece of perfect scores here", f"{target.ece_noise:.3f}"))
    return rows


def _charts(target: TargetReport) -> list[str]:
    judged = target.judged
    if judged.choices is not None:
        return _choice_charts(target, judged.choices)
    if judged.scores is None:
        return []
    charts = [histogram_chart(judged.scores, judged.labels, judged.threshold)]
    known = judged.labelled()
    if not len(known):
        return charts
    scores = judged.scores[known]
    holds = np.array([judged.labels[index] for index in known], dtype=bool)
    charts.append(reliability_chart(reliability(scores, holds)))
    if holds.any() and not holds.all():
        roc, pr = roc_curve(scores, holds), pr_curve(scores, holds)
        area = f"area {figure(target.metrics.get('roc_area'))}"
        charts.append(curve_chart("ROC", "false positives", "recall", roc.x, roc.y, area))
        area = f"area {figure(target.metrics.get('pr_area'))}"
        charts.append(curve_chart("Precision and recall", "recall", "precision", pr.x, pr.y, area))
    if (kept := _kept_chart(judged, scores, holds)) is not None:
        charts.append(kept)
    if target.lifts is not None and len(target.lifts.p):
        charts.append(lift_chart(target.lifts))
    return charts


def _kept_chart(
    judged: Judged, scores: NDArray[np.float64], holds: NDArray[np.bool_]
) -> str | None:
    """Wrong verdicts when the scores nearest to the cut are handed over; what a review band buys."""
    if judged.threshold is None or not 0 < judged.threshold < 1 or judged.flagged is None:
        return None
    flagged = np.array(judged.flagged, dtype=bool)[judged.labelled()]
    far = np.abs(logit(scores) - logit([judged.threshold])[0])
    curve = risk_coverage(far, flagged == holds)
    if curve is None:
        return None
    area = f"area {curve.area:.3f}"
    return risk_chart("rows kept, those nearest to the cut left out first", curve, area)


def _choice_charts(target: TargetReport, choices: Choices) -> list[str]:
    at = target.judged.labelled()
    chosen, true = choices.of(at)
    right = [one == other for one, other in zip(chosen, true, strict=True)]
    charts = []
    if (curve := risk_coverage(choices.p[at], right)) is not None:
        area = f"area {figure(target.metrics.get('risk_area'))}"
        charts.append(risk_chart("rows kept, those of the least p left out first", curve, area))
    if target.lifts is not None and len(target.lifts.p):
        charts.append(lift_chart(target.lifts))
    return charts


def _flips(one: Comparison) -> str:
    if one.flips is None or not one.flips.fixes + one.flips.breaks:
        return ""
    fixes, breaks = one.flips.fixes, one.flips.breaks
    title = f"{one.target}: {len(fixes)} fixed, {len(breaks)} broken"
    told = [*(f"broken: {row}" for row in breaks), *(f"fixed: {row}" for row in fixes)]
    return f"<details><summary>{_text(title)}</summary>{_list(listed(told))}</details>"


def _kind(word: str) -> str:
    return word if word in ("pass", "regression") else "other"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{_text(cell)}</th>" for cell in header)
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _list(lines: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{_text(line)}</li>' for line in lines)}</ul>"


def _text(text: str) -> str:
    """Escaped; a control character, or half a pair, is shown as the replacement character."""
    shown = "".join(
        "\ufffd" if (ord(one) < 0x20 and one not in "\t\n") or _unfit(ord(one)) else one
        for one in text
    )
    return escape(shown)


def _unfit(code: int) -> bool:
    return 0x7F <= code <= 0x9F or 0xD800 <= code <= 0xDFFF or code & 0xFFFE == 0xFFFE
