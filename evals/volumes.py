"""What verdicts amount to in the traffic: messages flagged, false alarms and misses."""

from collections.abc import Mapping
from typing import Final

from spinf_serve.evals.judged import TargetReport

VOLUMES: Final = ("flagged", "false alarms", "misses")


def volumes(target: TargetReport) -> Mapping[str, float] | None:
    """Shares of all messages by `VOLUMES`, weighted as the target's figures are.

    None where there are no verdicts, or no row is labelled. A row counts as the figures have it: of
    rows that were not drawn at random these are shares of the rows, and of no traffic.
    """
    found = {name: one.value for name, one in target.metrics.items()}
    flagged, holds = found.get("flag_rate"), found.get("base_rate")
    if flagged is None or holds is None:
        return None
    # Without a flag there is no precision, and without a row that holds no recall.
    right, caught = found.get("precision"), found.get("recall")
    return {
        "flagged": flagged,
        "false alarms": 0.0 if right is None else flagged * (1 - right),
        "misses": 0.0 if caught is None else holds * (1 - caught),
    }


def volume(share: float, per_day: float | None = None) -> str:
    """A share of the traffic as messages per 1,000, and per day where that is known.

    Args:
        per_day: messages a day; None when nobody said.
    """
    told = f"{share * 1000:,.0f} of 1,000 messages"
    return told if per_day is None else f"{told}, {share * per_day:,.0f} a day"
