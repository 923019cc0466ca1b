"""Charts and tables of the page Calibration."""

from typing import Any, Final

import altair as alt
import pandas as pd
import streamlit as st

from spinf_serve.workbench.parts import charts
from spinf_serve.workbench.parts.words import UNKNOWN, plain

MAP_WORDS: Final = {
    "raw": "as it is",
    "platt": "Platt's map",
    "beta": "beta map",
    "isotonic": "isotonic map",
}


def reliability_chart(figures: dict[str, Any], title: str, key: str) -> None:
    """Bins with exact intervals before the band that chance fills; no bin without rows is drawn."""
    data = pd.DataFrame(
        [
            {
                "from": one["low"],
                "to": one["high"],
                "score": one["p"],
                "holds": one["rate"],
                "low": one["interval"]["low"],
                "high": one["interval"]["high"],
                "chance low": one["chance"]["low"],
                "chance high": one["chance"]["high"],
                "rows": one["rows"],
            }
            for one in figures["bins"]
        ]
    )
    x = alt.X("score:Q", title="what was said (mean of the bin)", axis=alt.Axis(format="%"))
    x = x.scale(alt.Scale(domain=[0, 1]))
    y = alt.Y("holds:Q", title="what was so", axis=alt.Axis(format="%"))
    y = y.scale(alt.Scale(domain=[0, 1]))
    tips = [
        alt.Tooltip("rows:Q", format=","),
        *(
            alt.Tooltip(f"{one}:Q", format=".1%")
            for one in ("from", "to", "score", "holds", "low", "high", "chance low", "chance high")
        ),
    ]
    ideal = pd.DataFrame({"score": [0.0, 1.0], "holds": [0.0, 1.0]})
    base = alt.Chart(data)
    up = "what was so"
    layers = alt.layer(
        base.mark_rule(opacity=0.3, color=charts.GREY, strokeWidth=16).encode(
            x=x, y=alt.Y("chance low:Q").title(up), y2="chance high:Q", tooltip=tips
        ),
        alt.Chart(ideal)
        .mark_line(strokeDash=[5, 4], color=charts.GREY)
        .encode(x="score:Q", y="holds:Q"),
        base.mark_rule(color=charts.BLUE, strokeWidth=2).encode(
            x=x, y=alt.Y("low:Q").title(up), y2="high:Q", tooltip=tips
        ),
        base.mark_point(color=charts.BLUE, filled=True, size=80, opacity=1).encode(
            x=x, y=y, tooltip=tips
        ),
        base.mark_text(color=charts.GREY, fontSize=11).encode(
            x=x, y=alt.value(-10), text=alt.Text("rows:Q", format=",")
        ),
    )
    charts.show(
        layers.properties(height=380),
        data,
        "calibration",
        f"reliability-{key}-{figures['binning']}",
        alt_text=(
            f"Reliability of {title}: the share that holds in each bin of scores, with its interval,"
            " before the band that a perfect score would fill by chance."
        ),
    )
    kind = "Wilson's 95 % intervals" if figures["weighted"] else "exact 95 % intervals"
    st.caption(
        f"Numbers above: rows of a bin. Points: share that holds, with {kind}. Grey boxes: where 95 % of perfect scores would lie by"
        " chance. Dashed: what was said is so. Bins without rows are left out."
    )


def maps_table(figures: dict[str, Any], key: str) -> None:
    """What each map loses on rows that it was not fitted on, and which one would be taken."""
    rows = []
    least = min(one["log_loss"]["value"] for one in figures["maps"])
    for one in figures["maps"]:
        note = ""
        if one["map"] == "isotonic" and figures["rows"] < figures["isotonic_rows"]:
            note = f"not offered below {figures['isotonic_rows']:,} labels: it over-fits"
        elif one["map"] == "isotonic":
            note = "for display only: its steps are ties, and no cut may fall into one"
        elif one["map"] == figures["choice"]:
            note = "would be taken for so many labels"
        rows.append(
            {
                "map": MAP_WORDS[one["map"]],
                "log loss": one["log_loss"]["value"],
                "log loss, 95 %": _ends(one["log_loss"]["interval"]),
                "Brier score": one["brier"]["value"],
                "least": one["log_loss"]["value"] == least,
                "note": note,
            }
        )
    st.dataframe(
        pd.DataFrame(rows),
        hide_index=True,
        key=f"maps-{key}",
        column_config={
            "log loss": st.column_config.NumberColumn(format="%.4f"),
            "Brier score": st.column_config.NumberColumn(format="%.4f"),
        },
    )
    if figures["why"]:
        st.caption(f"Maps cannot be compared on left-out rows: {plain(figures['why'])}.")
    else:
        st.caption(
            "Each row is judged by a map that was fitted without it and its group (5 folds); lower is"
            f" better. Below {figures['beta_rows']} labels Platt's map is taken, from there on a beta"
            " map, whose third number then pays. A pack gets its beta map by a certification on the"
            " page Thresholds, where left-out rows lose less with it."
        )
    for note in figures["map_notes"]:
        st.caption(plain(note))


def slices_table(figures: dict[str, Any], key: str) -> None:
    """Figures slice by slice, with what chance would show."""
    table = pd.DataFrame(
        [
            {
                "slice": f"{one['name']} = {one['value']}",
                "rows": one["rows"],
                "said on average": one["mean_p"] * 100,
                "hold": one["rate"] * 100,
                "calibration error": one["ece"] * 100,
                "by chance up to": None if one["high"] is None else one["high"] * 100,
                "log loss": one["log_loss"]["value"],
                # What chance would show stands beside it here, and no interval.
                "note": "few rows: chance weighs heavily" if one["warning"] else "",
            }
            for one in figures["slices"]
        ]
    )
    share = st.column_config.NumberColumn(format="%.1f %%")
    named = ("said on average", "hold", "calibration error", "by chance up to")
    st.dataframe(
        table,
        hide_index=True,
        key=f"slices-{key}",
        placeholder=UNKNOWN,
        column_config={
            **dict.fromkeys(named, share),
            "log loss": st.column_config.NumberColumn(format="%.4f"),
        },
    )


def _ends(interval: dict[str, float] | None) -> str:
    return UNKNOWN if interval is None else f"{interval['low']:.4f} to {interval['high']:.4f}"
