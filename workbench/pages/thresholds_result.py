"""What a certification came to, and how its numbers are put in force."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import streamlit as st

from spinf_serve.workbench.actions.certifying import (
    after_of,
    change,
    refusals,
    save_fit,
)
from spinf_serve.workbench.actions.cut_plans import PlannedCut
from spinf_serve.workbench.actions.cut_plans import told as told_plan
from spinf_serve.workbench.frame import set_param, told
from spinf_serve.workbench.glossary import help as meaning
from spinf_serve.workbench.jobs import Job
from spinf_serve.workbench.pages.thresholds_certify import words_of
from spinf_serve.workbench.pages.thresholds_stand import (
    Stand,
    listed,
    name_words,
    state_of,
    title_of,
)
from spinf_serve.workbench.parts.figures import figure, row
from spinf_serve.workbench.parts.rows_digest import digest_of
from spinf_serve.workbench.parts.words import count, percent, plain, volume

_DIFF_LINES = 400


def draw(stand: Stand, job: Job) -> None:
    """The newest certification that came to an end."""
    result = job.result()
    if result is None:
        return
    report = result["report"]
    st.subheader("What the last certification found" if report["targets"] else "The last fit")
    st.caption(
        f"By {plain(job.user)}, {job.started[:16].replace('T', ' ')} UTC: fitted on"
        f" {report['fit_rows']:,} rows, {report['test_rows']:,} held back,"
        f" {len(report['refused']):,} refused by the model."
    )
    if job.arguments.get("data") != digest_of(stand.desk, stand.dataset):
        st.warning("Rows or labels changed since. What stands here is about those of that time.")
    elif report["targets"] and list(job.arguments["cuts"]) != told_plan(stand.plan):
        st.caption("The table above was changed since: certify again for what stands there now.")
    for target in report["targets"]:
        _target(stand, job, result, target)
    made = [one["kind"] for target in report["targets"] for one in target["promises"]]
    if made.count("Certificate") > 1:
        wrong = report["wrong_at_most"]
        st.caption(f"That one of these promises is wrong has a chance of {wrong:.3g} at most.")
    if report["notes"]:
        with st.expander("What the rows did not tell, and how numbers were fitted"):
            st.markdown("\n".join(f"- {plain(note)}" for note in report["notes"]))
    _save(stand, job, result)


def _target(stand: Stand, job: Job, result: Mapping[str, Any], target: Mapping[str, Any]) -> None:
    with st.container(border=True):
        name = target["name"]
        known = name in stand.pack.categories or name == "decision"
        title = title_of(stand.pack, name) if known else name
        left, right = st.columns([8, 2], vertical_alignment="center")
        asked = next((one for one in job.arguments["cuts"] if one["name"] == name), None)
        told = target["asked"] if asked is None else words_of(PlannedCut(**asked))
        left.markdown(f"**{plain(title)}**: {plain(told)}")
        promised = all(one["kind"] == "Certificate" for one in target["promises"])
        with right:
            if target["met"] and promised:
                st.badge("promised", color="green", icon=":material/verified:")
            elif target["met"]:
                st.badge("set, not promised", color="orange", icon=":material/info:")
            else:
                st.badge("not reachable yet", color="gray", icon=":material/block:")
        for one in target["promises"]:
            _promise(stand, result, one)
        if target["met"] and promised and known:
            _lead(stand, job, name, [float(one["cut"]) for one in target["promises"]])
        review = target["review_per_1000"]
        if review is not None and target["met"]:
            st.markdown(f"Between the cuts, for review: {volume(review / 1000, stand.per_day)}.")
        if target["name"] in result["left_out"]:
            st.markdown(
                f"On rows left out of the choice: {plain(result['left_out'][name])}.",
                help="The whole choice is made anew without a part of the rows, and judged on that"
                " part: what to expect, without the luck of the choice.",
            )
            spread = target["left_out"]["cut_interval"]
            if spread is not None:
                st.caption(
                    f"Their cuts lie between {spread['low']:.4g} and {spread['high']:.4g}"
                    " (5 % to 95 % of them)."
                )
        for note in target["notes"]:
            st.caption(f"{plain(_capital(note))}.")


def _lead(stand: Stand, job: Job, name: str, cuts: Sequence[float]) -> None:
    """A way to what a promised cut would have done, on the numbers that it was set on.

    Args:
        cuts: the cut, or the upper and the lower one of bands.
    """
    if after_of(job) is None:
        # The file cannot take these numbers, so there are none to look at.
        return
    is_new = stand.after is not None
    key = replace(stand, name=name).key

    def led() -> None:
        set_param("part", "look")
        set_param("cut", name)
        set_param("at", repr(cuts[0]))
        set_param("review", repr(cuts[1]) if len(cuts) > 1 else None)
        st.session_state["thresholds-part"] = "look"
        st.session_state["thresholds-cut"] = name
        st.session_state["thresholds-numbers"] = "new" if is_new else "file"
        st.session_state[f"cut-{key}-{is_new}"] = cuts[0]
        if len(cuts) > 1:
            st.session_state[f"review-{key}-{is_new}"] = cuts[1]

    st.button(
        "See what it would have done",
        key=f"look-{job.id}-{name}",
        on_click=led,
        icon=":material/search:",
        help="Right and wrong on these rows, with every false alarm and miss, at this very cut.",
    )


def _promise(stand: Stand, result: Mapping[str, Any], one: Mapping[str, Any]) -> None:
    found, kind = one["result"], one["kind"]
    st.markdown(f"{plain(_capital(result['words'][one['name']]))}.")
    if kind == "CostCut":
        return
    point = found["point"]
    if point is not None:
        label = "Cut" if kind == "Certificate" else "Best cut, no promise"
        cut = one["cut"] if one["cut"] is not None else point["cut"]
        ends = point["interval"]
        rate = _capital(found["target"]["kind"].replace("_", " "))
        bound = "Promised bound" if kind == "Certificate" else "Bound"
        with row():
            figure(label, f"{cut:.4g}", [f"{point['k']:,} of {point['n']:,} rows"], meaning("cut"))
            between = f"95 %: {percent(ends['low'])} to {percent(ends['high'])}"
            figure(rate, percent(point["estimate"]), [between])
            figure(bound, percent(point["bound"]), [f"wrong with a chance of {found['delta']:.3g}"])
            flagged = volume(point["coverage"], stand.per_day)
            figure("Flagged", percent(point["coverage"]), [flagged])
        if point["recall"] is not None:
            st.caption(f"Of those that hold, {percent(point['recall'])} are flagged there.")
    if kind == "NotReachable":
        _needed(stand, one["name"].partition("/")[0], found["labels_needed"])


def _needed(stand: Stand, name: str, needed: int | None) -> None:
    named = {"data": stand.dataset, "part": "label", "target": name}
    link = "data?" + "&".join(f"{key}={quote(value, safe='')}" for key, value in named.items())
    if needed is None:
        st.markdown(
            "A lower target may be reached, or questions that tell these rows apart better; where rows"
            f" were few, [more labels]({link})."
        )
    else:
        st.markdown(
            f"About **{needed:,} more labels** of rows drawn at random would do, at these rates:"
            f" [open the label queue]({link})."
        )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".")


def _save(stand: Stand, job: Job, result: Mapping[str, Any]) -> None:
    made = after_of(job)
    if made is None:
        if result["fault"] is not None:
            st.error(f"The pack's file cannot take these numbers: {plain(result['fault'])}")
        return
    if made.pack.digest == stand.pack.digest:
        st.success("These numbers stand in the pack's file.", icon=":material/check:")
        return
    st.subheader("Put it in force")
    known, left_open = state_of(made.pack, made.constants, stand.model)
    words = f"With these numbers the pack is **{known}** on {plain(stand.model.served)}."
    if left_open:
        names = [name_words(made.pack, one) for one in left_open]
        words += (
            f" Nothing is promised of {count(len(names), 'cut')} in force: {plain(listed(names))}."
        )
    st.markdown(words, help=meaning(known))
    before = stand.data.decode("utf-8-sig")
    lines = change(before, made.text, stand.file.name)
    added = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
    with st.expander(f"What changes in the file: {added:,} lines; comments stay"):
        st.code("\n".join(lines[:_DIFF_LINES]), language="diff")
        if len(lines) > _DIFF_LINES:
            st.caption(f"and {len(lines) - _DIFF_LINES:,} more lines")
    against = refusals(stand.desk, stand.file, job)
    if not stand.found.approver:
        against.insert(
            0, f"{stand.found.user} is no approver, and only approvers put cuts in force."
        )
    if not result["report"]["targets"]:
        st.caption("Nothing was certified: these numbers carry no promise.")
    for reason in against:
        st.warning(plain(reason))
    if st.button(
        "Save into the pack",
        key=f"save-fit-{job.id}",
        type="primary",
        icon=":material/save:",
        disabled=bool(against),
        help=plain(against[0])
        if against
        else "Writes numbers and proof; all else stays byte for byte.",
    ):
        with told():
            save_fit(
                stand.desk,
                stand.found.user,
                approver=stand.found.approver,
                file=stand.file,
                job=job,
            )
            for key in [one for one in st.session_state if str(one).startswith("cut-")]:
                del st.session_state[key]
            set_param("at", None)
            st.toast("The cuts are in force.", icon=":material/verified:")
            st.rerun()
