"""The chart of Thresholds: precision, recall and share flagged at every cut, read where the pointer is."""

from typing import Any, Final

import altair as alt
import numpy as np
import pandas as pd
import streamlit as st

from spinf_serve.evals.cut_curve import CutCurve, Rates
from spinf_serve.workbench.pages.thresholds_stand import Stand, title_of
from spinf_serve.workbench.parts import charts
from spinf_serve.workbench.parts.words import percent, volume

LINES: Final = {
    "precision": ("Precision", charts.BLUE),
    "recall": ("Recall", charts.ORANGE),
    "flag_rate": ("Flagged", charts.GREEN),
}
_HEIGHT: Final = 320
_LINE: Final = 16
_BOX: Final = "#1a1a1a"
_BOX_WIDTH, _BOX_HEIGHT = 290, 6 * _LINE + 12


def draw_curve(
    stand: Stand, made: CutCurve, cut: float, review: float | None, low: float, high: float
) -> None:
    """Draw it; a click, or the end of a drag, sets the cut that is looked at.

    Args:
        review: the lower of two cuts; None where there is one.
        low, high: the score's scale.
    """
    logit = not stand.is_layer and st.toggle(
        "Spread the ends of the scale",
        key=f"logit-{stand.key}",
        help="Draws scores by their log odds, so that those near 0 and 1 lie apart.",
    )
    data = pd.concat(
        [
            pd.DataFrame(
                {
                    "cut": made.cuts,
                    "rate": label,
                    "value": made.rates[kind].value,  # type: ignore[index]
                    "low": made.rates[kind].low,  # type: ignore[index]
                    "high": made.rates[kind].high,  # type: ignore[index]
                    "true positives": made.tp,
                    "false alarms": made.fp,
                    "misses": made.fn,
                }
            )
            for kind, (label, _) in LINES.items()
        ]
    ).dropna()
    data = data[(data["cut"] >= low) & (data["cut"] <= high)]
    data["x"] = _logit(data["cut"].to_numpy()) if logit else data["cut"]
    marks = np.array([cut] if review is None else [cut, review])
    marks = _logit(marks) if logit else marks
    names = [label for label, _ in LINES.values()]
    colours = [colour for _, colour in LINES.values()]
    x = alt.X("x:Q", title="log odds of the score" if logit else "cut on the score")
    y = alt.Y("value:Q", title=None, axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1]))
    colour = alt.Color(
        "rate:N", scale=alt.Scale(domain=names, range=colours), legend=alt.Legend(orient="top")
    ).title(None)
    base = alt.Chart(data).encode(x=x, color=colour)
    told = _told(stand, made)
    told = told[(told["cut"] >= low) & (told["cut"] <= high)]
    told["x"] = _logit(told["cut"].to_numpy()) if logit else told["cut"]
    layers = alt.layer(
        base.mark_area(opacity=0.18).encode(y=alt.Y("low:Q").title(None), y2="high:Q"),
        base.mark_line(strokeWidth=2).encode(y=y, strokeDash=alt.StrokeDash("rate:N", legend=None)),
        alt.Chart(pd.DataFrame({"x": marks[:1]}))
        .mark_rule(strokeWidth=2, color=charts.GREY)
        .encode(x="x:Q"),
        alt.Chart(pd.DataFrame({"x": marks[1:]}))
        .mark_rule(strokeWidth=2, strokeDash=[4, 4], color=charts.GREY)
        .encode(x="x:Q"),
        *_pointed(told),
    ).properties(height=_HEIGHT)
    key = f"curve-{stand.key}-{stand.is_new}-{logit}"
    state = f"cut-{stand.key}-{stand.is_new}"

    def clicked() -> None:
        chosen = _clicked(st.session_state.get(key))
        if chosen is not None:
            st.session_state[state] = chosen

    charts.show(
        layers,
        data.drop(columns="x"),
        f"cuts-{stand.name}",
        key,
        alt_text=(
            f"Precision, recall and share flagged of {title_of(stand.shown, stand.name)} at every"
            f" cut, with 95 % intervals; the chosen cut is {cut:.4g}"
            + ("." if review is None else f", and below {review:.4g} a message passes.")
        ),
        selection="pick",
        on_select=clicked,
    )
    st.caption(
        "Point at the chart, or drag over it, to read any cut; a click, or letting go, sets it. Bands are exact 95 % intervals of each point alone."
        " **Looking around promises nothing**: of many cuts that are tried, the one that looks best"
        " is mostly a lucky one. A promise is made under **Certify**."
    )


def _told(stand: Stand, made: CutCurve) -> pd.DataFrame:
    """A line a cut, with what is said of it where the pointer is."""
    share, right, caught = (made.rates[one] for one in ("flag_rate", "precision", "recall"))
    lines = [
        "\n".join(
            (
                f"Cut {cut:.4g}",
                f"Flagged {volume(_known(share.value[at]), stand.per_day)}",
                f"Precision {_ends(right, at)}",
                f"Recall {_ends(caught, at)}",
                f"False alarms {int(made.fp[at]):,}",
                f"Misses {int(made.fn[at]):,}",
            )
        )
        for at, cut in enumerate(made.cuts.tolist())
    ]
    return pd.DataFrame({"cut": made.cuts, "told": lines})


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _ends(rates: Rates, at: int) -> str:
    """A rate with its interval."""
    value, low, high = (_known(one[at]) for one in (rates.value, rates.low, rates.high))
    return percent(value) + ("" if value is None else f" ({percent(low)} to {percent(high)})")


def _pointed(told: pd.DataFrame) -> list[Any]:
    """The layers that follow the pointer, in the browser alone: nothing is asked of the server.

    White on nearly black whatever the theme is, in a box: lines and bands pass behind the words.
    """
    near: dict[str, Any] = {"nearest": True, "empty": False, "encodings": ["x"]}
    hover = alt.selection_point(name="hover", on="pointermove", clear="pointerout", **near)
    # A drag that ends sets the cut as a click does, which comes only where both ends are one mark.
    pick = alt.selection_point(name="pick", on="pointerup", fields=["cut"], **near)
    middle = (told["x"].min() + told["x"].max()) / 2
    # Without a tooltip of its own, the theme gives one that tells x alone.
    base = alt.Chart(told).encode(x="x:Q", tooltip=alt.value(None))
    layers = [
        base.mark_circle(size=60, opacity=0).encode(y=alt.value(0)).add_params(hover, pick),
        base.mark_rule(strokeWidth=2, color=charts.PURPLE).transform_filter(hover),
    ]
    for is_left, side in ((True, 1), (False, -1)):
        here = base.transform_filter(hover).transform_filter(
            alt.datum.x <= middle if is_left else alt.datum.x > middle
        )
        layers += [
            here.mark_rect(
                color=_BOX,
                opacity=0.92,
                width=_BOX_WIDTH,
                height=_BOX_HEIGHT,
                xOffset=side * (_BOX_WIDTH / 2 + 8),
            ).encode(y=alt.value(_BOX_HEIGHT / 2 + 8)),
            here.mark_text(
                align="left",
                baseline="top",
                lineBreak="\n",
                lineHeight=_LINE,
                fontSize=12,
                color="white",
                dx=16 if is_left else -_BOX_WIDTH,
            ).encode(y=alt.value(14), text="told:N"),
        ]
    return layers


def _logit(scores: Any) -> Any:
    held = np.clip(scores, 1e-9, 1 - 1e-9)
    return np.log(held / (1 - held))


def _clicked(event: Any) -> float | None:
    """The cut of a click on the chart."""
    try:
        points = event["selection"]["pick"]
        return float(points[0]["cut"]) if points else None
    except (KeyError, TypeError, IndexError, ValueError):
        return None
