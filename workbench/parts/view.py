"""The view that a page shows, and what stands there while it is made."""

from typing import Final

import streamlit as st

from spinf_serve.packs.pack import Pack
from spinf_serve.workbench import jobs
from spinf_serve.workbench.desk import Desk
from spinf_serve.workbench.frame import Bench, empty, stamp
from spinf_serve.workbench.parts.job_box import job_box, latest
from spinf_serve.workbench.parts.words import count, plain
from spinf_serve.workbench.views import Building, View, building, keep_pack, view_of

KIND: Final = "view"
_MOST: Final = 64

_current: dict[tuple[object, ...], View] = {}
"""Views that were current at a stamp of the project: looking them up reads its tables."""


def need_view(found: Bench, pack: Pack, data: bytes | None = None) -> View:
    """The view of a pack on the chosen rows and model; stops the page while there is none.

    Args:
        data: the bytes of the pack's file, for a job; None when it is the chosen pack.
    """
    dataset, model = found.need_dataset(), found.need_model()
    constants = pack.constants((model.served,))
    key = (str(found.desk.file), stamp(found.desk), pack.digest, dataset, model.bits)
    if key in _current and _current[key].path.exists():
        return _current[key]
    with st.spinner("Reading kept scores…"):
        view = view_of(found.desk, pack, constants, dataset, model.bits)
    if view is None:
        empty(f"**{plain(dataset)}** has no rows yet.", "Import some on the page **Data**.")
    if isinstance(view, Building):
        _make(found, pack, view, data)
        st.stop()
    if view.is_current:
        while len(_current) >= _MOST:
            _current.pop(next(iter(_current)))
        _current[key] = view
    else:
        _renew(found, pack, dataset, model.bits, data)
    return view


def need_answers(view: View, dataset: str) -> None:
    """Stops the page, with what to do, while none of the pack's questions was asked of the rows."""
    names = [name for name in view.frame("LIMIT 0").columns if name.startswith("residual:")]
    parts = " OR ".join(f'count("{name}") > 0' for name in names)
    if bool(view.frame(columns=parts.replace("\n", " ") or "false").iloc[0, 0]):
        return
    rows = count(int(view.about["rows"]), "row")
    empty(
        f"None of this pack's questions was asked of the {rows} of **{plain(dataset)}** yet.",
        "Ask them on the page **Run**: only what is new is asked.",
    )


def _make(found: Bench, pack: Pack, view: Building, data: bytes | None) -> None:
    """Starts the job that makes a view, and shows it."""
    job = latest(found.desk, KIND, view.arguments)
    if job is None or job.state == "done":
        job = _start(found, pack, view, data)
    st.info(
        f"{view.rows:,} rows with {view.prompts:,} questions each are laid out for the charts first."
        " That is done once; it goes on when this page is left."
    )
    job_box(found.desk, found.user, job.id)


def _renew(found: Bench, pack: Pack, dataset: str, bits: str, data: bytes | None) -> None:
    view = building(found.desk, pack, dataset, bits)
    job = latest(found.desk, KIND, view.arguments)
    if job is not None and job.state != "done":
        job_box(found.desk, found.user, job.id)
        return
    left, right = st.columns([4, 1], vertical_alignment="center")
    left.info("Rows or scores were added since this was laid out. What is shown is older.")
    if right.button("Bring up to date", key=f"renew-{view.key}", icon=":material/refresh:"):
        _start(found, pack, view, data)
        st.rerun()


def _start(found: Bench, pack: Pack, view: Building, data: bytes | None) -> jobs.Job:
    desk: Desk = found.desk
    if data is None:
        loaded = found.loaded()
        data = b"" if loaded is None else loaded.data
    keep_pack(desk, data, pack)
    title = f"Lay out answers of {view.arguments['dataset']}"
    return jobs.start(desk, found.user, KIND, title, view.arguments)
