"""The page Thresholds: look at any cut, promise one by an exact test, and put it in force."""

from typing import Final

import streamlit as st

from spinf_serve.evals.judged import QUESTION
from spinf_serve.evals.wishes import ONLY_CATEGORIES
from spinf_serve.workbench.actions.certifying import after_of, last_fits
from spinf_serve.workbench.actions.cut_plans import Plan, plan_of
from spinf_serve.workbench.actions.cut_rows import cut_names
from spinf_serve.workbench.frame import Bench, bench, empty, param, set_param, stamp, told
from spinf_serve.workbench.glossary import help as meaning
from spinf_serve.workbench.jobs import Job
from spinf_serve.workbench.pages import (
    thresholds_certify,
    thresholds_cost,
    thresholds_look,
    thresholds_result,
)
from spinf_serve.workbench.pages.thresholds_stand import (
    Stand,
    listed,
    name_words,
    state_of,
    title_of,
)
from spinf_serve.workbench.parts.job_box import job_box
from spinf_serve.workbench.parts.synced import begins
from spinf_serve.workbench.parts.view import need_answers, need_view
from spinf_serve.workbench.parts.words import count, plain

PARTS: Final = {
    "look": ":material/search: Look around",
    "certify": ":material/verified: Certify",
    "cost": ":material/payments: Cost",
}
NUMBERS: Final = {"file": "in the pack's file", "new": "of the last certification, not saved"}


def draw() -> None:
    """One run of the page."""
    found = bench()
    st.title("Thresholds")
    st.markdown(
        "From which score on is a message flagged? Look at any cut freely; promise one only after"
        " an exact test."
    )
    with told():
        _draw(found)


def _draw(found: Bench) -> None:
    pack, dataset, model = found.pack(), found.need_dataset(), found.need_model()
    if found.file is None:
        raise AssertionError("a pack has a file")
    file_name = found.desk.name_of(found.file)
    names = cut_names(pack)
    if not names:
        empty("This pack has no categories, so it has no cuts.", "Add one on the page **Pack**.")
    fits = last_fits(found.desk, file_name, dataset, model.bits)
    last = next((one for one in fits if one.state == "done"), None)
    after = None if last is None else after_of(last)
    if after is not None and after.pack.digest == pack.digest:
        after = None
    left, middle = st.columns(2, vertical_alignment="bottom")
    with left:
        name = _pick("cut", "Cut of", {one: title_of(pack, one) for one in names}, meaning("cut"))
    constants = pack.constants((model.served,))
    is_new = after is not None and constants is None
    if after is not None and constants is not None:
        with middle:
            is_new = (
                _pick(
                    "numbers",
                    "Numbers",
                    NUMBERS,
                    "Cuts are set on the scale of the numbers that a fit finds. Those of the last"
                    " certification are looked at before they are saved.",
                )
                == "new"
            )
    shown = after.pack if is_new and after is not None else pack
    given = found.loaded()
    stand = Stand(
        found,
        found.file,
        pack,
        b"" if given is None else given.data,
        shown,
        after.constants if is_new and after is not None else constants,
        is_new,
        name,
        dataset,
        model,
        plan_of(found.desk, file_name, dataset),
        last,
        after,
    )
    _state(stand)
    # By its state alone: a certification's result leads to another part.
    if st.session_state.get("thresholds-part") not in PARTS:
        st.session_state["thresholds-part"] = _part()
    part = st.segmented_control(
        "Part",
        list(PARTS),
        format_func=PARTS.__getitem__,
        key="thresholds-part",
        label_visibility="collapsed",
        required=True,
        **begins(st.segmented_control, st.session_state["thresholds-part"]),
    )
    set_param("part", part)
    if fits and fits[0].state != "done":
        _box(found, fits[0])
    if stand.constants is None:
        # Numbers of a draft are fitted on answers; a certification without them spends for nothing.
        need_answers(need_view(found, pack), dataset)
    if part == "certify":
        thresholds_certify.draw(stand)
        if last is not None:
            thresholds_result.draw(stand, last)
    elif stand.constants is None:
        _draft(stand)
    elif part == "cost":
        thresholds_cost.draw(stand)
    else:
        thresholds_look.draw(stand)
    _questions(found, dataset)


def _box(found: Bench, running: Job) -> None:
    with st.container(border=True):
        job_box(found.desk, found.user, running.id)


def _part() -> str:
    given = param("part")
    return given if given in PARTS else "look"


def _pick(name: str, label: str, options: dict[str, str], help: str) -> str:
    """One of some options, kept in the address."""
    keys = list(options)
    given = param(name)
    key = f"thresholds-{name}"
    if st.session_state.get(key) not in keys:
        st.session_state[key] = given if given in keys else keys[0]
    chosen: str = st.selectbox(
        label,
        keys,
        format_func=options.__getitem__,
        key=key,
        help=help,
        **begins(st.selectbox, st.session_state[key], keys),
    )
    if given is not None and given != chosen:
        # The cuts in the address are on the scale of another score.
        set_param("at", None)
        set_param("review", None)
    set_param(name, chosen)
    return chosen


def _state(stand: Stand) -> None:
    """How far the numbers that are looked at can be trusted."""
    known, left_open = state_of(stand.shown, stand.constants, stand.model)
    colour, icon = {
        "draft": ("gray", ":material/edit:"),
        "provisional": ("orange", ":material/hourglass_empty:"),
        "certified": ("green", ":material/verified:"),
    }[known]
    if known == "draft":
        told = f"No numbers for {plain(stand.model.served)} yet, so nothing is scored or flagged."
    elif left_open:
        names = [name_words(stand.shown, one) for one in left_open]
        told = f"Nothing is promised of {count(len(names), 'cut')} in force: {plain(listed(names, 4))}."
    else:
        told = "Something is promised of every cut in force."
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.badge(known, color=colour, icon=icon, help=meaning(known))  # type: ignore[arg-type]
        st.caption(told, width="stretch")


def _draft(stand: Stand) -> None:
    """A pack without numbers for this model: what can be done about it."""
    st.info(
        f"**{plain(stand.pack.id)}** is a draft on {plain(stand.model.served)}: its questions are answered, and no"
        " numbers make scores of them. Fit some to look at, which spends nothing and saves nothing;"
        " or certify at once."
    )
    if st.button("Fit numbers to look at", icon=":material/tune:", key=f"fit-draft-{stand.key}"):
        thresholds_certify.start(stand, Plan(delta=stand.plan.delta))


def _questions(found: Bench, dataset: str) -> None:
    """Where to go with labels of single questions: they have no cuts."""
    names = _question_labels(str(found.desk.file), stamp(found.desk), dataset, found)
    if names:
        st.caption(
            f"Labels of {plain(listed(names))} have no cut here: {ONLY_CATEGORIES}. How well single"
            " questions do stands on the pages Scores and Calibration."
        )


@st.cache_data(show_spinner=False, max_entries=8)
def _question_labels(file: str, stamp: tuple[int, int], dataset: str, _found: Bench) -> list[str]:
    with _found.desk.project.open(write=False) as connection:
        rows = connection.execute(
            "SELECT DISTINCT target FROM label WHERE dataset = ? AND starts_with(target, ?)"
            " ORDER BY target",
            [dataset, QUESTION],
        ).fetchall()
    return [target.removeprefix(QUESTION) for (target,) in rows]
