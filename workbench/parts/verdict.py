"""Verdicts and figures of reports as tables and words."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pandas as pd
import streamlit as st

from spinf_serve.workbench.parts.words import UNKNOWN, count, plain, volume

MARKS: Final[Mapping[str, tuple[str, Callable[..., Any]]]] = {
    "pass": (":material/check_circle:", st.success),
    "regression": (":material/error:", st.error),
    "cannot judge": (":material/help:", st.warning),
    "stale fingerprint": (":material/sync_problem:", st.warning),
    "error": (":material/error:", st.error),
}
"""Word of a verdict -> its icon, and the box it is drawn in."""

_FIGURES: Final = (
    "accuracy",
    "precision",
    "recall",
    "f1",
    "macro_f1",
    "roc_area",
    "brier",
    "log_loss",
    "ece",
    "flag_rate",
)


def told_of(outcome: Mapping[str, Any]) -> None:
    """What was judged, in a line."""
    made = outcome["made"]
    answered = outcome["rows"] - outcome["refused_count"]
    rows = "all rows" if made["split"] is None else f"split {plain(made['split'])}"
    st.caption(
        f"{plain(made['pack'])} {plain(made['version'])} on {plain(made['data'])}, {rows}: {answered:,} of"
        f" {count(outcome['rows'], 'row')} answered by {plain(made['model'])}, measured {plain(made['date'])}."
    )


def outcome_rows(outcomes: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The rules with their words, the broken ones first."""
    order = {"regression": 0, "stale fingerprint": 1, "error": 1, "cannot judge": 2, "pass": 3}
    return pd.DataFrame(
        [
            {
                "": one["word"],
                "target": one["target"] or "all",
                "rule": one["rule"],
                "found": one["saw"],
                "rows": ", ".join(one["rows"][:8]) + (" …" if len(one["rows"]) > 8 else ""),
            }
            for one in sorted(outcomes, key=lambda one: order.get(one["word"], 9))
        ]
    )


def figures_table(figures: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """A line a target: its figures with their 95 % intervals."""
    names = [name for name in _FIGURES if any(name in one["metrics"] for one in figures)]
    return pd.DataFrame(
        [
            {
                "target": one["target"],
                "labelled": one["labelled"],
                "cut": one["threshold"],
                **{name: figure(one["metrics"].get(name)) for name in names},
                **_counts(one["confusion"]),
            }
            for one in figures
        ]
    )


def volumes_table(figures: Sequence[Mapping[str, Any]], per_day: float | None) -> pd.DataFrame:
    """A line a target with verdicts: what they amount to in messages; no line without any."""
    return pd.DataFrame(
        [
            {"target": one["target"]}
            | {name: volume(share, per_day) for name, share in one["volumes"].items()}
            for one in figures
            # What was measured by an earlier version has none.
            if one.get("volumes") is not None
        ]
    )


def figure(measured: Mapping[str, Any] | None) -> str:
    """A figure with its interval, such as `0.85 (0.81 to 0.88)`."""
    if measured is None or measured["value"] is None:
        return UNKNOWN
    told = f"{measured['value']:.3f}"
    if measured["low"] is None:
        return told
    return f"{told} ({measured['low']:.2f} to {measured['high']:.2f})"


def _counts(confusion: Mapping[str, int] | None) -> dict[str, int | None]:
    names = {"tp": "found", "fp": "false alarms", "fn": "missed", "tn": "left alone"}
    return {told: None if confusion is None else confusion[name] for name, told in names.items()}
