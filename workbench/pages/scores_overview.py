"""The chart of all answers on the page Scores: p beside the floor, a column each; and their figures."""

from typing import Any, Final

import altair as alt
import numpy as np
import pandas as pd
import streamlit as st

from spinf_serve.workbench.actions.scores import LABELS, Subject
from spinf_serve.workbench.actions.scores_figures import drawn, separation
from spinf_serve.workbench.frame import set_param
from spinf_serve.workbench.pages.scores_charts import kind_of, marked, named_rows, tooltip
from spinf_serve.workbench.pages.scores_look import Look
from spinf_serve.workbench.parts import charts
from spinf_serve.workbench.parts.tables import paged
from spinf_serve.workbench.parts.words import UNKNOWN
from spinf_serve.workbench.views import quoted

MOST_ANSWERS: Final = 40
"""Answers that the chart draws; of more, those that separate best."""

_SIDES: Final = {"no": -1.0, "yes": 0.2, "unsure": -0.4, "no label": -0.4}
_WIDTH: Final = 0.011
"""Of one label's points around a floor, in floor p."""


def draw(look: Look) -> None:
    """Draw all answers, a column each: p beside the floor, by label; and a table of them."""
    answers = [one for one in look.given if one.place is not None]
    answers.sort(key=lambda one: -separation(look.known[one.key]))
    shown = answers[:MOST_ANSWERS]
    if shown:
        _columns(look, shown, len(answers))
    _table(look, sorted(look.given, key=lambda one: -separation(look.known[one.key])))


def _columns(look: Look, shown: list[Subject], of: int) -> None:
    kind = kind_of(look, ["floor", "rank"], {"floor": "At their floors", "rank": "Side by side"})
    data = _all_points(look, shown)
    if not len(data):
        st.info("No row has an answer yet. Ask the pack's questions on the page **Run**.")
        return
    pick = alt.selection_point("pick", fields=["row"], on="click", empty=False)
    brush = alt.selection_interval("brush")
    order = [one.name for one in shown]
    if kind == "floor":
        data = data[data["floor p"].notna()].copy()
        # Labels stand beside each other: on one line the last would cover the others.
        side = [_SIDES[one] for one in data["label"]]
        data["place"] = data["floor p"] + _WIDTH * (np.array(side) + 0.8 * data["jitter"])
        x: Any = alt.X(
            "place:Q", title="floor p", scale=alt.Scale(domain=[-0.02, 1.02], nice=False)
        )
        more: dict[str, Any] = {}
    else:
        x = alt.X("answer:N", sort=order, title=None, axis=alt.Axis(labelLimit=140, labelAngle=-40))
        more = {"xOffset": alt.XOffset("jitter:Q", scale=alt.Scale(domain=[-0.2, 1.2]))}
    points = (
        alt.Chart(data)
        .mark_point(filled=True, strokeWidth=3)
        .encode(
            x=x,
            y=alt.Y("p:Q", title="p", scale=alt.Scale(domain=[0, 1])),
            opacity=alt.condition(brush, alt.value(0.6), alt.value(0.08)),
            **marked(),
            tooltip=tooltip(
                data,
                alt.Tooltip("answer:N"),
                alt.Tooltip("p:Q", format=".4f"),
                alt.Tooltip("floor p:Q", format=".4f"),
            ),
            **charts.by_label(),
            **more,
        )
        .add_params(pick, brush)
    )
    if kind == "floor":
        ends = pd.DataFrame({"place": [0.0, 1.0], "p": [0.0, 1.0]})
        line = alt.Chart(ends).mark_line(color=charts.GREY, strokeDash=[5, 4])
        chart: Any = line.encode(x=x, y=alt.Y("p:Q", title="p")) + points
    else:
        floors = data.drop_duplicates("answer")
        tick = alt.Chart(floors).mark_tick(color=charts.GREY, thickness=3, width=18)
        chart = points + tick.encode(
            x=alt.X("answer:N", sort=order), y=alt.Y("floor p:Q", title="p")
        )
    st.caption(
        "Every answer stands at its floor, what it gives for an empty text. Above the dashed line a"
        " text lifts it, below it lowers it."
        if kind == "floor"
        else "Those that tell the labels apart best come first. The grey tick is the floor."
    )
    charts.show(
        chart.properties(height=420),
        data.drop(columns=["jitter", "place", "open"], errors="ignore"),
        "answers",
        look.chart_key,
        alt_text=f"p of {len(shown)} answers beside their floors, by label. Best: "
        + ", ".join(one.name for one in shown[:3]),
        selection=["pick", "brush"],
        on_select=look.picked,
    )
    rows = int(look.base.inside.sum())
    drawn_rows = data["row"].nunique()
    told = [] if drawn_rows >= rows else [f"{drawn_rows:,} of {rows:,} rows, chosen by chance"]
    if of > len(shown):
        told.append(f"the {len(shown)} of {of} answers that separate best")
    if told:
        st.caption(f"Drawn: {'; '.join(told)}. The table is about all of them.")


def _all_points(look: Look, shown: list[Subject]) -> pd.DataFrame:
    """A point for each of some rows and each answer."""
    everywhere = np.ones(len(look.base.number), dtype=bool)
    at = drawn(look.base, everywhere, max(50, charts.MOST_POINTS // len(shown)))
    numbers = look.base.number[at]
    names = list(dict.fromkeys(name for one in shown for name in one.columns))
    lines = look.view.frame(
        "WHERE number IN (SELECT unnest($1::BIGINT[])) ORDER BY number",
        ", ".join(["number", *map(quoted, names)]),
        [numbers.tolist()],
    )
    columns = {name: lines[name].to_numpy(dtype=np.float64) for name in names}
    named = named_rows(look, numbers)
    jitter = np.random.default_rng(1).random(len(lines))
    parts = []
    for subject in shown:
        labels = look.base.labels(subject, look.pack)[at]
        part = pd.DataFrame(
            {
                "number": numbers,
                "answer": subject.name,
                "floor p": subject.floor,
                "p": subject.of_columns(columns),
                "label": [LABELS[one] for one in labels.tolist()],
                "jitter": jitter,
            }
        )
        parts.append(part[part["p"].notna()])
    return pd.concat(parts).merge(named, on="number", how="left").drop(columns="number")


def _table(look: Look, ranked: list[Subject]) -> None:
    """Every answer with its figures; choosing one opens it."""

    def fetch(first: int, most: int) -> pd.DataFrame:
        lines = []
        for one in ranked[first : first + most]:
            known = look.known[one.key]
            area = known.roc_area
            lines.append(
                {
                    "answer": f"Category {one.name}" if one.place is None else one.name,
                    "ROC area": area.value,
                    "95 %": UNKNOWN
                    if area.low is None or area.high is None
                    else f"{area.low:.2f} to {area.high:.2f}",
                    "mean, yes": known.mean_yes,
                    "mean, no": known.mean_no,
                    "floor p": one.floor,
                    "residual": known.residual,
                    "rows": known.rows,
                }
            )
        return pd.DataFrame(lines)

    def open_it(place: int) -> None:
        set_param("question", ranked[place].key)

    numbers = {
        name: st.column_config.NumberColumn(format="%.3f")
        for name in ("ROC area", "mean, yes", "mean, no", "floor p", "residual")
    }
    with st.expander(f"Figures of all {len(ranked)}: choose one to look at it", expanded=True):
        paged(
            len(ranked),
            fetch,
            look.key("answers"),
            page_rows=15,
            on_choose=open_it,
            column_config={**numbers, "answer": st.column_config.TextColumn(width="medium")},
        )
        sampled = [one.sampled for one in look.known.values() if one.sampled is not None]
        if sampled:
            st.caption(f"Areas are of {sampled[0]:,} labelled rows, chosen by chance.")
