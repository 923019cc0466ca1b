"""The page Run for rows of the project: pack, who answers, what is kept already, start."""

from pathlib import Path
from typing import Final

import streamlit as st

from spinf_serve.evals.planning import Plan
from spinf_serve.evals.score_tables import Identity
from spinf_serve.packs.errors import SpinfError, Unusable
from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.pack import Pack
from spinf_serve.workbench.actions.asking import (
    last_run,
    plan_of,
    remembered,
    some_contents,
    start_measure,
    start_run,
)
from spinf_serve.workbench.actions.pack_choices import choices, pack_of
from spinf_serve.workbench.answering import Who
from spinf_serve.workbench.desk import Desk
from spinf_serve.workbench.frame import Bench, empty, stamp, told
from spinf_serve.workbench.pages.run_cost import show_cost
from spinf_serve.workbench.pages.run_jobs import ended, live
from spinf_serve.workbench.parts.links import go_to
from spinf_serve.workbench.parts.who import choose_who, marked
from spinf_serve.workbench.parts.words import UNKNOWN, count, percent, plain
from spinf_serve.workbench.parts.words import message as as_message

SAMPLED_ROWS: Final = 16
"""Rows whose tokens are counted before anything is asked."""


def draw_rows(found: Bench) -> None:
    """One run of this half of the page."""
    dataset = found.need_dataset()
    left, right = st.columns(2)
    with left:
        chosen = choose_pack(found, "run-rows")
    with right:
        who = choose_who(found.desk, found.user, "run-rows")
    if chosen is None or who is None:
        return
    name, pack = chosen
    of = "all rows" if found.split is None else f"split {plain(found.split)}"
    st.caption(f"Rows: **{plain(dataset)}**, {of}. Another choice stands in the sidebar.")
    plan = planned(found, who, pack, dataset)
    _before(found, who, plan)
    if not plan.rows:
        st.info(f"{plain(dataset)} has no row there. Import some on the page **Data**.")
        return
    about = "" if plan.is_exact else "about "
    share = plan.answers / (plan.contents * plan.prompts) if plan.contents else 0.0
    show_cost(
        found,
        who,
        pack,
        plan.contents,
        share,
        about=about,
        name=name,
        sample=lambda: _sample(
            str(found.desk.file), stamp(found.desk), pack.digest, dataset, found.split, _pack=pack
        ),
        measure=lambda: start_measure(found.desk, found.user, who, name, dataset, found.split),
        key="run-rows",
    )
    last = last_run(found.desk, who, pack, dataset)
    if last is not None and last.is_live:
        live(found, last.id)
        return
    unknown = remembered(found.desk, who) is None
    if not plan.answers and not unknown:
        st.success("All answers are kept already: there is nothing to ask.")
        identity = remembered(found.desk, who)
        if identity is not None and st.button(
            "See the scores", key="run-see", icon=":material/scatter_plot:"
        ):
            go_to("scores", bits=identity.bits, data=dataset)
    elif st.button(
        f"Ask {about}{count(plan.answers, 'answer')}" if plan.answers else "Ask what is missing",
        type="primary",
        key="run-start",
        icon=":material/play_arrow:",
    ):
        with told():
            start_run(found.desk, found.user, who, name, dataset, found.split)
            st.rerun()
    if last is not None:
        with st.container(border=True, key="run-last"):
            st.markdown(f"**Last run: {plain(last.title)}**")
            ended(found, last)


def choose_pack(found: Bench, key: str) -> tuple[str, Pack] | None:
    """Draw the choice of a pack as it is saved, or an official one; None when it has faults."""
    titles = {one.name: one.title for one in choices(found.desk)}
    if not titles:
        empty("There is no pack to ask.", "Make one on the page **Pack**.")
    mine = None if found.file is None else found.desk.name_of(found.file)
    name = st.selectbox(
        "Pack",
        list(titles),
        index=list(titles).index(mine) if mine in titles else 0,
        format_func=titles.__getitem__,
        key=f"{key}-pack-{mine}",
        help="As it is saved: what is edited and not saved yet is not asked.",
    )
    try:
        return name, pack_of(found.desk, name)
    except InvalidPack as invalid:
        st.error(f"{plain(titles[name])} has faults. Mend them on the page **Pack**.")
        for fault in list(invalid.faults)[:5]:
            st.markdown(f"- line {fault.line}, column {fault.column}: {as_message(fault.message)}")
    except (SpinfError, Unusable) as fault:
        st.error(as_message(fault))
    return None


def _before(found: Bench, who: Who, plan: Plan) -> None:
    about = "" if plan.is_exact else "about "
    rows, answers, kept, refused = st.columns(4)
    rows.metric("Rows", f"{plan.rows:,}", help="Rows of the data set or the split.")
    answers.metric(
        "To ask",
        f"{about}{plan.answers:,}",
        help=f"Answers: {plan.prompts:,} questions, filled, of each text; equal texts are asked once.",
    )
    unknown = remembered(found.desk, who) is None
    guess = found.model if unknown else None
    kept.metric(
        "Kept already",
        UNKNOWN if unknown and guess is None else percent(plan.reused, 0),
        help="Share of the answers that an earlier run kept: they cost nothing.",
    )
    refused.metric("Refused before", f"{about}{plan.refused:,}")
    if not plan.is_exact:
        st.caption(f"By a look at {plan.looked:,} rows, spread evenly.")
    if guess is not None:
        st.caption(
            f"Nobody asked {marked(str(who))} from this project yet. This is what is kept of"
            f" {plain(guess.served)} ({guess.bits[:8]}), whose scores the sidebar shows: if another"
            " model or machine answers, all of it is asked."
        )
    elif unknown:
        st.caption(
            f"Nobody asked {marked(str(who))} from this project yet, so what is kept of its answers is not known:"
            " measure the cost, or start."
        )


def planned(found: Bench, who: Who, pack: Pack, dataset: str) -> Plan:
    """What a run would ask; looked up again when something was written to the project."""
    identity = remembered(found.desk, who)
    bits = None if identity is None else identity.bits
    return _planned(
        str(found.desk.file),
        stamp(found.desk),
        pack.digest,
        dataset,
        found.split,
        str(who),
        bits,
        None if identity is not None else found.model,
        _who=who,
        _pack=pack,
    )


@st.cache_data(show_spinner=False, max_entries=16)
def _sample(
    file: str,
    changed: tuple[int, int],
    digest: str,
    dataset: str,
    split: str | None,
    *,
    _pack: Pack,
) -> list[str]:
    desk = Desk(Path(file).parent, Path(file))
    return some_contents(desk, _pack, dataset, split, SAMPLED_ROWS)


@st.cache_data(show_spinner="Looking up what is kept…", max_entries=16)
def _planned(
    file: str,
    changed: tuple[int, int],
    digest: str,
    dataset: str,
    split: str | None,
    who: str,
    bits: str | None,
    otherwise: Identity | None,
    *,
    _who: Who,
    _pack: Pack,
) -> Plan:
    return plan_of(Desk(Path(file).parent, Path(file)), _who, _pack, dataset, split, otherwise)
