"""A job as a page shows it: how far it is, refreshed by itself, with what can be done about it."""

import json
from collections.abc import Mapping
from typing import Any, Final

import streamlit as st

from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench import jobs
from spinf_serve.workbench.desk import Desk
from spinf_serve.workbench.frame import told
from spinf_serve.workbench.jobs import Job
from spinf_serve.workbench.parts.words import plain

REFRESH_SECONDS: Final = 1.0


def latest(desk: Desk, kind: str, arguments: Mapping[str, Any]) -> Job | None:
    """The newest job of a kind with these arguments; None when there was none."""
    # As they come back out of the job's file, where tuples are lists.
    wanted = json.loads(json.dumps(dict(arguments)))
    return next(
        (one for one in jobs.jobs(desk) if one.kind == kind and dict(one.arguments) == wanted), None
    )


def job_box(desk: Desk, user: str, id: str) -> None:
    """Draw a job that is not done: progress with stop, or why it ended with resume.

    The page runs again when it is done.
    """
    job = jobs.job(desk, id)
    if job.is_live:
        _live(desk, user, id)
        return
    if job.state == "done":
        return
    what = {
        "stopped": "was stopped",
        "failed": "failed",
        "broken": "lost its process",
    }[job.state]
    st.warning(f"{plain(job.title)} {what}. {plain(job.words)}")
    left, right = st.columns(2)
    if left.button("Go on", key=f"resume-{id}", icon=":material/play_arrow:"):
        with told():
            jobs.resume(desk, user, id)
            st.rerun()
    with right.popover("Log"):
        st.code(job.log() or "nothing was said", language=None)


@st.fragment(run_every=REFRESH_SECONDS)
def _live(desk: Desk, user: str, id: str) -> None:
    try:
        job = jobs.job(desk, id)
    except Unusable:
        # Somebody took it away meanwhile: the page says what there is.
        st.rerun(scope="app")
    if not job.is_live:
        st.rerun(scope="app")
    st.progress(job.share, text=f"{plain(job.title)}: {plain(job.words or job.state)}")
    if st.button("Stop the work", key=f"stop-{id}", icon=":material/stop:"):
        with told():
            jobs.stop(desk, user, id)
