"""The section of docs/figures.md on number formats, from `evals/bench/results/precision-*.json`.

Each file is what `spinf-serve packs precision --out` wrote for one model.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent.parent / "evals" / "bench" / "results"

_INTRO = """## What number formats change

The official packs' questions about rows of their samples, asked in several number formats and
compared with the same model in float32 on the CPU. Differences are absolute, of every option of every
question on every row: of the logprob in nats, and of p, the softmax over the question's options. Rank
is Spearman's correlation of p over the rows of a pack, for each question the lowest of its options:
the median over the questions, and the worst. A verdict counts as flipped when safe or unsafe, or the
band of the decision, differs at the pack's cuts; a category when its flag or its band does; a route
when the content goes elsewhere. AUC is the mean over packs and categories by the samples' labels,
in float32 and in the format.
"""

_HEAD = (
    *("format", "rows", "questions", "logprob mean", "p99", "max", "p mean", "p99", "max"),
    *("rank median", "worst", "verdicts flipped", "categories", "routes", "AUC"),
)
_FORMATS = {
    "cpu-bfloat16": "bfloat16 (CPU)",
    "cuda-bf16": "bf16",
    "cuda-fp8": "fp8",
    "cuda-int8": "int8",
}


def section(folder: Path = RESULTS) -> str:
    """The section with a table for each model, and one pack by pack; empty without a result."""
    files = sorted(folder.glob("precision-*.json"))
    if not files:
        return ""
    return "\n".join([_INTRO, *(_model(file) for file in files)])


def _model(file: Path) -> str:
    told = json.loads(file.read_text("utf-8"))
    lines = [f"### {told['model']}", "", _how(file, told), ""]
    lines += _table(_HEAD, [(_format(one), one["all"]) for one in told["schemes"]])
    lines += ["", "Pack by pack:", ""]
    by_pack = [
        (f"{id}, {_format(one)}", one["packs"][id])
        for id in told["packs"]
        for one in told["schemes"]
    ]
    lines += _table(("pack, format", *_HEAD[1:]), by_pack)
    return "\n".join([*lines, ""])


def _how(file: Path, told: Mapping[str, Any]) -> str:
    said = f"`{file.name}`: `{told['command']}` at `{told['commit']}`"
    for scheme in told["schemes"]:
        said += f"; {_format(scheme)} on {scheme['card']}, torch {scheme['versions']['torch']}"
    fitted = [id for id, one in told["packs"].items() if one["cuts"] != "pack"]
    if fitted:
        which = "all packs" if len(fitted) == len(told["packs"]) else ", ".join(fitted)
        said += f". Cuts of {which} were fitted on the float32 answers to these very rows"
    return said + "."


def _format(scheme: Mapping[str, Any]) -> str:
    return _FORMATS[scheme["scheme"]]


def _table(head: Sequence[str], rows: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for title, found in rows:
        yield f"| {' | '.join([title, *_cells(found)])} |"


def _cells(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"{found['rows']:,}"
    yield f"{found['questions']:,}"
    for what in ("logprob", "p"):
        for size in ("mean", "p99", "max"):
            yield f"{found[what][size]:.2g}"
    for which in ("median", "worst"):
        yield "-" if found["rank"][which] is None else f"{found['rank'][which]:.4f}"
    for what in ("verdicts", "categories", "routes"):
        yield _flipped(found[what])
    yield " / ".join("-" if one is None else f"{one:.3f}" for one in found["auc"].values())


def _flipped(found: Mapping[str, Any]) -> str:
    if not found["of"]:
        return "-"
    return f"{found['flipped']} of {found['of']} ({found['share']:.1%})"
