"""Runs as the page Run shows them: how far one is, what came of it, and those before."""

from datetime import UTC, datetime
from typing import Any, Final

import streamlit as st

from spinf_serve.workbench import jobs
from spinf_serve.workbench.actions.asking import spent
from spinf_serve.workbench.answering import given_who
from spinf_serve.workbench.desk import Desk
from spinf_serve.workbench.frame import Bench, told
from spinf_serve.workbench.jobs import Job
from spinf_serve.workbench.parts.links import go_to
from spinf_serve.workbench.parts.who import marked
from spinf_serve.workbench.parts.words import UNKNOWN, count, duration, money, percent, plain

REFRESH_SECONDS: Final = 1.0
SHOWN: Final = 10
_STATES: Final = {
    "waiting": ":material/hourglass_empty: waiting",
    "running": ":material/progress_activity: running",
    "done": ":material/check_circle: done",
    "stopped": ":material/stop_circle: stopped",
    "failed": ":material/error: failed",
    "broken": ":material/heart_broken: lost its process",
}


def live(found: Bench, id: str) -> None:
    """Draw a job that runs; the page runs again when it has ended."""
    _live(found.desk, found.user, id)


@st.fragment(run_every=REFRESH_SECONDS)
def _live(desk: Desk, user: str, id: str) -> None:
    with told():
        job = jobs.job(desk, id)
        if not job.is_live:
            st.rerun(scope="app")
        with st.container(border=True):
            st.markdown(f"**{plain(job.title)}**")
            st.progress(job.share, text=_words(job))
            _figures(job)
            left, right = st.columns([1, 4])
            if left.button("Stop the run", key=f"stop-{id}", icon=":material/stop:"):
                jobs.stop(desk, user, id)
                st.toast("It stops behind this step; what is finished is kept.")
            with right.popover("Log", icon=":material/notes:"):
                st.code(job.log() or "Nothing was said yet.", language=None)


def _words(job: Job) -> str:
    doing = plain(job.words or job.state)
    return f"{doing}: {job.done:,} of {job.of:,}" if job.of else doing


def _figures(job: Job) -> None:
    more = job.more
    rate, left, reused, refused = st.columns(4)
    rate.metric("Texts a second", UNKNOWN if job.rate is None else f"{job.rate:,.1f}")
    left.metric("Time left", UNKNOWN if job.seconds_left is None else duration(job.seconds_left))
    if "refused" in more:
        reused.metric("Kept before", percent(more.get("reused"), 0))
        refused.metric("Refused rows", f"{more['refused'] or 0:,}")


def ended(found: Bench, job: Job, *, key: str = "") -> None:
    """Draw what came of a job that has ended, and what can be done about it."""
    if job.state != "done":
        st.markdown(plain(job.words or job.state))
    result = job.result() or {}
    if job.kind == "run" and result:
        _of_run(result)
    if job.kind == "sheet" and result:
        _of_sheet(result)
    took = spent(job.folder)
    if took.seconds:
        price = found.desk.settings().get("hour_price")
        told_money = money(took.money(price))
        st.caption(
            f"Took {duration(took.seconds)}, {took.counted.tree_tokens:,} tokens"
            f" ({count(took.counted.rows, 'text')} asked)"
            + (f", {told_money} at {price:g} an hour" if price else "")
        )
    with st.container(horizontal=True):
        _buttons(found, job, result, key)


def _buttons(found: Bench, job: Job, result: dict[str, Any], key: str) -> None:
    if job.state in jobs.AGAIN:
        if st.button("Go on", key=f"{key}resume-{job.id}", icon=":material/play_arrow:"):
            with told():
                given = given_who()
                fresh = given if str(given) == job.arguments.get("who") else None
                jobs.resume(found.desk, found.user, job.id, who=fresh)
                st.rerun()
    elif job.kind == "run" and st.button(
        "See the scores", key=f"{key}scores-{job.id}", icon=":material/scatter_plot:"
    ):
        go_to("scores", bits=result.get("bits"), data=job.arguments["dataset"])
    elif (
        job.kind == "sheet"
        and key
        and st.button("Open the sheet", key=f"{key}open-{job.id}", icon=":material/table_view:")
    ):
        st.query_params["mode"] = "sheet"
        st.query_params["sheet"] = job.id
        st.session_state.pop("run-mode", None)
        st.rerun()
    with st.popover("Log", icon=":material/notes:"):
        st.code(job.log() or "Nothing was said.", language=None)
    if st.button(
        "Forget",
        key=f"{key}remove-{job.id}",
        icon=":material/delete:",
        help="Takes the run out of this list, with a sheet's files. Kept scores stay.",
    ):
        with told():
            jobs.remove(found.desk, found.user, job.id)
            st.rerun()


def _of_run(result: dict[str, Any]) -> None:
    asked, reused, refused, failed = st.columns(4)
    asked.metric("Answers asked", f"{result['asked']:,}")
    reused.metric("Kept before", f"{result['reused']:,}")
    refused.metric("Refused rows", f"{sum(result['refused'].values()):,}")
    failed.metric("Failed rows", f"{result['failed']:,}")
    if result["refused"]:
        st.caption(f"Refused: {_codes(result['refused'])}. They stay in every denominator.")
    if result["failed"]:
        st.caption("Failed rows have no answer through no fault of theirs; run again to ask them.")


def _of_sheet(result: dict[str, Any]) -> None:
    rows, unsafe, safe, refused = st.columns(4)
    rows.metric("Rows", f"{result['rows']:,}")
    unsafe.metric("Flagged", f"{result['verdicts'].get('unsafe', 0):,}")
    safe.metric("Not flagged", f"{result['verdicts'].get('safe', 0):,}")
    refused.metric("No answer", f"{sum(result['refused'].values()):,}")
    if result["refused"]:
        st.caption(f"No answer: {_codes(result['refused'])}.")


def _codes(refused: dict[str, int]) -> str:
    return ", ".join(f"{plain(name)} {number:,}" for name, number in sorted(refused.items()))


def earlier(found: Bench, kinds: tuple[str, ...]) -> None:
    """Draw the list of earlier runs, newest first."""
    every = [one for one in jobs.jobs(found.desk) if one.kind in kinds and not one.is_live]
    st.subheader("Earlier runs")
    if not every:
        st.caption("None yet. What you start is listed here, for everybody who opens the project.")
        return
    most = st.session_state.get("run-most", SHOWN)
    for job in every[:most]:
        title = f"{_STATES[job.state]} · {plain(job.title, 120)} · {_when(job.started)}, {plain(job.user, 80)}"
        with st.expander(title, key=f"earlier-{job.id}"):
            st.caption(f"Answered by {marked(job.arguments.get('who', UNKNOWN))}")
            ended(found, job, key="earlier-")
    if len(every) > most and st.button("Show more", key="run-more"):
        st.session_state["run-most"] = most + SHOWN
        st.rerun()


def _when(at: str) -> str:
    then = datetime.fromisoformat(at)
    today = then.date() == datetime.now(UTC).date()
    return f"{then:%H:%M} UTC" if today else f"{then:%Y-%m-%d %H:%M} UTC"
