"""The part of Thresholds about cost: what a message costs at each cut, and how sure that is."""

from dataclasses import replace
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import streamlit as st

from spinf_serve.evals.cost import CostCurve, CostCut
from spinf_serve.workbench.actions.cut_plans import Plan, PlannedCut, keep_plan
from spinf_serve.workbench.actions.cut_rows import CutRows, costs
from spinf_serve.workbench.frame import stamp, told
from spinf_serve.workbench.glossary import help as meaning
from spinf_serve.workbench.pages.thresholds_look import bytes_of
from spinf_serve.workbench.pages.thresholds_stand import Stand, rows_of, title_of
from spinf_serve.workbench.parts import charts
from spinf_serve.workbench.parts.figures import figure, row
from spinf_serve.workbench.parts.view import need_view
from spinf_serve.workbench.parts.words import percent, plain

ALARM, MISS = 1.0, 5.0
"""Prices while nobody said any."""


def draw(stand: Stand) -> None:
    """Draw it; the pack has numbers."""
    view = need_view(stand.found, stand.shown, bytes_of(stand))
    rows = rows_of(stand, view)
    if not len(rows.costed):
        st.info("No row is labelled, so no cut has a cost. Label rows on the page **Data**.")
        return
    alarm, miss, currency = _prices(stand)
    key = (str(stand.desk.file), view.key, stamp(stand.desk), stand.dataset, stand.name)
    cheapest, curve = _costs(key, miss / alarm, rows)
    _words(stand, rows, cheapest, alarm, miss, currency)
    _chart(stand, curve, cheapest, alarm, currency)
    st.caption(
        "Nothing is promised of the cheapest cut: on the rows it was chosen on it looks cheaper than it"
        " is. The band is 90 % of resampled rows at each cut."
    )
    ratio = float(f"{miss / alarm:.6g}")
    planned = PlannedCut(stand.name, "cost", ratio)
    if st.button(
        "Put this cut into the table of targets",
        key=f"cost-plan-{stand.key}",
        icon=":material/playlist_add:",
        disabled=stand.plan.of(stand.name) == planned,
        help="The next certification then sets the cheapest cut, and promises nothing of it.",
    ):
        with told():
            _keep(stand, stand.plan.with_cut(planned))
            st.rerun()


def _keep(stand: Stand, plan: Plan) -> None:
    keep_plan(stand.desk, stand.found.user, stand.file_name, stand.dataset, plan)


@st.cache_resource(show_spinner="Resampling rows…", max_entries=16)
def _costs(key: tuple[Any, ...], miss: float, _rows: CutRows) -> tuple[CostCut, CostCurve]:
    return costs(_rows, miss)


def _prices(stand: Stand) -> tuple[float, float, str]:
    """Prices of a false alarm and of a miss; kept when they are changed."""
    plan, key = stand.plan, f"prices-{stand.key}-{stand.plan.revision}"
    left, middle, right = st.columns([3, 3, 1])
    alarm = left.number_input(
        "A false alarm costs", 0.0001, value=plan.alarm or ALARM, format="%.6g", key=f"{key}-alarm"
    )
    miss = middle.number_input(
        "A miss costs",
        0.0001,
        value=plan.miss or MISS,
        format="%.6g",
        key=f"{key}-miss",
        help=meaning("cost"),
    )
    currency = right.text_input("In", plan.currency, max_chars=8, key=f"{key}-currency")
    if (alarm, miss, currency) != (plan.alarm or ALARM, plan.miss or MISS, plan.currency):
        with told():
            priced = replace(plan, alarm=float(alarm), miss=float(miss), currency=currency)
            _keep(stand, priced)
            st.rerun()
    if plan.miss is None:
        st.caption("Nobody has said what errors cost yet; these prices are only to begin with.")
    return float(alarm), float(miss), currency


def _words(
    stand: Stand,
    rows: CutRows,
    found: CostCut,
    alarm: float,
    miss: float,
    currency: str,
) -> None:
    cut = "flag none" if found.cut is None else f"{found.cut:.4g}"
    below = []
    if found.cut_interval is not None:
        ends = found.cut_interval
        below.append(f"90 % of resamples: {ends.low:.4g} to {ends.high:.4g}")
    if found.none_flagged:
        below.append(f"flag none in {percent(found.none_flagged, 0)} of resamples")
    scale = 1000 * alarm
    low, high = found.cost_interval.low * scale, found.cost_interval.high * scale
    with row():
        figure("Cheapest cut", cut, below, meaning("cut"))
        between = f"90 % of resamples: {low:,.2f} to {high:,.2f}"
        figure("Cost of 1,000 messages", f"{found.cost * scale:,.2f} {currency}", [between])
        if stand.per_day is not None:
            day = f"{found.cost * alarm * stand.per_day:,.2f} {currency}"
            figure("Cost of a day", day, [f"at {stand.per_day:,.0f} messages"])
    if not stand.is_layer:
        st.caption(
            f"Where scores of {plain(title_of(stand.shown, stand.name))} are right as shares, the cut is"
            f" {alarm / (alarm + miss):.4g} whatever the labels: the price of a false alarm over that"
            f" of both. Counted on {len(rows.costed):,} labelled rows."
        )


def _chart(stand: Stand, curve: CostCurve, found: CostCut, alarm: float, currency: str) -> None:
    scale = 1000 * alarm
    data = pd.DataFrame(
        {
            "cut": curve.cuts,
            "cost": curve.cost * scale,
            "low": curve.low * scale,
            "high": curve.high * scale,
        }
    )
    data = data[np.isfinite(data["cut"])]
    x = alt.X("cut:Q", title="cut on the score")
    title = f"cost of 1,000 messages, {currency}"
    layers = [
        alt.Chart(data)
        .mark_area(opacity=0.2, color=charts.BLUE)
        .encode(x=x, y=alt.Y("low:Q").title(title), y2="high:Q"),
        alt.Chart(data)
        .mark_line(color=charts.BLUE, strokeWidth=2)
        .encode(
            x=x,
            y=alt.Y("cost:Q").title(title),
            tooltip=[alt.Tooltip(f"{one}:Q", format=",.4g") for one in data.columns],
        ),
    ]
    for cut, colour in ((found.cut, charts.ORANGE), (stand.in_force(), charts.GREY)):
        if cut is not None:
            rule = alt.Chart(pd.DataFrame({"cut": [cut]}))
            layers.append(rule.mark_rule(color=colour, strokeWidth=2).encode(x="cut:Q"))
    charts.show(
        alt.layer(*layers).properties(height=300),
        data,
        f"costs-{stand.name}",
        f"costs-{stand.key}-{stand.is_new}",
        alt_text=(
            f"Cost of 1,000 messages at every cut of {title_of(stand.shown, stand.name)}, with the"
            " spread over resampled rows; orange the cheapest cut, grey the cut in force."
        ),
    )
    st.caption("Orange: the cheapest cut. Grey: the cut that the numbers have.")
