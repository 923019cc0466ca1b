"""The charts of the page Scores: one subject's values by label, or all answers beside their floors."""

from typing import Any, Final

import altair as alt
import numpy as np
import pandas as pd
import streamlit as st

from spinf_serve.workbench.actions.scores import CATEGORY, LABELS, Subject, shared_cuts
from spinf_serve.workbench.actions.scores_figures import Figures, drawn, histogram
from spinf_serve.workbench.frame import param, set_param
from spinf_serve.workbench.glossary import help as meaning
from spinf_serve.workbench.pages.scores_look import Look
from spinf_serve.workbench.parts import charts
from spinf_serve.workbench.parts.figures import figure, row
from spinf_serve.workbench.parts.synced import begins
from spinf_serve.workbench.parts.texts import is_about_harm, shown_text
from spinf_serve.workbench.parts.words import UNKNOWN, count, plain
from spinf_serve.workbench.views import project_open

POOR_RESIDUAL: Final = 0.9
_TEXT_CHARS: Final = 140
_READ_CHARS: Final = 4 * _TEXT_CHARS
"""More than is shown: what is masked has to be whole, and is cut behind that."""
_SHOWS: Final = {"p": "p", "lift": "Lift", "histogram": "Histogram", "residual": "Residual"}


def one(look: Look, subject: Subject) -> None:
    """Draw one subject's values by label."""
    kinds = ["p", *(["lift"] if subject.floor is not None else []), "histogram"]
    if subject.place is not None:
        kinds.append("residual")
    names = _SHOWS | ({"p": "Score"} if subject.place is None else {})
    kind = kind_of(look, kinds, names)
    _shared(look, subject)
    values = subject.values(look.view)
    if np.isnan(values[look.base.inside]).all():
        st.info("No row has an answer to this yet. Ask it on the page **Run**.")
        return
    if kind == "histogram":
        _histogram(look, subject, values, names["p"])
        return
    if kind == "residual" and subject.residual is not None:
        values = look.view.columns([subject.residual])[subject.residual]
    shift = subject.floor if kind == "lift" and subject.floor is not None else 0.0
    _strip(look, subject, values - shift, kind, names[kind], shift)


def _shared(look: Look, subject: Subject) -> None:
    """Where the cut is of a category that has more answers than this one."""
    if look.constants is None:
        return
    for id, size in shared_cuts(look.pack, subject).items():
        line = st.container(horizontal=True, vertical_alignment="center", gap="small")
        name = plain(look.pack.categories[id].label or id)
        told = f"No cut of its own: its category's cut is on the score of {count(size, 'answer')}."
        line.caption(told, width="content")
        line.button(
            f"Show the category {name}",
            key=look.key(f"category-{id}"),
            type="tertiary",
            icon=":material/arrow_forward:",
            on_click=set_param,
            args=("question", f"{CATEGORY}{id}"),
        )


def kind_of(look: Look, kinds: list[str], names: dict[str, str]) -> str:
    """Which chart is shown; kept in the address."""
    key = look.key("kind")
    given = param("chart")
    if st.session_state.get(key) not in kinds:
        st.session_state[key] = given if given in kinds else kinds[0]
    kind: Any = st.segmented_control(
        "Show",
        kinds,
        key=key,
        format_func=names.__getitem__,
        required=True,
        label_visibility="collapsed",
        on_change=look.clear,
        **begins(st.segmented_control, st.session_state[key]),
    )
    set_param("chart", kind)
    return str(kind)


def figures(subject: Subject, known: Figures) -> None:
    """Draw what is asked, and the subject's figures in a row."""
    if subject.asks:
        st.markdown(f"“… {plain(subject.asks)}”")

    def mean(value: float | None) -> str:
        return UNKNOWN if value is None else f"{value:.3f}"

    area = known.roc_area
    with row():
        below = [f"{area.low:.2f} to {area.high:.2f}"] if area.low is not None else []
        labels = f"{count(known.yes, 'yes', 'yes')}, {known.no:,} no"
        figure("ROC area", mean(area.value), [*below, labels], meaning("ROC area"))
        what = "score" if subject.place is None else "p"
        lifts = []
        if subject.floor is not None and known.mean_yes is not None and known.mean_no is not None:
            floor = subject.floor
            lifts = [f"lift {known.mean_yes - floor:+.2f} and {known.mean_no - floor:+.2f}"]
        means = [
            UNKNOWN if one is None else f"{one:.2f}" for one in (known.mean_yes, known.mean_no)
        ]
        figure(f"Mean {what}: yes, no", ", ".join(means), lifts)
        if subject.place is None:
            figure("Cut", mean(subject.cut), ["flagged from here on"], meaning("cut"))
            told = ["score with each answer at its floor"]
            figure("Floor", mean(subject.floor), told, meaning("floor"))
        else:
            figure("Floor", mean(subject.floor), ["p on an empty text"], meaning("floor"))
            poor = known.residual is not None and known.residual > POOR_RESIDUAL
            told = ["median; above 0.9 is poor"] if poor else ["median"]
            figure("Residual", mean(known.residual), told, meaning("residual"))
        if known.refused:
            figure("Without an answer", f"{known.refused:,}", ["rows; see the table"])


def _points(look: Look, at: Any, values: Any, subject: Subject) -> pd.DataFrame:
    """What a strip draws: a point a row, moved up or down by chance so that they do not cover."""
    numbers = look.base.number[at]
    labels = look.base.labels(subject, look.pack)[at]
    data = pd.DataFrame(
        {
            "number": numbers,
            "value": values[at],
            "label": [LABELS[one] for one in labels.tolist()],
            # By its number: a row stays where it is when labels change.
            "jitter": np.random.default_rng(1).random(int(numbers.max(initial=0)) + 1)[numbers],
        }
    )
    return data.merge(named_rows(look, numbers), on="number", how="left")


@st.cache_data(show_spinner=False, max_entries=16)
def _named(key: str, numbers: Any, _look: Look) -> pd.DataFrame:
    """Ids and the beginnings of texts of some rows; no texts for a pack about harm."""
    desk, view = _look.found.desk, _look.view
    with project_open(desk) as connection:
        found = connection.execute(
            "SELECT view.number AS number, view.row_id AS row, left(coalesce(item.media, item.text),"
            f" {_READ_CHARS}) AS text FROM {view.sql} AS view JOIN item ON item.dataset = $dataset"
            " AND item.row_id = view.row_id WHERE view.number IN (SELECT unnest($numbers::BIGINT[]))",
            {"dataset": view.about["dataset"], "numbers": numbers.tolist()},
        ).df()
    return found


def named_rows(look: Look, numbers: Any) -> pd.DataFrame:
    """Names and texts of some rows, as far as they may be shown; whether each is open."""
    found = _named(look.view.key, numbers, look)
    # Data changes, the chart stays: what was dragged over it stays too.
    found["open"] = found["row"] == (param("row") or "")
    if is_about_harm(look.pack) and not look.found.desk.settings().get("open_texts"):
        return found.drop(columns="text")
    return found.assign(
        text=[shown_text(look.found.desk, text)[:_TEXT_CHARS] for text in found["text"]]
    )


def marked() -> dict[str, Any]:
    """How the row stands out that is open beside the table, also when the table opened it."""
    return {
        "stroke": alt.condition("datum.open", alt.value(charts.YELLOW), alt.value("transparent")),
        "size": alt.condition("datum.open", alt.value(190), alt.value(40)),
    }


def tooltip(data: pd.DataFrame, *more: Any) -> list[Any]:
    """What a point says when the pointer is over it."""
    text = [alt.Tooltip("text:N")] if "text" in data else []
    return [alt.Tooltip("row:N"), *more, alt.Tooltip("label:N"), *text]


def _strip(look: Look, subject: Subject, values: Any, kind: str, title: str, shift: float) -> None:
    at = drawn(look.base, ~np.isnan(values), charts.MOST_POINTS)
    data = _points(look, at, values, subject)
    present = [one for one in LABELS if (data["label"] == one).any()]
    scale = alt.Scale(domain=[-1, 1] if kind == "lift" else [0, 1])
    if kind == "lift":
        low, high = min(data["value"].min(), -0.05), max(data["value"].max(), 0.05)
        scale = alt.Scale(domain=[max(-1.0, low), min(1.0, high)], nice=True)
    pick = alt.selection_point("pick", fields=["row"], on="click", empty=False)
    brush = alt.selection_interval("brush", encodings=["x"])
    points = (
        alt.Chart(data)
        .mark_point(filled=True, strokeWidth=3)
        .encode(
            x=alt.X("value:Q", scale=scale, title=title, axis=alt.Axis(tickCount=10)),
            y=alt.Y("label:N", sort=list(LABELS), title=None),
            yOffset=alt.YOffset("jitter:Q", scale=alt.Scale(domain=[-0.15, 1.15])),
            opacity=alt.condition(brush, alt.value(0.75), alt.value(0.12)),
            **marked(),
            tooltip=tooltip(data, alt.Tooltip("value:Q", title=title, format=".4f")),
            **charts.by_label(),
        )
        .add_params(pick, brush)
    )
    lines = _lines(subject, kind, shift)
    chart = points if not lines else points + charts.rule(lines, title)
    told = ", ".join(f"{word} at {place:.3f}" for place, word in lines)
    charts.show(
        chart.properties(height=70 * len(present) + 60),
        data.drop(columns=["jitter", "number", "open"]),
        f"scores-{subject.key}".replace(":", "-").replace("/", "-").replace("#", "-"),
        look.chart_key,
        alt_text=f"{title} of {subject.name} for {len(data)} rows by label. {told}",
        selection=["pick", "brush"],
        on_select=look.picked,
    )
    _sampled(look, len(data), values)


def _sampled(look: Look, shown: int, values: Any) -> None:
    rows = int((look.base.inside & ~np.isnan(values)).sum())
    if rows > shown:
        st.caption(
            f"{shown:,} of {rows:,} rows are drawn, chosen by chance. The figures above and the table"
            " below are about all of them."
        )


def _lines(subject: Subject, kind: str, shift: float) -> list[tuple[float, str]]:
    if kind == "residual":
        return [(POOR_RESIDUAL, "poor from here on")]
    found = []
    if subject.floor is not None:
        found.append((subject.floor - shift, "floor"))
    if subject.cut is not None:
        found.append((subject.cut - shift, "cut"))
    if subject.bands is not None:
        found += [(subject.bands.review, "review"), (subject.bands.act, "act")]
    return found


def _histogram(look: Look, subject: Subject, values: Any, title: str) -> None:
    labels = look.base.labels(subject, look.pack)
    data = pd.DataFrame(histogram(values, labels, look.base.inside))
    totals = data.groupby("label")["rows"].sum()
    present = [one for one in LABELS if totals[one]]
    data = data[data["label"].isin(present)]
    brush = alt.selection_interval("brush", encodings=["x"])
    lines = _lines(subject, "p", 0.0)
    columns = []
    for index, label in enumerate(present):
        x = alt.X(
            "from:Q",
            scale=alt.Scale(domain=[0, 1]),
            title=title if index == len(present) - 1 else None,
            axis=alt.Axis(tickCount=10),
        )
        layer: Any = (
            alt.Chart(data)
            .mark_bar()
            .encode(
                x=x,
                x2="to:Q",
                y=alt.Y("rows:Q", title="rows", axis=alt.Axis(tickCount=4)),
                y2=alt.Y2Datum(0),
                color=alt.value(charts.LABEL_COLOURS[LABELS.index(label)]),
                opacity=alt.condition(brush, alt.value(0.9), alt.value(0.25)),
                tooltip=["label:N", alt.Tooltip("from:Q", format=".3f"), "rows:Q"],
            )
            .transform_filter(alt.datum.label == label)
        )
        if index == 0:
            layer = layer.add_params(brush)
        if lines:
            layer = layer + charts.rule(lines, title)
        columns.append(
            layer.properties(height=90, title=f"{label}: {count(int(totals[label]), 'row')}")
        )
    charts.show(
        alt.vconcat(*columns, spacing=12),
        data,
        f"histogram-{subject.key}".replace(":", "-").replace("/", "-").replace("#", "-"),
        look.chart_key,
        alt_text=f"Histogram of {title} of {subject.name} by label: "
        + ", ".join(f"{totals[one]} rows {one}" for one in present),
        selection=["brush"],
        on_select=look.picked,
    )
