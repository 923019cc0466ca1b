"""The page Scores: what a model answered, text by text, beside the labels; wrong labels fixed in place."""

from typing import Any, Final

import streamlit as st

from spinf_serve.evals.judged import DECISION, QUESTION
from spinf_serve.packs.pack import Constants, Pack
from spinf_serve.workbench.actions import scores
from spinf_serve.workbench.actions.scores import Base, Subject
from spinf_serve.workbench.actions.scores_figures import Figures, figures, separation
from spinf_serve.workbench.frame import Bench, bench, empty, param, set_param, stamp, told
from spinf_serve.workbench.glossary import help as meaning
from spinf_serve.workbench.pages import scores_charts, scores_detail, scores_overview, scores_rows
from spinf_serve.workbench.pages.scores_look import Look
from spinf_serve.workbench.parts.calm import is_change, shows
from spinf_serve.workbench.parts.synced import begins
from spinf_serve.workbench.parts.view import need_answers, need_view
from spinf_serve.workbench.parts.words import count, plain
from spinf_serve.workbench.views import View

ALL: Final = "all"


def draw() -> None:
    """One run of the page."""
    found = bench()
    st.title("Scores")
    st.markdown(
        "What the model answered, text by text. **Click** a point to read its text, **drag** over the"
        " chart to list the texts behind it."
    )
    with told():
        _draw(found)


def _draw(found: Bench) -> None:
    pack, dataset, model = found.pack(), found.need_dataset(), found.need_model()
    view = need_view(found, pack)
    constants = found.constants(pack)
    if not view.about["answered"]:
        _nothing(view, dataset)
    if constants is None:
        st.info(
            f"**{plain(pack.name or pack.id)}** has no numbers for {plain(model.served)} yet: here are its answers,"
            " but no categories and no decision. Make them on the page **Thresholds**."
        )
    names = _targets((stamp(found.desk), view.key), found, pack, view)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        left, middle = st.container(width=280), st.container(width=440)
        right = st.container(width=160)
    with left:
        target = _target(pack, names)
    key = (view.key, stamp(found.desk), target, found.split)
    base = _base(key, found, pack, constants, view, target)
    with right:
        all_of = _every(pack, constants, view, target)
    given = scores.subjects(pack, constants, view, target, all_of=all_of)
    if not given:
        empty("This pack asks nothing.", "Write a question on the page **Pack**.")
    known = _figures((*key, all_of), view, base, pack, given)
    with middle:
        subject = _subject(given, known)
    look = Look(found, pack, constants, view, base, target, given, known, subject)
    if not names:
        st.info(
            f"No row of **{plain(dataset)}** is labelled for this pack, so nothing tells right from wrong."
            " Label some on the page **Data**."
        )
    if subject is not None:
        scores_charts.figures(subject, known[subject.key])
    # Always beside each other: a click moves nothing on the page.
    left, right = st.columns([3, 2], gap="medium")
    with left:
        _chart(look)
        scores_rows.draw(look)
    with right:
        scores_detail.draw(look)


def _nothing(view: View, dataset: str) -> None:
    need_answers(view, dataset)
    rows = count(int(view.about["rows"]), "row")
    st.info(
        f"None of the {rows} has an answer to every question yet, so that there are no categories"
        " for them. Ask the rest on the page **Run**."
    )


def _target(pack: Pack, names: list[str]) -> str | None:
    """Whose labels are looked at; kept in the address."""
    if not names:
        return None
    given = param("target")
    key = "scores-target"
    if st.session_state.get(key) not in names:
        st.session_state[key] = given if given in names else names[0]
    chosen: str = st.selectbox(
        "Labels of",
        names,
        key=key,
        format_func=lambda name: _title(pack, name),
        help="Which labels the points are coloured by.",
        **begins(st.selectbox, st.session_state[key], names),
    )
    set_param("target", chosen)
    return chosen


def _title(pack: Pack, target: str) -> str:
    if target == DECISION:
        return "The decision as a whole"
    if target.startswith(QUESTION):
        return f"Question {target.removeprefix(QUESTION)}"
    return pack.categories[target].label or target


def _every(pack: Pack, constants: Constants | None, view: View, target: str | None) -> bool:
    """Whether every option is looked at; a link to one that speaks for nothing here turns it on."""
    asked = param("question")
    key = "scores-every"
    if asked is not None and not st.session_state.get(key):
        speaking = scores.subjects(pack, constants, view, target, all_of=False)
        if asked not in {one.key for one in speaking}:
            st.session_state[key] = True

    def turned() -> None:
        if is_change(key):
            set_param("question", None)

    every: bool = st.toggle(
        "Every option",
        value=bool(st.session_state.get(key)),
        key=key,
        on_change=turned,
        help="Show every option of every question, not only the answers that speak for these labels.",
    )
    shows(key, every)
    return every


def _subject(given: list[Subject], known: dict[str, Figures]) -> Subject | None:
    """What is looked at; None for all answers at once. Those that separate best come first."""
    by_key = {one.key: one for one in given}
    ranked = sorted(given, key=lambda one: (one.place is not None, -separation(known[one.key])))
    keys = [ALL, *(one.key for one in ranked)]
    asked = param("question") or ALL
    key = "scores-subject"
    if asked in keys:
        # The address leads: a click on a chart or a table changes it.
        st.session_state[key] = asked
    elif st.session_state.get(key) not in keys:
        st.session_state[key] = ALL

    def named(one: str) -> str:
        if one == ALL:
            return f"All {len(given)} at once"
        area = known[one].roc_area.value
        told = "" if area is None else f" · ROC area {area:.2f}"
        kind = "Category " if by_key[one].place is None else ""
        return f"{kind}{by_key[one].name}{told}"

    def taken() -> None:
        if is_change(key):
            chosen = st.session_state[key]
            set_param("question", None if chosen == ALL else chosen)

    chosen = st.selectbox(
        "Look at",
        keys,
        key=key,
        format_func=named,
        on_change=taken,
        help=meaning("ROC area") + " Those that tell the labels apart best come first.",
        **begins(st.selectbox, st.session_state[key], keys),
    )
    shows(key, chosen)
    return by_key.get(chosen)


def _chart(look: Look) -> None:
    if look.subject is None:
        scores_overview.draw(look)
    else:
        scores_charts.one(look, look.subject)


@st.cache_data(show_spinner=False, max_entries=16)
def _targets(key: tuple[Any, ...], _found: Bench, _pack: Pack, _view: View) -> list[str]:
    return scores.targets(_found.desk, _pack, _view.about["dataset"], fitted=_view.fitted)


@st.cache_resource(show_spinner=False, max_entries=3)
def _base(
    key: tuple[Any, ...],
    _found: Bench,
    _pack: Pack,
    _constants: Constants | None,
    _view: View,
    target: str | None,
) -> Base:
    return scores.base(_found.desk, _pack, _constants, _view, target, _found.split)


@st.cache_data(show_spinner="Comparing answers with labels…", max_entries=16)
def _figures(
    key: tuple[Any, ...], _view: View, _base: Base, _pack: Pack, _given: list[Subject]
) -> dict[str, Figures]:
    return figures(_view, _base, _pack, _given)
