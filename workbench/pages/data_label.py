"""The part Label of the page Data: what to label, in what order, and as whom."""

from contextlib import suppress
from typing import Final

import streamlit as st

from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench import jobs
from spinf_serve.workbench.actions import labelling, queues
from spinf_serve.workbench.actions.labelling import TargetName
from spinf_serve.workbench.actions.queue_orders import BY_SCORE, ORDERS, Order
from spinf_serve.workbench.actions.queues import Queue
from spinf_serve.workbench.desk import key_of
from spinf_serve.workbench.frame import Bench, empty, param, set_param, told
from spinf_serve.workbench.pages import data_queue
from spinf_serve.workbench.pages.data_row import pack_of
from spinf_serve.workbench.pages.data_rows import names_of, rows_in
from spinf_serve.workbench.parts.job_box import job_box
from spinf_serve.workbench.parts.synced import begins
from spinf_serve.workbench.parts.words import plain
from spinf_serve.workbench.started import started
from spinf_serve.workbench.views import Building, View, keep_pack, view_of

AS: Final = "label-as"
MOST_LISTED: Final = 8

_NAMED: Final = "The proxy in front of this workbench says who you are; labels carry that name."


def draw(found: Bench) -> None:
    """Draw the part: the queue in the address, or the choice of one."""
    dataset = found.need_dataset()
    id = param("queue")
    if id is not None:
        with told():
            queue = queues.queue(found.desk, id)
            if queue.dataset == dataset:
                data_queue.draw(found, queue, _who(found))
                return
            st.info(
                f"That queue is of the rows **{plain(queue.dataset)}**. Choose them at the left."
            )
    targets = labelling.targets_of(pack_of(found), list(names_of(found, dataset).targets))
    if not targets:
        empty(
            "There is nothing to label these rows for yet.",
            "Make a pack with categories on the page **Pack**, or import labels.",
        )
    _choose(found, dataset, targets)


def _who(found: Bench) -> str:
    """Who labels: whom the proxy names, or the name that is written here where no proxy does."""
    if started().user_header is not None:
        return found.user
    name: str = st.session_state.get(AS) or param("as") or found.user
    return name.strip() or found.user


def _choose(found: Bench, dataset: str, targets: list[TargetName]) -> None:
    titles = {one.target: one.title for one in targets}
    key = key_of(found.desk.file, dataset)
    left, right = st.columns(2)
    wanted = param("target")
    chosen = st.session_state.get(f"label-target-{key}", wanted)
    with left:
        target = st.selectbox(
            "What to label for", list(titles), format_func=titles.__getitem__,
            key=f"label-target-{key}", **begins(st.selectbox, chosen, [*titles]),
        )  # fmt: skip
    set_param("target", target)
    with right:
        _name(found)
    who = _who(found)
    st.markdown("**In what order?**")
    order = st.radio(
        "Order",
        list(ORDERS),
        format_func=lambda one: ORDERS[one][0],
        captions=[words for _, words in ORDERS.values()],
        key=f"label-order-{key}",
        label_visibility="collapsed",
    )
    where = (
        f"the split **{plain(found.split)}** of **{plain(dataset)}**"
        if found.split
        else f"**{plain(dataset)}**"
    )
    st.caption(
        f"Rows come from {where}. The order stays as it is made, for everybody who opens it."
    )
    if order == "random" and "random" not in names_of(found, dataset).drawn:
        st.caption(
            "Nobody said that chance chose these rows out of the traffic, so their labels count for no"
            " promise, unless the rows have weights."
        )
    if st.button("Start", type="primary", key="label-start", icon=":material/keyboard:"):
        with told():
            try:
                _start(found, dataset, target, order, who)
            except Unusable as nothing:
                # Mostly there is no such row, which is no fault.
                words = str(nothing)
                st.info(f"{plain(words[:1].upper() + words[1:])}.")
    _queue_jobs(found, dataset)
    _go_on(found, dataset, target, who)
    data_queue.standing_of(found, dataset, target)


def _name(found: Bench) -> None:
    if started().user_header is not None:
        # An address of before, or of somebody else, names nobody here.
        set_param("as", None)
        st.markdown(f"Labelling as **{plain(found.user)}**", help=_NAMED)
        return
    st.text_input(
        "Labelling as",
        st.session_state.get(AS, param("as") or found.user),
        key=AS,
        help="Two people who label the same rows write different names; neither sees what the other"
        " said.",
    )
    name = _who(found)
    set_param("as", None if name == found.user else name)


def _start(found: Bench, dataset: str, target: str, order: Order, who: str) -> None:
    """Make a queue and open it, or start the job that makes it."""
    desk, pack = found.desk, pack_of(found)
    view = None
    if order in (*BY_SCORE, "conflict") and pack is not None and found.model is not None:
        looked = view_of(desk, pack, found.constants(pack), dataset, found.model.bits)
        if isinstance(looked, Building):
            loaded = found.loaded()
            keep_pack(desk, b"" if loaded is None else loaded.data, pack)
            job = jobs.start(
                desk, found.user, "view", f"Lay out answers of {dataset}", looked.arguments
            )
            st.info("The answers are laid out first, which is done once. Press Start again then.")
            job_box(desk, found.user, job.id)
            return
        view = looked if isinstance(looked, View) else None
    if rows_in(found, dataset) > queues.MOST_AT_ONCE:
        arguments = {
            "user": found.user, "dataset": dataset, "target": target, "order": order,
            "annotator": who, "split": found.split,
            "pack": None if found.file is None else desk.name_of(found.file),
            "bits": None if view is None else found.bits,
        }  # fmt: skip
        jobs.start(desk, found.user, "queue", f"Order {dataset} for {target}", arguments)
        st.rerun()
    made = queues.make(
        desk, found.user, dataset, target, order,
        annotator=who, split=found.split, view=view, pack=pack,
    )  # fmt: skip
    _open(made.id)
    st.rerun()


def _queue_jobs(found: Bench, dataset: str) -> None:
    for job in jobs.jobs(found.desk, "queue", most=5):
        if job.arguments.get("dataset") == dataset and job.state != "done":
            job_box(found.desk, found.user, job.id)
            return


def _go_on(found: Bench, dataset: str, target: str, who: str) -> None:
    listed = queues.queues(found.desk, dataset, target)[:MOST_LISTED]
    if not listed:
        return
    st.markdown("**Or go on with one that was made**")
    for queue in listed:
        place = queues.progress(found.desk, queue.id, who).place
        left, middle, right = st.columns([5, 1, 1], vertical_alignment="center")
        left.markdown(
            f"{queue.title} · you are at {min(place + 1, queue.rows):,}"
            f" · made {queue.made[:16].replace('T', ' ')} UTC by {plain(queue.by)}"
        )
        middle.button("Go on", key=f"go-{queue.id}", on_click=_open, args=(queue.id,))
        right.button(
            "Remove", key=f"remove-{queue.id}", type="tertiary", on_click=_remove,
            args=(found, queue),
        )  # fmt: skip


def _open(id: str) -> None:
    set_param("queue", id)


def _remove(found: Bench, queue: Queue) -> None:
    with suppress(Unusable):
        # Gone is what it was to be.
        queues.remove(found.desk, found.user, queue.id)
