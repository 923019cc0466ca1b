"""The page Try: one text, every question's answer at once, and what the pack makes of it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import streamlit as st

from spinf_serve.evals.score_tables import Identity
from spinf_serve.packs.errors import SpinfError, Unusable
from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.files import read_regular
from spinf_serve.packs.pack import Pack
from spinf_serve.workbench.actions.drafts import draft_of
from spinf_serve.workbench.actions.kept_answers import first_kept
from spinf_serve.workbench.actions.pack_choices import choices, file_of, read_choice
from spinf_serve.workbench.actions.trying import Asked, Content, note_tried, recent
from spinf_serve.workbench.answering import Who
from spinf_serve.workbench.desk import Desk, key_of
from spinf_serve.workbench.frame import Bench, bench, empty, param, set_param, stamp, told
from spinf_serve.workbench.pages.try_pick import pick
from spinf_serve.workbench.pages.try_result import draw_asked, draw_side
from spinf_serve.workbench.parts.kept import keeping, used
from spinf_serve.workbench.parts.texts import show_text
from spinf_serve.workbench.parts.who import choose_who
from spinf_serve.workbench.parts.words import message as as_message
from spinf_serve.workbench.parts.words import plain

MOST_CHARS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Side:
    """A pack and who is asked it.

    Attributes:
        data: the pack's bytes; `name` that of its file.
    """

    title: str
    name: str
    data: bytes
    pack: Pack
    who: Who


def draw() -> None:
    """One run of the page."""
    found = bench()
    st.title("Try")
    st.caption(
        "Ask the pack about one text, right now: every question's answer beside its floor, the"
        " categories, and the decision with its reason."
    )
    with told():
        first = _first(found)
        beside = _beside(found, first) if first is not None else None
        content = _content(found, first)
        if content is None or first is None:
            if first is not None:
                _kept_first(found, first)
            return
        sides = [first] if beside is None else [first, beside]
        columns = st.columns(len(sides), gap="large")
        for place, (side, column) in enumerate(zip(sides, columns, strict=True)):
            with column:
                draw_side(
                    found.desk,
                    side.who,
                    side.data,
                    side.name,
                    side.pack,
                    content,
                    title=side.title,
                    key=f"try-{place}-{key_of(side.pack.digest, str(side.who), content.id)}",
                    narrow=len(sides) > 1,
                )


def _kept_first(found: Bench, side: Side) -> None:
    """The first row's kept answers, until something is asked: nobody is asked for them."""
    if found.dataset is None or found.model is None:
        return
    kept = _kept(
        str(found.desk.file),
        stamp(found.desk),
        side.pack.digest,
        found.dataset,
        found.split,
        found.model.bits,
        _pack=side.pack,
        _model=found.model,
    )
    if kept is None:
        return
    row, content, asked = kept
    st.subheader(f"For example: row {plain(row)}")
    show_text(found.desk, side.pack, content.text, f"try-kept-{row}")
    st.caption(
        f"What {plain(asked.identity.served)} ({asked.identity.bits[:8]}) answered when it was asked"
        " about this row; nobody was asked now."
    )
    key = f"try-kept-{key_of(side.pack.digest, found.model.bits, row)}"
    draw_asked(found.desk, side.pack, asked, key, narrow=False)


@st.cache_resource(show_spinner=False, max_entries=8)
def _kept(
    file: str,
    at: tuple[int, int],
    digest: str,
    dataset: str,
    split: str | None,
    bits: str,
    *,
    _pack: Pack,
    _model: Identity,
) -> tuple[str, Content, Asked] | None:
    desk = Desk(Path(file).parent, Path(file))
    return first_kept(desk, _pack, _model, dataset, split)


def _first(found: Bench) -> Side | None:
    """What is tried: the chosen pack, as saved or as it is being edited."""
    if found.file is None:
        empty("This project has no pack yet.", "Make one on the page **Pack**.")
    left, right = st.columns(2)
    with left:
        name = found.desk.name_of(found.file)
        draft = draft_of(found.desk, found.file)
        is_draft = False
        st.markdown(f"Pack **{plain(name)}**")
        if draft.unsaved:
            is_draft = st.toggle(
                "The unsaved draft",
                value=True,
                key=f"try-draft-{name}",
                help="On: the text as it is being edited. Off: the file as it is saved.",
            )
        data = draft.text.encode() if is_draft else _bytes(found, name)
        pack = _read(data, found.file.name, "the draft" if is_draft else name)
    with right:
        who = choose_who(found.desk, found.user, "try")
    if pack is None or who is None:
        return None
    return Side(f"{name}, unsaved draft" if is_draft else name, found.file.name, data, pack, who)


def _beside(found: Bench, first: Side) -> Side | None:
    """A second pack, version or model beside the first."""
    kind = st.segmented_control(
        "Beside it",
        ["nothing", "pack", "model"],
        format_func={
            "nothing": "Nothing beside it",
            "pack": "Another pack or version",
            "model": "Another model",
        }.__getitem__,
        default=param("beside") if param("beside") in ("pack", "model") else "nothing",
        required=True,
        key="try-beside",
        label_visibility="collapsed",
    )
    set_param("beside", None if kind == "nothing" else kind)
    if kind == "nothing":
        return None
    if kind == "model":
        who = choose_who(found.desk, found.user, "try-2", "Who answers beside it")
        if who is None:
            return None
        return Side(f"{first.title}, {who}", first.name, first.data, first.pack, who)
    titles = {one.name: one.title for one in choices(found.desk)}
    given = param("other")
    name = st.selectbox(
        "Pack beside it",
        list(titles),
        index=list(titles).index(given) if given in titles else None,
        placeholder="Which pack or version?",
        format_func=titles.__getitem__,
        key="try-other",
    )
    set_param("other", name)
    if name is None:
        return None
    data, file = _bytes(found, name), file_of(found.desk, name).name
    pack = _read(data, file, titles[name])
    return None if pack is None else Side(titles[name], file, data, pack, first.who)


def _bytes(found: Bench, name: str) -> bytes:
    try:
        return read_regular(file_of(found.desk, name))
    except OSError as error:
        raise Unusable(f"{name} cannot be read: {error.strerror}") from None


def _read(data: bytes, name: str, title: str) -> Pack | None:
    try:
        return read_choice(data, name)
    except InvalidPack as invalid:
        st.error(
            f"{plain(title)} has faults, so it cannot be asked. Mend them on the page **Pack**."
        )
        for fault in list(invalid.faults)[:5]:
            st.markdown(f"- line {fault.line}, column {fault.column}: {as_message(fault.message)}")
    except SpinfError as fault:
        st.error(as_message(fault))
    return None


def _content(found: Bench, side: Side | None) -> Content | None:
    """The text to ask about; the one of the address until another is asked."""
    pick(found)
    asked = next((one for one in recent(found.desk) if one.id == param("try")), None)
    held = key_of(found.desk.folder, param("try"), param("row"))
    text = keeping(
        found,
        f"try-text-{held}",
        st.text_area,
        "Text",
        start=asked.text if asked is not None else "",
        height=140,
        max_chars=MOST_CHARS,
        placeholder="Paste a message here, or pick one above.",
    )
    context, parameters = (None, ()) if side is None else _presenting(side.pack, asked, held)
    if st.button(
        "Ask",
        type="primary",
        key="try-ask",
        icon=":material/play_arrow:",
        disabled=side is None,
        shortcut="Ctrl+Enter",
    ):
        if not text.strip():
            st.info("Write a text first, or pick one above.")
            return None
        noted = note_tried(found.desk, Content(text, context, parameters))
        used(found, f"try-text-{held}")
        set_param("try", noted.id)
        st.rerun()
    if asked is None:
        st.caption("Nothing was asked yet. A text that was asked about stays in the list above.")
    return asked


def _presenting(
    pack: Pack, asked: Content | None, held: str
) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    """The pack's context and parameters, where it has a choice."""
    before = dict(asked.parameters) if asked is not None else {}
    context = None
    if len(pack.contexts) > 1:
        names = list(pack.contexts)
        chosen = asked.context if asked is not None else None
        context = st.selectbox(
            "Context",
            names,
            index=names.index(chosen) if chosen in names else 0,
            key=f"try-context-{held}-{key_of(*names)}",
        )
    parameters = []
    for name, parameter in pack.parameters.items():
        value = st.text_input(
            plain(parameter.label or name),
            value=before.get(name, parameter.default or ""),
            key=f"try-parameter-{held}-{name}",
            help=plain(parameter.description or "") or None,
        )
        if value:
            parameters.append((name, value))
    return context, tuple(parameters)
