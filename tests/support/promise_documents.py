"""Renders docs/promises.md from evals/bench/results/promises.json and from constants of the code."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scipy.stats import binom

from spinf_serve.evals.cuts import SMALL_SET_ROWS, labels_needed
from spinf_serve.evals.sentences import PROVISIONAL_ROWS

TARGETS = (0.8, 0.9, 0.95, 0.98, 0.99)
ERRORS = (0, 1, 2, 3, 5, 10)

Cells = Mapping[tuple[str, int, str], Mapping[str, Any]]


def page(note: str, results: Path) -> str:
    """The page on promised cuts.

    Args:
        note: says that the file is made from code.
        results: the folder of promises.json.
    """
    figures = json.loads((results / "promises.json").read_text(encoding="utf-8"))
    cells = {(one["world"], one["labels"], one["way"]): one for one in figures["cells"]}
    sizes = sorted({one["labels"] for one in figures["cells"]})
    runs = figures["cells"][0]["runs"]
    target, delta = _percent(figures["target"]), _percent(figures["delta"])
    # One honest cell in a thousand lies above this.
    chance = binom.isf(0.001, runs, figures["delta"]) / runs
    return f"""{note}# Cuts that hold

A cut chosen because it looks good on some rows looks better on them than it is. `spinf-serve fit`
promises a cut only after an exact test: **precision at least {target}, with \
{_percent(1 - figures["delta"])} certainty** means that of all datasets that could have been drawn and labelled, at most {delta} lead to
a cut that misses {target} in the traffic. "Not reachable yet", with the best cut, its interval and the
labels still needed, is an answer too.

## How a promise is made

1. Cuts are set before labels are seen: evenly spaced in log odds, or flagging given shares of unlabelled
   traffic. Cuts taken from the labelled rows' own scores make a promise "approximate", and it says so.
2. They are walked from strict to loose (for recall from loose to strict). At each, an exact binomial test
   asks whether the target could still be missed; the walk ends at the first failure, and the last cut that
   passed is promised. One test at the full chance of {delta} is enough for the whole walk.
3. Cuts that count too few rows are skipped by a rule that looks at scores only: fewer than 2 times the
   rows that carry the target without an error, 3 times from {SMALL_SET_ROWS} rows on.
4. Two bands (act, review, pass) take half of the chance each. A cut by cost is not promised: it comes with
   its spread over resampled rows.

| Rule | Because |
|---|---|
| Only rows drawn at random count, or rows with their inverse probability | a queue shows the rows that \
the scores find hard, not those that they get wrong unseen |
| Weighted rows are thinned until all weigh the same | what is left is a random sample, so the test stays \
exact; the rows that are gone are the price |
| One row of a group | copies err together |
| The base rate of the traffic is stated where labels were drawn class by class | precision depends on how \
rare positives are; both error rates get a bound, which costs certainty |
| Every certification on the same labels takes its share of the {delta} | the best of many tries is the \
luckiest |
| Rows without a label are left out | missing is not "no" |

Fewer than {PROVISIONAL_ROWS} rows of a class are marked provisional. The derivations, with their sources,
stand in `evals/exact.py` and `evals/eligible.py`.

## What it takes

Rows at the cut and above that carry a promise with 95 % certainty, by how many of them err:

| Target | {" | ".join(f"{errors} errors" for errors in ERRORS).replace("1 errors", "1 error")} |
|---{"|---" * len(ERRORS)}|
{_needed()}
## Do they hold?

`{figures["command"]}`
draws {runs:,} labelled sets of each size from made-up traffic whose truth is known (numpy \
{figures["numpy"]}, seed {figures["seed"]}), promises {target} at a chance of {delta}, and counts. *Missed* is the share of all sets whose promised cut misses the target in the traffic, *none* the
share without a promised cut, *flagged* the mean share of the traffic that promised cuts flag. With so
many sets an honest {delta} shows more than {_percent(chance, 1)} once in a thousand cells.

### Labels drawn at random

Confidence is right as often as it says; the loosest cut with {target} flags 63 % of the traffic. "In sample" is the loosest
cut that reaches the target on the rows that it was chosen on, which is what is mostly done.

| Labels | spaced cuts: missed / none / flagged | by shares of traffic: missed / none / flagged | \
in sample: missed / none / flagged |
|---|---|---|---|
{_rows(cells, [("plain", "rules"), ("plain", "ranks"), ("plain", "in sample")], sizes)}
The hardest case for a promise, and labels that say nothing:

| Labels | {_words(figures, "flat")}: missed / none | {_words(figures, "coin")}: missed / none |
|---|---|---|
{_rows(cells, [("flat", "rules"), ("coin", "rules")], sizes, flagged=False)}
### Crooked worlds

The same labels with the rules above, and without them.

| World | Labels | with the rules: missed / none / flagged | without: missed / none / flagged |
|---|---|---|---|
{_crooked(figures, cells, sizes)}
Half and half: with 5 % positives in the traffic a precision of 90 % allows false alarms on 0.58 % of the
negatives at most, even if every positive is flagged. 500 negatives without a single false alarm still leave
0.60 % possible, so no method can promise it from 1,000 labels.

## What is not promised

- Traffic that changes. A certificate names the base rate, the rows and the fingerprint it was made for.
- Right labels. Labels made by a model that errs like the scores ratify its errors.
- All promises of a pack at once. Of a hundred promises at {delta} each about five may be wrong; a
  smaller chance can be asked for the pack.
"""


def _needed() -> str:
    return "".join(
        f"| {_percent(target)} | "
        + " | ".join(f"{labels_needed(target, errors):,}" for errors in ERRORS)
        + " |\n"
        for target in TARGETS
    )


def _words(figures: Mapping[str, Any], world: str) -> str:
    return str(next(one["words"] for one in figures["worlds"] if one["name"] == world))


def _rows(
    cells: Cells, ways: Sequence[tuple[str, str]], sizes: Sequence[int], flagged: bool = True
) -> str:
    return "".join(
        f"| {size:,} | "
        + " | ".join(_cell(cells[world, size, way], flagged) for world, way in ways)
        + " |\n"
        for size in sizes
    )


def _crooked(figures: Mapping[str, Any], cells: Cells, sizes: Sequence[int]) -> str:
    text = ""
    for world in figures["worlds"]:
        if world["rule"] is None:
            continue
        name = f"{world['words']} ({world['kind']}); rule: {world['rule']}"
        for size in sizes:
            both = [_cell(cells[world["name"], size, way]) for way in ("rules", "no rules")]
            text += f"| {name} | {size:,} | {both[0]} | {both[1]} |\n"
            name = ""
    return text


def _cell(cell: Mapping[str, Any], flagged: bool = True) -> str:
    missed, none = cell["missed"] / cell["runs"], 1 - cell["promised"] / cell["runs"]
    text = f"{_percent(missed, 1)} / {_percent(none)}"
    if not flagged:
        return text
    return text + (" / -" if cell["coverage"] is None else f" / {_percent(cell['coverage'])}")


def _percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"
