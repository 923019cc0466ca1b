"""A side of the page Compare: which pack or stored run, and whose answers; asks for what is missing."""

from dataclasses import dataclass
from typing import Final

import streamlit as st

from spinf_serve.evals.score_tables import Identity
from spinf_serve.packs.errors import SpinfError, Unusable
from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.pack import Pack
from spinf_serve.workbench.actions.asking import last_run, remembered, servers_of, start_run
from spinf_serve.workbench.actions.baselines import baselines
from spinf_serve.workbench.actions.evaluations import EVALUATION, SideWish
from spinf_serve.workbench.actions.pack_choices import choices, pack_of
from spinf_serve.workbench.answering import Who
from spinf_serve.workbench.frame import Bench, empty, models, param, set_param, told
from spinf_serve.workbench.pages.run_jobs import live
from spinf_serve.workbench.pages.run_rows import planned
from spinf_serve.workbench.parts.who import choose_who, marked
from spinf_serve.workbench.parts.words import count, plain
from spinf_serve.workbench.parts.words import message as as_message

ASK: Final = "ask"
"""In the place of a model's digest: whoever is named below answers."""


@dataclass(frozen=True, slots=True)
class Side:
    """What is compared on a side.

    Attributes:
        who: whom it names; None where a model was chosen whose answers are kept.
    """

    wish: SideWish
    who: Who | None = None


def draw_side(found: Bench, name: str, title: str, *, first: bool) -> Side | None:
    """Draw a side's choices; they stand in the address, so that a link shows the same.

    None while it cannot be compared yet, which is told.
    """
    st.subheader(title)
    titles = {one.name: one.title for one in choices(found.desk)}
    titles |= {f"{EVALUATION}{one}": f"{one} (stored run)" for one in baselines(found.desk)}
    if not titles:
        empty("This project has no pack yet.", "Make one on the page **Pack**.")
    mine = None if found.file is None else found.desk.name_of(found.file)
    standard = mine if mine in titles else next(iter(titles))
    if first and mine is not None:
        standard = _other(mine, list(titles))
    given = param(name)
    chosen = st.selectbox(
        "Pack or stored run",
        list(titles),
        index=list(titles).index(given if given in titles else standard),
        format_func=titles.__getitem__,
        key=f"compare-{name}",
    )
    set_param(name, chosen)
    if chosen.startswith(EVALUATION):
        st.caption("Measured before; its own rows and scores are used.")
        return Side(SideWish(chosen, ""))
    known = {one.bits: one for one in models(found.desk)}
    bits = _scores_of(found, name, known)
    try:
        pack = pack_of(found.desk, chosen)
    except InvalidPack as invalid:
        st.error(f"{plain(chosen)} has faults. Mend them on the page **Pack**.")
        for one in list(invalid.faults)[:5]:
            st.markdown(f"- line {one.line}, column {one.column}: {as_message(one.message)}")
        return None
    except (Unusable, SpinfError) as fault:
        st.error(f"{plain(chosen)}: {plain(fault)}")
        return None
    who = None
    if bits == ASK:
        who, model = _asked(found, name, chosen, pack)
        if model is None:
            return None
    else:
        model = known[bits]
        servers = servers_of(found.desk, bits)
        if servers:
            st.caption(f"Asked at {', '.join(map(marked, servers))}.")
    if pack.constants((model.served,)) is None:
        st.warning(
            f"{plain(pack.id)} has no numbers for {plain(model.served)}, so it decides nothing"
            " there: fit it on the page **Thresholds** first."
        )
        return None
    return Side(SideWish(chosen, model.bits), who)


def _other(mine: str, names: list[str]) -> str:
    """What a pack is compared with first: its last published version, the official one, any other."""
    folder = mine.rpartition("/")[0]
    versions = [one for one in names if one.startswith(f"{folder}/versions/")]
    official = f"official:spinf/{folder.rpartition('/')[2]}"
    if versions:
        return versions[-1]
    if official in names:
        return official
    return next((one for one in names if one != mine), names[0])


def _scores_of(found: Bench, name: str, known: dict[str, Identity]) -> str:
    """Digest of the model whose kept answers are taken; or `ASK`."""
    options = [*known, ASK]
    asked = param(f"{name}-bits")
    standard = found.bits or options[0]
    bits = st.selectbox(
        "Scores of",
        options,
        index=options.index(asked if asked in options else standard),
        format_func=lambda one: (
            "A server, or the model on this machine …"
            if one == ASK
            else f"{known[one].served} · {one[:8]}"
        ),
        key=f"compare-bits-{name}",
        help="Kept answers of a model; or of whomever you name below, who is asked for what is"
        " missing.",
    )
    set_param(f"{name}-bits", bits)
    return bits


def _asked(found: Bench, name: str, chosen: str, pack: Pack) -> tuple[Who | None, Identity | None]:
    """Whoever is named, and who that is; no identity while answers are missing."""
    dataset = found.need_dataset()
    who = choose_who(
        found.desk, found.user, f"compare-{name}", "Whom to ask", url=param(f"{name}-server")
    )
    set_param(f"{name}-server", None if who is None else who.server)
    if who is None:
        return None, None
    last = last_run(found.desk, who, pack, dataset)
    if last is not None and last.is_live:
        live(found, last.id)
        return who, None
    model = remembered(found.desk, who)
    missing = planned(found, who, pack, dataset).answers
    if model is not None and not missing:
        st.caption(f"{marked(str(who))} is {plain(model.served)} · {model.bits[:8]}.")
        return who, model
    if last is not None and last.state != "done":
        st.warning(f"The last run ended early: {plain(last.words or last.state)}")
    st.info(
        f"Nobody asked {marked(str(who))} from this project yet."
        if model is None
        else f"{count(missing, 'answer')} of {plain(model.served)} · {model.bits[:8]} are missing."
    )
    if st.button("Ask it", key=f"compare-ask-{name}", icon=":material/play_arrow:"):
        with told():
            start_run(found.desk, found.user, who, chosen, dataset, found.split)
            st.rerun()
    return who, None
