"""What CI holds a pack to: the limits that the project keeps, and the command and workflow for them."""

import shlex
from collections.abc import Sequence
from typing import Any, Final

from spinf_serve.evals.gate import parse_rule
from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench.actions.evaluations import EvaluationWish
from spinf_serve.workbench.audit import note
from spinf_serve.workbench.desk import Desk

_RULES: Final = "rules"


def command_for(desk: Desk, wish: EvaluationWish) -> str:
    """The command that judges the same on a command line, run in the project's folder.

    It asks the model for what is not kept, as CI does.
    """
    pack = wish.side.pack.removeprefix("official:")
    words = ["spinf-serve", "eval", pack, "--data", f"{desk.file.name}:{wish.dataset}"]
    if wish.split is not None:
        words += ["--split", wish.split]
    for rule in wish.rules:
        words += ["--rule", rule]
    if wish.baseline is not None:
        words += ["--against", wish.baseline]
    if wish.new_rows:
        words.append("--new-rows")
    if desk.per_day is not None:
        words += ["--per-day", f"{desk.per_day:.15g}"]
    words += ["--junit", "report.xml", "--markdown", "report.md", "--html", "report.html"]
    return shlex.join(words)


def rule_fault(text: str) -> str | None:
    """What is wrong with a limit as it is written; None for a sound one."""
    try:
        parse_rule(text)
    except Unusable as fault:
        return str(fault)
    return None


def rules_of(desk: Desk, pack: str) -> list[str]:
    """The limits that the project keeps for a pack's file."""
    kept = desk.settings().get(_RULES)
    found = kept.get(pack) if isinstance(kept, dict) else None
    return [str(one) for one in found] if isinstance(found, list) else []


def keep_rules(desk: Desk, user: str, pack: str, rules: Sequence[str], *, seen: list[str]) -> None:
    """Keep a pack's limits.

    Raises `Unusable`, and keeps the others: somebody changed them since they were `seen`.
    """

    def changed(settings: dict[str, Any]) -> dict[str, Any]:
        if rules_of(desk, pack) != seen:
            raise Unusable(
                "somebody else changed these limits meanwhile; nothing was overwritten. Look at them"
                " as they are now, and change them again"
            )
        kept = settings.get(_RULES)
        return {_RULES: {**(kept if isinstance(kept, dict) else {}), pack: list(rules)}}

    desk.change(changed)
    note(desk, user, "set limits", pack, before=seen, now=list(rules))


def workflow(desk: Desk, wish: EvaluationWish) -> str:
    """A GitHub workflow that runs `command_for` on every pull request of the project's folder."""
    return _WORKFLOW.format(command=command_for(desk, wish))


_WORKFLOW: Final = """\
# Holds the pack to its rules on every pull request. Ends with 0 pass, 1 regression, 2 error,
# 3 cannot judge, 4 stale fingerprint. The project's file is kept with Git LFS, or fetched here.
name: evals
on: [pull_request]
permissions:
  contents: read
jobs:
  pack:
    runs-on: ubuntu-latest
    timeout-minutes: 60
    steps:
      - uses: actions/checkout@v4
        with:
          lfs: true
      # From a checkout: the package of this name on the index is another one.
      - uses: actions/checkout@v4
        with:
          repository: OWNER/spinf-serve
          path: spinf-serve
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - name: Install
        run: |
          pip install -c spinf-serve/constraints.txt -e "./spinf-serve[cpu,evals]"
          spinf-serve models fetch embedded
      - name: Judge
        run: |
          {command}
      - name: Show the verdict
        if: always()
        run: |
          test ! -f report.md || cat report.md >> "$GITHUB_STEP_SUMMARY"
      - name: Keep the reports
        if: always()
        uses: actions/upload-artifact@v4
        with:
          name: evals
          path: |
            report.xml
            report.html
"""
