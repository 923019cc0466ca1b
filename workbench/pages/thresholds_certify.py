"""The part of Thresholds that certifies: the table of targets, what it spends, and the job."""

import math
from dataclasses import replace
from typing import Final

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spinf_serve.evals.fitting import TEST, Budget, check_identity
from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench import jobs
from spinf_serve.workbench.actions.certifying import KIND, arguments_of, subject_of
from spinf_serve.workbench.actions.cut_plans import (
    BANDS,
    KINDS,
    Plan,
    PlannedCut,
    budgets,
    command,
    has_held,
    keep_plan,
    wish_of,
    wishes_of,
)
from spinf_serve.workbench.frame import told
from spinf_serve.workbench.glossary import help as meaning
from spinf_serve.workbench.pages.thresholds_stand import KIND_WORDS, Stand, title_of
from spinf_serve.workbench.parts.kept import keeping, used
from spinf_serve.workbench.parts.rows_digest import digest_of
from spinf_serve.workbench.parts.words import count, percent, plain

VALUES: Final = {
    "precision": 0.9,
    "recall": 0.8,
    "npv": 0.99,
    "flag_rate": 0.02,
    BANDS: 0.9,
    "cost": 5.0,
}


def draw(stand: Stand) -> None:
    """Draw it."""
    st.markdown(
        "A promise is tested on cuts that are set before any label is seen, from strict to loose,"
        " until the first that fails. Each look at the labels takes a share of the chance that a"
        " promise is wrong, so decide first how often you mean to look.",
        help=meaning("promise"),
    )
    _line(stand)
    if not stand.plan.cuts:
        st.info("The table of targets is empty: put one in above. Several are certified at once.")
        return
    _bound(stand)
    _table(stand)


def start(stand: Stand, plan: Plan) -> None:
    """Start the job that certifies a plan, and draw the page anew."""
    desk, user = stand.desk, stand.found.user
    given = arguments_of(desk, stand.file, stand.pack, stand.dataset, stand.model.bits, plan, user)
    what = f"{stand.pack.id}: certify {count(len(plan.cuts), 'target')}"
    if not plan.cuts:
        what = f"{stand.pack.id}: fit numbers to look at"
    subject = subject_of(stand.file_name, stand.dataset)
    jobs.start(desk, user, KIND, what, given, subject=subject)
    st.rerun()


def words_of(cut: PlannedCut) -> str:
    """A line of the table as a sentence."""
    value = f"{cut.value * 100:g} %"
    match cut.kind:
        case "precision":
            return f"of the flagged, at least {value} are right"
        case "recall":
            return f"of those that hold, at least {value} are flagged"
        case "npv":
            return f"of those not flagged, at least {value} do not hold"
        case "flag_rate":
            return f"at most {value} of all messages are flagged"
        case "bands":
            return (
                f"above the upper cut at least {value} are right, below the lower one at least"
                f" {(cut.npv or 0) * 100:g} % do not hold; what lies between is for review"
            )
    return f"cheapest where a miss costs {cut.value:g} false alarms; nothing is promised of it"


def _line(stand: Stand) -> None:
    """The line of the chosen cut."""
    held = stand.plan.of(stand.name)
    key = f"target-{stand.key}"
    with st.container(border=True):
        st.markdown(
            f"**Target for {plain(title_of(stand.pack, stand.name))}**", help=meaning("target")
        )
        left, middle, right = st.columns([5, 2, 3], vertical_alignment="bottom")
        kind = keeping(
            stand.found,
            f"{key}-kind",
            left.selectbox,
            "What is promised",
            options=KINDS,
            start=held.kind if held is not None and held.kind in KINDS else KINDS[0],
            format_func=KIND_WORDS.__getitem__,
        )
        same = held is not None and held.kind == kind
        value = held.value if held is not None and same else VALUES[kind]
        npv = None
        if kind == "cost":
            value = keeping(
                stand.found, f"{key}-cost", middle.number_input, "A miss costs, in false alarms",
                start=value, min_value=0.01,
            )  # fmt: skip
        else:
            value = _percent(stand, middle, _label(kind), value, f"{key}-{kind}")
            if kind == BANDS:
                before = held.npv if held is not None and same and held.npv else 0.99
                npv = _percent(
                    stand, middle, "Lower cut: not holding below, %", before, f"{key}-npv"
                )
        rate = keeping(
            stand.found,
            f"{key}-rate",
            right.number_input,
            "Share of the traffic that holds, % (only if rows were drawn class by class)",
            start=None if held is None or held.base_rate is None else held.base_rate * 100,
            min_value=0.0,
            max_value=100.0,
            value=None,
            placeholder="as in the rows",
            help=meaning("base rate"),
        )
        cut = PlannedCut(stand.name, kind, value, npv, rate / 100 if rate else None)
        label = "Put into the table" if held is None else "Change the line"
        if st.button(label, key=f"{key}-put", icon=":material/playlist_add:", disabled=cut == held):
            with told():
                wish_of(cut, stand.plan.delta)
                wishes_of(stand.plan.with_cut(cut), stand.pack)
                used(stand.found, *(f"{key}-{one}" for one in ("kind", "npv", "rate", *KINDS)))
                _keep(stand, stand.plan.with_cut(cut))


def _label(kind: str) -> str:
    return {
        "flag_rate": "At most, %",
        BANDS: "Upper cut: right above, %",
    }.get(kind, "At least, %")


def _percent(stand: Stand, where: DeltaGenerator, label: str, value: float, key: str) -> float:
    found = keeping(
        stand.found, key, where.number_input, label, start=round(value * 100, 6),
        min_value=0.01, max_value=99.99, step=1.0, format="%.4g",
    )  # fmt: skip
    return round(float(found) / 100, 10)


def _keep(stand: Stand, plan: Plan) -> None:
    """Keep a changed plan and draw the page anew."""
    keep_plan(stand.desk, stand.found.user, stand.file_name, stand.dataset, plan)
    st.rerun()


def _bound(stand: Stand) -> None:
    """The chance of a wrong promise, and how often it is shared."""
    plan, key = stand.plan, f"bound-{stand.key}-{stand.plan.revision}"
    left, right = st.columns(2)
    delta = left.number_input(
        "Chance at most that a promise is wrong, %",
        0.01,
        50.0,
        value=round(plan.delta * 100, 6),
        step=1.0,
        format="%.4g",
        key=f"{key}-delta",
        help=meaning("delta"),
    )
    planned = right.number_input(
        "Certifications of a target planned on these labels",
        1,
        1000,
        value=plan.planned,
        key=f"{key}-planned",
        help="Set before the first: each takes an equal share of that chance. Trying three wordings"
        " on the same labels is three certifications.",
    )
    share = round(float(delta) / 100, 10)
    if not math.isclose(share, plan.delta) or planned != plan.planned:
        with told():
            _keep(stand, replace(plan, delta=share, planned=int(planned)))


def _table(stand: Stand) -> None:
    plan = stand.plan
    try:
        wishes = wishes_of(plan, stand.pack)
    except Unusable as fault:
        st.error(f"The table cannot be certified as it is: {plain(fault)}")
        wishes = []
    try:
        check_identity(stand.model, wishes)
    except Unusable as fault:
        st.error(plain(fault))
        wishes = []
    digest = digest_of(stand.desk, stand.dataset)
    spent = budgets(stand.desk, stand.dataset, stand.pack, stand.model.bits, plan, wishes, digest)
    held = has_held(stand.desk, stand.dataset)
    st.markdown("**What is certified**")
    for cut in plan.cuts:
        known = cut.name in stand.pack.categories or cut.name == "decision"
        title = title_of(stand.pack, cut.name) if known else cut.name
        left, right = st.columns([12, 1], vertical_alignment="center")
        base = "" if cut.base_rate is None else f", in traffic where {percent(cut.base_rate)} hold"
        left.markdown(f"**{plain(title)}**: {words_of(cut)}{base}")
        if cut.name in spent:
            left.caption(spending(spent[cut.name], cut, plan, held))
        if right.button(
            "",
            key=f"drop-{stand.key}-{cut.name}",
            icon=":material/delete:",
            help=f"Take {plain(title)} out of the table",
            type="tertiary",
        ):
            with told():
                _keep(stand, plan.without(cut.name))
    fresh = [one for name, one in spent.items() if one.made is None and one.delta > 0]
    if st.button(
        "Certify",
        key=f"certify-{stand.key}",
        type="primary",
        icon=":material/verified:",
        disabled=not wishes,
    ):
        with told():
            start(stand, plan)
    st.caption(
        "Fits the pack's numbers and tests the cuts. It writes nothing into the pack."
        + (
            f" It spends for {count(len(fresh), 'target')}, whatever comes of it, and cannot be"
            " undone."
            if fresh
            else " It spends nothing."
        )
    )
    if wishes:
        with st.expander("The same on the command line"):
            made = command(
                stand.desk, stand.file, stand.dataset, stand.model.bits, plan, stand.found.user
            )
            st.code(made, language="bash", wrap_lines=True)
            st.caption(
                "To be run in the project's folder. A certification that was made here spends nothing"
                " there, nor the other way round. `--save` writes into the pack's file."
            )


def spending(found: Budget, cut: PlannedCut, plan: Plan, held: bool) -> str:
    """What a certification would take, in plain words."""
    if found.split == TEST and not held:
        return (
            "Labels have a part in this score, so its cut is certified on rows that are held back, and"
            " none are: make a split with a part `test` on the page Data."
        )
    if cut.kind == "cost":
        return "Spends nothing, since nothing is promised."
    if found.made is not None:
        when = found.made.at.strftime("%Y-%m-%d %H:%M")
        return (
            f"This very certification was made on {when} UTC by {plain(found.made.by)}: it shows nothing new"
            " and spends nothing."
        )
    gone = sum(one.delta for one in found.before)
    before = (
        f"{count(len(found.before), 'certification')} of it on these rows took {gone:.3g} of"
        f" {plan.delta:.3g} already. "
        if found.before
        else f"No certification of it was made on these rows, so all of {plan.delta:.3g} is left. "
    )
    if found.delta <= 0:
        return before + "Nothing is left: label rows that were not used yet."
    return (
        f"{before}This one takes {found.delta:.3g}: the promise is wrong with a chance of"
        f" {found.delta:.3g} at most."
    )
