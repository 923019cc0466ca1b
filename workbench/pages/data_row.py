"""One row of a dataset: its text, all its labels by whom and when, and a label mended in place."""

from typing import Any, Final

import streamlit as st

from spinf_serve.evals.data.labels import UNSURE, Label
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.pack import Pack
from spinf_serve.workbench import jobs
from spinf_serve.workbench.actions import labelling, rows
from spinf_serve.workbench.actions.rows import Detail, Filter
from spinf_serve.workbench.desk import key_of
from spinf_serve.workbench.frame import Bench, set_param, told
from spinf_serve.workbench.parts.texts import show_text, shown_text
from spinf_serve.workbench.parts.words import count as counted
from spinf_serve.workbench.parts.words import plain
from spinf_serve.workbench.views import View, view_of

SCORES: Final = "row-scores"
SCORE_COLUMNS: Final = {"score": st.column_config.NumberColumn(format="%.3f")}


def pack_of(found: Bench) -> Pack | None:
    """The chosen pack; None without one, or while its file has faults."""
    loaded = found.loaded()
    return None if loaded is None else loaded.pack


def draw(found: Bench, dataset: str, row_id: str) -> None:
    """Draw a row below the table."""
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"
    ):
        st.subheader(f"Row {plain(row_id)}", width="content")
        st.button("Close", key="row-close", icon=":material/close:", on_click=_close)
    row = rows.detail(found.desk.project, dataset, row_id)
    if row is None:
        st.info(
            f"There is no row **{plain(row_id)}** in **{plain(dataset)}**: it was deleted, or is elsewhere."
        )
        return
    text, known = st.columns([3, 2])
    with text:
        about(found, row, key=f"{dataset}-{row_id}")
    with known:
        _facts(row)
    show_fault()
    _labels(found, dataset, row)
    _scores(found, dataset, row)
    _delete(found, dataset, row)


def about(found: Bench, row: Detail, key: str) -> None:
    """Draw what a row is about: its text, or the file that it names."""
    with st.container(border=True):
        if row.media is not None:
            st.markdown("About a file, in place of a text:")
            st.code(row.media, language=None)
        else:
            show_text(found.desk, pack_of(found), row.text, key)


def _facts(row: Detail) -> None:
    lines = [f"**{plain(name)}**: {plain(value)}" for name, value in row.slices.items()]
    lines.append(f"**Split**: {plain(row.split or 'none')}")
    lines.append(f"**How drawn**: {plain(row.drawn)}")
    if row.weight is not None:
        lines.append(f"**Weight**: {row.weight:g}")
    if row.context is not None:
        lines.append(f"**Context**: {plain(row.context)}")
    st.markdown("  \n".join(lines))
    if row.group is not None and row.group_rows > 1:
        st.button(
            f"{counted(row.group_rows, 'row')} of its group", key="row-group", type="tertiary",
            icon=":material/group_work:", on_click=_only, args=("group", row.group),
        )  # fmt: skip
    if row.alike:
        st.button(
            f"{counted(row.alike, 'other row')} with the same text", key="row-same",
            type="tertiary", icon=":material/content_copy:", on_click=_only,
            args=("same", row.digest),
        )  # fmt: skip


def _labels(found: Bench, dataset: str, row: Detail) -> None:
    st.markdown("**Labels**")
    if row.labels:
        st.dataframe(
            [
                {
                    "target": one.target,
                    "says": one.value,
                    "by": one.annotator,
                    "when (UTC)": one.at.strftime("%Y-%m-%d %H:%M"),
                    "how drawn": one.drawn,
                    "score seen": one.score_visible,
                    "settles": one.adjudicated,
                }
                for one in row.labels
            ],
            key=f"labels-{key_of(dataset, row.id)}",
            hide_index=True,
        )
    for one in row.notes:
        st.caption(
            f"Note of {plain(one.annotator)} on {plain(one.target)}: {plain(shown_text(found.desk, one.text))}"
        )
    targets = labelling.targets_of(pack_of(found), [one.target for one in row.labels])
    if not targets:
        st.caption("Nothing can be labelled yet: make a pack with categories on the page **Pack**.")
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        titles = {one.target: one for one in targets}
        name = st.selectbox(
            "Set the label of", list(titles), format_func=lambda one: titles[one].title,
            key=f"mend-{key_of(dataset, row.id)}",
        )  # fmt: skip
        own = labelling.own_of(row.labels, name, found.user)
        _choice(found, dataset, row, name, (*titles[name].values, UNSURE), own)
    if any(one.target == name and one.annotator != found.user for one in row.labels):
        st.caption("What you set here settles what others said of this row.")


def _choice(
    found: Bench, dataset: str, row: Detail, target: str, values: tuple[str, ...], own: Label | None
) -> None:
    """Choosing is saving: no button is to be pressed afterwards.

    What was chosen is compared with what is kept when it is drawn. A callback would not do: it may
    be ended for the sake of a further click, and never be called again.
    """
    key = f"mend-{key_of(dataset, row.id, target)}"
    shown = None if own is None else own.value
    given = [*values, *([shown] if shown is not None and shown not in values else [])]
    memory: dict[str, str | None] = st.session_state.setdefault(f"{key}-seen", {"seen": shown})
    if key not in st.session_state or (
        st.session_state[key] == memory["seen"] and shown != memory["seen"]
    ):
        memory["seen"] = st.session_state[key] = shown
    value = st.segmented_control(
        f"You say ({plain(found.user)})",
        given,
        default=st.session_state[key],
        format_func=plain,
        key=key,
        required=shown is not None,
    )
    if value is None or value == memory["seen"]:
        return
    seen_scores = bool(st.session_state.get(f"{SCORES}-{row.id}"))
    try:
        labelling.correct(
            found.desk, found.user, dataset, row.id, target, value,
            annotator=found.user, score_visible=seen_scores, seen=memory["seen"],
        )  # fmt: skip
        memory["seen"] = value
    except Unusable as fault:
        # What is kept is shown again, and the choice with its reason no more.
        memory["seen"] = None
        st.session_state.pop(f"{key}-seen", None)
        st.session_state["data-fault"] = (key, str(fault))
    st.rerun()


def _scores(found: Bench, dataset: str, row: Detail) -> None:
    """The scores of a row, when they are asked for: whoever labels shall not see them unasked."""
    pack = pack_of(found)
    if pack is None or found.model is None:
        return
    if not st.toggle("Show its scores", key=f"{SCORES}-{row.id}"):
        return
    told_of = scores_on(found, pack, dataset, row.id)
    if told_of is None:
        st.caption("There are no scores of this row; ask a model on the page **Run**.")
    else:
        st.dataframe(
            told_of,
            key=f"scores-{key_of(dataset, row.id)}",
            hide_index=True,
            column_config=SCORE_COLUMNS,
        )


def scores_on(found: Bench, pack: Pack, dataset: str, row_id: str) -> list[dict[str, Any]] | None:
    """What the kept scores say of a row, a line a category; None without any."""
    if found.model is None:
        return None
    view = view_of(found.desk, pack, found.constants(pack), dataset, found.model.bits)
    if not isinstance(view, View) or not view.fitted:
        return None
    data = view.frame("WHERE row_id = $1 AND refused IS NULL", params=[row_id])
    if not len(data):
        return None
    row = data.iloc[0]
    return [
        {
            "category": category.label or id,
            "score": float(row[f"score:{id}"]),
            "flagged": row[f"flagged:{id}"],
        }
        for id, category in pack.categories.items()
    ]


def show_fault() -> None:
    """Draw what went wrong with the last choice, once, and show what is kept again."""
    found = st.session_state.pop("data-fault", None)
    if found is not None:
        key, fault = found
        st.session_state.pop(key, None)
        st.error(fault)


def _delete(found: Bench, dataset: str, row: Detail) -> None:
    if st.button("Delete this row", key="row-delete", icon=":material/delete:", type="tertiary"):
        _confirm(found, dataset, row)


@st.dialog("Delete this row for good?")
def _confirm(found: Bench, dataset: str, row: Detail) -> None:
    st.markdown(
        f"Row **{plain(row.id)}** of **{plain(dataset)}** would be deleted with its labels, notes and scores. This"
        " cannot be undone."
    )
    if st.button("Delete", type="primary", key="row-delete-sure", icon=":material/delete:"):
        with told():
            if rows.count(found.desk.project, dataset, Filter()) > rows.LARGE:
                given = {"dataset": dataset, "ids": [row.id], "user": found.user}
                jobs.start(found.desk, found.user, "delete", f"Delete row {row.id}", given)
            else:
                rows.delete(found.desk, found.user, dataset, [row.id])
            set_param("row", None)
            st.rerun()


def _close() -> None:
    set_param("row", None)


def _only(name: str, value: str) -> None:
    set_param("row", None)
    set_param(name, value)
