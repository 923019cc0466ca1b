"""The page Try: what came back for a text, from one pack and model."""

import json
from concurrent.futures import Future, wait
from typing import Final

import altair as alt
import pandas as pd
import streamlit as st

from spinf_serve.packs.errors import SpinfError, Unusable
from spinf_serve.packs.pack import Pack
from spinf_serve.workbench.actions.trying import Asked, Content, Judged, judged, rows_of
from spinf_serve.workbench.answering import Who
from spinf_serve.workbench.desk import Desk
from spinf_serve.workbench.model import Model, asking
from spinf_serve.workbench.parts import charts
from spinf_serve.workbench.parts.who import marked
from spinf_serve.workbench.parts.words import UNKNOWN, count, plain
from spinf_serve.workbench.parts.words import code as as_code

INLINE_SECONDS: Final = 0.8
POLL_SECONDS: Final = 0.5
MOST_BARS: Final = 200
"""Bars that are drawn until all are asked for."""


def draw_side(
    desk: Desk,
    who: Who,
    data: bytes,
    name: str,
    pack: Pack,
    content: Content,
    *,
    title: str,
    key: str,
    narrow: bool,
) -> None:
    """Draw what a pack says of a content; asks for it, and shows that while it lasts.

    Args:
        data: the pack's bytes; `name` that of its file.
        key: of the widgets; names pack, model and content.
        narrow: whether another one stands beside it.
    """
    st.subheader(plain(title))
    answer = asking().answer(who, data, name, content)
    wait([answer], timeout=INLINE_SECONDS)
    if not answer.done():
        _waiting(who, data, name, content)
        return
    asked = _given(answer)
    if asked is None:
        if st.button("Ask again", key=f"{key}-again", icon=":material/refresh:"):
            asking().answer(who, data, name, content, again=True)
            st.rerun()
        return
    st.caption(f"Answered by {plain(asked.identity.served)} ({marked(str(who))})")
    if asked.stopped is not None:
        code, message = asked.stopped
        st.warning(f"This text got no answer: {plain(message)} ({as_code(code)})")
        return
    draw_asked(desk, pack, asked, key, narrow=narrow)
    _memory(who, key)


def draw_asked(desk: Desk, pack: Pack, asked: Asked, key: str, *, narrow: bool) -> None:
    """Draw a decision with its reason, and every answer behind it."""
    _decision(pack, asked)
    _answers(desk, pack, asked, key, narrow=narrow)


def _given(answer: "Future[Asked]") -> Asked | None:
    try:
        return answer.result()
    except (SpinfError, Unusable) as fault:
        st.error(plain(fault))
    return None


@st.fragment(run_every=POLL_SECONDS)
def _waiting(who: Who, data: bytes, name: str, content: Content) -> None:
    """Shows that it is being asked; the page runs again when there is an answer."""
    if asking().answer(who, data, name, content).done():
        st.rerun(scope="app")
    if who.server is not None:
        st.info(f"Asking {marked(str(who))}…", icon=":material/hourglass_top:")
        return
    model: Model = asking().model(who)
    if model.state == "loading":
        st.info(
            f"Loading the model on this machine: {model.loading_seconds:.0f} s. It stays loaded for 15"
            " minutes behind the last question.",
            icon=":material/hourglass_top:",
        )
    else:
        st.info("Asking the model on this machine…", icon=":material/hourglass_top:")


def _memory(who: Who, key: str) -> None:
    if who.server is not None or asking().model(who).state != "ready":
        return
    if st.button(
        "Unload the model",
        key=f"{key}-unload",
        type="tertiary",
        icon=":material/eject:",
        help="Frees its memory now; it goes by itself 15 minutes behind the last question.",
    ):
        asking().model(who).stop()
        st.rerun()


def _decision(pack: Pack, asked: Asked) -> None:
    if len(asked.chunks) > 1:
        st.caption(
            f"The text is longer than the model reads at once: it was read in"
            f" {count(len(asked.chunks), 'piece')}, and the pack takes the {pack.on_long} of them."
        )
    verdict = judged(pack, asked)
    if verdict is None:
        st.info(
            f"{plain(pack.id)} is a draft on {plain(asked.identity.served)}: it has no numbers there, so it decides"
            " nothing yet. The answers below are what it would go by."
        )
        return
    found = verdict.found.verdict
    parts = ["**Flagged**" if found.unsafe else "**Not flagged**"]
    if found.band is not None:
        parts.append(f"band **{plain(found.band)}**")
    if verdict.found.route is not None:
        parts.append(f"goes to **{plain(verdict.found.route.choice)}**")
    draw = st.warning if found.unsafe else st.success
    draw(f"{', '.join(parts)}  \n{plain(verdict.reason)}")
    if verdict.state == "provisional":
        st.caption("The thresholds are provisional here: no proof of them holds on this model.")
    _categories(pack, verdict)


def _categories(pack: Pack, verdict: Judged) -> None:
    rows = [
        {
            "category": pack.categories[id].label or id,
            "score": one.score,
            "threshold": verdict.limits.get(id),
            "flagged": "" if one.flagged is None else "yes" if one.flagged else "no",
            "band": one.band or "",
            "calibrated": one.calibrated,
        }
        for id, one in verdict.found.categories.items()
    ]
    frame = pd.DataFrame(rows)
    for column in ("band", "calibrated", "threshold"):
        if frame[column].replace("", None).isna().all():
            frame = frame.drop(columns=column)
    st.dataframe(
        frame,
        hide_index=True,
        placeholder=UNKNOWN,
        column_config={
            "score": st.column_config.ProgressColumn(min_value=0.0, max_value=1.0, format="%.4f"),
            "threshold": st.column_config.NumberColumn(format="%.4f"),
            "calibrated": st.column_config.NumberColumn(format="%.4f"),
        },
    )


def _answers(desk: Desk, pack: Pack, asked: Asked, key: str, *, narrow: bool) -> None:
    place = 0
    if len(asked.answers) > 1:
        place = st.selectbox(
            "Piece of the text",
            range(len(asked.answers)),
            format_func=lambda at: f"{at + 1} of {len(asked.answers)}",
            key=f"{key}-piece",
        )
    every = rows_of(pack, asked.answers[place])
    left, right = st.columns(2)
    order = left.selectbox(
        "Order",
        ["as in the pack", "largest lift first", "most outside the options first"],
        key=f"{key}-order",
    )
    words = right.text_input("Find a question", key=f"{key}-find").strip().casefold()
    rows = every
    if words:
        text = rows["question"] + " " + rows["filled"] + " " + rows["template"]
        rows = rows[text.str.casefold().str.contains(words, regex=False)]
    if rows.empty:
        st.caption("No question with these words.")
        return
    bars = _ordered(rows[(rows["options"] > 2) | (rows["place"] == 0)], order)
    shown = bars
    if len(bars) > MOST_BARS and not st.toggle(f"All {len(bars):,} bars", key=f"{key}-all"):
        shown = bars.head(MOST_BARS)
        st.caption(f"The first {MOST_BARS} of {len(bars):,}.")
    _chart(shown, every, key, narrow=narrow)
    with st.expander("All numbers", icon=":material/table:"):
        st.dataframe(
            rows.drop(columns=["number", "place", "options"]),
            hide_index=True,
            key=f"{key}-numbers",
            column_config={
                name: st.column_config.NumberColumn(format="%.4f")
                for name in ("p", "floor", "lift", "residual", "floor_residual")
            },
        )


def _ordered(bars: pd.DataFrame, order: str) -> pd.DataFrame:
    if order == "largest lift first":
        lift = bars["lift"].abs().fillna(-1.0)
        return bars.loc[lift.sort_values(ascending=False, kind="stable").index]
    if order == "most outside the options first":
        return bars.sort_values("residual", ascending=False, kind="stable")
    return bars


def _chart(bars: pd.DataFrame, every: pd.DataFrame, key: str, *, narrow: bool) -> None:
    """Bars of p with the floor as a line across, a row each."""
    data = bars.assign(
        label=[
            f"{one.question}{f' ({one.filled})' if one.filled else ''} ·{one.option}"
            for one in bars.itertuples()
        ],
        bar=[f"{one.number}/{one.place}" for one in bars.itertuples()],
    )
    names = dict(zip(data["bar"], data["label"], strict=True))
    # Two rows may have the same words; the axis goes by number and shows the words.
    texts = " : ".join(
        f"datum.value == {_quoted(bar)} ? {_quoted(label)}" for bar, label in names.items()
    )
    y = alt.Y(
        "bar:N",
        sort=list(data["bar"]),
        title=None,
        axis=alt.Axis(
            labelExpr=f"{texts} : ''", labelLimit=180 if narrow else 330, labelOverlap=False
        ),
    )
    tooltip = [
        alt.Tooltip("template:N", title="asked"),
        alt.Tooltip("option:N"),
        *(
            alt.Tooltip(f"{name}:Q", format=".4f", title=title)
            for name, title in (
                ("p", "p"),
                ("floor", "floor"),
                ("lift", "lift"),
                ("residual", "outside the options"),
            )
        ),
    ]
    base = alt.Chart(data).encode(y=y, tooltip=tooltip)
    bar = base.mark_bar(height=10, color=charts.BLUE).encode(
        x=alt.X("p:Q", scale=alt.Scale(domain=[0, 1]), title="p (line: floor, p on no text)")
    )
    floor = base.mark_tick(color=charts.ORANGE, thickness=3, size=17, opacity=1).encode(x="floor:Q")
    chart = alt.layer(bar, floor).properties(height=alt.Step(19))
    st.markdown("**Answers**")
    if data["floor"].isna().all():
        st.caption(f"Floors: {UNKNOWN}; this server gives none.")
    charts.show(
        chart,
        every.drop(columns=["number", "place"]),
        "answers",
        f"{key}-chart",
        alt_text="Each option's probability as a bar, with its floor as a line across.",
    )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
