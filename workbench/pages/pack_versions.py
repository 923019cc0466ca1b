"""The tab with what the pack was before: compare, restore, publish."""

from datetime import datetime
from functools import partial

import streamlit as st

from spinf_serve.packs.errors import SpinfError, Unusable
from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.versions import PARTS
from spinf_serve.workbench.actions import drafts, publishing
from spinf_serve.workbench.actions.drafts import Draft, Step
from spinf_serve.workbench.actions.publishing import DISK, STEP, others, text_of
from spinf_serve.workbench.desk import key_of
from spinf_serve.workbench.frame import Bench, param, set_param, told
from spinf_serve.workbench.pages import pack_bar
from spinf_serve.workbench.parts.differences import show_differences
from spinf_serve.workbench.parts.words import plain

MOST_STEPS = 100


def draw(bench: Bench, draft: Draft) -> None:
    """Draw the tab."""
    left, right = st.columns([2, 1], gap="large")
    with left:
        _compare(bench, draft)
    with right:
        _publish(bench, draft)


def _compare(bench: Bench, draft: Draft) -> None:
    key = key_of(draft.file)
    st.subheader("Compare and restore", anchor=False)
    titles = {one.name: one.title for one in others(bench.desk, draft.file)}
    steps = drafts.steps(bench.desk, draft.file)[:MOST_STEPS]
    for step in steps:
        titles.setdefault(f"{STEP}{step.digest}", _step_title(step))
    names = list(titles)
    asked = param("with")
    name = st.selectbox(
        "What you edit, against",
        names,
        index=names.index(asked) if asked in names else 0,
        format_func=lambda one: titles[one],
        key=f"with-{key}",
        help="The saved file, published versions, other packs, and every step of the history.",
    )
    set_param("with", None if name == DISK else name)
    with told():
        before = text_of(bench.desk, draft.file, name)
        if before == draft.text:
            st.caption("Both are the same.")
            return
        kind = st.segmented_control(
            "Show",
            ["What it means", "Lines of the text"],
            default="What it means",
            key=f"diff-{key}",
            label_visibility="collapsed",
        )
        if kind == "Lines of the text":
            st.code(
                publishing.lines(before, draft.text, (titles[name], "what you edit")),
                language="diff",
                wrap_lines=True,
            )
        else:
            _meaning(before, draft)
        st.button(
            "Restore this text",
            key=f"restore-{key}",
            icon=":material/restore:",
            help="It becomes the draft; what you have now stays in the history, one undo away.",
            on_click=partial(
                pack_bar.change, bench, draft.file, before, draft.revision, "restored"
            ),
        )


def _meaning(before: str, draft: Draft) -> None:
    try:
        show_differences(publishing.meanings(before, draft.text, draft.file.name))
    except InvalidPack:
        st.info(
            "One of the two has faults, so that its meaning cannot be told. Their lines can be"
            " compared all the same."
        )


def _publish(bench: Bench, draft: Draft) -> None:
    st.subheader("Publish a version", anchor=False)
    st.caption(
        "A published version never changes: servers and colleagues can name it. It lies in the folder"
        " `versions` beside the pack."
    )
    key = key_of(draft.file)
    pack = pack_bar.checked(draft.text, draft.file.name).pack
    why = (
        "Only an approver may publish."
        if not bench.approver
        else "Mend the faults first."
        if pack is None
        else "Save the draft first."
        if draft.unsaved
        else None
    )
    version = "" if pack is None else pack.version
    choices: list[str] = ["none", *reversed(PARTS)]
    labels = {"none": f"as the file says: {version}" if version else "as the file says"}
    for one in PARTS:
        raised = publishing.next_version(version, one)
        labels[one] = f"{one}: {raised}" if raised else one
    part = st.radio(
        "Version",
        choices,
        format_func=lambda name: plain(labels[name]),
        key=f"part-{key}",
        help="Patch for wording and numbers, minor for more questions or categories, major where"
        " those who use it have to change something. Raised from the last published version.",
    )
    note = st.text_input(
        "Note", key=f"note-{key}", max_chars=200, placeholder="What is new, in a line"
    )
    st.button(
        "Publish",
        key=f"publish-{key}",
        type="primary",
        icon=":material/publish:",
        disabled=why is not None,
        help=why,
        on_click=partial(_do_publish, bench, draft, None if part == "none" else part, note),
    )
    if why is not None:
        st.caption(why)


def _do_publish(bench: Bench, draft: Draft, part: str | None, note: str) -> None:
    pack_bar.take(bench.desk, bench.user)
    state = pack_bar.editor_state()
    try:
        done = publishing.published(
            bench.desk,
            bench.user,
            draft.file,
            part,  # type: ignore[arg-type]
            note,
            approver=bench.approver,
        )
    except InvalidPack as invalid:
        state["told"] = ("error", f"Not published: {invalid.faults[0]}")
    except (SpinfError, Unusable) as fault:
        state["told"] = ("error", str(fault))
    else:
        words = "Published" if done.changed else "Nothing is new: this was published before as"
        state["told"] = ("toast", f"{words} {done.id} {done.version}.")


def _step_title(step: Step) -> str:
    at = datetime.fromisoformat(step.at).astimezone()
    by = f" by {step.user}" if step.user else ""
    return f"{at:%d %b %H:%M:%S}, {step.what}{by}"
