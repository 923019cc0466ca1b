"""One look for all charts, for both themes and for colour-blind eyes, and how a chart is shown.

Colours are those of M. Okabe and K. Ito; labels differ in shape too, so that nothing hangs on colour.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import altair as alt
import pandas as pd
import streamlit as st

from spinf_serve.workbench.parts.tables import as_csv

BLUE: Final = "#0072B2"
ORANGE: Final = "#D55E00"
GREY: Final = "#999999"
GREEN: Final = "#009E73"
PURPLE: Final = "#CC79A7"
SKY: Final = "#56B4E9"
YELLOW: Final = "#E69F00"
SERIES: Final = (BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW)

LABELS: Final = ("yes", "no", "unsure", "no label")
LABEL_COLOURS: Final = (ORANGE, BLUE, PURPLE, GREY)
LABEL_SHAPES: Final = ("circle", "triangle-up", "diamond", "square")

MOST_POINTS: Final = 5_000
"""Points that a chart draws; of more rows it draws a sample, and says so."""


def by_label(field: str = "label") -> dict[str, Any]:
    """Encodings of colour and shape by label."""
    legend = alt.Legend(orient="top", title=None)
    return {
        "color": alt.Color(
            f"{field}:N",
            scale=alt.Scale(domain=LABELS, range=LABEL_COLOURS),
            title="label",
            legend=legend,
        ),
        "shape": alt.Shape(
            f"{field}:N",
            scale=alt.Scale(domain=LABELS, range=LABEL_SHAPES),
            title="label",
            legend=legend,
        ),
    }


def rule(places: Sequence[tuple[float, str]], title: str, *, vertical: bool = True) -> Any:
    """Lines across a chart, each with its word: a floor, a cut, the ends of bands.

    Args:
        places: where on the axis, and what it is called.
        title: of the axis, the chart's own.
        vertical: whether they stand on the x axis.
    """
    data = pd.DataFrame({"at": [at for at, _ in places], "word": [word for _, word in places]})
    lines = alt.Chart(data).mark_rule(strokeDash=[5, 4], color=GREY, strokeWidth=1.5)
    words = alt.Chart(data).mark_text(
        align="left", baseline="top", dx=4, dy=2, color=GREY, fontSize=12
    )
    if vertical:
        x = alt.X("at:Q", title=title)
        return lines.encode(x=x) + words.encode(x=x, y=alt.value(0), text="word:N")
    y = alt.Y("at:Q", title=title)
    return lines.encode(y=y) + words.encode(y=y, x=alt.value(0), text="word:N")


def show(
    chart: Any,
    data: pd.DataFrame,
    name: str,
    key: str,
    *,
    alt_text: str,
    selection: str | Sequence[str] | None = None,
    on_select: Callable[[], None] | None = None,
) -> Any:
    """Draw a chart. Its picture is at its corner when the pointer is over it, its data below.

    Args:
        chart: of altair; a single one, or several in layers or columns.
        data: what is drawn, for the button.
        name: of the file to download, without an ending.
        key: of the widget.
        alt_text: what the chart shows, for those who cannot see it.
        selection: names of the chart's selection parameters that rerun the page.
        on_select: called before that.

    Returns what is selected, see `st.altair_chart`; None without `selection`.
    """
    chosen = None
    if selection is None:
        st.altair_chart(chart, key=key, alt=alt_text)
    else:
        chosen = st.altair_chart(
            chart,
            key=key,
            on_select=on_select or "rerun",
            selection_mode=selection,
            alt=alt_text,
        )
    st.download_button(
        "Data (CSV)",
        lambda: as_csv(data),
        file_name=f"{name}.csv",
        mime="text/csv",
        key=f"{key}-data",
        type="tertiary",
        icon=":material/download:",
        on_click="ignore",
        help="The picture: point at the chart, then the arrow at its corner.",
    )
    return chosen
