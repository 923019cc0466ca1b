"""The figures in the readmes of the official packs, from the report of each pack's fit."""

import json
import re
from pathlib import Path
from typing import Any

OFFICIAL = Path(__file__).resolve().parent.parent.parent / "packs" / "spinf"

_MARKS = re.compile(r"<!-- figures -->.*?<!-- /figures -->", re.DOTALL)


def folders() -> list[Path]:
    """The folder of every official pack."""
    return sorted(path.parent for path in OFFICIAL.glob("*/pack.yaml"))


def reports() -> dict[str, dict[str, Any]]:
    """Folder name -> report of the fit."""
    return {path.name: json.loads((path / "fit.json").read_text()) for path in folders()}


def pages() -> dict[str, str]:
    """File name from docs/ -> readme with its figures."""
    found = {}
    for folder in folders():
        text = (folder / "README.md").read_text()
        block = _block(json.loads((folder / "fit.json").read_text()))
        before, *rest = _MARKS.split(text)
        assert len(rest) == 1, f"{folder}/README.md needs one <!-- figures --><!-- /figures -->"
        found[f"../packs/spinf/{folder.name}/README.md"] = before + block + rest[0]
    return found


def _block(report: dict[str, Any]) -> str:
    how = (
        f"Fitted on {report['fit_rows']} rows of the sample and judged on the other "
        f"{report['test_rows']}, with {report['model']}, by\n"
        f"`{report['command']}`\n"
        f"at commit `{report['commit']}`. AUC is the chance that a row which holds the category\n"
        "scores above one that does not; error is its standard error. With so few rows behind it, a\n"
        "single category's figure is rough."
    )
    lines = [
        "<!-- figures -->",
        how,
        "",
        "| category | test rows that hold it | AUC | error | found at the threshold | wrongly found |",
        "|---|---|---|---|---|---|",
    ]
    lines += [_row(name, one) for name, one in report["categories"].items()]
    lines += ["", f"Mean AUC {report['macro_auc']:.3f}."]
    decision = report["decision"]
    auc = "" if decision["auc"] is None else f", AUC {decision['auc']:.3f}"
    lines[-1] += (
        f" Decision ({decision['mode']}): {decision['hit']:.0%} of {decision['positives']} found, "
        f"{decision['wrong']:.0%} of {decision['negatives']} wrongly found{auc}."
    )
    if report["routed"] is not None:
        lines[-1] += (
            f" Route: {report['routed']:.0%} of the rows with one target right, "
            f"{report['abstained']:.0%} abstained."
        )
    return "\n".join([*lines, "<!-- /figures -->"])


def _row(name: str, one: dict[str, Any]) -> str:
    def shown(key: str, form: str) -> str:
        return "-" if one[key] is None else format(one[key], form)

    cells = [
        f"`{name}`",
        str(one["positives"]),
        shown("auc", ".3f"),
        shown("auc_error", ".3f"),
        shown("hit", ".0%"),
        shown("wrong", ".0%"),
    ]
    return f"| {' | '.join(cells)} |"
