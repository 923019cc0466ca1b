"""One look for all charts, for both themes and for colour-blind eyes, and how a chart is shown.

Colours are those of M. Okabe and K. Ito; labels differ in shape too, so that nothing hangs on colour.
"""

from collections.abc import Callable
from typing import Any, Final

import altair as alt
import pandas as pd
import streamlit as st

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
    return {
        "color": alt.Color(
            f"{field}:N", scale=alt.Scale(domain=LABELS, range=LABEL_COLOURS), title="label"
        ),
        "shape": alt.Shape(
            f"{field}:N", scale=alt.Scale(domain=LABELS, range=LABEL_SHAPES), title="label"
        ),
    }


def show(
    chart: alt.TopLevelMixin,
    data: pd.DataFrame,
    name: str,
    key: str,
    *,
    alt_text: str,
    selection: str | None = None,
    on_select: Callable[[], None] | None = None,
) -> Any:
    """Draw a chart, with its picture (menu at its corner) and its data (button below) to download.

    Args:
        data: what is drawn, for the button.
        name: of the file to download, without an ending.
        key: of the widget.
        alt_text: what the chart shows, for those who cannot see it.
        selection: name of the chart's selection parameter that reruns the page.
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
        lambda: data.to_csv(index=False).encode(),
        file_name=f"{name}.csv",
        mime="text/csv",
        key=f"{key}-data",
        type="tertiary",
        icon=":material/download:",
        on_click="ignore",
    )
    return chosen
