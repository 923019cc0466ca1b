"""The part of looking around that draws a second cut: act, have it reviewed, or let it pass."""

from math import isfinite
from typing import Final

import pandas as pd
import streamlit as st

from spinf_serve.workbench.actions.cut_rows import Band, CutRows, three_bands
from spinf_serve.workbench.frame import param, set_param
from spinf_serve.workbench.glossary import help as meaning
from spinf_serve.workbench.pages.thresholds_stand import Stand, cut_slider
from spinf_serve.workbench.parts.words import UNKNOWN, percent, plain, volume

TITLES: Final = {"act": "Act", "review": "Review", "pass": "Pass"}


def second_cut(stand: Stand, rows: CutRows, cut: float, low: float) -> float | None:
    """The lower of two cuts, from the slider; None where there is one cut only.

    Args:
        cut: the upper one, from which on is acted.
        low: the lowest score of the scale.
    """
    bands, key = stand.bands(), f"review-{stand.key}-{stand.is_new}"
    given = _number(param("review"))
    wanted = st.toggle(
        "A second cut, with a review between",
        value=bands is not None or given is not None,
        key=f"{key}-on",
        help=meaning("band"),
    )
    if not wanted:
        set_param("review", None)
        return None
    if cut <= low:
        st.caption("The cut stands at the lowest score: nothing lies below it to be reviewed.")
        return None
    if key not in st.session_state:
        st.session_state[key] = given if given is not None else _start(bands, rows, cut, low)

    # The upper cut moves on its own, so the lower one gives way to it.
    review = min(max(float(st.session_state[key]), low), cut)
    cut_slider("Passed: below this score", low, cut, review, key)
    set_param("review", repr(review))
    return review


def draw_bands(stand: Stand, rows: CutRows, review: float, act: float) -> None:
    """What falls into each of the three bands."""
    found = three_bands(rows, review, act)
    table = pd.DataFrame(
        {
            "band": [TITLES[one.name] for one in found],
            "from": [None if one.name == "pass" else one.start for one in found],
            "share": [percent(one.load.value) for one in found],
            "messages": [volume(one.load.value, stand.per_day) for one in found],
            "holds": [one.holds for one in found],
            "does not hold": [one.not_holds for one in found],
            "right": [_right(one) for one in found],
        }
    )
    st.markdown("**Three bands**", help=meaning("band"))
    st.dataframe(
        table,
        hide_index=True,
        key=f"bands-{stand.key}",
        placeholder=UNKNOWN,
        column_config={
            "band": "",
            "from": st.column_config.NumberColumn("From score", format="%.4g"),
            "share": "Share",
            "messages": "Messages",
            "holds": st.column_config.NumberColumn("Holds", format="localized"),
            "does not hold": st.column_config.NumberColumn("Does not hold", format="localized"),
            "right": st.column_config.TextColumn(
                "Right", help="Of the labelled rows of the band, with the exact 95 % interval."
            ),
        },
    )
    in_force = stand.bands()
    if in_force is not None and in_force != (act, review):
        where = "These numbers" if stand.is_new else "The cuts in force"
        st.caption(plain(f"{where} act from {in_force[0]:.4g} and review from {in_force[1]:.4g}."))


def _right(band: Band) -> str:
    if band.right is None:
        return "a person decides"
    if band.right.value is None:
        return "no row to count"
    return f"{percent(band.right.value)} ({percent(band.right.low)} to {percent(band.right.high)})"


def _start(bands: tuple[float, float] | None, rows: CutRows, cut: float, low: float) -> float:
    """The lower cut of the numbers; without, the median of the scores below the upper one."""
    if bands is not None:
        return bands[1]
    below = rows.own[rows.own < cut]
    if not len(below):
        return low
    ordered = sorted(below.tolist())
    return float(ordered[len(ordered) // 2])


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "nan")
    except ValueError:
        return None
    return value if isfinite(value) else None
